package manifest

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/fragment"
	"millrace/core/pos"
)

type fataler interface{ Fatalf(string, ...any) }

func entry(first, next pos.Offset) Entry {
	return Entry{First: first, Next: next, FirstTime: pos.Millis(first), LastTime: pos.Millis(next), Epoch: 1,
		Size: int64(next-first) * 10, UID: pos.UID(first + 1), Chunks: 1}
}

// built returns a manifest of the given entries.
func built(t fataler, entries ...Entry) *Manifest {
	m := New(0)
	for _, e := range entries {
		m = applied(t, m, AppendEdit(m, e))
	}
	return m
}

func applied(t fataler, m *Manifest, edits ...Edit) *Manifest {
	got, err := m.Apply(edits...)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if err := got.Check(); err != nil {
		t.Fatalf("after apply: %v", err)
	}
	return got
}

func TestEntryOfTakesAllOfAFragment(t *testing.T) {
	f := fragment.Fragment{First: 1, Next: 5, FirstTime: 10, LastTime: 20, Epoch: 3, Size: 7, UID: 9, Chunks: 2}
	if got, want := EntryOf(&f), (Entry{1, 5, 10, 20, 3, 7, 9, 2, KindFragment}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAppend(t *testing.T) {
	m := New(7)
	if err := m.Check(); err != nil || !m.Empty() || m.Next != 7 {
		t.Fatalf("%+v: %v", m, err)
	}
	// The first entry begins the manifest wherever it lies.
	one := applied(t, m, AppendEdit(m, entry(20, 30)))
	if one.First != 20 || one.Next != 30 || one.FirstTime != 20 || one.FirstLastTime != 30 || one.Size != 100 {
		t.Errorf("%+v", one)
	}
	// A later one may leave a gap, but not overlap.
	two := applied(t, one, AppendEdit(one, entry(35, 40)))
	if got := two.Gaps(); len(got) != 1 || got[0] != (Gap{30, 35}) {
		t.Errorf("gaps %+v", got)
	}
	if two.First != 20 || two.Next != 40 || two.Size != 150 || two.FirstLastTime != 30 {
		t.Errorf("%+v", two)
	}
	if _, err := one.Apply(AppendEdit(one, entry(29, 40))); err == nil {
		t.Error("an overlapping entry was taken")
	}
	if len(m.Entries) != 0 || len(one.Entries) != 1 {
		t.Error("an edit changed the manifest it was applied to")
	}
}

func TestAnEditAppliedTwiceOrElsewhereIsRefused(t *testing.T) {
	m := built(t, entry(0, 10), entry(10, 20), entry(25, 30))
	other := built(t, entry(0, 10), entry(10, 22), entry(25, 30))
	for _, e := range []Edit{AppendEdit(m, entry(30, 40)), TruncateEdit(m, 2), RemoveHeadEdit(m, 1)} {
		once := applied(t, m, e)
		if _, err := once.Apply(e); err == nil {
			t.Errorf("%s was applied twice", e.Op)
		}
	}
	elsewhere := AppendEdit(built(t, entry(0, 10), entry(10, 20), entry(25, 29)), entry(40, 50))
	if _, err := m.Apply(elsewhere); err == nil {
		t.Error("an append was applied to another manifest")
	}
	if _, err := other.Apply(TruncateEdit(m, 2)); err == nil {
		t.Error("a truncate was applied to another manifest")
	}
	if _, err := applied(t, m, RemoveHeadEdit(m, 1), AppendEdit(New(0), entry(0, 1)).resized(2, 30)).Apply(RemoveHeadEdit(m, 2)); err == nil {
		t.Error("a remove head was applied to another manifest")
	}
	for _, e := range []Edit{{}, {Op: 9, Len: 3}, {Op: OpTruncate, Count: 4, Len: 3, At: 30}, {Op: OpTruncate, Count: -1, Len: 3},
		{Op: OpRemoveHead, Count: 4, Len: 3, At: 30}, {Op: OpRemoveHead, Count: -1, Len: 3, At: 0}, {Op: OpReset, At: pos.NoOffset}} {
		if _, err := m.Apply(e); err == nil {
			t.Errorf("%+v was applied", e)
		}
	}
}

// resized moves an append to where it fits.
func (e Edit) resized(n int, next pos.Offset) Edit {
	e.Len, e.At, e.Entry = n, next, entry(next, next+5)
	return e
}

func TestTruncateRemoveHeadReset(t *testing.T) {
	m := built(t, entry(5, 10), entry(10, 20), entry(25, 30))
	cases := []struct {
		edit        Edit
		entries     int
		first, next pos.Offset
	}{
		{TruncateEdit(m, 3), 3, 5, 30},
		{TruncateEdit(m, 2), 2, 5, 20},
		{TruncateEdit(m, 0), 0, 5, 5},
		{RemoveHeadEdit(m, 0), 3, 5, 30},
		{RemoveHeadEdit(m, 2), 1, 25, 30},
		{RemoveHeadEdit(m, 3), 0, 30, 30},
		{ResetEdit(99), 0, 99, 99},
	}
	for _, c := range cases {
		got := applied(t, m, c.edit)
		if len(got.Entries) != c.entries || got.First != c.first || got.Next != c.next {
			t.Errorf("%s %d: %d entries in [%d, %d), want %d in [%d, %d)", c.edit.Op, c.edit.Count, len(got.Entries), got.First, got.Next, c.entries, c.first, c.next)
		}
	}
}

func TestABadEditInABatchAppliesNothing(t *testing.T) {
	m := built(t, entry(0, 10))
	a := AppendEdit(m, entry(10, 20))
	if got, err := m.Apply(a, a); err == nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestManifestsGivenOutStayAsTheyWere(t *testing.T) {
	// Truncating and appending again must not write over what readers still hold.
	d := built(t, entry(0, 10), entry(10, 20)).Draft()
	apply := func(e Edit) *Manifest {
		if err := d.Apply(e); err != nil {
			t.Fatal(err)
		}
		return d.Manifest()
	}
	long := apply(AppendEdit(d.Manifest(), entry(20, 30)))
	apply(AppendEdit(d.Manifest(), entry(30, 40)))
	apply(TruncateEdit(d.Manifest(), 2))
	apply(AppendEdit(d.Manifest(), entry(21, 22)))
	if long.Entries[2] != entry(20, 30) {
		t.Errorf("a manifest changed: %+v", long.Entries[2])
	}
	if cap(long.Entries) != len(long.Entries) {
		t.Error("there is room behind a manifest that was given out")
	}
	// Nor do two drafts of the same manifest see each other.
	roomy := *long
	roomy.Entries = append(make([]Entry, 0, 9), long.Entries...)
	a, b := roomy.Draft(), roomy.Draft()
	if err := a.Apply(AppendEdit(long, entry(30, 31))); err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(AppendEdit(long, entry(30, 39))); err != nil {
		t.Fatal(err)
	}
	if got := a.Manifest().Entries[3]; got != entry(30, 31) {
		t.Errorf("a draft wrote into another: %+v", got)
	}
}

func TestAppendsToADraftCostAConstantAmount(t *testing.T) {
	const n = 20_000
	d := New(0).Draft()
	d.m.Entries = make([]Entry, 0, n)
	at := pos.Offset(0)
	allocs := testing.AllocsPerRun(n-1, func() {
		if err := d.Apply(Edit{Op: OpAppend, Entry: entry(at, at+1), Len: int(at), At: at}); err != nil {
			t.Fatal(err)
		}
		at++
	})
	if allocs != 0 {
		t.Errorf("%v allocations an append into a draft with room", allocs)
	}
}

func TestReplayedEditsGiveThePersistedManifest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := New(pos.Offset(rapid.IntRange(0, 50).Draw(t, "start"))).Draft()
		replica := live.Manifest()
		for range rapid.IntRange(1, 8).Draw(t, "persists") {
			var batch []Edit
			for range rapid.IntRange(1, 5).Draw(t, "edits") {
				e := anyEdit(t, live.Manifest())
				if err := live.Apply(e); err != nil {
					t.Fatalf("%+v: %v", e, err)
				}
				batch = append(batch, e)
			}
			live.Stamp(2, replica.Revision+1)
			persisted := live.Manifest()
			if err := persisted.Check(); err != nil {
				t.Fatal(err)
			}
			got, err := replica.Apply(batch...)
			if err != nil {
				t.Fatal(err)
			}
			replica = got.Stamped(2, persisted.Revision)
			if !reflect.DeepEqual(replica, persisted) {
				t.Fatalf("replayed %+v, persisted %+v", replica, persisted)
			}
			back, err := Decode(persisted.Encode())
			if err != nil || !reflect.DeepEqual(back, persisted) {
				t.Fatalf("read back %+v, wrote %+v: %v", back, persisted, err)
			}
		}
	})
}

