package metatest

import (
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
)

func pointerSwap(t *testing.T, m Store) {
	create(t, m, "s1", "one")
	_, err := m.Pointer(t.Context(), "s1")
	class(t, "Pointer before the first swap", err, port.NotFound)
	p := port.Pointer{Revision: 1, Epoch: 1 << 63, UID: 0xffffffffffffffff, Next: 1 << 62}
	must(t, m.SwapPointer(t.Context(), "s1", 0, p))
	got, err := m.Pointer(t.Context(), "s1")
	must(t, err)
	equal(t, "Pointer", got, p)
	p.Revision, p.UID = 2, 7 // the same epoch
	must(t, m.SwapPointer(t.Context(), "s1", 1, p))
	p.Revision, p.Epoch, p.Next = 90, p.Epoch+1, 3 // a later one, a jump, a lower next
	must(t, m.SwapPointer(t.Context(), "s1", 2, p))
	got, err = m.Pointer(t.Context(), "s1")
	must(t, err)
	equal(t, "Pointer", got, p)
}

func pointerGuard(t *testing.T, m Store) {
	create(t, m, "s1", "one")
	ctx := t.Context()
	class(t, "a first swap that expects one", m.SwapPointer(ctx, "s1", 1, port.Pointer{Revision: 2, Epoch: 5}), port.Conflict)
	want := port.Pointer{Revision: 4, Epoch: 5, UID: 1, Next: 10}
	must(t, m.SwapPointer(ctx, "s1", 0, want))
	for what, c := range map[string]struct {
		expected pos.Revision
		next     port.Pointer
	}{
		"expects none":        {0, port.Pointer{Revision: 5, Epoch: 5}},
		"expects an older":    {3, port.Pointer{Revision: 5, Epoch: 5}},
		"expects a newer":     {5, port.Pointer{Revision: 6, Epoch: 5}},
		"lets the epoch fall": {4, port.Pointer{Revision: 5, Epoch: 4}},
		"keeps the revision":  {4, port.Pointer{Revision: 4, Epoch: 5}},
		"lowers the revision": {4, port.Pointer{Revision: 3, Epoch: 5}},
	} {
		class(t, "a swap that "+what, m.SwapPointer(ctx, "s1", c.expected, c.next), port.Conflict)
	}
	got, err := m.Pointer(ctx, "s1")
	must(t, err)
	equal(t, "Pointer after refused swaps", got, want)
}

func pointerRevision(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	class(t, "a first swap with revision 0", m.SwapPointer(t.Context(), "s1", 0, port.Pointer{}), port.Conflict)
	must(t, m.SwapPointer(t.Context(), "s1", 0, port.Pointer{Revision: 8}))
	must(t, m.DeleteStream(t.Context(), "s1", s.Revision))
	class(t, "a swap after the deletion", m.SwapPointer(t.Context(), "s1", 0, port.Pointer{Revision: 9}), port.NotFound)
	_, err := m.Pointer(t.Context(), "s1")
	class(t, "Pointer after the deletion", err, port.NotFound)
}

func pointerStream(t *testing.T, m Store) {
	class(t, "SwapPointer without stream", m.SwapPointer(t.Context(), "none", 0, port.Pointer{Revision: 1}), port.NotFound)
	_, err := m.Pointer(t.Context(), "none")
	class(t, "Pointer without stream", err, port.NotFound)
	create(t, m, "s1", "one")
	create(t, m, "s10", "ten")
	must(t, m.SwapPointer(t.Context(), "s1", 0, port.Pointer{Revision: 1}))
	_, err = m.Pointer(t.Context(), "s10")
	class(t, "Pointer of another stream", err, port.NotFound)
	if s := read(t, m, "s1"); s.Revision != 1 {
		t.Errorf("a pointer moved the row's revision to %s", s.Revision)
	}
}

func anchored(t *testing.T, m Store, id pos.StreamID) bool {
	t.Helper()
	yes, err := m.Anchored(t.Context(), id)
	must(t, err)
	return yes
}

func anchor(t *testing.T, m Store) {
	class(t, "PutAnchor without stream", m.PutAnchor(t.Context(), "s1"), port.NotFound)
	s := create(t, m, "s1", "one")
	if anchored(t, m, "s1") || anchored(t, m, "none") {
		t.Error("anchored from the start")
	}
	must(t, m.PutAnchor(t.Context(), "s1"))
	must(t, m.PutAnchor(t.Context(), "s1"))
	if !anchored(t, m, "s1") || anchored(t, m, "s10") {
		t.Error("not anchored, or another stream is")
	}
	must(t, m.DeleteStream(t.Context(), "s1", s.Revision))
	if anchored(t, m, "s1") {
		t.Error("anchored after the deletion")
	}
}

