package upload

import (
	"fmt"
	"slices"
	"time"

	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
)

type stage uint8

const (
	stageCut stage = iota
	stageSubmitted
	stageUploading
	stageUploaded
)

// flight is a fragment on its way. A failed one keeps its place.
type flight struct {
	retry
	id       FlightID
	frag     *fragment.Fragment
	after    pos.Offset // what the manifest's next is when its turn comes; below frag.First: a gap
	stage    stage
	ref      pace.Ref   // submitted and uploading
	deadline pos.Millis // uploading
	// remnants are uids of attempts that failed: they may have left an object, or yet leave
	// one. Only the latest are remembered, or an outage would fill the memory.
	remnants []pos.UID
}

const maxRemnants = 16

type anchorState uint8

const (
	anchorUnknown anchorState = iota
	anchorPending
	anchorWriting
	anchorDone
)

func (m *Machine) fragmentKey(first pos.Offset, uid pos.UID) string {
	return fragment.Key(m.cfg.Prefix, m.cfg.Stream, first, uid)
}

// transfer moves every fragment one step further, where that is possible now.
func (m *Machine) transfer() {
	if m.anchors == anchorPending && len(m.flights) > 0 && m.at.Now >= m.anchor.at {
		m.anchors = anchorWriting
		m.emit(PutAnchor{Gen: m.gen})
	}
	if m.anchors != anchorDone {
		return
	}
	for _, f := range m.flights {
		if f.stage != stageCut || m.at.Now < f.at || m.away.fails > 0 && !m.mayTry(f) {
			continue
		}
		m.lastRef++
		f.stage, f.ref = stageSubmitted, m.lastRef
		if f.fails > 0 {
			m.counts.Retries++
		}
		m.emit(Submit{Ref: f.ref, Bytes: fragment.ObjectSize(f.frag)})
	}
}

// mayTry reports whether f may be submitted although the store is away: one thing of a
// stream finds out whether it is back, the root if that could not be put, else the first
// fragment that has no trouble of its own. One that has is tried whenever its own pause is
// over, or it would wait for that one's troubles, too.
func (m *Machine) mayTry(f *flight) bool {
	if f.lasting {
		return true
	}
	if p := &m.persist; p.fails > 0 && (p.stage == persistIdle || p.stage == persistPutting) {
		return false
	}
	first := slices.IndexFunc(m.flights, func(g *flight) bool { return g.stage != stageUploaded && !g.lasting })
	return m.flights[first] == f
}

// back ends the store's being away: what waited for it goes on at once.
func (m *Machine) back() {
	if m.away.fails == 0 {
		return
	}
	m.away = retry{}
	for _, f := range m.flights {
		if !f.lasting {
			f.at = 0
		}
	}
	if m.persist.stage == persistIdle {
		m.persist.at = 0
	}
}

func (m *Machine) anchorPut(in AnchorPut) {
	switch {
	case in.Gen != m.gen || m.anchors != anchorWriting:
	case in.Fault == FaultNone:
		m.anchors, m.anchor = anchorDone, retry{}
	case in.Fault == FaultMissing:
		m.deleted()
	default:
		m.anchors = anchorPending
		m.anchor.failed(Result{FaultLasting, in.Why}, m.at)
		m.sparse(m.anchor.fails, LevelWarn, "the stream can't be anchored, its uploads wait: "+in.Why)
	}
}

func (m *Machine) granted(in Granted) {
	f := m.byRef(in.Ref, stageSubmitted)
	if f == nil {
		m.emit(Release{Ref: in.Ref})
		return
	}
	frag := *f.frag
	frag.UID = m.at.UID
	f.frag, f.stage = &frag, stageUploading
	m.putOff(f)
	m.emit(Upload{Ref: f.ref, Key: m.fragmentKey(frag.First, frag.UID), Fragment: f.frag, Doubted: f.lasting, Tries: f.fails})
}

// putOff has the deadline of an upload count from now.
func (m *Machine) putOff(f *flight) { f.deadline = m.at.Now.Add(m.cfg.deadlineFor(f.frag.Size)) }

func (m *Machine) sent(in Sent) {
	if f := m.byRef(in.Ref, stageUploading); f != nil {
		m.putOff(f)
	}
}

func (m *Machine) byRef(ref pace.Ref, at stage) *flight {
	for _, f := range m.flights {
		if f.stage == at && f.ref == ref {
			return f
		}
	}
	return nil
}

