package nodestate

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/actors/port"
	"millrace/cmd/internal/boltfile"
	"millrace/test/porttest/statetest"
)

func openState(t *testing.T, path string) *State {
	t.Helper()
	s, err := Open(path, "n1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	statetest.Run(t, func(t *testing.T) port.NodeState { return openState(t, filepath.Join(t.TempDir(), FileName)) })
}

func identityOf(t *testing.T, s *State) port.Identity {
	t.Helper()
	id, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheNextProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s, err := Open(path, "n1")
	if err != nil {
		t.Fatal(err)
	}
	before := identityOf(t, s)
	if err := s.PutReplica(t.Context(), port.Replica{Stream: "s1", PromisedEpoch: 3, Ballot: 4}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := openState(t, path)
	after := identityOf(t, next)
	if after.Nonce == before.Nonce {
		t.Error("two processes have one boot nonce")
	}
	after.Nonce = before.Nonce
	if after != before {
		t.Errorf("identity %+v, before %+v", after, before)
	}
	if err := next.PutReplica(t.Context(), port.Replica{Stream: "s1", PromisedEpoch: 3, Ballot: 5}); !port.IsConflict(err) {
		t.Errorf("the promise was forgotten: %v", err)
	}
}

func TestAnotherNodesFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s, err := Open(path, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "n2"); err == nil || !strings.Contains(err.Error(), `belongs to node "n1", but this node is called "n2"`) {
		t.Errorf("Open: %v", err)
	}
	openState(t, path) // the refusal left no lock
}

func TestALostFileIsAnotherIncarnation(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s, err := Open(path, "n1")
	if err != nil {
		t.Fatal(err)
	}
	before := identityOf(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if after := identityOf(t, openState(t, path)); after.Data == before.Data {
		t.Error("a node that lost its data has its old data incarnation")
	}
}

func TestBootIDIsTheKernels(t *testing.T) {
	s := openState(t, filepath.Join(t.TempDir(), FileName))
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	if s.BootID()+"\n" != string(boot) {
		t.Errorf("boot id %q, the kernel says %q", s.BootID(), boot)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for err, want := range map[error]port.Class{
		&boltfile.CommitError{Err: syscall.ENOSPC}:             port.Full,
		&boltfile.CommitError{Unknown: true, Err: syscall.EIO}: port.UnknownOutcome,
		port.Conflict: port.Conflict,
	} {
		if got := port.ClassOf(stateError("op", "", err)); got != want {
			t.Errorf("%v is classed %q, want %q", err, got, want)
		}
	}
}
