// Package port holds the interfaces through which the shells reach the world: the
// local disk, the object store, the metadata store, the node's own durable state.
// One file holds one port; what an implementation owes its callers stands in prose
// on each method and is checked by the suites under test/porttest, which every
// adapter and every fake passes.
//
// # Rules of every port
//
//   - All methods are safe for use from any goroutine.
//   - A method with a context returns soon after the context ends. What it had begun
//     by then may still take effect, unless its contract says otherwise.
//   - What the world refused is one of the error types of this package, carrying a
//     Class to decide by. ClassOf finds it through any wrapping, and errors.Is takes
//     a Class as its target: errors.Is(err, port.NotFound).
//   - Slices, maps and bytes that come back belong to the caller; those handed in are
//     not kept after the call returns.
package port
