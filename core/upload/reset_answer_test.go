package upload

import (
	"strings"
	"testing"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// Who asks while a reset is under way is answered by that one, whatever it comes to: the command
// that asked first may have given up waiting.
func TestAResetThatIsAskedForAgain(t *testing.T) {
	gone := RootRead{Result: Result{FaultMissing, "no such key"}}
	answered := func(r *rig, refused string) {
		t.Helper()
		a := all[ResetDone](r)
		if len(a) != 2 || a[0].ID != 4 || a[1].ID != 5 || a[0].ResetAnswer != a[1].ResetAnswer || !strings.Contains(a[0].Refused, refused) {
			t.Fatal(dump(r.out))
		}
	}
	r := lose(t, gone)
	r.ask(4)
	read := one[ReadPointer](r)
	r.ask(5)
	none[ReadPointer](r)
	if read.Gen != r.m.gen {
		t.Fatal("what is under way begins anew")
	}
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
	gone.Stamp, gone.Gen = r.stamp(), r.m.gen
	r.do(gone)
	r.listed()
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(40, 140)})
	r.finishPersist()
	answered(r, "")
	if n := r.m.Counts().Resets; n != 1 {
		t.Fatalf("counted %d times", n)
	}
	r = lose(t, RootRead{Result: Result{FaultMissing, "no such key"}})
	r.ask(4)
	asked := r.out
	r.ask(5)
	r.out = asked
	r.found(stored())
	answered(r, "there again")
}

// What may still be there, or is again, is never given up.
func TestAResetIsRefused(t *testing.T) {
	refused := func(what string, r *rig, why string) {
		t.Helper()
		if a := one[ResetDone](r); !strings.Contains(a.Refused, why) || a.From != pos.NoOffset || a.Next != pos.NoOffset {
			t.Errorf("%s: %s", what, dump(r.out))
		}
		if len(all[PutRoot](r)) > 0 || r.m.Counts().Resets > 0 {
			t.Errorf("%s: %s", what, dump(r.out))
		}
	}
	gone := RootRead{Result: Result{FaultMissing, "no such key"}}
	for what, c := range map[string]struct {
		r   *rig
		why string
	}{
		"while the store is away":      {lose(t, RootRead{Result: Result{FaultTransient, "503"}}), "waiting: 503"},
		"while it is denied":           {lose(t, RootRead{Result: Result{FaultLasting, "denied"}}), "denied"},
		"while all is well":            {opened(t, testConfig, stored(), log(0, 100)), "neither lost nor damaged"},
		"of a new stream":              {opened(t, testConfig, nil, log(0, 100)), "neither lost nor damaged"},
		"while the log is shorter":     {opened(t, testConfig, stored(), log(0, 60)), "the local log ends at 60"},
		"while the first can't be had": {look(t, stored(), Result{FaultTransient, "503"}), "503"},
	} {
		c.r.ask(1)
		refused(what, c.r, c.why)
	}

	// It is looked for again when it is asked for.
	r := lose(t, gone)
	r.ask(1)
	r.found(stored())
	refused("when it is there again", r, "there again")
	one[Inspect](r)
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	if m := one[ShowSync](r).Manifest; len(m.Entries) != 2 || len(r.m.edits) != 0 {
		t.Errorf("shown is %+v, with %+v", m, r.m.edits)
	}
	// The metadata store was set back to a time before there was one.
	r = lose(t, gone)
	r.ask(1)
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen})
	refused("when there is none any more", r, "there is no stored manifest")
	empty := manifest.New(100).Stamped(2, 7)
	r = lose(t, gone)
	r.ask(1)
	r.reread(pointerTo(empty), RootRead{Body: empty.Encode()})
	refused("when an empty one is there again", r, "there again")
	for _, res := range []Result{{FaultTransient, "503"}, {FaultLasting, "denied"}} {
		r = lose(t, gone)
		r.ask(1)
		r.reread(pointerTo(stored()), RootRead{Result: res})
		refused("when it is not known any more", r, res.Why)
		r = look(t, stored(), Result{FaultMissing, "no such key"})
		r.ask(1)
		r.reread(pointerTo(stored()), RootRead{Body: stored().Encode()})
		r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no such key"}})
		r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: res})
		refused("when an object can't be looked for", r, res.Why)
	}
	// It is interrupted, before and after the log was looked at.
	for _, inspected := range []bool{false, true} {
		r = lose(t, gone)
		r.ask(1)
		r.reread(pointerTo(stored()), gone)
		r.listed()
		if inspected {
			r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(40, 140)})
		}
		r.do(StoreReclaimed{r.stamp()})
		refused("when the store is the cluster's again", r, "it was interrupted: the store is the cluster's again")
		r.after(time.Minute)
		r.resolve(stored())
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
		if m := one[ShowSync](r).Manifest; len(m.Entries) != 2 || len(r.m.edits) != 0 {
			t.Errorf("shown is %+v, with %+v", m, r.m.edits)
		}
	}
}
