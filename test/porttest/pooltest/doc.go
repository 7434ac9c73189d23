// Package pooltest checks what port.Pool promises.
package pooltest
