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

// The store answers again: what waited for a later time is tried now, also what an operator
// had to mend, and also the list of objects.
func TestWhatWaitsIsTriedWhenTheStoreAnswers(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	r.failUpload(refs[0], FaultLasting, 0)
	r.failUpload(refs[1], FaultTransient, 0)
	r.failUpload(one[Submit](r).Ref, FaultTransient, 0) // not granted: means nothing
	for _, f := range r.m.flights {
		if f.stage == stageSubmitted {
			r.grant(f.ref)
			r.failUpload(f.ref, FaultTransient, 0)
			break
		}
	}
	r.do(StoreBack{r.stamp()})
	if n := len(all[Submit](r)); n != 2 || r.m.flights[0].stage != stageSubmitted {
		t.Fatalf("%d are tried:\n%s", n, dump(r.out))
	}

	r = applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "denied"}})
	none[PutRoot](r)
	r.do(StoreBack{r.stamp()})
	r.finishPersist()

	// The metadata store is another matter.
	r = applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "locked"}})
	r.do(StoreBack{r.stamp()})
	none[SwapPointer](r)

	for _, fail := range []func(r *rig){
		func(r *rig) {
			r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
		},
		func(r *rig) { r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: []byte("x")}) },
	} {
		r = newRig(t, testConfig)
		r.do(Start{Stamp: r.stamp()})
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
		fail(r)
		none[ReadPointer](r)
		r.do(StoreBack{r.stamp()})
		r.resolve(stored())
	}
}

// A log that is shorter than the store's part waits for the log, whatever the store does.
func TestWhatDoesNotWaitForTheStoreIsNotTried(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 60))
	if r.do(StoreBack{r.stamp()}); len(r.out) != 0 {
		t.Fatalf("%s", dump(r.out))
	}
	r = newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	if r.do(StoreBack{r.stamp()}); len(r.out) != 0 {
		t.Fatalf("%s", dump(r.out))
	}
}

// The store may be another one: the local log frees nothing more, readers wait, and nothing
// that was under way is put on top of it before root and first object were found in it.
func TestAStoreThatWasClaimedAnewIsReadAnew(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	r.upload(refs[0])
	r.do(StoreReclaimed{r.stamp()})
	one[NoSeam](r)
	one[ShowPending](r)
	one[Abort](r)
	if s := r.m.Status(); s.Remote.Known || s.Trouble() == "" {
		t.Fatalf("%+v", s)
	}
	r.after(time.Second)
	if s := r.m.Status(); s.Stream.State != "resolving" || s.Trouble() == "" {
		t.Fatalf("%+v", s.Stream) // still: it has not got on
	}
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	if seam := one[Seam](r); seam.Next != 100 {
		t.Fatalf("seam %+v", seam)
	}
	if r.m.drain.want != 100 || r.m.Status().Trouble() != "" {
		t.Fatalf("it goes on at %s: %s", r.m.drain.want, r.m.Status().Trouble())
	}
}

// While the store is not ours nothing is freed for being in it; all else goes on.
func TestAStoreThatIsNotOursFreesNothing(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	r.do(StoreDisowned{r.stamp()})
	if one[NoSeam](r); len(r.out) != 1 {
		t.Fatalf("%s", dump(r.out))
	}
	r.upload(refs[0])
	r.persist() // it was on its way
	none[Seam](r)
	r.m.restart("a test says so")
	r.after(time.Minute)
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	one[ShowSync](r)
	none[Seam](r)
	r.do(StoreReclaimed{r.stamp()})
	r.after(time.Minute)
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	one[Seam](r)
}

// Before it is known whose the store is nothing is freed either; what was stored by then is, once
// it is known to be ours, and nothing twice.
func TestAStoreThatIsNotKnownYetFreesNothing(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp(), Disowned: true})
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	one[ShowSync](r)
	none[Seam](r)
	r.do(StoreOwned{r.stamp()})
	if s := one[Seam](r); s.Next != stored().Next {
		t.Fatalf("%+v", s)
	}
	r.do(StoreOwned{r.stamp()})
	none[Seam](r)
}