// governorUp submits again what was not granted: a new governor knows nothing of
// it, unless it came between its start and this news of it; that is taken back, or it
// would be charged twice. What was granted goes on; its Release will mean nothing to
// the new one.
func (m *Machine) governorUp() {
	var refs []pace.Ref
	for _, f := range m.flights {
		if f.stage == stageSubmitted {
			refs = append(refs, f.ref)
			f.stage, f.ref = stageCut, 0
		}
	}
	if len(refs) > 0 {
		m.emit(Withdraw{Refs: refs})
	}
}

// refs returns what the governor may know of.
func (m *Machine) refs() []pace.Ref {
	var refs []pace.Ref
	for _, f := range m.flights {
		if f.stage == stageSubmitted || f.stage == stageUploading {
			refs = append(refs, f.ref)
		}
	}
	return refs
}

// expire fails the uploads that have stopped. Their results, if any come, are of refs that
// no longer exist.
func (m *Machine) expire() {
	for _, f := range m.flights {
		if f.stage == stageUploading && m.at.Now >= f.deadline {
			m.emit(CancelUpload{Ref: f.ref})
			m.endUpload(f)
			m.flightFailed(f, Result{FaultTransient, fmt.Sprintf("nothing of the upload moved for %s", m.cfg.deadlineFor(f.frag.Size))}, pos.NoOffset)
		}
	}
}

func (m *Machine) uploaded(in Uploaded) {
	f := m.byRef(in.Ref, stageUploading)
	if f == nil {
		return
	}
	if in.Fault != FaultNone {
		m.endUpload(f)
		m.flightFailed(f, in.Result, in.Floor)
		return
	}
	m.emit(Release{Ref: f.ref})
	f.ref, f.deadline, f.stage, f.retry = 0, 0, stageUploaded, retry{}
	m.back()
	if m.failures.told {
		m.note(LevelInfo, fmt.Sprintf("uploads go on; %d have failed one after the other", m.failures.row))
	}
	m.failures.row, m.failures.passed, m.failures.told = 0, 0, false
	m.counts.Transfers++
	m.counts.BytesTransferred += f.frag.Size
	m.collectRemnants(f)
	m.apply()
}

// endUpload takes a failed upload back to where it can be submitted again.
func (m *Machine) endUpload(f *flight) {
	m.emit(Release{Ref: f.ref})
	if len(f.remnants) == maxRemnants {
		f.remnants = slices.Delete(f.remnants, 0, 1)
	}
	f.remnants = append(f.remnants, f.frag.UID)
	f.ref, f.deadline, f.stage = 0, 0, stageCut
}

// flightFailed decides what becomes of a fragment: what the local floor has passed
// can never be uploaded, everything else is tried again.
func (m *Machine) flightFailed(f *flight, r Result, floor pos.Offset) {
	m.counts.TransfersFailed++
	if floor > f.frag.First {
		m.cutOff(f, floor)
		return
	}
	f.failed(r, m.at)
	if f.lasting {
		m.counts.LastingRetries++
	} else {
		m.away.failed(r, m.at)
	}
	m.tellFailure(fmt.Sprintf("uploads fail, of fragment [%s, %s): %s", f.frag.First, f.frag.Next, r.Why))
}

// failures is what the log is told of failed uploads.
type failures struct {
	row    int        // since the last upload that did not fail
	told   bool       // one of that row was
	passed int        // times that the floor passed what was not uploaded, since then
	count  int        // since calm was last
	last   pos.Millis // when
}

const (
	// calm is how long no upload fails for the next failure to count as the first.
	calm = 10 * time.Minute
	// lastsFrom is the number of failures in a row that no longer are a flicker.
	lastsFrom = 8
)

// tellFailure notes a failed upload: the first, then ever fewer, whether some succeed in
// between or none. What has not failed for some while, and then does again and again, is told
// of anew.
func (m *Machine) tellFailure(text string) {
	f := &m.failures
	if m.at.Now.Sub(f.last) > calm {
		f.count = 0
	}
	f.row++
	f.count++
	f.last = m.at.Now
	if sparse(f.count) || f.row >= lastsFrom && sparse(f.row) {
		f.told = true
		m.note(LevelWarn, text)
	}
}