func deleteStream(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	must(t, m.SwapPointer(t.Context(), "s1", 0, port.Pointer{Revision: 1}))
	must(t, m.PutAnchor(t.Context(), "s1"))
	must(t, m.DeleteStream(t.Context(), "s1", s.Revision))
	_, err := m.Stream(t.Context(), "s1")
	class(t, "Stream", err, port.NotFound)
	_, err = m.StreamByName(t.Context(), "one")
	class(t, "StreamByName", err, port.NotFound)
	class(t, "SwapStreams", m.SwapStreams(t.Context(), []port.Stream{s}), port.NotFound)
	class(t, "PutAnchor", m.PutAnchor(t.Context(), "s1"), port.NotFound)
	class(t, "DeleteStream again", m.DeleteStream(t.Context(), "s1", s.Revision), port.NotFound)
	queue, err := m.Deletions(t.Context())
	must(t, err)
	if len(queue) != 1 || queue[0].Stream != "s1" || queue[0].Name != "one" {
		t.Errorf("queue %v", queue)
	}
}

func deleteGuard(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	must(t, m.SwapPointer(t.Context(), "s1", 0, port.Pointer{Revision: 1}))
	must(t, m.PutAnchor(t.Context(), "s1"))
	class(t, "DeleteStream with a wrong revision", m.DeleteStream(t.Context(), "s1", s.Revision+1), port.Conflict)
	equal(t, "Stream", read(t, m, "s1"), s)
	if _, err := m.Pointer(t.Context(), "s1"); err != nil || !anchored(t, m, "s1") {
		t.Errorf("a refused deletion took the pointer (%v) or the anchor", err)
	}
	queue, err := m.Deletions(t.Context())
	must(t, err)
	if len(queue) != 0 {
		t.Errorf("a refused deletion was enqueued: %v", queue)
	}
}

func deletions(t *testing.T, m Store) {
	for _, id := range []pos.StreamID{"s3", "s1", "s2"} {
		s := create(t, m, id, "name of "+id.String())
		must(t, m.DeleteStream(t.Context(), id, s.Revision))
	}
	check := func(want ...pos.StreamID) {
		t.Helper()
		queue, err := m.Deletions(t.Context())
		must(t, err)
		var got []pos.StreamID
		for _, d := range queue {
			got = append(got, d.Stream)
		}
		equal(t, "the queue", got, want)
	}
	check("s3", "s1", "s2")
	must(t, m.FinishDeletion(t.Context(), "s1"))
	must(t, m.FinishDeletion(t.Context(), "s1"))
	must(t, m.FinishDeletion(t.Context(), "none"))
	check("s3", "s2")
}

func captures(t *testing.T, m Store) {
	_, err := m.Capture(t.Context(), "c")
	class(t, "Capture before it is created", err, port.NotFound)
	c := port.Capture{Name: "c", Stream: "s1", SystemID: "7412345678901234567", Timeline: 3, Slot: "slot",
		Phase: port.CaptureLoading, ConsistentLSN: 1<<64 - 1, EventLSN: 2, EventSeq: 1 << 62, EventOffset: pos.NoOffset}
	must(t, m.SwapCapture(t.Context(), c))
	c.Revision = 1
	got, err := m.Capture(t.Context(), "c")
	must(t, err)
	equal(t, "Capture", got, c)
	stale := c
	stale.Slot = "thief"
	for _, revision := range []pos.Revision{0, 2} {
		stale.Revision = revision
		class(t, "SwapCapture with a wrong revision", m.SwapCapture(t.Context(), stale), port.Conflict)
	}
	other := port.Capture{Name: "other", Revision: 1}
	class(t, "SwapCapture of a missing one", m.SwapCapture(t.Context(), other), port.Conflict)
	c.Phase = port.CaptureStreaming
	must(t, m.SwapCapture(t.Context(), c))
	c.Revision = 2
	got, err = m.Capture(t.Context(), "c")
	must(t, err)
	equal(t, "Capture", got, c)
	must(t, m.DeleteCapture(t.Context(), "c"))
	must(t, m.DeleteCapture(t.Context(), "c"))
	_, err = m.Capture(t.Context(), "c")
	class(t, "Capture after its deletion", err, port.NotFound)
	class(t, "SwapCapture after its deletion", m.SwapCapture(t.Context(), c), port.Conflict)
}