// look returns a rig that has read a root and is told what became of its first object.
func look(t *testing.T, root *manifest.Manifest, first Result) *rig {
	t.Helper()
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(root)})
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: root.Encode()})
	if e := root.Entries[0]; one[LookFor](r).Key != r.m.fragmentKey(e.First, e.UID) {
		t.Fatalf("looks for %s", one[LookFor](r).Key)
	}
	r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: first})
	return r
}

// A root that was put into a bucket since that was made anew names objects that are gone with
// the old one. It is held to its first object each time it is read: a start forgets nothing.
func TestARootThatOutlivedItsObjectsIsLost(t *testing.T) {
	for range 2 {
		r := look(t, stored(), Result{FaultMissing, "no such key"})
		none[Inspect](r)
		one[NoSeam](r)
		if why := r.m.Status().Trouble(); !strings.Contains(why, "names first is not in the object store: no such key") || !r.m.lost {
			t.Fatal(why)
		}
	}
	r := look(t, manifestOf(2, 7, entryAt(0, 50, 1)), Result{FaultMissing, "no such key"})
	if !r.m.lost {
		t.Fatal("a root of one object is not held to it")
	}
	r = look(t, stored(), Result{FaultTransient, "503"})
	if r.m.lost || r.m.Status().Trouble() != "waiting: 503" {
		t.Fatal(r.m.Status().Trouble())
	}
	r = newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.resolve(manifest.New(50).Stamped(3, 8)) // names nothing that could be gone
}

// lose returns a rig whose stored manifest, up to 100, is not in the store.
func lose(t *testing.T, read RootRead) *rig {
	t.Helper()
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.reread(pointerTo(stored()), read)
	if n := len(all[NoSeam](r)); (n == 1) != r.m.lost {
		t.Fatalf("lost %v, and the local log is told %d times to free nothing", r.m.lost, n)
	}
	return r
}

// reread answers ReadPointer and ReadRoot.
func (r *rig) reread(p Pointer, read RootRead) {
	r.t.Helper()
	one[ReadPointer](r)
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: p})
	read.Stamp, read.Gen = r.stamp(), r.m.gen
	r.do(read)
}

// listed answers ListRoots.
func (r *rig) listed(keys ...string) {
	r.t.Helper()
	if l := one[ListRoots](r); l.Prefix != "p/s/metadata/root." {
		r.t.Fatalf("lists %s", l.Prefix)
	}
	r.do(RootsListed{Stamp: r.stamp(), Gen: r.m.gen, Keys: keys})
}

func (r *rig) ask(id WaiterID) {
	r.t.Helper()
	r.do(Reset{Stamp: r.stamp(), ID: id})
}

