package nodestate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"millrace/actors/port"
	"millrace/cmd/internal/boltfile"
	"millrace/core/pos"
)

// FileName is the file's name in the data folder.
const FileName = "node.db"

const (
	format     = 1
	bootIDPath = "/proc/sys/kernel/random/boot_id"
)

var (
	bAbout    = []byte("about")
	bReplicas = []byte("replicas")
	kIdentity = []byte("identity")
)

// identity is what of port.Identity is stored.
type identity struct {
	Node    pos.NodeID `json:"node"`
	Data    pos.UID    `json:"data"`
	Created pos.Millis `json:"created"`
}

// State is the open memory of a node.
type State struct {
	file     *boltfile.File
	identity port.Identity
	bootID   string
}

// Open opens the memory of node at path; if there is none it makes one, which begins
// another data incarnation. Each call draws a boot nonce: a process calls it once.
func Open(path string, node pos.NodeID) (*State, error) {
	boot, err := os.ReadFile(bootIDPath)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's boot id, without which a power loss can't be told from a restart: %w", err)
	}
	file, err := boltfile.Open(path, boltfile.Kind{Name: "node", Format: format}, func(tx *bbolt.Tx) error {
		return initialise(tx, node)
	})
	if err != nil {
		return nil, err
	}
	var stored identity
	err = file.View(context.Background(), func(tx *bbolt.Tx) error {
		if err := json.Unmarshal(tx.Bucket(bAbout).Get(kIdentity), &stored); err != nil {
			return &boltfile.DamagedError{Path: path, Why: "its identity: " + err.Error()}
		}
		return nil
	})
	switch {
	case err != nil:
	case stored.Node != node:
		err = fmt.Errorf("%s belongs to node %q, but this node is called %q: give it its old name back, or an empty data folder", path, stored.Node, node)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &State{
		file:     file,
		identity: port.Identity{Node: node, Data: stored.Data, Nonce: boltfile.NewUID(), Created: stored.Created},
		bootID:   strings.TrimSpace(string(boot)),
	}, nil
}

func initialise(tx *bbolt.Tx, node pos.NodeID) error {
	if _, err := tx.CreateBucket(bReplicas); err != nil {
		return err
	}
	b, err := json.Marshal(identity{Node: node, Data: boltfile.NewUID(), Created: pos.MillisOf(time.Now())})
	if err != nil {
		return err
	}
	return tx.Bucket(bAbout).Put(kIdentity, b)
}

// Close closes the file.
func (s *State) Close() error { return s.file.Close() }

// Identity implements port.NodeState.
func (s *State) Identity(ctx context.Context) (port.Identity, error) {
	return s.identity, stateError("identity", "", ctx.Err())
}

// BootID implements port.NodeState.
func (s *State) BootID() string { return s.bootID }

// Replica implements port.NodeState.
func (s *State) Replica(ctx context.Context, stream pos.StreamID) (port.Replica, bool, error) {
	var r port.Replica
	found := false
	err := s.file.View(ctx, func(tx *bbolt.Tx) (err error) {
		r, found, err = load(tx, stream)
		return err
	})
	return r, found, stateError("replica", stream.String(), err)
}

func load(tx *bbolt.Tx, stream pos.StreamID) (port.Replica, bool, error) {
	var r port.Replica
	b := tx.Bucket(bReplicas).Get([]byte(stream))
	if b == nil {
		return r, false, nil
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return port.Replica{}, false, fmt.Errorf("the record is damaged: %w", err)
	}
	return r, true, nil
}

// PutReplica implements port.NodeState.
func (s *State) PutReplica(ctx context.Context, r port.Replica) error {
	return stateError("put replica", r.Stream.String(), s.file.Update(ctx, func(tx *bbolt.Tx) error {
		if _, err := pos.ParseStreamID(r.Stream.String()); err != nil {
			return fmt.Errorf("%w: %w", port.Denied, err)
		}
		old, ok, err := load(tx, r.Stream)
		if err != nil {
			return err
		}
		if ok && (r.PromisedEpoch < old.PromisedEpoch || r.PromisedEpoch == old.PromisedEpoch && r.Ballot != old.Ballot) {
			return fmt.Errorf("promised epoch %s with ballot %s already: %w", old.PromisedEpoch, old.Ballot, port.Conflict)
		}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return tx.Bucket(bReplicas).Put([]byte(r.Stream), b)
	}))
}

// ForgetReplica implements port.NodeState.
func (s *State) ForgetReplica(ctx context.Context, stream pos.StreamID) error {
	return stateError("forget replica", stream.String(), s.file.Update(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(bReplicas).Delete([]byte(stream))
	}))
}

// stateError gives err the shape the port demands.
func stateError(op, what string, err error) error {
	if err == nil {
		return nil
	}
	class := port.ClassOf(err)
	if commit, ok := errors.AsType[*boltfile.CommitError](err); ok {
		class = commit.Class()
	}
	return &port.DiskError{Op: op, Name: what, Class: class, Err: err}
}

var _ port.NodeState = (*State)(nil)
