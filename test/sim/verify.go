package sim

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/test/fold"
)

// verify reads the whole stream through the node and compares it with the source.
func (w *world) verify(n *node.Node) {
	records, err := w.readAll(n)
	if err != nil {
		w.t.Errorf("seed %d: reading the stream from its first record: %v", w.seed, err)
		return
	}
	if st, err := n.Stream(context.Background(), streamName); err == nil {
		w.tally.Trimmed += int(st.LocalFirst)
		w.tally.RemoteBytes += int(st.RemoteBytes)
	}
	w.verifySeen(records)
	events := w.parse(records)
	w.verifyVoids(records, events)
	w.verifyPositions(records, events)
	w.verifyCommits(events)
	w.verifyTables(records, events)
	w.tally.PostgresCrashes = w.source.crashes
}

// verifySeen: offsets are contiguous from 0, and what anyone ever read still stands.
func (w *world) verifySeen(records []admin.Record) {
	for i, r := range records {
		if r.Offset != pos.Offset(i) {
			w.t.Errorf("seed %d: record %d has offset %s", w.seed, i, r.Offset)
			return
		}
		w.see(r)
	}
	for o := range w.seen {
		if int(o) >= len(records) {
			w.t.Errorf("seed %d: offset %s was read before and is gone; the stream ends at %d", w.seed, o, len(records))
			return
		}
	}
}

func (w *world) parse(records []admin.Record) []fold.Event {
	events := make([]fold.Event, 0, len(records))
	for _, r := range records {
		body, err := pgout.Section(r.Body)
		if err != nil {
			w.t.Errorf("seed %d: offset %s: %v", w.seed, r.Offset, err)
			return nil
		}
		e, err := fold.ParseEvent(body)
		if err != nil {
			w.t.Errorf("seed %d: offset %s: %v", w.seed, r.Offset, err)
			return nil
		}
		events = append(events, e)
	}
	return events
}

// loaded returns where the last load begins and ends, in offsets, and the LSN whose
// commits it holds.
func loaded(events []fold.Event) (begin, end int, lsn pos.LSN, loads int) {
	for i, e := range events {
		if e.Op == "t" && e.Source.Snapshot == "first" {
			if i == 0 || events[i-1].Op != "t" || events[i-1].Source.Snapshot != "first" {
				begin = i
				loads++
			}
		}
		if e.Source.Snapshot != "no" {
			end, lsn = i+1, pos.LSN(e.Source.LSN)
		}
	}
	return begin, end, lsn, loads
}

// verifyVoids: a crash during the load makes it begin anew. Once events stream, nothing
// that this world does to the node is a reason to void the stream.
func (w *world) verifyVoids(records []admin.Record, events []fold.Event) {
	streamed := false
	for i, e := range events {
		if streamed && e.Source.Snapshot == "first" {
			w.t.Errorf("seed %d: offset %s, %s: the stream was voided after it had streamed events", w.seed, records[i].Offset, &e)
			return
		}
		streamed = streamed || e.Source.Snapshot == "no"
	}
}

// verifyPositions: each event stands once and in order, each transaction whole.
func (w *world) verifyPositions(records []admin.Record, events []fold.Event) {
	var l fold.Ledger
	begin, _, _, loads := loaded(events)
	w.tally.Loads += loads
	for i := begin; i < len(events); i++ {
		if err := l.Apply(records[i].Offset, &events[i]); err != nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
			return
		}
	}
	if err := l.End(); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	w.tally.Events += int(l.Events)
	w.tally.Commits += int(l.Commits)
}

// verifyCommits: the streamed transactions are exactly those committed after the load's
// snapshot, each with all of its changes.
func (w *world) verifyCommits(events []fold.Event) {
	_, end, lsn, _ := loaded(events)
	got := map[pos.LSN]int{}
	for _, e := range events[end:] {
		if e.Op != "m" {
			got[pos.LSN(e.Source.LSN)]++
		}
	}
	for _, at := range slices.Sorted(maps.Keys(w.source.commits)) {
		want := w.source.commits[at]
		if at <= lsn {
			want = 0
		}
		if got[at] != want {
			w.t.Errorf("seed %d: the transaction at %s made %d changes, the stream has %d (the load holds what was committed up to %s)", w.seed, at, want, got[at], lsn)
			return
		}
		delete(got, at)
	}
	for at, n := range got {
		w.t.Errorf("seed %d: the stream has %d events of a transaction at %s that nobody committed", w.seed, n, at)
		return
	}
}

