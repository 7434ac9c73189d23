package actors

import (
	"errors"
	"fmt"
)

// Kind classifies how a process ended.
type Kind uint8

const (
	// Normal means that the process had nothing left to do.
	Normal Kind = iota
	// Shutdown means that it was told to stop, or stopped in good order.
	Shutdown
	// Killed means that it was killed, by a brutal stop or after its time to stop had passed.
	Killed
	// Crash is a panic, runtime.Goexit, or a failed init.
	Crash
	// NoProc means that there was no such process when it was asked for.
	NoProc
)

var kindNames = [...]string{"normal", "shutdown", "killed", "crash", "noproc"}

// String returns the kind's name as it stands in logs and status pages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Reason says why a process ended. Stack is set for crashes only.
type Reason struct {
	Kind   Kind
	Detail string
	Stack  string
}

// Exit makes the reason that Handle returns to end its process.
func Exit(kind Kind, detail string) *Reason { return &Reason{Kind: kind, Detail: detail} }

// Abnormal reports whether a transient child that ended so is restarted: everything
// but normal and shutdown.
func (r Reason) Abnormal() bool { return r.Kind != Normal && r.Kind != Shutdown }

// String returns kind and detail, without the stack.
func (r Reason) String() string {
	if r.Detail == "" {
		return r.Kind.String()
	}
	return r.Kind.String() + ": " + r.Detail
}

// ErrIgnore is returned by an Init that has nothing to do here. The process ends
// normally, and its supervisor goes on without it.
var ErrIgnore = errors.New("init ignored: this process is not needed here")

// StartError is the answer of System.Start when a process did not come up.
type StartError struct {
	Path   string
	Reason Reason // how the incarnation ended
	Err    error  // what Init returned; nil when it crashed, was killed or told to stop

	text string // of Err, asked for once
}

// refused makes the answer to a start that came to nothing.
func refused(path string, why Reason, out outcome) *StartError {
	return &StartError{Path: path, Reason: why, Err: out.err, text: out.text}
}

// Error names the process and what happened to it.
func (e *StartError) Error() string {
	if e.text != "" {
		return fmt.Sprintf("start %s: %s", e.Path, e.text)
	}
	return fmt.Sprintf("start %s: %s", e.Path, e.Reason)
}

// Unwrap returns the error of Init, or that of the context that ended the start.
func (e *StartError) Unwrap() error { return e.Err }

// DeadError is the answer to a request whose receiver can't answer any more.
type DeadError struct {
	Path   string
	Reason Reason // why it ended; NoProc when it was already gone or stopping
}

// Error names the process and why it ended.
func (e *DeadError) Error() string {
	return fmt.Sprintf("request to %s: the process ended (%s); look its successor up and ask again", e.Path, e.Reason)
}