func settings(t *testing.T, m Store) {
	_, err := m.Setting(t.Context(), "tiering.enabled")
	class(t, "Setting before it is put", err, port.NotFound)
	for _, value := range []string{"false", "", "true"} {
		must(t, m.PutSetting(t.Context(), "tiering.enabled", value))
		got, err := m.Setting(t.Context(), "tiering.enabled")
		must(t, err)
		equal(t, "Setting", got, value)
	}
}

// copies changes what was handed in and what came back, and looks again.
func copies(t *testing.T, m Store) {
	given := row("s1", "one")
	s, err := m.CreateStream(t.Context(), given)
	must(t, err)
	spoil := func(s port.Stream) {
		s.Arguments["x"] = "spoiled"
		s.Members[0].Node = "spoiled"
	}
	spoil(given)
	spoil(s)
	spoil(read(t, m, "s1"))
	all, err := m.Streams(t.Context())
	must(t, err)
	spoil(all[0])
	changed, _, err := m.ChangedSince(t.Context(), 0)
	must(t, err)
	spoil(changed[0])
	byName, err := m.StreamByName(t.Context(), "one")
	must(t, err)
	spoil(byName)
	next := read(t, m, "s1")
	must(t, m.SwapStreams(t.Context(), []port.Stream{next}))
	spoil(next)
	got := read(t, m, "s1")
	if got.Arguments["x"] == "spoiled" || got.Members[0].Node == "spoiled" {
		t.Errorf("the store shares memory with its callers: %+v", got)
	}
}

func sessions(t *testing.T, m Store) {
	ctx := t.Context()
	_, err := m.Renew(ctx, "n1", 1, time.Minute)
	class(t, "Renew before Register", err, port.NotFound)
	for _, s := range []port.Session{{Node: "n2", Data: 2, Nonce: 2}, {Node: "n1", Data: 1, Nonce: 1}} {
		got, err := m.Register(ctx, s, time.Hour)
		must(t, err)
		s.Expires = got.Expires
		equal(t, "Register", got, s)
	}
	live, err := m.Sessions(ctx)
	must(t, err)
	if len(live) != 2 || live[0].Node != "n1" || live[1].Nonce != 2 || live[0].Expires.IsZero() {
		t.Fatalf("Sessions: %v", live)
	}
	renewed, err := m.Renew(ctx, "n1", 1, 2*time.Hour)
	must(t, err)
	if renewed.Expires <= live[0].Expires {
		t.Errorf("Renew moved the end from %s to %s", live[0].Expires, renewed.Expires)
	}
	_, err = m.Register(ctx, port.Session{Node: "n1", Data: 1, Nonce: 3}, time.Hour)
	must(t, err)
	_, err = m.Renew(ctx, "n1", 1, time.Hour)
	class(t, "Renew by the former process", err, port.NotFound)
	_, err = m.Register(ctx, port.Session{Node: "n2", Data: 2, Nonce: 2}, 0)
	must(t, err)
	live, err = m.Sessions(ctx)
	must(t, err)
	if len(live) != 1 || live[0].Nonce != 3 {
		t.Errorf("Sessions after one ended: %v", live)
	}
}

func lease(t *testing.T, m Store) {
	ctx := t.Context()
	first, err := m.AcquireLease(ctx, "coordinator", "n1", 1, time.Hour)
	must(t, err)
	equal(t, "AcquireLease", first, port.Lease{Name: "coordinator", Holder: "n1", Nonce: 1, Token: first.Token, Expires: first.Expires})
	_, err = m.AcquireLease(ctx, "coordinator", "n2", 2, time.Hour)
	class(t, "AcquireLease while another holds it", err, port.Conflict)
	_, err = m.AcquireLease(ctx, "coordinator", "n1", 9, time.Hour)
	class(t, "AcquireLease by the same node's next process", err, port.Conflict)
	_, err = m.AcquireLease(ctx, "other", "n2", 2, time.Hour)
	must(t, err)
	renewed, err := m.AcquireLease(ctx, "coordinator", "n1", 1, 0)
	must(t, err)
	if renewed.Token != first.Token {
		t.Errorf("renewing changed the token from %d to %d", first.Token, renewed.Token)
	}
	next, err := m.AcquireLease(ctx, "coordinator", "n2", 2, time.Hour)
	must(t, err)
	if next.Token <= first.Token || next.Holder != "n2" {
		t.Errorf("the next holder got %+v after %+v", next, first)
	}
}
