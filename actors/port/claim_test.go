package port_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakestore"
)

// claimant is a cluster that has never claimed anything.
func claimant(s port.ObjectStore, prefix string, cluster pos.UID) port.Claimant {
	return port.Claimant{Store: s, Prefix: prefix, Cluster: cluster, Settings: fakemeta.New()}
}

func mustClaim(t *testing.T, c port.Claimant) {
	t.Helper()
	if err := c.Claim(t.Context()); err != nil {
		t.Fatalf("%s claims %q: %v", c.Cluster, c.Prefix, err)
	}
}

// unmarked demands that err says so of the marker p/cluster.
func unmarked(t *testing.T, err error, damaged bool) {
	t.Helper()
	u, ok := errors.AsType[*port.UnmarkedError](err)
	if !ok || u.Key != "p/cluster" || (u.Damaged != nil) != damaged || !strings.Contains(err.Error(), "millrace tiering claim") {
		t.Fatalf("got %v, want a marker that is gone or damaged (%v)", err, damaged)
	}
}

func TestClaim(t *testing.T) {
	s := fakestore.New()
	for _, prefix := range []string{"", "p", "p/q/"} {
		ours := claimant(s, prefix, 7)
		mustClaim(t, ours)
		mustClaim(t, ours)
		for _, ask := range []func(context.Context) error{
			claimant(s, prefix, 8).Claim,
			func(ctx context.Context) error { _, err := claimant(s, prefix, 8).Restore(ctx); return err },
		} {
			err := ask(t.Context())
			foreign, ok := errors.AsType[*port.ForeignPrefixError](err)
			if !ok || foreign.Owner != 7 || foreign.Ours != 8 || foreign.Key != port.ClusterKey(prefix) || !strings.Contains(err.Error(), "store.prefix") {
				t.Errorf("a foreign claim of %q: %v", prefix, err)
			}
		}
	}
	if got := strings.Join(s.Keys(), " "); got != "cluster p/cluster p/q/cluster" {
		t.Errorf("markers %q", got)
	}
	b, _ := s.Object("p/cluster")
	if want := "millrace-cluster 1 0000000000000007 "; !strings.HasPrefix(string(b), want) || len(b) != len(want)+9 {
		t.Errorf("marker %q", b)
	}
}

