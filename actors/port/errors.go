package port

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// Class says what a failure means to whoever decides what to do next. It is itself
// an error, so that it can be the target of errors.Is and a fault that a fake is told
// to produce.
type Class uint8

// The classes. Which of them a port uses stands on its error type.
const (
	// Unclassified is a failure that no rule is written for: a bug, or damage.
	Unclassified Class = iota
	// NotFound means that what was named does not exist.
	NotFound
	// Exists means that what was to be made is there already.
	Exists
	// Conflict means that a guard (revision, epoch, unique name) did not hold. Nothing changed.
	Conflict
	// UnknownOutcome means that a change may or may not have taken effect: read again.
	UnknownOutcome
	// Throttled means that the other side asks for fewer requests.
	Throttled
	// Unavailable means that the other side could not be reached or could not serve.
	Unavailable
	// Timeout means that the context ended first.
	Timeout
	// Denied means that the other side refuses what was asked: credentials, permissions, a
	// name outside the rules. Asking again does not help.
	Denied
	// Checksum means that bytes and checksum (or announced size) disagree. Nothing was stored.
	Checksum
	// Full means that there is no room: disk full, quota reached.
	Full
)

var classNames = [...]string{"unclassified", "not found", "exists already", "conflict", "outcome unknown", "throttled",
	"unavailable", "timed out", "denied", "checksum mismatch", "no space left"}

// String names the class in words.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown class"
}

// Error is String: a bare class can stand for a failure without details.
func (c Class) Error() string { return c.String() }

// Transient reports whether the same request is worth sending again soon without
// anybody having changed anything: throttled, unavailable and timed out.
func (c Class) Transient() bool { return c == Throttled || c == Unavailable || c == Timeout }

// ClassOf returns the class of err, looking through everything it wraps. An error
// of no port is classed by what it is made of: a context's end is Timeout, a full
// disk Full, fs.ErrNotExist NotFound, fs.ErrExist Exists, fs.ErrPermission Denied.
// Everything else, nil included, is Unclassified.
func ClassOf(err error) Class {
	if err == nil {
		return Unclassified
	}
	if c, ok := errors.AsType[interface {
		error
		portClass() Class
	}](err); ok {
		return c.portClass()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Timeout
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Full
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrExist):
		return Exists
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return Unclassified
}

// IsNotFound reports whether err says that what was named does not exist.
func IsNotFound(err error) bool { return ClassOf(err) == NotFound }

// IsConflict reports whether err says that a guard did not hold.
func IsConflict(err error) bool { return ClassOf(err) == Conflict }

func (c Class) portClass() Class { return c }

// describe joins what every error type of this package has to say. The class, which the cause
// may wrap, is said once.
func describe(op, what string, class Class, err error) string {
	text := op
	if what != "" {
		text += " " + what
	}
	if err == nil || err.Error() == class.String() {
		return text + ": " + class.String()
	}
	if class == Unclassified {
		return text + ": " + err.Error()
	}
	said := strings.TrimSuffix(strings.TrimPrefix(err.Error(), class.String()+": "), ": "+class.String())
	return text + ": " + class.String() + ": " + said
}
