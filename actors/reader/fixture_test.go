package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/fetch"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakestore"
)

const (
	stream = pos.StreamID("__s_1")
	prefix = "mr"
)

// fixture is a node with one stream, whose log and uploads the test does by hand.
type fixture struct {
	t       *testing.T
	sys     *actors.System
	disk    *fakedisk.Disk
	store   *fakestore.Store
	meta    *fakemeta.Meta
	hooks   *hooks.Hooks
	log     *hooks.Log
	tiering bool
	why     string
	rows    rowMap
	budget  *Budget
	metrics counts
	ranges  int64
	reads   port.ObjectStore // nil: store

	chunks   [][]byte // all there ever were
	refs     []segment.ChunkRef
	segments []pos.Offset
	first    pos.Offset
	next     pos.Offset
	size     int64 // of the active segment
	live     *manifest.Manifest
	uid      pos.UID
}

// rowMap is a port.Manifests.
type rowMap struct {
	mu  sync.Mutex
	row *manifest.Row
}

func (m *rowMap) Manifest(pos.StreamID) (manifest.Row, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.row == nil {
		return manifest.Row{}, false
	}
	return *m.row, true
}

// counts is a port.Metrics.
type counts struct {
	mu sync.Mutex
	n  map[string]int64
}

func (c *counts) Count(name string, delta int64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int64{}
	}
	for i := 1; i < len(labels); i += 2 {
		name += "/" + labels[i]
	}
	c.n[name] += delta
}

