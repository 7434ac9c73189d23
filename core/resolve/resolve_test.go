package resolve

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// size bounds the offsets of the worlds that are enumerated.
const size = 6

// entry is a fragment [first, next) whose chunks have the times 10*first and later.
func entry(first, next pos.Offset) manifest.Entry {
	return manifest.Entry{First: first, Next: next, FirstTime: pos.Millis(10 * first), LastTime: pos.Millis(10*next - 5), Epoch: 1, Size: 1, UID: 1, Chunks: 1}
}

// manifests returns every way to lay fragments, with and without gaps, into
// [0, size), and the manifests without entries.
func manifests(t *testing.T) []*manifest.Manifest {
	var all []*manifest.Manifest
	var grow func(m *manifest.Manifest, from pos.Offset)
	grow = func(m *manifest.Manifest, from pos.Offset) {
		all = append(all, m)
		for first := from; first < size; first++ {
			for next := first + 1; next <= size; next++ {
				longer, err := m.Apply(manifest.AppendEdit(m, entry(first, next)))
				if err != nil {
					t.Fatal(err)
				}
				grow(longer, next)
			}
		}
	}
	grow(manifest.New(0), 0)
	for at := pos.Offset(1); at <= size; at++ {
		all = append(all, manifest.New(at))
	}
	return all
}

// specs returns every spec that can tell two worlds apart, and some that are off
// both ends.
func specs() []Spec {
	all := []Spec{First(), Last(), Next(), {}, {Kind: 99}}
	for o := pos.Offset(-1); o <= size+2; o++ {
		all = append(all, At(o))
	}
	for t := pos.Millis(-1); t <= 10*size+5; t += 5 {
		all = append(all, Since(t))
	}
	return all
}

// TestResolveIsRightInEveryWorld compares Resolve with a description that looks at
// one offset at a time, over every spec, local log, manifest and state of the row.
func TestResolveIsRightInEveryWorld(t *testing.T) {
	worlds := 0
	for _, m := range manifests(t) {
		for first := pos.Offset(0); first <= size; first++ {
			for committed := first; committed <= size; committed++ {
				for _, s := range specs() {
					k := Known{First: first, Committed: committed, Tiering: true,
						Row: manifest.Row{State: manifest.StateResolved, Manifest: m}}
					worlds++
					expected := described(s, k, m)
					if needsManifest(s, first) && m.Next < first && local(expected) {
						expected = Doubtful{Then: expected}
					}
					got, want := show(Resolve(s, k)), show(expected)
					if got != want {
						t.Fatalf("%s of local [%d, %d) and remote %s:\ngot  %s\nwant %s", s, first, committed, layout(m), got, want)
					}
				}
			}
		}
	}
	t.Logf("%d worlds", worlds)
}

// described says what the user expects, one offset at a time.
func described(s Spec, k Known, m *manifest.Manifest) Place {
	switch s.Kind {
	case KindNext:
		return LocalAt{At: k.Committed}
	case KindLast:
		return LocalLast{}
	case KindFirst:
		for o := pos.Offset(0); o < k.First; o++ {
			if e := holder(m, o); e != nil {
				return RemoteAt{Entry: *e, At: o}
			}
		}
		return LocalAt{At: k.First}
	case KindOffset:
		return describedOffset(max(0, s.Offset), k, m)
	case KindTimestamp:
		for i := range m.Entries {
			if e := m.Entries[i]; e.LastTime >= s.Time && e.First < k.First {
				return RemoteTime{Entry: e, Time: s.Time}
			}
		}
		return LocalTime{Time: s.Time}
	}
	return Unavailable{Lasting: true}
}

