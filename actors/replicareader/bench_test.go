package replicareader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/collect"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/hooks"
	"millrace/registry"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakestore"
)

// The tests' log: chunks of 10 records, 5 chunks in a segment, 2 in a fragment.
const (
	streamID    = pos.StreamID("__s_1")
	prefix      = "p"
	perChunk    = 10
	perSegment  = 5
	perFragment = 2
)

// bench is a local log and everything around one replica reader.
type bench struct {
	t     *testing.T
	sys   *actors.System
	reg   *registry.Registry
	disk  *fakedisk.Disk
	files *counted
	store *fakestore.Store
	meta  *fakemeta.Meta
	table *table

	writer, replica, governor, reaper *actors.Handle
	log                               *hooks.Log
	epoch                             pos.Epoch
	segments                          []pos.Offset
	first, next                       pos.Offset
	at                                int64
	bytes                             map[pos.Offset][]byte // every chunk ever written

	anchored atomic.Bool // seen at the first put
	disowned atomic.Bool // what a reader finds when it starts

	mu      sync.Mutex
	seams   []pos.Offset
	deletes []collect.Delete
	bad     []string // broken promises
}

// inBubble runs f with a bench whose log is empty.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, sys: actors.NewSystem(7), reg: registry.New(), disk: fakedisk.New(), store: fakestore.New(), meta: fakemeta.New(),
			table: &table{rows: map[pos.StreamID]manifest.Row{}}, bytes: map[pos.Offset][]byte{}, epoch: 1,
		}
		defer b.sys.Close()
		b.files = &counted{Disk: b.disk}
		b.store.After = b.anchorFirst
		_, err := b.meta.CreateStream(context.Background(), port.Stream{ID: streamID, Name: "s", Phase: port.PhaseReady})
		b.must(err)
		release, err := b.disk.Lease(context.Background(), string(streamID))
		b.must(err)
		defer release()
		b.startWriter()
		b.startReplica()
		b.startGovernor()
		b.reaper = b.process("reaper", func(c *actors.Context, msg any) {
			if d, ok := msg.(collect.Delete); ok {
				b.mu.Lock()
				b.deletes = append(b.deletes, d)
				b.mu.Unlock()
			}
		})
		f(b)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, what := range b.bad {
			t.Error(what)
		}
	})
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) broken(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = append(b.bad, fmt.Sprintf(format, args...))
}

// anchorFirst holds everybody to the rule that no object precedes the anchor.
func (b *bench) anchorFirst(op, what string) error {
	if op == "put" && !b.anchored.Load() {
		ok, err := b.meta.Anchored(context.Background(), streamID)
		if err != nil || !ok {
			b.broken("%s was put before the anchor (%v)", what, err)
		}
		b.anchored.Store(true)
	}
	return nil
}

// process starts a stand-in for another role.
func (b *bench) process(kind string, handle func(c *actors.Context, msg any)) *actors.Handle {
	b.t.Helper()
	h, err := b.sys.Start(context.Background(), actors.Spec{Path: kind, New: func() actors.Process {
		return &standIn{init: func(c *actors.Context) error {
			if !b.reg.Register(c, registry.Name{Kind: kind, Node: "n"}) {
				return errors.New("name taken")
			}
			return nil
		}, handle: handle}
	}})
	b.must(err)
	return h
}

type standIn struct {
	init   func(c *actors.Context) error
	handle func(c *actors.Context, msg any)
}

func (s *standIn) Init(c *actors.Context) error { return s.init(c) }

func (s *standIn) Handle(c *actors.Context, msg any) *actors.Reason {
	s.handle(c, msg)
	return nil
}

func (s *standIn) Terminate(*actors.Context, actors.Reason) {}

// startWriter starts a writer of the next epoch on the log as it is.
func (b *bench) startWriter() {
	b.epoch++
	b.writer = b.process("writer", func(c *actors.Context, msg any) {
		switch msg := msg.(type) {
		case segment.Seam:
			b.seam(msg.Next)
		case segment.Status:
			c.SetStatus(msg)
		}
	})
	b.log = hooks.NewLog(hooks.LogSpec{Stream: streamID, Name: "s", Epoch: b.epoch, Writer: b.writer})
	b.publish()
}

// seam holds the replica reader to the rule that the writer hears of nothing that
// the node's row or the store does not have. A pending row is no breach: a successor
// may have put it while the seam was on its way, and readers wait for it.
func (b *bench) seam(next pos.Offset) {
	if next == 0 { // it trusts the store for nothing
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seams = append(b.seams, next)
		return
	}
	if row, ok := b.table.Manifest(streamID); !ok || row.State == manifest.StateResolved && row.Manifest.Next < next {
		b.broken("seam %s, the row has %+v", next, row)
	}
	if stored := b.stored(); stored.Next < next {
		b.broken("seam %s, the store has %s", next, stored.Next)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seams = append(b.seams, next)
}

func (b *bench) lastSeam() pos.Offset {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seams) == 0 {
		return pos.NoOffset
	}
	return b.seams[len(b.seams)-1]
}

