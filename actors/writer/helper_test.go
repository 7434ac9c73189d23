package writer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/actors/writer"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/registry"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakestate"
)

const (
	stream = pos.StreamID("__orders_1")
	node   = pos.NodeID("n1")
)

// world is one node's outside, and the process that runs in it.
type world struct {
	t     testing.TB
	disk  *fakedisk.Disk
	meta  *fakemeta.Meta
	state *fakestate.State

	sys   *actors.System
	reg   *registry.Registry
	hooks *hooks.Hooks
	h     *actors.Handle
	uids  uint64
	cfg   segment.Config
	tune  func(*writer.Config)
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, disk: fakedisk.New(), meta: fakemeta.New(), state: fakestate.New(node)}
	if _, err := w.meta.CreateStream(context.Background(), port.Stream{ID: stream, Name: "orders", Phase: port.PhaseNew}); err != nil {
		t.Fatal(err)
	}
	return w
}

// bubble runs f in a synctest bubble on a new world, and ends what is left of it.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f(t, w)
		w.kill()
	})
}

// start starts a writer and lets it settle.
func (w *world) start() {
	w.t.Helper()
	w.sys, w.reg, w.hooks = actors.NewSystem(7), registry.New(), hooks.New()
	cfg := writer.Config{
		Stream: stream, Node: node, Log: w.cfg, Disk: w.disk, Metadata: w.meta, State: w.state,
		Hooks: w.hooks, Registry: w.reg, Logger: zerolog.Nop(),
		UID: func() pos.UID { w.uids++; return pos.UID(w.uids) },
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	h, err := w.sys.Start(context.Background(), actors.Spec{Path: "node/log/orders", New: func() actors.Process { return writer.New(cfg) }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.h = h
	synctest.Wait()
}

// stop ends the writer in good order.
func (w *world) stop() {
	w.h.Stop(actors.Reason{Kind: actors.Shutdown})
	<-w.h.Done()
	w.sys.Close()
	synctest.Wait()
}

// kill ends the writer as kill -9 does: the disk is the next process's.
func (w *world) kill() {
	if w.h == nil {
		return
	}
	w.h.Kill()
	<-w.h.Gone()
	w.sys.Close()
	w.h = nil
	synctest.Wait()
}

// crash ends the process and leaves what kill -9 leaves of the disk.
func (w *world) crash() {
	disk := w.disk.KillClone()
	w.kill()
	w.disk, w.state = disk, w.state.Restart(false)
}

func (w *world) log() *hooks.Log {
	w.t.Helper()
	l, ok := w.hooks.Lookup(stream)
	if !ok {
		w.t.Fatalf("the log is not up: %+v", w.status())
	}
	return l
}

func (w *world) status() segment.Status {
	w.t.Helper()
	s, ok := w.h.Status().(segment.Status)
	if !ok {
		w.t.Fatal("the writer has no status")
	}
	return s
}

// append appends bodies and waits for the answer.
func (w *world) append(bodies ...string) segment.Appended {
	w.t.Helper()
	a, err := w.ask(pos.NoOffset, bodies...)
	if err != nil {
		w.t.Fatal(err)
	}
	got, ok := a.(segment.Appended)
	if !ok {
		w.t.Fatalf("answer %+v", a)
	}
	return got
}

func (w *world) ask(expect pos.Offset, bodies ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return w.h.Call(ctx, segment.Append{ExpectNext: expect, Records: records(bodies...)})
}

func records(bodies ...string) (rs []segment.Record) {
	for _, b := range bodies {
		rs = append(rs, segment.Record{Body: []byte(b)})
	}
	return rs
}

// numbered is n bodies that tell their number.
func numbered(from, n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("record %d", from+i))
	}
	return bodies
}

// read reads the log's records from an offset with a cursor, one entry per offset.
func (w *world) read(from pos.Offset) []string {
	w.t.Helper()
	c, err := hooks.OpenCursor(w.disk, w.log(), from)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	bodies, err := drain(c, from)
	if err != nil {
		w.t.Fatal(err)
	}
	return bodies
}

func drain(c *hooks.Cursor, from pos.Offset) (bodies []string, err error) {
	next := pos.NoOffset
	for {
		ref, b, err := c.Read(nil)
		if err != nil {
			if strings.Contains(err.Error(), "EOF") {
				return bodies, nil
			}
			return bodies, err
		}
		if next != pos.NoOffset && ref.Header.ID != next {
			return bodies, fmt.Errorf("chunk %s after %s", ref.Header.ID, next)
		}
		next = ref.Header.Next()
		for r, err := range chunk.Records(b) {
			if err != nil {
				return bodies, err
			}
			if r.Offset >= from {
				bodies = append(bodies, string(r.Body))
			}
		}
	}
}

// names lists the folder's files.
func (w *world) names() (names []string) {
	w.t.Helper()
	infos, err := w.disk.List(string(stream))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range infos {
		names = append(names, f.Name)
	}
	return names
}

// bytes reads a whole file.
func (w *world) bytes(name string) []byte {
	w.t.Helper()
	f, err := w.disk.Open(string(stream), name, false)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		w.t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		w.t.Fatal(err)
	}
	return b
}

// put writes a whole file, durably.
func (w *world) put(name string, b []byte) {
	w.t.Helper()
	f, err := w.disk.Open(string(stream), name, true)
	if errors.Is(err, port.NotFound) {
		f, err = w.disk.Create(string(stream), name)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), w.disk.SyncDir(string(stream)))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) replica() port.Replica {
	w.t.Helper()
	r, _, err := w.state.Replica(context.Background(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) row() port.Stream {
	w.t.Helper()
	row, err := w.meta.Stream(context.Background(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

func (w *world) setPointer(next pos.Offset) {
	w.t.Helper()
	if err := w.meta.SwapPointer(context.Background(), stream, 0, port.Pointer{Revision: 1, Epoch: 1, UID: 1, Next: next}); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets the bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }
