package pos

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// StreamID names one incarnation of a stream: it is never used again, also when a
// stream of the same name is created later. It is the name of the stream's folder
// and of its objects' prefix.
type StreamID string

// NodeID is a node's configured name.
type NodeID string

// maxID is the longest id in bytes: the longest file name of common file systems.
const maxID = 255

// NewStreamID makes the id of a stream called name that is created at the given
// nanosecond: "__" (the default virtual host as RabbitMQ folds it), the name with
// every byte outside base64url replaced by "_", and the time.
func NewStreamID(name string, nanos int64) StreamID {
	suffix := "_" + strconv.FormatInt(nanos, 10)
	folded := []byte("__" + name)
	for i, b := range folded {
		if !idByte(b) {
			folded[i] = '_'
		}
	}
	if len(folded) > maxID-len(suffix) {
		folded = folded[:maxID-len(suffix)]
	}
	return StreamID(string(folded) + suffix)
}

// IsZero reports whether no stream is meant.
func (s StreamID) IsZero() bool { return s == "" }

// String returns the id as it stands in folder and object names.
func (s StreamID) String() string { return string(s) }

// ParseStreamID accepts 1 to 255 bytes of A-Z a-z 0-9 _ - =.
func ParseStreamID(s string) (StreamID, error) { return parseID[StreamID]("stream id", s) }

// IsZero reports whether no node is meant.
func (n NodeID) IsZero() bool { return n == "" }

// String returns the configured name.
func (n NodeID) String() string { return string(n) }

// ParseNodeID accepts 1 to 255 bytes of A-Z a-z 0-9 _ - =.
func ParseNodeID(s string) (NodeID, error) { return parseID[NodeID]("node id", s) }

// CheckStreamName reports why name can't be a stream's, and where. The limits are
// RabbitMQ's (1 to 255 bytes, not reserved), and those that make a name what it looks
// like, wherever it is printed, and let it be addressed wherever a path holds it: it is
// UTF-8, each character can be seen or is a space inside, and slashes stand between parts
// that mean something.
func CheckStreamName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("stream name is empty")
	case len(name) > maxID:
		return fmt.Errorf("stream name has %d bytes, at most %d are allowed", len(name), maxID)
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("stream name %q: names that begin with \"amq.\" are reserved", name)
	case name[0] == ' ':
		return fmt.Errorf("stream name %q begins with a space, at byte 0", name)
	case name[len(name)-1] == ' ':
		return fmt.Errorf("stream name %q ends with a space, at byte %d", name, len(name)-1)
	}
	for i, r := range name {
		switch {
		case r == utf8.RuneError:
			return fmt.Errorf("stream name %q is not UTF-8 at byte %d", name, i)
		case !unicode.IsPrint(r):
			return fmt.Errorf("stream name %q: the character %U at byte %d can't be seen: want letters, digits, marks, signs and inner spaces", name, r, i)
		}
	}
	at := 0
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("stream name %q: the part %q at byte %d: want parts joined by single slashes, none of them empty, \".\" or \"..\"", name, part, at)
		}
		at += len(part) + 1
	}
	return nil
}

func parseID[T ~string](what, s string) (T, error) {
	if s == "" || len(s) > maxID {
		return "", fmt.Errorf("%s %q: want 1 to %d bytes", what, s, maxID)
	}
	for i := range len(s) {
		if !idByte(s[i]) {
			return "", fmt.Errorf("%s %q: byte %d is not one of A-Z a-z 0-9 _ - =", what, s, i)
		}
	}
	return T(s), nil
}

func idByte(b byte) bool {
	return 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '_' || b == '-' || b == '='
}
