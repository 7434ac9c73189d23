package fragment

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/core/pos"
)

const (
	dataFolder = "data/"
	suffix     = ".fragment"
	digits     = 20
)

// StreamPrefix returns what the keys of all objects of a stream begin with. The
// slash at its end is essential: one stream id can be the beginning of another.
func StreamPrefix(prefix string, stream pos.StreamID) string {
	if prefix == "" {
		return stream.String() + "/"
	}
	return prefix + "/" + stream.String() + "/"
}

// Key returns the name of a fragment object.
func Key(prefix string, stream pos.StreamID, first pos.Offset, uid pos.UID) string {
	return fmt.Sprintf("%s%s%020d.%s%s", StreamPrefix(prefix, stream), dataFolder, int64(first), uid, suffix)
}

// SplitKey takes the stream's id out of a key below prefix and returns the rest,
// for example "data/...". Not ok: the key is not one of ours.
func SplitKey(prefix, key string) (stream pos.StreamID, rest string, ok bool) {
	if prefix != "" {
		if key, ok = strings.CutPrefix(key, prefix+"/"); !ok {
			return "", "", false
		}
	}
	id, rest, ok := strings.Cut(key, "/")
	if !ok {
		return "", "", false
	}
	stream, err := pos.ParseStreamID(id)
	return stream, rest, err == nil
}

// ParseKey reads the name of a fragment object, exactly as Key writes it. Not ok:
// it is another kind of object, or not ours, and must not be touched.
func ParseKey(prefix, key string) (stream pos.StreamID, first pos.Offset, uid pos.UID, ok bool) {
	stream, rest, ok := SplitKey(prefix, key)
	if !ok {
		return "", 0, 0, false
	}
	name, isData := strings.CutPrefix(rest, dataFolder)
	name, isFragment := strings.CutSuffix(name, suffix)
	if !isData || !isFragment {
		return "", 0, 0, false
	}
	first, uid, ok = ParseName(name)
	return stream, first, uid, ok
}

// ParseName reads "<offset, 20 digits>.<uid>", the part of a name that fragments
// and groups share.
func ParseName(name string) (pos.Offset, pos.UID, bool) {
	number, hex, ok := strings.Cut(name, ".")
	if !ok || len(number) != digits {
		return 0, 0, false
	}
	offset, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return 0, 0, false
	}
	uid, err := pos.ParseUID(hex)
	return pos.Offset(offset), uid, err == nil
}
