package manifest

import (
	"fmt"
	"strings"

	"millrace/core/fragment"
	"millrace/core/pos"
)

// ObjectKind tells what an object is, by its name.
type ObjectKind uint8

// Kinds of objects below a stream's prefix.
const (
	ObjectFragment ObjectKind = iota + 1
	ObjectGroup
	ObjectKilo
	ObjectMega
	ObjectRoot
)

// Key is what an object's name says.
type Key struct {
	Stream   pos.StreamID
	Kind     ObjectKind
	Offset   pos.Offset // all but roots: the first offset below
	UID      pos.UID
	Epoch    pos.Epoch    // roots only
	Revision pos.Revision // roots only
}

const (
	metadataFolder = "metadata/"
	rootStart      = "root."
	rootEnd        = ".manifest"
)

// RootPrefix returns what the names of all roots of a stream begin with, for a
// listing after the metadata store was restored.
func RootPrefix(prefix string, stream pos.StreamID) string {
	return fragment.StreamPrefix(prefix, stream) + metadataFolder + rootStart
}

// RootKey returns the name of a root object.
func RootKey(prefix string, stream pos.StreamID, epoch pos.Epoch, revision pos.Revision, uid pos.UID) string {
	return fmt.Sprintf("%s%s.%s.%s%s", RootPrefix(prefix, stream), epoch, revision, uid, rootEnd)
}

// ParseKey reads a name below prefix, exactly as it was made. Not ok: the object
// is none of ours, and must never be touched.
func ParseKey(prefix, key string) (Key, bool) {
	stream, rest, ok := fragment.SplitKey(prefix, key)
	if !ok {
		return Key{}, false
	}
	if _, first, uid, ok := fragment.ParseKey(prefix, key); ok {
		return Key{Stream: stream, Kind: ObjectFragment, Offset: first, UID: uid}, true
	}
	name, ok := strings.CutPrefix(rest, metadataFolder)
	if !ok {
		return Key{}, false
	}
	if root, ok := strings.CutPrefix(name, rootStart); ok {
		return parseRoot(stream, root)
	}
	return parseGroup(stream, name)
}

func parseRoot(stream pos.StreamID, name string) (Key, bool) {
	name, ok := strings.CutSuffix(name, rootEnd)
	parts := strings.Split(name, ".")
	if !ok || len(parts) != 3 {
		return Key{}, false
	}
	epoch, err1 := pos.ParseEpoch(parts[0])
	revision, err2 := pos.ParseRevision(parts[1])
	uid, err3 := pos.ParseUID(parts[2])
	ok = err1 == nil && err2 == nil && err3 == nil
	return Key{Stream: stream, Kind: ObjectRoot, Epoch: epoch, Revision: revision, UID: uid}, ok
}

func parseGroup(stream pos.StreamID, name string) (Key, bool) {
	for _, g := range [...]struct {
		end  string
		kind ObjectKind
	}{{".group", ObjectGroup}, {".kgroup", ObjectKilo}, {".mgroup", ObjectMega}} {
		if base, ok := strings.CutSuffix(name, g.end); ok {
			first, uid, ok := fragment.ParseName(base)
			return Key{Stream: stream, Kind: g.kind, Offset: first, UID: uid}, ok
		}
	}
	return Key{}, false
}
