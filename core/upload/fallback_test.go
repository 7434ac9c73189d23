package upload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

// The root that the pointer names is lost, and one before it is there: it is kept, the newest
// that can be read first, and what local disk has behind it is uploaded again.
func TestAResetFallsBackOnTheNewestRoot(t *testing.T) {
	key := func(epoch pos.Epoch, revision pos.Revision) string {
		return manifest.RootKey("p", "s", epoch, revision, 0xdef)
	}
	gone := RootRead{Result: Result{FaultMissing, "no such key"}}
	for i, c := range []struct {
		what       string
		began      pos.Offset // the older root
		first      Result     // of its first object
		local      Local      // what local disk holds
		begin, end pos.Offset // of what is stored after the reset
		hole       manifest.Gap
	}{
		{"it is whole", 0, Result{}, log(60, 140), 0, 50, manifest.Gap{From: 50, To: 60}},
		{"it is whole, and local disk begins in it", 0, Result{}, log(20, 140), 0, 50, manifest.Gap{}},
		{"it is whole, and local disk has all", 0, Result{}, log(0, 140), 0, 50, manifest.Gap{}},
		{"it is whole, and local disk has more", 20, Result{}, log(10, 140), 10, 10, manifest.Gap{}},
		{"its object is gone", 0, Result{FaultMissing, "no such key"}, log(60, 140), 60, 60, manifest.Gap{}},
	} {
		r := lose(t, gone)
		r.ask(1)
		r.reread(pointerTo(stored()), gone)
		older := manifestOf(1, 6, entryAt(c.began, 50, 1))
		r.listed(key(1, 5), key(2, 6), "p/s/data/1", "p/other/metadata/root.9.9.0000000000000001.manifest", key(1, 6), r.m.rootKey(r.m.pointer), "p/s/metadata/root.x")
		if k := one[ReadRoot](r).Key; k != key(2, 6) {
			t.Fatalf("reads %s first", k)
		}
		// One that names nothing is of a reset that did not come to its end.
		body := [][]byte{[]byte("x"), manifest.New(30).Stamped(2, 6).Encode()}[i%2]
		r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: body})
		if k := one[ReadRoot](r).Key; k != key(1, 6) {
			t.Fatalf("reads %s next", k)
		}
		r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: older.Encode()})
		one[LookFor](r)
		r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: c.first})
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: c.local})
		none[ResetDone](r)
		r.finishPersist()
		if m := one[ShowSync](r).Manifest; m.First != c.begin || m.Next != c.end || m.Revision != 8 {
			t.Fatalf("%s: shown is %+v", c.what, m)
		}
		if a := one[ResetDone](r); a.From != min(c.began, c.begin) || a.Next != c.begin || a.Hole != c.hole {
			t.Fatalf("%s: %+v", c.what, a)
		}
		if want := max(c.end, c.local.First); r.m.drain.want != want {
			t.Fatalf("%s: goes on at %s, want %s", c.what, r.m.drain.want, want)
		}
	}

	// All that can't be read is passed over, and what can't be asked ends the reset.
	r := lose(t, gone)
	r.ask(1)
	r.reread(pointerTo(stored()), gone)
	r.listed(key(1, 6))
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: gone.Result})
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(40, 140)})
	r.finishPersist()
	if a := one[ResetDone](r); a.Next != 40 {
		t.Fatalf("%+v", a)
	}
	r = lose(t, gone)
	r.ask(1)
	r.reread(pointerTo(stored()), gone)
	r.do(RootsListed{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	if a := one[ResetDone](r); a.Refused != "503" {
		t.Fatalf("%+v", a)
	}
}

// searched returns a rig whose reset has found that of so many entries of root the first there
// is are missing.
func searched(t *testing.T, root *manifest.Manifest, missing int) *rig {
	t.Helper()
	r := look(t, root, Result{FaultMissing, "no such key"})
	r.ask(1)
	r.reread(pointerTo(root), RootRead{Body: root.Encode()})
	for len(all[LookFor](r)) > 0 {
		key, result := one[LookFor](r).Key, Result{}
		if i := slices.IndexFunc(root.Entries, func(e manifest.Entry) bool { return r.m.fragmentKey(e.First, e.UID) == key }); i < missing {
			result = Result{FaultMissing, "no such key"}
		}
		r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: result})
	}
	return r
}

// The log is shorter than what is kept, be it by one record: it has to grow over it first, and
// nothing is given up.
func TestAResetIsRefusedWhileTheLogIsShorter(t *testing.T) {
	root := manifestOf(2, 7, entryAt(20, 60, 1), entryAt(60, 100, 2))
	for _, end := range []pos.Offset{90, 99} {
		r := searched(t, root, 1)
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: Local{First: 50, Next: end, Epochs: []segment.EpochEnd{{Epoch: 2, End: end}}}})
		if a := one[ResetDone](r); !strings.Contains(a.Refused, "the local log ends at "+end.String()) {
			t.Fatalf("%+v", a)
		}
		r.after(time.Minute)
		r.resolve(root)
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: Local{First: 0, Next: 100, Epochs: []segment.EpochEnd{{Epoch: 1, End: 60}, {Epoch: 2, End: 100}}}})
		if m := one[ShowSync](r).Manifest; len(m.Entries) != 2 || len(r.m.edits) != 0 {
			t.Fatalf("shown is %+v", m)
		}
	}
}

// What is kept may yet be contradicted by the local log.
func TestAResetOfAStreamThatDiverges(t *testing.T) {
	root := manifestOf(2, 7, entryAt(20, 60, 1), entryAt(60, 100, 2))
	r := searched(t, root, 1)
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: Local{First: 0, Next: 120, Epochs: []segment.EpochEnd{{Epoch: 3, End: 120}}}})
	r.finishPersist()
	if m := one[ShowSync](r).Manifest; m.First != 0 || !m.Empty() {
		t.Fatalf("shown is %+v", m)
	}
}

// The newest root is the one of the highest revision; of one revision it is the latest writer's.
func TestTheNewestRootIsTheOneOfTheHighestRevision(t *testing.T) {
	key := func(epoch pos.Epoch, revision pos.Revision) string {
		return manifest.RootKey("p", "s", epoch, revision, 0xdef)
	}
	gone := RootRead{Result: Result{FaultMissing, "no such key"}}
	r := lose(t, gone)
	r.ask(1)
	r.reread(pointerTo(stored()), gone)
	r.listed(key(3, 5), key(1, 6), key(3, 4), key(2, 6), key(2, 10))
	for _, want := range []string{key(2, 10), key(2, 6), key(1, 6), key(3, 5), key(3, 4)} {
		if k := one[ReadRoot](r).Key; k != want {
			t.Fatalf("reads %s, want %s", k, want)
		}
		r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: []byte("x")})
	}
	one[Inspect](r)
}
