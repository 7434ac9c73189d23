package upload

import (
	"slices"
	"testing"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

// retain sets the bounds.
func (r *rig) retain(b Bounds) []Effect {
	r.t.Helper()
	return r.do(Retain{r.stamp(), b})
}

func collected(r *rig) []string {
	var keys []string
	for _, c := range all[Collect](r) {
		if c.After < r.now.Add(r.m.cfg.Grace) {
			r.t.Fatalf("collected without grace: %+v", c)
		}
		keys = append(keys, c.Keys...)
	}
	return keys
}

func TestTheSizeBoundTrimsTheStore(t *testing.T) {
	root := stored()
	r := opened(t, testConfig, root, log(0, 100))
	r.retain(Bounds{MaxBytes: 1000})
	if len(r.m.edits) != 0 {
		t.Fatal("a manifest at the bound is trimmed")
	}
	r.retain(Bounds{MaxBytes: 999})
	none[Collect](r)
	if r.m.stored.First != 0 || r.m.Status().Remote.First != 0 {
		t.Fatal("the removal is shown before it is persisted")
	}
	r.persist()
	gone := r.m.fragmentKey(root.Entries[0].First, root.Entries[0].UID)
	if keys := collected(r); !slices.Contains(keys, gone) {
		t.Fatalf("collected %q, want %s too", keys, gone)
	}
	if e := one[ShowEdits](r); len(e.Edits) != 1 || e.Edits[0].Op != manifest.OpRemoveHead {
		t.Fatalf("shown %+v", e)
	}
	if m := r.m.stored; m.First != 50 || m.Next != 100 || len(m.Entries) != 1 {
		t.Fatalf("stored %+v", m)
	}
	if c := r.m.Counts(); c.Expired != 1 || c.BytesExpired != 500 {
		t.Fatalf("counts %+v", c)
	}
	if r.after(time.Hour); len(r.m.edits) != 0 || len(all[PutRoot](r)) != 0 {
		t.Fatal("it goes on trimming within the bound")
	}
	r.retain(Bounds{MaxBytes: 1})
	r.persist()
	if m := r.m.stored; m.First != 100 || m.Next != 100 || !m.Empty() {
		t.Fatalf("stored %+v", m)
	}
}

// An idle stream expires by its age, and only when that is reached.
func TestTheAgeBoundHasATimer(t *testing.T) {
	root := stored()
	r := newRig(t, testConfig)
	r.now = 2_000
	r.do(Start{Stamp: r.stamp()})
	r.resolve(root)
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(100, 100)})
	r.retain(Bounds{MaxAge: 10 * time.Second})
	due := root.Entries[0].LastTime + 10_000
	if w := one[Wake](r); w.At != due {
		t.Fatalf("wakes at %d, want %d", w.At, due)
	}
	r.now = due - 1
	if r.do(Tick{r.stamp()}); len(r.m.edits) != 0 {
		t.Fatal("it expires early")
	}
	r.now = due
	if r.do(Tick{r.stamp()}); len(r.m.edits) != 1 {
		t.Fatal("it does not expire")
	}
	r.persist()
	if m := r.m.stored; m.First != 50 {
		t.Fatalf("stored %+v", m)
	}
	r.now = max(r.now, root.Entries[1].LastTime+10_000)
	r.do(Tick{r.stamp()})
	r.persist()
	if m := r.m.stored; m.First != 100 || m.Next != 100 {
		t.Fatalf("stored %+v", m)
	}
	if r.m.wake != 0 {
		t.Fatalf("an empty store wakes it at %d", r.m.wake)
	}
}

// A timestamp from the far future does not wrap around into the past.
func TestATimestampBeyondAllBoundsIsNotOld(t *testing.T) {
	e := entryAt(0, 50, 1)
	e.LastTime = pos.Millis(1<<63 - 1)
	r := opened(t, testConfig, manifestOf(2, 7, e), log(0, 50))
	r.retain(Bounds{MaxAge: time.Second})
	if len(r.m.edits) != 0 {
		t.Fatal("it is taken as old")
	}
}

// What is not persisted counts for nothing: neither does it push older fragments out,
// nor is it removed itself.
func TestRetentionDecidesByWhatIsPersisted(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 140))
	r.retain(Bounds{MaxBytes: 1000})
	for _, s := range r.chunks(100, 120) {
		r.grant(s.Ref)
		r.upload(s.Ref)
	}
	if len(r.m.edits) != 1 || r.m.edits[0].Op != manifest.OpAppend {
		t.Fatalf("edits %+v", r.m.edits)
	}
	r.persist()
	if len(r.m.edits) != 1 || r.m.edits[0].Op != manifest.OpRemoveHead || r.m.edits[0].Count != 1 {
		t.Fatalf("after the persist: edits %+v", r.m.edits)
	}
	// Once decided, however often it is looked at.
	r.retain(Bounds{MaxBytes: 900})
	r.do(Tick{r.stamp()})
	if len(r.m.edits) != 1 {
		t.Fatalf("decided twice: %+v", r.m.edits)
	}
	r.persist()
	if m := r.m.stored; m.First != 50 || m.Size != 700 || len(r.m.edits) != 0 {
		t.Fatalf("stored %+v, edits %+v", m, r.m.edits)
	}
}

// What the local log contradicts is about to go, and pushes nothing older out.
func TestRetentionWaitsForWhatIsContradictedToGo(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.retain(Bounds{MaxBytes: 500}) // of the 1000 that are stored, and the 500 that are left
	r.do(PointerRead{Stamp: r.stamp(), Pointer: pointerTo(stored())})
	r.root(stored())
	r.do(Inspected{Stamp: r.stamp(), Local: Local{First: 0, Next: 150, Epochs: []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 3, End: 150}}}})
	r.finishPersist()
	r.after(time.Hour)
	if m := r.m.stored; m.First != 0 || m.Next != 50 {
		t.Fatalf("stored [%s, %s)", m.First, m.Next)
	}
}

// A removal that another writer came before is forgotten with its keys.
func TestARemovalThatIsNotPersistedDeletesNothing(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 100))
	r.retain(Bounds{MaxBytes: 1})
	none[Collect](r)
	r.after(r.m.cfg.PersistInterval)
	none[Collect](r)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultConflict, "moved"}})
	other := pointerTo(stored())
	other.Revision++
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: other})
	none[Collect](r)
	if len(r.m.drops) != 0 || len(r.m.edits) != 0 || r.m.Counts().Expired != 0 {
		t.Fatalf("drops %q, edits %+v, counts %+v", r.m.drops, r.m.edits, r.m.Counts())
	}
}