func TestOfManyClaimsOneWins(t *testing.T) {
	s := fakestore.New()
	var won atomic.Int32
	var wg sync.WaitGroup
	for cluster := range pos.UID(8) {
		wg.Go(func() {
			err := claimant(s, "p", cluster+1).Claim(t.Context())
			if _, foreign := errors.AsType[*port.ForeignPrefixError](err); err == nil {
				won.Add(1)
			} else if !foreign {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d clusters own the prefix", won.Load())
	}
}

// TestAClaimWithoutCertaintyFails: whatever is not known must not look like ownership.
func TestAClaimWithoutCertaintyFails(t *testing.T) {
	for _, failing := range []string{"get", "put"} {
		s := fakestore.New()
		s.Fault = func(op, _ string) error {
			if op == failing {
				return port.Unavailable
			}
			return nil
		}
		c := claimant(s, "p", 7)
		if err := c.Claim(t.Context()); port.ClassOf(err) != port.Unavailable {
			t.Errorf("with %s failing: %v", failing, err)
		}
		s.Fault = nil
		mustClaim(t, c)
	}
}

// A claim is remembered before it is known to its caller, so before anything is put: one
// that was cut off at any step goes on, and one that was not never puts a marker again.
func TestAClaimIsRemembered(t *testing.T) {
	for _, failing := range []string{"get setting", "put setting", "put setting and lose the answer"} {
		s, meta := fakestore.New(), fakemeta.New()
		c := port.Claimant{Store: s, Prefix: "p", Cluster: 7, Settings: meta}
		switch failing {
		case "get setting":
			meta.Fault = func(op, _ string) error { return map[string]error{"setting": port.Unavailable}[op] }
		case "put setting":
			meta.Fault = func(op, _ string) error { return map[string]error{"putsetting": port.Full}[op] }
		default:
			meta.After = func(op, _ string) error { return map[string]error{"putsetting": port.UnknownOutcome}[op] }
		}
		if err := c.Claim(t.Context()); err == nil {
			t.Fatalf("%s: owned, and nobody remembers", failing)
		}
		meta.Fault, meta.After = nil, nil
		if failing == "put setting" { // not remembered: nothing was put but the marker
			s.Drop("p/cluster")
		}
		mustClaim(t, c)
		s.Drop("p/cluster")
		unmarked(t, c.Claim(t.Context()), false)
		if keys := s.Keys(); len(keys) != 0 {
			t.Fatalf("%s: the store holds %v", failing, keys)
		}
	}
}

// A marker that was put before anybody remembered it is found, and remembered.
func TestAClaimCutOffAfterTheMarker(t *testing.T) {
	s := fakestore.New()
	mustClaim(t, claimant(s, "p", 7))
	again := claimant(s, "p", 7)
	mustClaim(t, again)
	s.Drop("p/cluster")
	unmarked(t, again.Claim(t.Context()), false)
}

// That the marker is gone is known by one question, which reads.
func TestAMarkerThatIsGoneIsSaidAtOnce(t *testing.T) {
	s := fakestore.New()
	c := claimant(s, "p", 7)
	mustClaim(t, c)
	s.Drop("p/cluster")
	var asked []string
	s.Fault = func(op, key string) error {
		asked = append(asked, op+" "+key)
		return nil
	}
	unmarked(t, c.Claim(t.Context()), false)
	if !slices.Equal(asked, []string{"get p/cluster"}) {
		t.Errorf("asked %q", asked)
	}
}

// Of a bucket that is not there the marker is refused; who wants it restored is told what is missing.
func TestRestoreWithoutABucket(t *testing.T) {
	s := fakestore.New()
	c := claimant(s, "p", 7)
	mustClaim(t, c)
	for _, probed := range []error{port.NotFound, port.Unavailable, nil} {
		s.Fault = func(op, _ string) error {
			if op == "probe" {
				return probed
			}
			return port.Denied
		}
		want := port.Denied
		if errors.Is(probed, port.NotFound) {
			want = port.NotFound
		}
		if restored, err := c.Restore(t.Context()); restored || port.ClassOf(err) != want {
			t.Errorf("probed %v: restored %v, %v", probed, restored, err)
		}
		if err := c.Claim(t.Context()); port.ClassOf(err) != port.Denied {
			t.Errorf("probed %v: claimed %v", probed, err)
		}
	}
}

// A damaged marker is nobody's, also for a cluster that never claimed anything.
func TestADamagedMarker(t *testing.T) {
	s := fakestore.New()
	c := claimant(s, "p", 7)
	mustClaim(t, c)
	whole, _ := s.Object("p/cluster")
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1
		for _, body := range [][]byte{damaged, whole[:i]} {
			s.Replace("p/cluster", body)
			unmarked(t, c.Claim(t.Context()), true)
			unmarked(t, claimant(s, "p", 8).Claim(t.Context()), true)
			if now, _ := s.Object("p/cluster"); string(now) != string(body) {
				t.Fatalf("a claim made %q of %q", now, body)
			}
		}
	}
}

// An operator restores the marker, gone or damaged; one that is there stays.
func TestRestore(t *testing.T) {
	s := fakestore.New()
	c := claimant(s, "p", 7)
	mustClaim(t, c)
	whole, _ := s.Object("p/cluster")
	for _, spoil := range []func(){func() { s.Drop("p/cluster") }, func() { s.Replace("p/cluster", whole[2:]) }} {
		spoil()
		for _, want := range []bool{true, false} {
			if restored, err := c.Restore(t.Context()); err != nil || restored != want {
				t.Fatalf("restored %v, %v: want %v", restored, err, want)
			}
			mustClaim(t, c)
		}
	}
	s.Drop("p/cluster")
	fresh := claimant(s, "p", 7)
	if restored, err := fresh.Restore(t.Context()); err != nil || !restored {
		t.Fatalf("restored %v, %v", restored, err)
	}
	s.Drop("p/cluster")
	unmarked(t, fresh.Claim(t.Context()), false)
}

// TestAStoreThatIgnoresIfAbsent lets a rival write between our two looks.
func TestAStoreThatIgnoresIfAbsent(t *testing.T) {
	rival := fakestore.New()
	mustClaim(t, claimant(rival, "p", 8))
	theirs, _ := rival.Object("p/cluster")
	s := fakestore.New()
	s.After = func(op, key string) error {
		if op == "put" {
			s.Replace(key, theirs)
		}
		return nil
	}
	if _, ok := errors.AsType[*port.ForeignPrefixError](claimant(s, "p", 7).Claim(t.Context())); !ok {
		t.Error("both clusters own the prefix")
	}
}