func (b *bench) publish() {
	last := pos.NoOffset
	if b.next > b.first {
		last = b.next - perChunk
	}
	b.log.Publish(&segment.Publish{
		View:     segment.View{First: b.first, Committed: b.next, Synced: b.next, Last: b.next, LastChunk: last},
		Segments: slices.Clone(b.segments),
	})
}

// grow appends chunks to the log.
func (b *bench) grow(chunks int) {
	b.t.Helper()
	for range chunks {
		b.add(perChunk)
	}
	b.publish()
}

// growBy appends one chunk of that many records.
func (b *bench) growBy(records int) {
	b.t.Helper()
	b.add(records)
	b.publish()
}

// add writes a chunk behind the last one.
func (b *bench) add(records int) {
	b.t.Helper()
	if len(b.segments) == 0 || b.next-b.segments[len(b.segments)-1] >= perChunk*perSegment {
		b.segments = append(b.segments, b.next)
		f, err := b.disk.Create(string(streamID), segment.FileName(b.next))
		b.must(err)
		b.write(f, segment.FileHeader(), 0)
		b.at = segment.FileHeaderSize
	}
	f, err := b.disk.Open(string(streamID), segment.FileName(b.segments[len(b.segments)-1]), true)
	b.must(err)
	c := b.chunk(records)
	b.write(f, c, b.at)
	b.at += int64(len(c))
	b.bytes[b.next] = c
	b.next += pos.Offset(records)
}

func (b *bench) chunk(records int) []byte {
	builder := chunk.NewBuilder(0)
	for i := range records {
		builder.Add(fmt.Appendf(nil, "record %08d", int(b.next)+i), nil)
	}
	return bytes.Clone(builder.Seal(b.next, b.epoch, pos.MillisOf(time.Now()), nil))
}

func (b *bench) write(f port.File, p []byte, at int64) {
	b.t.Helper()
	_, err := f.WriteAt(p, at)
	b.must(errors.Join(err, f.Close()))
}

// trim removes the segments below first, as local retention does.
func (b *bench) trim(first pos.Offset) {
	b.t.Helper()
	gone := b.segments[:slices.Index(b.segments, first)]
	b.segments, b.first = b.segments[len(gone):], first
	b.publish()
	for _, s := range gone {
		b.must(b.disk.Remove(string(streamID), segment.FileName(s)))
	}
}

// table is a stand-in for the manifest replica's.
type table struct {
	mu   sync.Mutex
	rows map[pos.StreamID]manifest.Row
	deaf bool // what comes is not applied
}

func (t *table) Manifest(id pos.StreamID) (manifest.Row, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[id]
	return row, ok
}

func (t *table) setDeaf(deaf bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf = deaf
}

func (b *bench) startReplica() {
	b.table.mu.Lock()
	clear(b.table.rows)
	b.table.mu.Unlock()
	b.replica = b.process("manifest_replica", func(_ *actors.Context, msg any) {
		b.table.mu.Lock()
		defer b.table.mu.Unlock()
		if !b.table.deaf {
			b.row(msg)
		}
	})
}

func (b *bench) row(msg any) {
	rows := b.table.rows
	switch msg := msg.(type) {
	case manifest.Pending:
		rows[msg.Stream] = manifest.Row{Epoch: msg.Epoch}
	case manifest.Sync:
		if stored := b.stored(); msg.Seq > stored.Revision {
			b.broken("shown is revision %s, the store has %s", msg.Seq, stored.Revision)
		}
		rows[msg.Stream] = manifest.Row{State: manifest.StateResolved, Epoch: msg.Epoch, Seq: msg.Seq, Manifest: msg.Manifest}
	case manifest.Edits:
		row := rows[msg.Stream]
		if row.State != manifest.StateResolved || row.Epoch != msg.Epoch || row.Seq+1 != msg.Seq {
			b.broken("edits %s do not follow %+v", msg.Seq, row)
			return
		}
		next, err := row.Manifest.Apply(msg.Edits...)
		if err != nil {
			b.broken("%v", err)
			return
		}
		row.Seq, row.Manifest = msg.Seq, next.Stamped(msg.Epoch, msg.Seq)
		rows[msg.Stream] = row
	case manifest.Forget:
		delete(rows, msg.Stream)
	}
}