func describedOffset(asked pos.Offset, k Known, m *manifest.Manifest) Place {
	if asked >= k.Committed && asked >= k.First {
		return LocalAt{At: k.Committed}
	}
	why := Gap
	if m.Empty() || asked < m.First {
		why = Retention
	}
	moved := func(to pos.Offset) *Moved {
		if to == asked {
			return nil
		}
		return &Moved{From: asked, To: to, Why: why}
	}
	for o := asked; ; o++ {
		if o >= k.First {
			return LocalAt{At: o, Moved: moved(o)}
		}
		if e := holder(m, o); e != nil {
			return RemoteAt{Entry: *e, At: o, Moved: moved(o)}
		}
	}
}

// local reports whether p was found to be local with the manifest's help.
func local(p Place) bool {
	_, at := p.(LocalAt)
	_, time := p.(LocalTime)
	return at || time
}

func holder(m *manifest.Manifest, o pos.Offset) *manifest.Entry {
	for i := range m.Entries {
		if m.Entries[i].First <= o && o < m.Entries[i].Next {
			return &m.Entries[i]
		}
	}
	return nil
}

func show(p Place) string {
	moved := func(m *Moved) string {
		if m == nil {
			return ""
		}
		return fmt.Sprintf(" moved from %d to %d by %s", m.From, m.To, m.Why)
	}
	switch p := p.(type) {
	case LocalAt:
		return fmt.Sprintf("local at %d", p.At) + moved(p.Moved)
	case RemoteAt:
		return fmt.Sprintf("remote [%d, %d) at %d", p.Entry.First, p.Entry.Next, p.At) + moved(p.Moved)
	case RemoteTime:
		return fmt.Sprintf("remote [%d, %d) since %d", p.Entry.First, p.Entry.Next, p.Time)
	case Doubtful:
		return "doubtful " + show(p.Then)
	case Unavailable:
		return fmt.Sprintf("unavailable %v", p.Lasting)
	case LocalTime, LocalLast, Ask:
		return fmt.Sprintf("%T%+v", p, p)
	}
	return fmt.Sprintf("%T", p)
}

func layout(m *manifest.Manifest) string {
	var b strings.Builder
	for _, e := range m.Entries {
		fmt.Fprintf(&b, "[%d, %d) ", e.First, e.Next)
	}
	return b.String() + fmt.Sprintf("next %d", m.Next)
}

// TestAnUnknownManifestFailsClosed: whatever the local log alone does not answer is
// unavailable, never the local floor.
func TestAnUnknownManifestFailsClosed(t *testing.T) {
	for _, row := range []manifest.Row{{}, {State: manifest.StatePending, Epoch: 4}, {State: manifest.StateResolved}} {
		for first := pos.Offset(0); first <= size; first++ {
			for committed := first; committed <= size; committed++ {
				for _, s := range specs() {
					k := Known{First: first, Committed: committed, Tiering: true, Row: row, Pointer: PointerAbsent}
					got := Resolve(s, k)
					u, unavailable := got.(Unavailable)
					if want := needsManifest(s, first); unavailable != want || unavailable && u.Lasting != (s.Kind == 0 || s.Kind == 99) {
						t.Fatalf("%s of local [%d, %d): %s, needs the manifest: %v", s, first, committed, show(got), want)
					}
				}
			}
		}
	}
}

func needsManifest(s Spec, first pos.Offset) bool {
	switch s.Kind {
	case KindNext, KindLast:
		return false
	case KindOffset:
		return max(0, s.Offset) < first
	case KindFirst, KindTimestamp:
		return first > 0
	}
	return true
}