// verifyTables: the fold of all events equals the source's tables.
func (w *world) verifyTables(records []admin.Record, events []fold.Event) {
	tables := fold.New(keys)
	for i := range events {
		if err := tables.Apply(records[i].Offset, &events[i]); err != nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
			return
		}
	}
	for _, name := range []string{"customers", "orders", "visits"} {
		c := tables.Compare("public." + name)
		columns := w.source.db.Columns(name)
		for _, line := range w.source.db.Rows(name) {
			if err := c.Row(columns, copyLine(line)); err != nil {
				w.t.Errorf("seed %d: %v", w.seed, err)
				return
			}
		}
		if _, err := c.End(); err != nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
		}
	}
}

// copyLine reads a line of COPY's text format that holds no escapes but NULL: the
// workload writes none.
func copyLine(line string) []fold.Value {
	var values []fold.Value
	for field := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\t") {
		if field == `\N` {
			values = append(values, fold.Value{Null: true})
		} else {
			values = append(values, fold.Value{Text: field})
		}
	}
	return values
}

// verifyStore reads the store without the node: the manifest that the pointer names
// covers the stream from its first offset without a gap, and every object holds
// exactly what readers saw.
func (w *world) verifyStore() {
	ctx := context.Background()
	stream, err := w.meta.StreamByName(ctx, streamName)
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	p, err := w.meta.Pointer(ctx, stream.ID)
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	prefix := simSettings(w.rng).Store.Prefix
	root, ok := w.store.Object(manifest.RootKey(prefix, stream.ID, p.Epoch, p.Revision, p.UID))
	if !ok {
		w.t.Errorf("seed %d: the pointer names revision %s, whose root is not in the store", w.seed, p.Revision)
		return
	}
	m, err := manifest.Decode(root)
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	next := pos.Offset(0)
	for _, e := range m.Entries {
		if e.First != next {
			w.t.Errorf("seed %d: an entry begins at %s, the one before ended at %s", w.seed, e.First, next)
		}
		if err := w.verifyObject(prefix, stream.ID, e); err != nil {
			w.t.Errorf("seed %d: entry [%s, %s): %v", w.seed, e.First, e.Next, err)
		}
		next = e.Next
		w.tally.Objects++
	}
	if next != m.Next || p.Next != m.Next {
		w.t.Errorf("seed %d: the entries end at %s, the manifest says %s, the pointer %s", w.seed, next, m.Next, p.Next)
	}
}

func (w *world) verifyObject(prefix string, stream pos.StreamID, e manifest.Entry) error {
	object, ok := w.store.Object(fragment.Key(prefix, stream, e.First, e.UID))
	if !ok {
		return fmt.Errorf("its object is not in the store")
	}
	index, _, err := fragment.Verify(object)
	if err != nil {
		return err
	}
	next := e.First
	for _, r := range index {
		h, err := chunk.ParseHeader(object[r.Position:])
		if err != nil {
			return err
		}
		b := object[r.Position : r.Position+h.Size()]
		if err := chunk.Verify(b); err != nil {
			return err
		}
		for record, err := range chunk.Records(b) {
			if err != nil {
				return err
			}
			if record.Offset != next {
				return fmt.Errorf("it holds offset %s where %s belongs", record.Offset, next)
			}
			if seen, ok := w.seen[next]; !ok || seen != maphash.Bytes(hashSeed, record.Body) {
				return fmt.Errorf("offset %s holds another record than readers saw (seen: %v)", next, ok)
			}
			next++
		}
	}
	if next != e.Next {
		return fmt.Errorf("it ends at %s", next)
	}
	return nil
}