// startGovernor starts one that grants everything at once.
func (b *bench) startGovernor() {
	b.governor = b.process("governor", func(_ *actors.Context, msg any) {
		if s, ok := msg.(pace.Submit); ok {
			h, _ := b.reg.WhereIs(registry.Name{Kind: "replica_reader", ID: string(s.Owner.Stream), Node: "n"})
			h.Send(pace.Granted{Ref: s.Ref})
		}
	})
}

// start starts a replica reader on the present log.
func (b *bench) start(change ...func(*Config)) *actors.Handle {
	b.t.Helper()
	cfg := Config{
		Node: "n", Local: b.log, Registry: b.reg, Disk: b.files, Store: b.store, Metadata: b.meta, Manifests: b.table,
		Metrics: noMetrics{}, Log: zerolog.Nop(), Prefix: prefix,
		Owned:    func() bool { return !b.disowned.Load() },
		Fragment: fragment.Config{TargetBytes: perFragment * b.sizeOfChunk(), MaxAge: 5 * time.Minute},
	}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.Uploads == nil {
		cfg.Uploads = cfg.Store
	}
	h, err := b.sys.Start(context.Background(), actors.Spec{Path: "replica_reader", New: func() actors.Process { return New(cfg) }})
	b.must(err)
	return h
}

func (b *bench) sizeOfChunk() int64 { return int64(len(b.chunk(perChunk))) }

type noMetrics struct{}

func (noMetrics) Count(string, int64, ...string)   {}
func (noMetrics) Gauge(string, float64, ...string) {}
func (noMetrics) Forget(...string)                 {}

// stored returns the manifest that the pointer names.
func (b *bench) stored() *manifest.Manifest {
	p, err := b.meta.Pointer(context.Background(), streamID)
	if port.IsNotFound(err) {
		return manifest.New(0)
	}
	body, ok := b.store.Object(manifest.RootKey(prefix, streamID, p.Epoch, p.Revision, p.UID))
	if !ok {
		b.broken("the pointer's root of revision %s is not there", p.Revision)
		return manifest.New(0)
	}
	root, err := manifest.Decode(body)
	if err != nil {
		b.broken("%v", err)
		return manifest.New(0)
	}
	return root
}

// verify compares every fragment of the store with what was written to the log, and
// returns the manifest.
func (b *bench) verify() *manifest.Manifest {
	b.t.Helper()
	root := b.stored()
	for _, e := range root.Entries {
		object, ok := b.store.Object(fragment.Key(prefix, streamID, e.First, e.UID))
		if !ok {
			b.t.Fatalf("fragment [%s, %s) is not there", e.First, e.Next)
		}
		_, size, err := fragment.Verify(object)
		if err != nil || size != e.Size {
			b.t.Fatalf("fragment [%s, %s) has %d bytes of chunks, want %d: %v", e.First, e.Next, size, e.Size, err)
		}
		var want []byte
		for o := e.First; o < e.Next; {
			h, err := chunk.ParseHeader(b.bytes[o])
			b.must(err)
			want, o = append(want, b.bytes[o]...), h.Next()
		}
		if !bytes.Equal(object[fragment.DataStart:fragment.DataStart+size], want) {
			b.t.Fatalf("fragment [%s, %s) is not what was written", e.First, e.Next)
		}
	}
	return root
}

// until waits for the seam to reach next, and fails after an hour.
func (b *bench) until(next pos.Offset) {
	b.t.Helper()
	for range 36_000 {
		synctest.Wait()
		if b.stored().Next >= next && b.lastSeam() >= next {
			return
		}
		b.pass(100 * time.Millisecond)
	}
	b.t.Fatalf("the store has %s, the seam is %s, want %s", b.stored().Next, b.lastSeam(), next)
}

// pass lets virtual time pass.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bench) status(h *actors.Handle) upload.Status {
	s, _ := h.Status().(upload.Status)
	return s
}

// counted counts the files that are open, and can make reading fail.
type counted struct {
	port.Disk
	mu   sync.Mutex
	open int
	read func(name string, p []byte, off int64) (n int, handled bool, err error)
}

func (c *counted) Open(folder, name string, write bool) (port.File, error) {
	f, err := c.Disk.Open(folder, name, write)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	return &countedFile{File: f, disk: c, name: name}, nil
}

func (c *counted) opened() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

type countedFile struct {
	port.File
	disk *counted
	name string
}

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.disk.read != nil {
		if n, handled, err := f.disk.read(f.name, p, off); handled {
			return n, err
		}
	}
	return f.File.ReadAt(p, off)
}

func (f *countedFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.open--
	return f.File.Close()
}
