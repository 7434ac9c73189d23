package fetch

import (
	"fmt"
	"time"

	"millrace/core/pos"
	"millrace/core/resolve"
)

// DefaultMaxBytes is the size of an answer when a Pull does not name one.
const DefaultMaxBytes = 1 << 20

// Pull asks a reader for the next chunks. The answer is Chunks or an *Error.
//
// One Pull at a time: a second one answers the first with an *Error of class
// Superseded. What an answer holds has been handed out, whether or not anyone
// still waited for it: who gives up on a Pull compares Chunks.From of the next
// answer with the offset it expects, and opens another reader where they differ.
type Pull struct {
	// MaxBytes is the size at which the answer stops growing. It has one chunk at
	// least, however large. Not above 0: DefaultMaxBytes.
	MaxBytes int
	// Wait is how long the answer may be delayed while there is nothing to hand out.
	// 0: what is at hand on this node is read, and nothing is waited for.
	Wait time.Duration
}

// Chunks is a reader's answer: the user chunks among the records [From, Next), or
// nothing yet.
type Chunks struct {
	// From is where the reader stood before, Next where it stands now. The first
	// chunk of all may begin below From, which is the offset that was asked for.
	// Both are pos.NoOffset while the place to begin is not known.
	From, Next pos.Offset
	Chunks     [][]byte       // whole chunks, as on disk: header, filter, data, trailer
	Moved      *resolve.Moved // records passed over since the last answer, nil if none
	Remote     bool           // the chunks came from the object store
}

// Class says what kind of failure it was, and so what to do.
type Class uint8

// Classes of failure.
const (
	// Unavailable: it is not known where the records are. It passes by itself.
	Unavailable Class = iota + 1
	// Disabled: the records are in the object store, and tiering is off. Enable it.
	Disabled
	// Fault: the object store, or the local disk, does not answer or answers with an
	// error. It is tried again.
	Fault
	// Throttled: the object store asks for fewer requests.
	Throttled
	// Denied: the object store refuses access. Mend the credentials or the policy.
	Denied
	// Gone: the object is not there although the manifest names it.
	Gone
	// Damaged: what was read is not what was written. Restore it from elsewhere.
	Damaged
	// Superseded: a later Pull took this one's place.
	Superseded
)

// String returns the class's name, as metrics carry it.
func (c Class) String() string {
	switch c {
	case Unavailable:
		return "unavailable"
	case Disabled:
		return "disabled"
	case Fault:
		return "fault"
	case Throttled:
		return "throttled"
	case Denied:
		return "denied"
	case Gone:
		return "gone"
	case Damaged:
		return "damaged"
	case Superseded:
		return "superseded"
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Error is why a Pull was answered without chunks. The reader stands where it
// stood: pulling again goes on with trying.
type Error struct {
	Class  Class
	Stream pos.StreamID
	At     pos.Offset // the next offset; pos.NoOffset if the reader never found its first
	Why    string
}

// Error says what failed, on what and what to do.
func (e *Error) Error() string { return fmt.Sprintf("reading stream %s %s", e.Stream, e.Where()) }

// Where is Error without the stream, for whoever has named it.
func (e *Error) Where() string {
	at := "its first record"
	if e.At.Valid() {
		at = "offset " + e.At.String()
	}
	return fmt.Sprintf("at %s: %s: %s", at, e.Class, e.Why)
}

// Lasting reports whether only an operator can change it. Otherwise it is worth
// pulling again.
func (e *Error) Lasting() bool {
	return e.Class == Disabled || e.Class == Denied || e.Class == Damaged
}