func TestWithTieringDisabledThePointerDecides(t *testing.T) {
	// The row is left over from before tiering was disabled, and must not be used.
	m, err := manifest.New(0).Apply(manifest.AppendEdit(manifest.New(0), entry(0, 3)))
	if err != nil {
		t.Fatal(err)
	}
	row := manifest.Row{State: manifest.StateResolved, Manifest: m}
	for _, s := range specs() {
		for first := pos.Offset(0); first <= size; first++ {
			at := func(p Pointer) Place {
				return Resolve(s, Known{First: first, Committed: size, Row: row, Pointer: p})
			}
			if s.Kind == 0 || s.Kind == 99 || !needsManifest(s, first) {
				for _, p := range []Pointer{PointerUnasked, PointerAbsent, PointerPresent, PointerFailed} {
					if got, want := at(p), at(PointerAbsent); !reflect.DeepEqual(got, want) {
						t.Errorf("%s of local [%d, %d): the pointer changes %s to %s", s, first, size, show(want), show(got))
					}
				}
				continue
			}
			if _, ok := at(PointerUnasked).(Ask); !ok {
				t.Errorf("%s of local [%d, %d): %s, want to ask", s, first, size, show(at(PointerUnasked)))
			}
			if u, ok := at(PointerFailed).(Unavailable); !ok || u.Lasting {
				t.Errorf("%s, metadata store down: %s", s, show(at(PointerFailed)))
			}
			if u, ok := at(PointerPresent).(Unavailable); !ok || !u.Lasting || !strings.Contains(u.Why, "enable tiering") {
				t.Errorf("%s, pointer present: %s", s, show(at(PointerPresent)))
			}
			want := map[Kind]string{
				KindFirst:     fmt.Sprintf("local at %d", first),
				KindTimestamp: show(LocalTime{Time: s.Time}),
				KindOffset:    fmt.Sprintf("local at %d moved from %d to %d by retention", first, max(0, s.Offset), first),
			}[s.Kind]
			if got := show(at(PointerAbsent)); got != want {
				t.Errorf("%s of local [%d, %d), no pointer: %s, want %s", s, first, size, got, want)
			}
		}
	}
}

func TestSpecsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := pos.Offset(rapid.Int64Min(0).Draw(t, "offset"))
		at := pos.Millis(rapid.Int64Range(0, 253402300799999).Draw(t, "time"))
		s := rapid.SampledFrom([]Spec{First(), Last(), Next(), At(o), Since(at)}).Draw(t, "spec")
		if got, err := ParseSpec(s.String()); err != nil || got != s {
			t.Fatalf("%+v prints %s and reads %+v, %v", s, s, got, err)
		}
	})
	for _, bad := range []string{"", "First", "-1", "none", "1.5", "2026-03-01", "1969-12-31T23:59:59Z", "9223372036854775808", "+5", "05"} {
		if got, err := ParseSpec(bad); err == nil || !strings.Contains(err.Error(), "want first, last, next") {
			t.Errorf("%q was read as %s, %v", bad, got, err)
		}
	}
}

// A manifest that is not known is told with what it waits for.
func TestPendingTellsWhy(t *testing.T) {
	k := Known{First: 5, Committed: 9, Tiering: true}
	for why, want := range map[string]string{"": "not known to this node yet", "waiting: the root is gone": "waiting: the root is gone"} {
		k.Why = why
		got, ok := Resolve(At(2), k).(Unavailable)
		if !ok || got.Lasting || !strings.Contains(got.Why, want) {
			t.Errorf("with %q: %+v", why, got)
		}
	}
}

func TestCoveredIsWhatTheManifestHas(t *testing.T) {
	for _, m := range manifests(t) {
		k := Known{First: 0, Committed: size, Tiering: true, Row: manifest.Row{State: manifest.StateResolved, Manifest: m}}
		for o := pos.Offset(0); o <= size; o++ {
			var want *manifest.Entry
			for i := range m.Entries {
				if m.Entries[i].First <= o && o < m.Entries[i].Next {
					want = &m.Entries[i]
				}
			}
			got, ok := Covered(o, k)
			if ok != (want != nil) || ok && (got.Entry != *want || got.At != o || got.Moved != nil) {
				t.Fatalf("offset %s in %+v: %+v, %v", o, m, got, ok)
			}
			pending, off := k, k
			pending.Row.State, off.Tiering = manifest.StatePending, false
			if _, ok := Covered(o, pending); ok {
				t.Fatal("a pending row covers")
			}
			if _, ok := Covered(o, off); ok {
				t.Fatal("without tiering the store covers")
			}
		}
	}
}
