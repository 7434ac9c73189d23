package port

import (
	"context"
	"fmt"
	"io"
	"strings"

	"millrace/core/pos"
)

// Limits of every ObjectStore.
const (
	// MaxGet is the largest object Get hands out, in bytes.
	MaxGet = 64 << 20
	// MaxDelete is the largest number of keys of one Delete.
	MaxDelete = 1000
	// MaxList is the largest page of List, and its size if none is asked for.
	MaxList = 1000
	// MaxKey is the length of the longest key, in bytes.
	MaxKey = 900
)

// ObjectInfo is one object of a listing.
type ObjectInfo struct {
	Key      string
	Size     int64      // bytes
	Modified pos.Millis // when it was stored, by the store's clock
}

// DeleteError is a key that Delete could not remove.
type DeleteError struct {
	Key string
	Err error // *StoreError
}

// StoreError is a failed operation of an ObjectStore. Classes: NotFound, Exists,
// Throttled, Unavailable, Timeout, Denied, Checksum, Full and Unclassified.
type StoreError struct {
	Op    string // the method, for example "put"
	Key   string // the key, or the prefix of a listing
	Class Class
	Err   error
}

// Error says what failed on what and why.
func (e *StoreError) Error() string { return "object store: " + describe(e.Op, e.Key, e.Class, e.Err) }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Is matches the error's class.
func (e *StoreError) Is(target error) bool { return target == error(e.Class) }

func (e *StoreError) portClass() Class { return e.Class }

// Body is what Put stores. Put reads it from its beginning to its end, once where the store
// allows that, and not again after it has returned.
type Body interface {
	io.Reader
	// Rewind makes Read begin at the beginning.
	Rewind() error
	// Sum returns the CRC-32C (Castagnoli) of all that Read hands out. known: it is, before
	// the first Read or only once Read has come to the end.
	Sum() (crc32c uint32, known bool)
}

// NewBody is what r holds, from its beginning, with a checksum that is known before.
func NewBody(r io.ReadSeeker, crc32c uint32) Body { return &summedBody{r, crc32c} }

type summedBody struct {
	io.ReadSeeker
	crc uint32
}

func (b *summedBody) Rewind() error {
	_, err := b.Seek(0, io.SeekStart)
	return err
}

func (b *summedBody) Sum() (uint32, bool) { return b.crc, true }

// ObjectStore keeps whole objects under keys. Nobody ever sees a part of one, and it
// is durable when Put returns. It is read-after-write consistent: a Put, Get, GetRange
// or List that begins after a Put or Delete returned sees its effect.
//
// Keys are those CheckKey accepts; others are refused with class Denied. No key may be
// another's folder: where "a" is stored, "a/b" may be refused with class Denied. An
// operation that failed with a class other than NotFound, Exists, Denied or Checksum
// may still have taken effect, or take it later. Whoever puts therefore draws a new
// key for each attempt, and never builds on a failed one.
type ObjectStore interface {
	// Put stores size bytes of body, read from its beginning, under key. Where they disagree
	// with its checksum, or body is not size bytes long, nothing becomes visible: class
	// Checksum. With ifAbsent an object that is there stays untouched: class Exists; of several
	// at the same time exactly one wins. Without ifAbsent it is replaced.
	Put(ctx context.Context, key string, body Body, size int64, ifAbsent bool) error

	// Get returns a whole object of at most MaxGet bytes; a larger one is an error of
	// class Unclassified. NotFound if there is none, and never because the bucket, or the folder,
	// is not there as a whole: that is another class. The bytes are not verified: formats carry
	// their own checksum.
	Get(ctx context.Context, key string) ([]byte, error)

	// GetRange returns the bytes [off, off+n) of an object, fewer where it ends before:
	// none at or after its end. off and n are not negative, n is at most MaxGet.
	GetRange(ctx context.Context, key string, off, n int64) ([]byte, error)

	// Delete removes at most MaxDelete objects. A key that names none is no error. Keys
	// that could not be removed come back in failed, all others are gone; err tells that
	// the request failed as a whole, and then nothing is known of any key.
	Delete(ctx context.Context, keys []string) (failed []DeleteError, err error)

	// List returns the objects whose keys begin with prefix and are greater than after
	// ("" = from the first), in the order of the keys' bytes, at most max of them (1 to
	// MaxList; everything else means MaxList). more tells that further ones follow; go
	// on with the last key as after. prefix is text: "a/1" lists "a/10" too.
	List(ctx context.Context, prefix, after string, max int) (keys []ObjectInfo, more bool, err error)

	// Probe fails if the store cannot be reached, or would refuse a write. It leaves
	// nothing that List shows. NotFound says that the bucket, or the folder, does not exist;
	// Denied that the store refuses us; of any other class nothing follows for the next time.
	Probe(ctx context.Context) error
}

// CheckKey reports why key can't be an object's: it has 1 to MaxKey bytes, is
// relative, and its parts between slashes have 1 to 255 bytes of printable ASCII without
// space and backslash, the first of which is no dot.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("object key %q: want 1 to %d bytes", key, MaxKey)
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || c == '\\' {
			return fmt.Errorf("object key %q: byte %d is not printable ASCII, or a backslash", key, i)
		}
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || len(part) > 255 || part[0] == '.' {
			return fmt.Errorf("object key %q: a part between slashes is empty, longer than 255 bytes or begins with a dot", key)
		}
	}
	return nil
}
