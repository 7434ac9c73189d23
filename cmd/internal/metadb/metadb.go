package metadb

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"

	"millrace/actors/port"
	"millrace/cmd/internal/boltfile"
	"millrace/core/pos"
)

// FileName is the file's name in the data folder.
const FileName = "metadata.db"

// format is the version of the layout drawn in doc.go.
const format = 1

var (
	bAbout     = []byte("about")
	bStreams   = []byte("streams")
	bNames     = []byte("names")
	bChanges   = []byte("changes")
	bPointers  = []byte("pointers")
	bUsed      = []byte("used")
	bAnchors   = []byte("anchors")
	bGone      = []byte("gone")
	bDeletions = []byte("deletions")
	bCaptures  = []byte("captures")
	bSettings  = []byte("settings")
	bTokens    = []byte("tokens")

	kCluster = []byte("cluster")
)

// Store is an open metadata store.
type Store struct {
	file    *boltfile.File
	cluster port.Cluster

	mu       sync.Mutex
	sessions map[pos.NodeID]port.Session
	leases   map[string]port.Lease
}

// Open opens the store at path; if there is none it makes one, with a new cluster id.
func Open(path string) (*Store, error) {
	file, err := boltfile.Open(path, boltfile.Kind{Name: "metadata", Format: format}, initialise)
	if err != nil {
		return nil, err
	}
	s := &Store{file: file, sessions: map[pos.NodeID]port.Session{}, leases: map[string]port.Lease{}}
	err = file.View(context.Background(), func(tx *bbolt.Tx) error {
		id, err := pos.ParseUID(string(tx.Bucket(bAbout).Get(kCluster)))
		if err != nil {
			return &boltfile.DamagedError{Path: path, Why: "its cluster id: " + err.Error()}
		}
		s.cluster = port.Cluster{ID: id, Format: format, Generation: "embedded/" + id.String()}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

func initialise(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bStreams, bNames, bChanges, bPointers, bUsed, bAnchors, bGone, bDeletions, bCaptures, bSettings, bTokens} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bAbout).Put(kCluster, []byte(boltfile.NewUID().String()))
}

// Close closes the file. Calls made later fail as unavailable.
func (s *Store) Close() error { return s.file.Close() }

// Cluster implements port.Metadata.
func (s *Store) Cluster(ctx context.Context) (port.Cluster, error) {
	return s.cluster, metaError("cluster", "", ctx.Err())
}

func (s *Store) view(ctx context.Context, op, what string, f func(*bbolt.Tx) error) error {
	return metaError(op, what, s.file.View(ctx, f))
}

func (s *Store) update(ctx context.Context, op, what string, f func(*bbolt.Tx) error) error {
	return metaError(op, what, s.file.Update(ctx, f))
}

// metaError gives err the shape the port demands.
func metaError(op, what string, err error) error {
	if err == nil {
		return nil
	}
	class := port.ClassOf(err)
	if commit, ok := errors.AsType[*boltfile.CommitError](err); ok {
		class = commit.Class()
	}
	if class == port.Timeout || class == port.Unclassified {
		// The context ended before the transaction, or bbolt could not serve.
		class = port.Unavailable
	}
	return &port.MetadataError{Op: op, What: what, Class: class, Err: err}
}

// load reads the JSON value of a key into v; false if there is none.
func load(tx *bbolt.Tx, bucket []byte, key string, v any) (bool, error) {
	b := tx.Bucket(bucket).Get([]byte(key))
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%s %q is damaged: %w", bucket, key, err)
	}
	return true, nil
}

// loadAll reads all values of a bucket in the order of their keys.
func loadAll[T any](tx *bbolt.Tx, bucket []byte) ([]T, error) {
	var all []T
	err := tx.Bucket(bucket).ForEach(func(key, b []byte) error {
		var v T
		if err := json.Unmarshal(b, &v); err != nil {
			return fmt.Errorf("%s %q is damaged: %w", bucket, key, err)
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

func store(tx *bbolt.Tx, bucket []byte, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put([]byte(key), b)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// loadNumber reads a number; 0 if there is none.
func loadNumber(tx *bbolt.Tx, bucket []byte, key string) uint64 {
	b := tx.Bucket(bucket).Get([]byte(key))
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

var (
	_ port.Metadata = (*Store)(nil)
	_ port.Sessions = (*Store)(nil)
)
