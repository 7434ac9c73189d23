package port

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"strings"

	"millrace/core/pos"
)

// ForeignPrefixError says that another cluster owns a prefix of an object store. No
// object under it may be read or written: its streams are not ours.
type ForeignPrefixError struct {
	Key   string // of the marker
	Owner pos.UID
	Ours  pos.UID
}

// Error says whose it is and what to do.
func (e *ForeignPrefixError) Error() string {
	return fmt.Sprintf("object store: %s names cluster %s as the owner, this is cluster %s: "+
		"set another store.prefix, or restore this cluster's metadata", e.Key, e.Owner, e.Ours)
}

// ClusterKey is the key of the marker that names the owner of a prefix ("" = the whole store).
func ClusterKey(prefix string) string {
	if prefix == "" {
		return "cluster"
	}
	return strings.TrimSuffix(prefix, "/") + "/cluster"
}

// Claim makes cluster the owner of a prefix, or finds that it is: of clusters that
// claim at the same time one wins. *ForeignPrefixError if another one is. Any other
// error means that it is not known; claim again before anything is stored.
//
// The marker is one line of text, so that an operator can read it:
//
//	millrace-cluster 1 <cluster id, 16 hex digits> <CRC-32C of what precedes, 8 hex digits>
func Claim(ctx context.Context, store ObjectStore, prefix string, cluster pos.UID) error {
	key := ClusterKey(prefix)
	body, err := store.Get(ctx, key)
	if IsNotFound(err) {
		ours := encodeMarker(cluster)
		err = store.Put(ctx, key, bytes.NewReader(ours), int64(len(ours)), checksum(ours), true)
		if err != nil && ClassOf(err) != Exists {
			return err
		}
		// Read it back: a store that ignores "if absent" let the last of two win.
		body, err = store.Get(ctx, key)
	}
	if err != nil {
		return err
	}
	owner, err := decodeMarker(body)
	if err != nil {
		return fmt.Errorf("object store: the marker %s can't be read, so it is not known whose the prefix is; "+
			"restore it, or set another store.prefix: %w", key, err)
	}
	if owner != cluster {
		return &ForeignPrefixError{Key: key, Owner: owner, Ours: cluster}
	}
	return nil
}

const markerStart = "millrace-cluster 1 "

func encodeMarker(cluster pos.UID) []byte {
	b := []byte(markerStart + cluster.String() + " ")
	return fmt.Appendf(b, "%08x\n", checksum(b))
}

func decodeMarker(b []byte) (pos.UID, error) {
	id, ok := strings.CutPrefix(string(b), markerStart)
	if !ok || len(id) < 16 {
		return 0, fmt.Errorf("%d bytes that do not begin with %q and an id", len(b), markerStart)
	}
	cluster, err := pos.ParseUID(id[:16])
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(b, encodeMarker(cluster)) {
		return 0, fmt.Errorf("its checksum does not fit its id %s", cluster)
	}
	return cluster, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