// cutOff gives up the part of a fragment that lies below the floor: all of it, or
// its first chunks.
func (m *Machine) cutOff(f *flight, floor pos.Offset) {
	m.passed(f.frag.First, min(floor, f.frag.Next))
	m.collectRemnants(f)
	if rest := above(f.frag, floor); rest != nil {
		f.frag, f.stage, f.retry = rest, stageCut, retry{}
		return
	}
	i := slices.Index(m.flights, f)
	if i+1 < len(m.flights) {
		m.flights[i+1].after = f.after
	}
	m.flights = slices.Delete(m.flights, i, i+1)
	m.apply()
}

// above returns the part of f in segments that the floor has not passed, nil if
// there is none. A floor is a segment's first offset, and so a chunk's.
func above(f *fragment.Fragment, floor pos.Offset) *fragment.Fragment {
	i := slices.IndexFunc(f.Index, func(r fragment.IndexRecord) bool { return r.Offset >= floor })
	j := slices.IndexFunc(f.Spans, func(s fragment.Span) bool { return s.Segment >= floor })
	if i < 0 || j < 0 {
		return nil
	}
	rest := &fragment.Fragment{
		First: f.Index[i].Offset, Next: f.Next, FirstTime: f.Index[i].Time, LastTime: f.Index[i].Time,
		Epoch: f.Epoch, Chunks: len(f.Index) - i, Spans: f.Spans[j:], Headers: f.Headers[i:],
	}
	base := f.Index[i].Position - fragment.DataStart
	for _, r := range f.Index[i:] {
		r.Position -= base
		rest.Index = append(rest.Index, r)
		rest.LastTime = max(rest.LastTime, r.Time)
	}
	for _, s := range rest.Spans {
		rest.Size += s.Size()
	}
	return rest
}

func (m *Machine) collectRemnants(f *flight) {
	keys := make([]string, 0, len(f.remnants))
	for _, uid := range f.remnants {
		keys = append(keys, m.fragmentKey(f.frag.First, uid))
	}
	f.remnants = nil
	m.collect(keys)
}

func (m *Machine) collect(keys []string) {
	if len(keys) > 0 {
		m.emit(Collect{Keys: keys, After: m.at.Now.Add(m.cfg.Grace)})
	}
}

// apply appends to the live manifest what is uploaded, in the order of the cuts and
// without a hole: the first fragment that is not uploaded ends it.
func (m *Machine) apply() {
	for len(m.flights) > 0 && m.flights[0].stage == stageUploaded {
		f := m.flights[0]
		if f.after != m.now.Next || f.frag.First < f.after {
			panic(fmt.Sprintf("upload: fragment [%s, %s) comes after %s, but the manifest ends at %s: this is a bug",
				f.frag.First, f.frag.Next, f.after, m.now.Next))
		}
		if f.frag.First > f.after {
			m.gap(f)
		}
		m.edit(manifest.AppendEdit(m.now, manifest.EntryOf(f.frag)))
		m.applied.count++
		m.applied.bytes += f.frag.Size
		m.flights = m.flights[1:]
	}
}

// gap accounts for the records between the manifest and the fragment that is about
// to be appended, and gives up what lies before if that is what the operator wants.
func (m *Machine) gap(f *flight) {
	m.counts.Gaps++
	m.counts.GapRecords += int64(f.frag.First - f.after)
	if !m.cfg.Discard || m.now.Empty() {
		m.note(LevelWarn, fmt.Sprintf("gap: [%s, %s) is in no tier", f.after, f.frag.First))
		return
	}
	m.note(LevelWarn, fmt.Sprintf("gap: [%s, %s) is in no tier, so [%s, %s) is given up", f.after, f.frag.First, m.now.First, f.after))
	for i := range m.now.Entries {
		m.drops = append(m.drops, m.fragmentKey(m.now.Entries[i].First, m.now.Entries[i].UID))
	}
	m.edit(manifest.ResetEdit(f.frag.First))
}

func (m *Machine) wakeTransfers(earliest func(pos.Millis)) {
	if m.anchors == anchorPending && len(m.flights) > 0 {
		earliest(m.anchor.at)
	}
	for _, f := range m.flights {
		switch f.stage {
		case stageCut:
			if f.at > m.at.Now {
				earliest(f.at)
			}
		case stageUploading:
			earliest(f.deadline)
		default: // an answer or its turn comes
		}
	}
}