func anyEdit(t *rapid.T, m *Manifest) Edit {
	n := len(m.Entries)
	switch rapid.IntRange(0, 7).Draw(t, "op") {
	case 0:
		return TruncateEdit(m, rapid.IntRange(0, n).Draw(t, "keep"))
	case 1:
		return RemoveHeadEdit(m, rapid.IntRange(0, n).Draw(t, "drop"))
	case 2:
		return ResetEdit(pos.Offset(rapid.IntRange(0, 100).Draw(t, "at")))
	}
	first := m.Next + pos.Offset(rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "gap"))
	return AppendEdit(m, entry(first, first+pos.Offset(rapid.IntRange(1, 9).Draw(t, "records"))))
}

func TestSearchAgreesWithALinearOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(0)
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			first := m.Next + pos.Offset(rapid.IntRange(0, 2).Draw(t, "gap"))
			e := entry(first, first+pos.Offset(rapid.IntRange(1, 4).Draw(t, "records")))
			e.FirstTime = pos.Millis(rapid.IntRange(0, 20).Draw(t, "time"))
			e.LastTime = e.FirstTime + pos.Millis(rapid.IntRange(0, 9).Draw(t, "span"))
			m = applied(t, m, AppendEdit(m, e))
		}
		o := pos.Offset(rapid.IntRange(-1, int(m.Next)+1).Draw(t, "offset"))
		compare(t, m, "Find", func() (int, bool) { return m.Find(o) }, func(e Entry) bool { return e.Next > o })
		at := pos.Millis(rapid.IntRange(0, 31).Draw(t, "at"))
		compare(t, m, "FindTime", func() (int, bool) { return m.FindTime(at) }, func(e Entry) bool { return e.LastTime >= at })
	})
}

