package upload

import (
	"fmt"
	"testing"
	"time"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/segment"
)

// The tests' local log: chunks of 10 records and 100 bytes, 5 of them in a segment.
// A fragment is complete with 2 chunks.
const (
	chunkRecords = 10
	chunkBytes   = 100
	perSegment   = 5
)

var testConfig = Config{
	Stream: "s", Epoch: 3, Prefix: "p",
	Fragment: fragment.Config{TargetBytes: 2 * chunkBytes, MaxAge: 5 * time.Minute},
}

func chunkAt(first pos.Offset, epoch pos.Epoch) segment.ChunkRef {
	n := int64(first / chunkRecords)
	return segment.ChunkRef{
		Header: chunk.Header{
			Entries: chunkRecords, Records: chunkRecords, Timestamp: pos.Millis(1_000 + first), Epoch: epoch, ID: first,
		},
		Segment:  first - first%(chunkRecords*perSegment),
		Position: segment.FileHeaderSize + n%perSegment*chunkBytes,
		Size:     chunkBytes,
	}
}

func chunksOf(from, to pos.Offset) []segment.ChunkRef {
	var refs []segment.ChunkRef
	for o := from; o < to; o += chunkRecords {
		refs = append(refs, chunkAt(o, testConfig.Epoch))
	}
	return refs
}

// entryAt is the entry of a fragment of an earlier writer.
func entryAt(first, next pos.Offset, epoch pos.Epoch) manifest.Entry {
	return manifest.Entry{
		First: first, Next: next, FirstTime: pos.Millis(1_000 + first), LastTime: pos.Millis(1_000 + next - chunkRecords),
		Epoch: epoch, Size: int64(next-first) / chunkRecords * chunkBytes, UID: pos.UID(0xe00 + first), Chunks: int(next-first) / chunkRecords,
	}
}

func manifestOf(epoch pos.Epoch, revision pos.Revision, entries ...manifest.Entry) *manifest.Manifest {
	d := manifest.New(0).Draft()
	for _, e := range entries {
		if err := d.Apply(manifest.AppendEdit(d.Manifest(), e)); err != nil {
			panic(err)
		}
	}
	return d.Manifest().Stamped(epoch, revision)
}

func pointerTo(m *manifest.Manifest) Pointer {
	return Pointer{Revision: m.Revision, Epoch: m.Epoch, UID: 0xabc, Next: m.Next}
}

// rig steps a machine and checks its invariants after every step.
type rig struct {
	t   testing.TB
	m   *Machine
	now pos.Millis
	uid pos.UID
	out []Effect // of the last step
}

func newRig(t testing.TB, cfg Config) *rig {
	return &rig{t: t, m: New(cfg), now: 1_000_000, uid: 0xf00}
}

func (r *rig) stamp() Stamp {
	r.uid++
	return Stamp{Now: r.now, UID: r.uid}
}

func (r *rig) do(in Input) []Effect {
	r.t.Helper()
	r.out = r.m.Step(in, nil)
	if err := r.m.check(); err != nil {
		r.t.Fatalf("after %s: %v", name(in), err)
	}
	return r.out
}

func name(v any) string { return fmt.Sprintf("%T%+v", v, v) }

// after lets time pass.
func (r *rig) after(d time.Duration) []Effect {
	r.t.Helper()
	r.now = r.now.Add(d)
	return r.do(Tick{r.stamp()})
}

// all returns the effects of one type in the last step.
func all[E Effect](r *rig) []E {
	var found []E
	for _, e := range r.out {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// one returns the single effect of a type in the last step.
func one[E Effect](r *rig) E {
	r.t.Helper()
	found := all[E](r)
	if len(found) != 1 {
		var e E
		r.t.Fatalf("%d effects %T, want one, in:\n%s", len(found), e, dump(r.out))
	}
	return found[0]
}

func none[E Effect](r *rig) {
	r.t.Helper()
	if found := all[E](r); len(found) > 0 {
		r.t.Fatalf("unexpected %s", name(found[0]))
	}
}

func dump(out []Effect) string {
	text := ""
	for _, e := range out {
		text += "  " + name(e) + "\n"
	}
	return text
}

// opened returns a rig whose log [first, next) is open behind the manifest; nil: a
// new stream.
func opened(t testing.TB, cfg Config, root *manifest.Manifest, l Local) *rig {
	t.Helper()
	r := newRig(t, cfg)
	r.do(Start{Stamp: r.stamp()})
	r.resolve(root)
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: l})
	return r
}

// resolve answers ReadPointer and ReadRoot.
func (r *rig) resolve(root *manifest.Manifest) {
	r.t.Helper()
	one[ReadPointer](r)
	if root == nil {
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no pointer"}})
	} else {
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(root)})
		r.root(root)
	}
	one[Inspect](r)
}

// root answers ReadRoot, and LookFor.
func (r *rig) root(root *manifest.Manifest) {
	r.t.Helper()
	one[ReadRoot](r)
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: root.Encode()})
	if !root.Empty() {
		one[LookFor](r)
		r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen})
	}
}

// chunks answers Read with [from, to), and Sums what is cut thereby. It returns the
// fragments in the order they were cut.
func (r *rig) chunks(from, to pos.Offset) []Submit {
	r.t.Helper()
	if got := r.m.drain.want; got != from {
		r.t.Fatalf("the machine wants %s, not %s", got, from)
	}
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Chunks: chunksOf(from, to), End: true})
	return all[Submit](r)
}

func (r *rig) grant(ref pace.Ref) Upload {
	r.t.Helper()
	r.do(Granted{Stamp: r.stamp(), Ref: ref})
	return one[Upload](r)
}

func (r *rig) upload(ref pace.Ref) []Effect {
	r.t.Helper()
	return r.do(Uploaded{Stamp: r.stamp(), Ref: ref})
}

func (r *rig) failUpload(ref pace.Ref, f Fault, floor pos.Offset) []Effect {
	r.t.Helper()
	return r.do(Uploaded{Stamp: r.stamp(), Ref: ref, Floor: floor, Result: Result{f, "planned"}})
}

// anchored answers PutAnchor and returns the Submits that were held.
func (r *rig) anchored() []Submit {
	r.t.Helper()
	r.do(AnchorPut{Stamp: r.stamp(), Gen: r.m.gen})
	return all[Submit](r)
}

// persist carries the persist that is due through.
func (r *rig) persist() []Effect {
	r.t.Helper()
	r.after(r.m.cfg.PersistInterval)
	return r.finishPersist()
}

func (r *rig) finishPersist() []Effect {
	r.t.Helper()
	one[PutRoot](r)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
	one[SwapPointer](r)
	return r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen})
}

// stored is a stream whose first 100 records are in the store: [0, 100).
func stored() *manifest.Manifest {
	return manifestOf(2, 7, entryAt(0, 50, 1), entryAt(50, 100, 2))
}

// log is the local log that goes with stored.
func log(first, next pos.Offset) Local {
	return Local{First: first, Next: next, Epochs: []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 2, End: 100}, {Epoch: 3, End: next}}}
}

func firsts(fs []*flight) []pos.Offset {
	var at []pos.Offset
	for _, f := range fs {
		at = append(at, f.frag.First)
	}
	return at
}