func (c *counts) get(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

func (*counts) Gauge(string, float64, ...string) {}
func (*counts) Forget(...string)                 {}

func newFixture(t *testing.T) *fixture {
	f := &fixture{
		t: t, sys: actors.NewSystem(7), disk: fakedisk.New(), store: fakestore.New(), meta: fakemeta.New(),
		hooks: hooks.New(), tiering: true, budget: NewBudget(1 << 20), live: manifest.New(0),
	}
	release, err := f.disk.Lease(t.Context(), string(stream))
	f.must(err)
	release()
	f.up(1)
	f.publishRow()
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// up makes the log run in a new epoch.
func (f *fixture) up(epoch pos.Epoch) {
	if f.log != nil {
		f.hooks.Gone(f.log)
		f.log.End()
	}
	f.log = hooks.NewLog(hooks.LogSpec{Stream: stream, Name: "s", Epoch: epoch})
	if len(f.segments) == 0 {
		f.roll()
	}
	f.publish()
	f.hooks.Up(f.log)
}

func (f *fixture) roll() {
	for name, header := range map[string][]byte{segment.FileName(f.next): segment.FileHeader(), segment.IndexName(f.next): segment.IndexHeader()} {
		file, err := f.disk.Create(string(stream), name)
		f.must(err)
		f.write(file, header, 0)
	}
	f.segments = append(f.segments, f.next)
	f.size = segment.FileHeaderSize
}

func (f *fixture) write(file port.File, b []byte, at int64) {
	_, err := file.WriteAt(b, at)
	f.must(err)
	f.must(file.Close())
}

func (f *fixture) publish() {
	last := pos.NoOffset
	if n := len(f.refs); n > 0 {
		last = f.refs[n-1].Header.ID
	}
	f.log.Publish(&segment.Publish{
		View:     segment.View{First: f.first, Committed: f.next, Synced: f.next, Last: f.next, LastChunk: last},
		Segments: append([]pos.Offset(nil), f.segments...),
	})
}

// append writes and commits chunks of two records each.
func (f *fixture) append(n int) {
	for range n {
		b := chunk.NewBuilder(16)
		for i := range 2 {
			b.Add(fmt.Appendf(nil, "record %d", int(f.next)+i), nil)
		}
		f.appendChunk(bytes.Clone(b.Seal(f.next, f.log.Epoch, pos.Millis(10*f.next), nil)))
	}
}

func (f *fixture) appendChunk(b []byte) {
	h, err := chunk.ParseHeader(b)
	f.must(err)
	active := f.segments[len(f.segments)-1]
	file, err := f.disk.Open(string(stream), segment.FileName(active), true)
	f.must(err)
	f.write(file, b, f.size)
	f.chunks = append(f.chunks, b)
	f.refs = append(f.refs, segment.ChunkRef{Header: h, Segment: active, Position: f.size, Size: h.Size()})
	f.size += h.Size()
	f.next = h.Next()
	f.publish()
}

// trim removes all segments but the active one.
func (f *fixture) trim() {
	if f.segments[len(f.segments)-1] != f.next {
		f.roll()
	}
	gone := f.segments[:len(f.segments)-1]
	f.segments = f.segments[len(gone):]
	f.first = f.segments[0]
	f.publish()
	for _, s := range gone {
		f.must(f.disk.Remove(string(stream), segment.FileName(s)))
		f.must(f.disk.Remove(string(stream), segment.IndexName(s)))
	}
}

// upload stores what follows the manifest, n chunks a fragment.
func (f *fixture) upload(n int) {
	a := fragment.New(fragment.Config{TargetBytes: 1 << 40})
	data := fragment.Header()
	flush := func() {
		if a.Empty() {
			return
		}
		fr := a.Cut()
		f.uid++
		fr.UID = f.uid
		tail, crc := fragment.Tail(&fr, fragment.Checksum(0, data))
		object := append(data, tail...)
		f.must(f.store.Put(context.Background(), fragment.Key(prefix, stream, fr.First, fr.UID), port.NewBody(bytes.NewReader(object), crc), int64(len(object)), true))
		m, err := f.live.Apply(manifest.AppendEdit(f.live, manifest.EntryOf(&fr)))
		f.must(err)
		f.live, data = m, fragment.Header()
	}
	count := 0
	for i, ref := range f.refs {
		if ref.Header.ID < f.live.Next {
			continue
		}
		f.must(a.Add(ref, 0))
		data = append(data, f.chunks[i]...)
		if count++; count%n == 0 {
			flush()
		}
	}
	flush()
	f.publishRow()
}

func (f *fixture) publishRow() {
	f.setRow(&manifest.Row{State: manifest.StateResolved, Seq: pos.Revision(f.uid), Manifest: f.live})
}

func (f *fixture) setRow(row *manifest.Row) {
	f.rows.mu.Lock()
	defer f.rows.mu.Unlock()
	f.rows.row = row
}

// start opens a reader; it is stopped, and everything it held must be free, when the
// test ends.
func (f *fixture) start(spec resolve.Spec, owner *actors.Handle) *actors.Handle {
	var store port.ObjectStore = f.store
	if f.reads != nil {
		store = f.reads
	}
	h, err := f.sys.Start(context.Background(), actors.Spec{Path: "reader", New: func() actors.Process {
		return New(Config{
			Stream: stream, Spec: spec, Owner: owner, Prefix: prefix, Hooks: f.hooks, Disk: f.disk, Store: store,
			Manifests: &f.rows, Metadata: f.meta, Tiering: func() bool { return f.tiering }, Why: func() string { return f.why },
			Budget: f.budget, Metrics: &f.metrics, Log: zerolog.Nop(), RangeBytes: f.ranges,
		})
	}})
	f.must(err)
	return h
}

func (f *fixture) stop(h *actors.Handle) {
	h.Stop(actors.Reason{Kind: actors.Shutdown})
	<-h.Gone()
	if used := f.budget.Used(); used != 0 {
		f.t.Errorf("%d bytes of the budget are still in use", used)
	}
}

// consumer checks what a reader hands out.
type consumer struct {
	f    *fixture
	h    *actors.Handle
	at   pos.Offset
	seen int
	far  int // chunks from the object store
}

func (f *fixture) consume(h *actors.Handle) *consumer { return &consumer{f: f, h: h, at: pos.NoOffset} }

func (c *consumer) pull(maxBytes int, wait time.Duration) (fetch.Chunks, error) {
	c.f.t.Helper()
	answer, err := c.h.Call(context.Background(), fetch.Pull{MaxBytes: maxBytes, Wait: wait})
	if err != nil {
		return fetch.Chunks{}, err
	}
	got := answer.(fetch.Chunks)
	if c.at.Valid() && got.From != c.at {
		c.f.t.Fatalf("the answer begins at %d, the consumer stands at %d", got.From, c.at)
	}
	at := got.From
	if got.Moved != nil {
		at = got.Moved.To
	}
	for _, b := range got.Chunks {
		at = c.take(b, at)
	}
	c.at = got.Next
	if got.Remote {
		c.far += len(got.Chunks)
	}
	return got, nil
}

// take holds a chunk to what was written, and to follow the one before it.
func (c *consumer) take(b []byte, at pos.Offset) pos.Offset {
	c.f.t.Helper()
	for i, ref := range c.f.refs {
		h := ref.Header
		if !bytes.Equal(b, c.f.chunks[i]) {
			continue
		}
		if h.ID > at || h.Next() <= at || c.seen > 0 && h.ID != at {
			c.f.t.Fatalf("chunk [%d, %d) came at %d", h.ID, h.Next(), at)
		}
		c.seen++
		return h.Next()
	}
	c.f.t.Fatalf("a chunk came that was never written: %x", b)
	return at
}

// until pulls until the consumer stands at o; errors that pass are waited for.
func (c *consumer) until(o pos.Offset) {
	c.f.t.Helper()
	for range 1000 {
		if c.at == o {
			return
		}
		_, err := c.pull(1, time.Minute)
		var failure *fetch.Error
		if errors.As(err, &failure) && !failure.Lasting() {
			continue
		}
		c.f.must(err)
	}
	c.f.t.Fatalf("the consumer stands at %d, does not reach %d: %+v", c.at, o, c.h.Status())
}