// What is lost or damaged is given up when the operator says so: the store's part begins
// where local disk does. Nobody is told of a manifest, nor the operator of success, before
// that is stored.
func TestAResetBeginsAnewWhereLocalDiskDoes(t *testing.T) {
	for _, c := range []struct {
		what string
		read RootRead
	}{
		{"lost", RootRead{Result: Result{FaultMissing, "no such key"}}},
		{"damaged", RootRead{Body: []byte("no manifest")}},
		{"another's", RootRead{Body: manifestOf(2, 6, entryAt(0, 50, 1)).Encode()}},
	} {
		r := lose(t, c.read)
		none[Inspect](r)
		r.ask(4)
		none[ResetDone](r)
		r.reread(pointerTo(stored()), c.read) // it may have come back
		r.listed()
		none[ShowSync](r)
		one[Inspect](r)
		// The log can't be looked at the first time.
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "busy"}})
		r.after(time.Second)
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(40, 140)})
		none[ShowSync](r)
		none[Seam](r)
		none[ResetDone](r)
		root, err := manifest.Decode(one[PutRoot](r).Body)
		if err != nil || root.First != 40 || root.Next != 40 || root.Revision != 8 || len(root.Entries) != 0 {
			t.Fatalf("%s: put %+v, %v", c.what, root, err)
		}
		r.finishPersist()
		if a := one[ResetDone](r); a.ID != 4 || a.Refused != "" || a.From != 0 || a.Next != 40 {
			t.Fatalf("%s: %+v", c.what, a)
		}
		if m := one[ShowSync](r).Manifest; m.First != 40 || m.Next != 40 {
			t.Fatalf("%s: shown is %+v", c.what, m)
		}
		if seam := one[Seam](r); seam.Next != 40 {
			t.Fatalf("%s: %+v", c.what, seam)
		}
		if n := r.m.Counts(); n.Resets != 1 || n.Gaps != 1 || n.GapRecords != 40 {
			t.Fatalf("%s: counted %+v", c.what, n)
		}
		if got := r.chunks(40, 60); len(got) != 1 {
			t.Fatalf("%s: %d are submitted", c.what, len(got))
		}
		r.ask(5)
		if a := one[ResetDone](r); a.Refused != "the stored manifest is neither lost nor damaged" || a.Next != pos.NoOffset {
			t.Fatalf("%s: %+v", c.what, a)
		}
		r.after(r.m.cfg.PersistInterval)
		if r.m.Counts().Resets != 1 {
			t.Fatal("counted again")
		}
	}
}

// The log says what is lost, and calls it an error if something is.
func TestAResetTellsTheLoss(t *testing.T) {
	hole := manifest.Gap{From: 60, To: 70}
	for _, c := range []struct {
		of    resetting
		level Level
		text  string
	}{
		{resetting{from: 20, next: 40}, LevelError, "in no tier is [20, 40)"},
		{resetting{from: 20, next: 40, hole: hole}, LevelError, "in no tier is [20, 40), nor [60, 70)"},
		{resetting{from: 20, next: 20, hole: hole}, LevelError, "in no tier is [60, 70)"},
		{resetting{from: 20, next: 20}, LevelWarn, "no record is lost"},
	} {
		if level, text := c.of.loss(); level != c.level || !strings.HasSuffix(text, c.text) {
			t.Errorf("%+v: %d %s", c.of, level, text)
		}
	}
}

// Of a root that is there only the objects are given up that are not: those before the first
// one that is there, or what local disk holds all of.
func TestAResetKeepsWhatIsThere(t *testing.T) {
	entries := []manifest.Entry{}
	for o := pos.Offset(20); o < 160; o += 20 {
		entries = append(entries, entryAt(o, o+20, 2))
	}
	root := manifestOf(2, 7, entries...)
	for missing := 1; missing <= len(entries); missing++ {
		for _, local := range []pos.Offset{0, 50, 100, 150} {
			r := look(t, root, Result{FaultMissing, "no such key"})
			r.ask(1)
			r.reread(pointerTo(root), RootRead{Body: root.Encode()})
			for looks := 0; len(all[LookFor](r)) > 0; looks++ {
				key, result := one[LookFor](r).Key, Result{}
				i := slices.IndexFunc(entries, func(e manifest.Entry) bool { return r.m.fragmentKey(e.First, e.UID) == key })
				if i < missing {
					result = Result{FaultMissing, "no such key"}
				}
				if looks > 4 {
					t.Fatalf("%d of %d are missing, and it looks for a fifth", missing, len(entries))
				}
				r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: result})
			}
			r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: Local{First: local, Next: 180, Epochs: []segment.EpochEnd{{Epoch: 2, End: 180}}}})
			want, kept := local, []manifest.Entry{}
			if missing < len(entries) && entries[missing].First <= local {
				want, kept = entries[missing].First, entries[missing:]
			}
			r.finishPersist()
			m := one[ShowSync](r).Manifest
			if m.First != want || !slices.Equal(m.Entries, kept) {
				t.Fatalf("%d are missing, local disk begins at %s: begins at %s with %+v", missing, local, m.First, m.Entries)
			}
			from := min(20, want)
			if a := one[ResetDone](r); a.From != from || a.Next != want || r.m.Counts().GapRecords != int64(want-from) {
				t.Fatalf("%d are missing, local disk begins at %s: %+v, %+v", missing, local, a, r.m.Counts())
			}
			if n := r.m.Counts(); n.Resets != 1 || (n.Gaps == 1) != (want > from) {
				t.Fatalf("%d are missing, local disk begins at %s: counted %+v", missing, local, n)
			}
			garbage := len(one[Collect](r).Keys)
			if want := 1 + len(entries) - missing - len(kept); garbage != want {
				t.Fatalf("%d are missing, local disk begins at %s: %d objects are garbage, want %d", missing, local, garbage, want)
			}
			next := m.Next
			if len(kept) == 0 {
				next = local
			}
			if r.m.drain.want != next {
				t.Fatalf("goes on at %s, want %s", r.m.drain.want, next)
			}
		}
	}
}

// A reset that comes while the stored manifest is being looked at, before anything is known to be
// lost, looks at it from the beginning: at whatever it had come to, and whatever that is answered.
func TestAResetDuringALook(t *testing.T) {
	gone := Result{FaultMissing, "what it had come to"}
	steps := []struct {
		do   func(r *rig)
		late func(gen Gen) Input // answers what it has asked for
	}{
		{func(r *rig) { r.do(Start{Stamp: r.stamp()}) }, func(gen Gen) Input { return PointerRead{Gen: gen, Result: gone} }},
		{func(r *rig) {
			r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
		}, func(gen Gen) Input { return RootRead{Gen: gen, Result: gone} }},
		{func(r *rig) {
			r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: stored().Encode()})
		}, func(gen Gen) Input { return LookedFor{Gen: gen, Result: gone} }},
	}
	for n := range steps {
		for _, lost := range []bool{true, false} {
			r := newRig(t, testConfig)
			for _, step := range steps[:n+1] {
				step.do(r)
			}
			before := r.m.gen
			r.ask(1)
			one[Abort](r)
			none[ResetDone](r)
			one[ReadPointer](r)
			if r.do(steps[n].late(before).stamped(r.stamp())); len(r.out) != 0 {
				t.Fatalf("at step %d: %s", n, dump(r.out))
			}
			steps[1].do(r)
			if lost {
				r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no such key"}})
				if l := one[ListRoots](r); l.Gen != r.m.gen {
					t.Errorf("at step %d: %+v", n, l)
				}
				continue
			}
			steps[2].do(r)
			r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen})
			if a := one[ResetDone](r); !strings.Contains(a.Refused, "there again") {
				t.Errorf("at step %d: %+v", n, a)
			}
		}
	}
}

func (r *rig) found(root *manifest.Manifest) {
	r.t.Helper()
	r.reread(pointerTo(root), RootRead{Body: root.Encode()})
	r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen})
}

// A stream that knows where the lost part began says so.
func TestAResetSaysWhereWhatItGaveUpBegan(t *testing.T) {
	root := manifestOf(2, 7, entryAt(20, 60, 1), entryAt(60, 100, 2))
	r := opened(t, testConfig, root, log(20, 140))
	r.do(StoreReclaimed{r.stamp()})
	r.after(time.Second)
	gone := RootRead{Result: Result{FaultMissing, "no such key"}}
	r.reread(pointerTo(root), gone)
	r.ask(1)
	r.reread(pointerTo(root), gone)
	r.listed()
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(50, 140)})
	r.finishPersist()
	if a := one[ResetDone](r); a.From != 20 || a.Next != 50 {
		t.Fatalf("%+v", a)
	}
}
