package pos

import (
	"fmt"
	"strconv"
	"strings"
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

// CheckStreamName reports why name can't be a stream's: the limits RabbitMQ sets
// (not empty, at most 255 bytes, not reserved, no line breaks).
func CheckStreamName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("stream name is empty")
	case len(name) > maxID:
		return fmt.Errorf("stream name has %d bytes, at most %d are allowed", len(name), maxID)
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("stream name %q: names that begin with \"amq.\" are reserved", name)
	case strings.ContainsAny(name, "\r\n\x00"):
		return fmt.Errorf("stream name %q holds a line break or a zero byte", name)
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
