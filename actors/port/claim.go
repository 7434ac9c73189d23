package port

import (
	"bytes"
	"context"
	"errors"
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

// UnmarkedError says that the marker of a prefix can't be read, or is gone although this
// cluster has claimed its prefix before: this may be another place than the one where
// the objects are, or one that lost them. Nothing may be put or deleted under it.
type UnmarkedError struct {
	Key     string // of the marker
	Damaged error  // what is wrong with it; nil: it is gone
}

// Error says what is wrong and what to do.
func (e *UnmarkedError) Error() string {
	what := "is gone: this may be an empty store in the place of the one that holds the objects"
	if e.Damaged != nil {
		what = fmt.Sprintf("can't be read (%v), so it is not known whose the prefix is", e.Damaged)
	}
	return fmt.Sprintf("object store: the cluster's marker %s %s; bring back the store as it was, the marker with it, "+
		"or, if this is what shall be uploaded to, say millrace tiering claim", e.Key, what)
}

// Unwrap returns what is wrong with a damaged marker.
func (e *UnmarkedError) Unwrap() error { return e.Damaged }

// ClusterKey is the key of the marker that names the owner of a prefix ("" = the whole store).
func ClusterKey(prefix string) string {
	if prefix == "" {
		return "cluster"
	}
	return strings.TrimSuffix(prefix, "/") + "/cluster"
}

// settingClaimed is the metadata store's setting that remembers a claim: "true" once this
// cluster has owned a prefix.
const settingClaimed = "store.claimed"

// Settings is what of Metadata remembers that a prefix was claimed.
type Settings interface {
	Setting(ctx context.Context, key string) (string, error)
	PutSetting(ctx context.Context, key, value string) error
}

// Claimant is a cluster that owns a prefix of an object store, or wants to.
//
// The prefix belongs to the cluster that its marker names, an object of one line of text,
// so that an operator can read it:
//
//	millrace-cluster 1 <cluster id, 16 hex digits> <CRC-32C of what precedes, 8 hex digits>
//
// Only a cluster that never owned a prefix puts a marker by itself. The metadata store
// remembers the first claim after its marker was read back, and before Claim returns,
// which is before anything else is put: of a cluster that has objects it is always
// remembered, and one whose first claim was cut off anywhere goes on with it.
type Claimant struct {
	Store    ObjectStore
	Prefix   string
	Cluster  pos.UID
	Settings Settings // of the cluster's metadata store
}

// Claim makes the cluster the owner of the prefix if it never owned one, or finds that it
// is the owner: of clusters that claim at the same time one wins. *ForeignPrefixError if
// another one is, *UnmarkedError if the marker is damaged, or gone after an earlier
// claim. Any other error means that it is not known; claim again before anything is put.
func (c Claimant) Claim(ctx context.Context) error {
	err := c.look(ctx)
	if gone, ok := errors.AsType[*UnmarkedError](err); ok && gone.Damaged == nil {
		err = c.first(ctx, gone)
	}
	if err != nil {
		return err
	}
	return c.remember(ctx)
}

// Restore puts the marker where it is gone or damaged, because an operator says that this
// is the cluster's prefix; restored is false where it was there, and true with an error where
// it was not and may be now. *ForeignPrefixError if the prefix is another cluster's, NotFound if
// there is no bucket. Any other error means that it is not known.
func (c Claimant) Restore(ctx context.Context) (restored bool, err error) {
	err = c.look(ctx)
	if u, ok := errors.AsType[*UnmarkedError](err); ok {
		err, restored = c.mark(ctx, u.Damaged == nil), true
	} else if ClassOf(err) == Denied {
		// Of a bucket that does not exist the store says so where it is asked for as a whole.
		if missing := c.Store.Probe(ctx); IsNotFound(missing) {
			err = missing
		}
	}
	if err != nil {
		return restored, err
	}
	return restored, c.remember(ctx)
}

// look returns nil if the marker names the cluster, an *UnmarkedError if it is gone or
// damaged.
func (c Claimant) look(ctx context.Context) error {
	key := ClusterKey(c.Prefix)
	body, err := c.Store.Get(ctx, key)
	if IsNotFound(err) {
		return &UnmarkedError{Key: key}
	}
	if err != nil {
		return err
	}
	owner, err := decodeMarker(body)
	if err != nil {
		return &UnmarkedError{Key: key, Damaged: err}
	}
	if owner != c.Cluster {
		return &ForeignPrefixError{Key: key, Owner: owner, Ours: c.Cluster}
	}
	return nil
}

// first puts the marker if the cluster never owned a prefix. If it did, gone is the error, and
// nothing more is asked: whoever stores something meanwhile must be told at once.
func (c Claimant) first(ctx context.Context, gone *UnmarkedError) error {
	claimed, err := c.claimed(ctx)
	if err != nil {
		return err
	}
	if !claimed {
		return c.mark(ctx, true)
	}
	return gone
}

// mark puts the marker, ifAbsent or over a damaged one, and reads it back: a store that
// ignores "if absent" let the last of two win.
func (c Claimant) mark(ctx context.Context, ifAbsent bool) error {
	ours := encodeMarker(c.Cluster)
	err := c.Store.Put(ctx, ClusterKey(c.Prefix), NewBody(bytes.NewReader(ours), checksum(ours)), int64(len(ours)), ifAbsent)
	if err != nil && ClassOf(err) != Exists {
		return err
	}
	return c.look(ctx)
}

// claimed reports whether the cluster ever owned a prefix.
func (c Claimant) claimed(ctx context.Context) (bool, error) {
	value, err := c.Settings.Setting(ctx, settingClaimed)
	if IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("whether this cluster has claimed its prefix before can't be read: %w", err)
	}
	return value != "", nil
}

// remember keeps that the cluster owns a prefix. Where the outcome is not known the next
// claim reads it.
func (c Claimant) remember(ctx context.Context) error {
	claimed, err := c.claimed(ctx)
	if err != nil || claimed {
		return err
	}
	if err := c.Settings.PutSetting(ctx, settingClaimed, "true"); err != nil {
		return fmt.Errorf("that this cluster has claimed its prefix can't be kept: %w", err)
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
