package keep

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

var testConfig = Config{Interval: 10 * time.Second, MaxInterval: time.Minute}

func TestStartsInOrderAndOnce(t *testing.T) {
	m := New(testConfig)
	wanted := []Item{{Capture, "shop"}, {Writer, "b"}, {Tiering, ""}, {Writer, "a"}, {Writer, "a"}}
	got := m.Step(Looked{Now: 1000, Wanted: wanted, Running: []Item{{Writer, "b"}}}, nil)
	want := []Start{{Item: Item{Tiering, ""}}, {Item: Item{Writer, "a"}}, {Item: Item{Capture, "shop"}}}
	if !slices.Equal(got, want) {
		t.Fatalf("started %v, want %v", got, want)
	}
	if got := m.Step(Looked{Now: 1000 + 9_999, Wanted: wanted}, nil); !slices.Equal(got, []Start{{Item: Item{Writer, "b"}}}) {
		t.Fatalf("within the back-off only what newly stopped is started, got %v", got)
	}
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	m := New(testConfig)
	item := Item{Writer, "a"}
	var at []time.Duration
	for s := range 400 {
		now := pos.Millis(s * 1000)
		for range m.Step(Looked{Now: now, Wanted: []Item{item}}, nil) {
			at = append(at, now.Sub(0))
		}
	}
	want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 130 * time.Second, 190 * time.Second, 250 * time.Second, 310 * time.Second, 370 * time.Second}
	if !slices.Equal(at, want) {
		t.Fatalf("started at %v, want %v", at, want)
	}
}

func TestAStartThatLastsIsForgiven(t *testing.T) {
	m := New(testConfig)
	item := []Item{{Capture, "shop"}}
	m.Step(Looked{Now: 0, Wanted: item}, nil)
	m.Step(Looked{Now: 10_000, Wanted: item}, nil)
	m.Step(Looked{Now: 69_999, Wanted: item, Running: item}, nil)
	if got := m.items[item[0]].tries; got != 2 {
		t.Fatalf("%d tries remembered before it ran for a minute, want 2", got)
	}
	m.Step(Looked{Now: 70_000, Wanted: item, Running: item}, nil)
	if got := m.Step(Looked{Now: 70_001, Wanted: item}, nil); len(got) != 1 || got[0].Tries != 0 {
		t.Fatalf("it ran for a minute and is started as new, got %v", got)
	}
}

// What an operator did is no start that did not last, however often it is done and whatever
// was before.
func TestWhatAnOperatorStoppedIsStartedAtOnce(t *testing.T) {
	m := New(testConfig)
	mine, other := Item{Capture, "shop"}, Item{Capture, "other"}
	wanted := []Item{mine, other}
	now := pos.Millis(0)
	for range 5 { // both fail again and again
		m.Step(Looked{Now: now, Wanted: wanted}, nil)
		now += 60_000
	}
	now -= 59_999
	for i := range 5 {
		if out := m.Step(Excused{Items: []Item{mine, {Writer, "never seen"}}}, nil); len(out) != 0 {
			t.Fatalf("to be told starts %v", out)
		}
		if got := m.Step(Looked{Now: now, Wanted: wanted}, nil); !slices.Equal(got, []Start{{Item: mine}}) {
			t.Fatalf("restart %d: started %v, want the one that was excused, as new", i, got)
		}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		now++
	}
}

// Nothing is remembered of what is not wanted any more: it starts at once when it is wanted
// again, and the map does not grow with every stream that ever was.
func TestWhatIsNotWantedIsForgotten(t *testing.T) {
	m := New(testConfig)
	item := Item{Writer, "a"}
	m.Step(Looked{Now: 0, Wanted: []Item{item}}, nil)
	m.Step(Looked{Now: 1}, nil)
	if len(m.items) != 0 {
		t.Errorf("remembered are %v", m.items)
	}
	if got := m.Step(Looked{Now: 2, Wanted: []Item{item}}, nil); !slices.Equal(got, []Start{{Item: item}}) {
		t.Errorf("wanted again it starts %v, want at once and as new", got)
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := New(testConfig), New(testConfig)
		last := map[Item]pos.Millis{}
		now := pos.Millis(0)
		items := []Item{{Tiering, ""}, {Writer, "a"}, {Writer, "b"}, {Capture, "c"}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += pos.Millis(rapid.IntRange(0, 30_000).Draw(t, "ms"))
			excused := Excused{Items: rapid.SliceOfN(rapid.SampledFrom(items), 0, 1).Draw(t, "excused")}
			if out := slices.Concat(m.Step(excused, nil), twin.Step(excused, nil)); len(out) != 0 {
				t.Fatalf("to be told starts %v", out)
			}
			for _, i := range excused.Items {
				delete(last, i)
			}
			in := Looked{
				Now:     now,
				Wanted:  rapid.SliceOf(rapid.SampledFrom(items)).Draw(t, "wanted"),
				Running: rapid.SliceOf(rapid.SampledFrom(items)).Draw(t, "running"),
			}
			out := m.Step(in, nil)
			if again := twin.Step(in, nil); !slices.Equal(out, again) {
				t.Fatalf("the same looks gave %v and %v", out, again)
			}
			if err := m.check(); err != nil {
				t.Fatal(err)
			}
			for _, i := range items {
				if !slices.Contains(in.Wanted, i) {
					delete(last, i)
				}
			}
			for _, s := range out {
				if !slices.Contains(in.Wanted, s.Item) || slices.Contains(in.Running, s.Item) {
					t.Fatalf("%v was started, wanted %v, running %v", s.Item, in.Wanted, in.Running)
				}
				if before, again := last[s.Item]; again && s.Tries > 0 && now.Sub(before) < testConfig.Interval {
					t.Fatalf("K1: %v was started again after %v", s.Item, now.Sub(before))
				}
				last[s.Item] = now
			}
		}
	})
}