func compare(t fataler, m *Manifest, what string, search func() (int, bool), first func(Entry) bool) {
	i, ok := search()
	for want, e := range m.Entries {
		if first(e) {
			if !ok || i != want {
				t.Fatalf("%s: %d, %v, want %d", what, i, ok, want)
			}
			return
		}
	}
	if ok {
		t.Fatalf("%s: %d, want none", what, i)
	}
}

func TestCheckNamesTheInvariant(t *testing.T) {
	good := built(t, entry(5, 10), entry(12, 20))
	breaks := map[string]func(m *Manifest){
		"invariant 1": func(m *Manifest) { m.First = m.Next + 1 },
		"invariant 2": func(m *Manifest) { m.Entries = nil },
		"invariant 3": func(m *Manifest) { m.Next++ },
		"invariant 4": func(m *Manifest) { m.Entries[1].UID = 0 },
		"invariant 5": func(m *Manifest) { m.Entries[1].First = 9 },
		"invariant 6": func(m *Manifest) { m.Size++ },
	}
	for want, do := range breaks {
		m := *good
		m.Entries = append([]Entry(nil), good.Entries...)
		do(&m)
		if err := m.Check(); err == nil || !contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := Decode(m.Encode()); err == nil {
			t.Errorf("%s broken: decoded all the same", want)
		}
	}
}
