package statetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Run checks the state that open returns, a fresh one for each part.
func Run(t *testing.T, open func(t *testing.T) port.NodeState) {
	for _, part := range []struct {
		name string
		f    func(t *testing.T, s port.NodeState)
	}{
		{"a node has an identity", identity},
		{"a record comes back", put},
		{"a promise never falls", promise},
		{"a record is forgotten", forget},
		{"malformed ids are refused", malformed},
		{"what comes back is the caller's", copies},
		{"a context that ended stops everything", ended},
		{"of two ballots in one epoch one wins", race},
	} {
		t.Run(part.name, func(t *testing.T) { part.f(t, open(t)) })
	}
}

// class fails the test unless err is a *port.DiskError of the class.
func class(t *testing.T, what string, err error, want port.Class) {
	t.Helper()
	if _, ok := errors.AsType[*port.DiskError](err); !ok || !errors.Is(err, want) || port.ClassOf(err) != want {
		t.Fatalf("%s: got error %v (%T), want a *DiskError of class %q", what, err, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record is a full record, so that a field that is lost is seen.
func record(id pos.StreamID, epoch pos.Epoch, ballot pos.UID) port.Replica {
	return port.Replica{
		Stream: id, PromisedEpoch: epoch, Ballot: ballot, ConfigEpoch: 1<<64 - 1,
		Members:        []port.Member{{Node: "n1", LogIncarnation: 1<<64 - 1}, {Node: "n2", LogIncarnation: 2}},
		LogIncarnation: 1<<64 - 1, CommittedAtCleanStop: 1<<63 - 1, Clean: true, BootID: "b",
	}
}

func check(t *testing.T, s port.NodeState, want port.Replica) {
	t.Helper()
	got, ok, err := s.Replica(t.Context(), want.Stream)
	must(t, err)
	if !ok || !reflect.DeepEqual(got, want) {
		t.Fatalf("Replica: found %v\n got %+v\nwant %+v", ok, got, want)
	}
}

func identity(t *testing.T, s port.NodeState) {
	id, err := s.Identity(t.Context())
	must(t, err)
	if id.Node != "n1" || id.Data.IsZero() || id.Nonce.IsZero() || id.Created <= 0 {
		t.Errorf("identity %+v", id)
	}
	again, err := s.Identity(t.Context())
	must(t, err)
	if again != id {
		t.Errorf("identity asked again %+v, first %+v", again, id)
	}
	boot := s.BootID()
	if asked := s.BootID(); boot == "" || asked != boot {
		t.Errorf("boot id asked again %q, first %q", asked, boot)
	}
}

func put(t *testing.T, s port.NodeState) {
	if _, ok, err := s.Replica(t.Context(), "s1"); ok || err != nil {
		t.Fatalf("Replica before it is put: %v, %v", ok, err)
	}
	r := record("s1", 1<<63, 7)
	must(t, s.PutReplica(t.Context(), r))
	check(t, s, r)
	if _, ok, err := s.Replica(t.Context(), "s10"); ok || err != nil {
		t.Fatalf("Replica of another stream: %v, %v", ok, err)
	}
	next := port.Replica{Stream: "s1", PromisedEpoch: r.PromisedEpoch, Ballot: r.Ballot, CommittedAtCleanStop: pos.NoOffset}
	must(t, s.PutReplica(t.Context(), next))
	check(t, s, next)
}

func promise(t *testing.T, s port.NodeState) {
	r := record("s1", 5, 7)
	must(t, s.PutReplica(t.Context(), r))
	class(t, "a lower epoch", s.PutReplica(t.Context(), record("s1", 4, 7)), port.Conflict)
	class(t, "another ballot", s.PutReplica(t.Context(), record("s1", 5, 8)), port.Conflict)
	check(t, s, r)
	must(t, s.PutReplica(t.Context(), r))
	must(t, s.PutReplica(t.Context(), record("s1", 6, 3)))
	check(t, s, record("s1", 6, 3))
}

func forget(t *testing.T, s port.NodeState) {
	must(t, s.PutReplica(t.Context(), record("s1", 5, 7)))
	must(t, s.PutReplica(t.Context(), record("s2", 5, 7)))
	must(t, s.ForgetReplica(t.Context(), "s1"))
	must(t, s.ForgetReplica(t.Context(), "s1"))
	if _, ok, err := s.Replica(t.Context(), "s1"); ok || err != nil {
		t.Fatalf("Replica after ForgetReplica: %v, %v", ok, err)
	}
	check(t, s, record("s2", 5, 7))
}

func malformed(t *testing.T, s port.NodeState) {
	for _, id := range []pos.StreamID{"", "a/b", ".."} {
		class(t, "PutReplica of "+id.String(), s.PutReplica(t.Context(), record(id, 1, 1)), port.Denied)
	}
}

func copies(t *testing.T, s port.NodeState) {
	given := record("s1", 5, 7)
	must(t, s.PutReplica(t.Context(), given))
	given.Members[0].Node = "spoiled"
	got, _, err := s.Replica(t.Context(), "s1")
	must(t, err)
	got.Members[0].Node = "spoiled"
	check(t, s, record("s1", 5, 7))
}

func ended(t *testing.T, s port.NodeState) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Identity(ctx)
	class(t, "Identity", err, port.Timeout)
	_, _, err = s.Replica(ctx, "s1")
	class(t, "Replica", err, port.Timeout)
	class(t, "PutReplica", s.PutReplica(ctx, record("s1", 1, 1)), port.Timeout)
	class(t, "ForgetReplica", s.ForgetReplica(ctx, "s1"), port.Timeout)
	if _, ok, err := s.Replica(t.Context(), "s1"); ok || err != nil {
		t.Fatalf("Replica: %v, %v", ok, err)
	}
}

func race(t *testing.T, s port.NodeState) {
	won := make(chan pos.UID, 8)
	var wg sync.WaitGroup
	for ballot := range pos.UID(8) {
		wg.Go(func() {
			switch err := s.PutReplica(t.Context(), record("s1", 5, ballot+1)); {
			case err == nil:
				won <- ballot + 1
			case !port.IsConflict(err):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d ballots were promised in one epoch", len(won))
	}
	check(t, s, record("s1", 5, <-won))
}
