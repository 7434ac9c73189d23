package replicareader

import (
	"context"
	"errors"
	"testing"
	"time"

	"millrace/actors"
	"millrace/core/upload"
)

func cutNow(h *actors.Handle) (upload.CutAnswer, error) {
	a, err := h.Call(context.Background(), upload.CutNow{For: 5 * time.Second})
	cut, _ := a.(upload.CutAnswer)
	return cut, err
}

// What was appended just before is cut as well, though the log is being read in pieces,
// and reaches the store without its age.
func TestACutOnRequest(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(1)
		b.pass(time.Millisecond)
		b.grow(2)
		cut, err := cutNow(h)
		if err != nil || cut.Refused != upload.CutOK || cut.First != 20 || cut.Next != 30 || cut.Chunks != 1 || cut.Bytes != b.sizeOfChunk() {
			t.Fatalf("cut %+v, %v", cut, err)
		}
		start := time.Now()
		b.until(30)
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("it took %s", took)
		}
		b.verify()
		if cut, err := cutNow(h); err != nil || cut != (upload.CutAnswer{First: 30, Next: 30}) {
			t.Fatalf("when nothing waits: %+v, %v", cut, err)
		}
	})
}

// A log that can't be read does not hold up who asked.
func TestACutOnRequestHasItsTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(1)
		b.pass(time.Second)
		b.files.read = func(string, []byte, int64) (int, bool, error) { return 0, true, errors.New("disk on fire") }
		b.grow(1)
		start := time.Now()
		cut, err := cutNow(h)
		if err != nil || cut.Refused != upload.CutUnread || time.Since(start) != 5*time.Second {
			t.Fatalf("%+v after %s, %v", cut, time.Since(start), err)
		}
	})
}

// Item 47: what it answers when it is asked is its state now.
func TestItem47ItDescribesItself(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(3)
		b.pass(time.Second)
		a, err := h.Call(context.Background(), upload.Describe{})
		s, ok := a.(upload.Status)
		if err != nil || !ok || s.Fragment.First != 20 || s.Fragment.Chunks != 1 || s.Fragment.Target != perFragment*b.sizeOfChunk() ||
			s.Fragment.Payload <= 0 || s.Fragment.Payload >= s.Fragment.Bytes {
			t.Fatalf("described %+v, %v", a, err)
		}
		h.Kill()
		if _, err := h.Call(context.Background(), upload.Describe{}); err == nil {
			t.Fatal("a dead one answers")
		}
	})
}
