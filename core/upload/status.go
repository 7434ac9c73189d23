package upload

import (
	"cmp"
	"fmt"
	"slices"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// Counts are what a Machine has counted since it was made. They never fall.
type Counts struct {
	Transfers          int64 // fragments uploaded
	TransfersFailed    int64
	Retries            int64 // fragments submitted again
	LastingRetries     int64 // failures that were not transient
	BytesTransferred   int64 // of chunks in uploaded fragments
	BytesDrained       int64 // of chunks that were read from the log and assembled
	BytesPersisted     int64 // of chunks in persisted fragments
	Persists           int64
	PersistsFailed     int64
	Conflicts          int64
	Resolved           int64
	ResolvedEmpty      int64 // there was no manifest
	ResolutionFailures int64
	FloorPassed        int64 // times that local retention took what was not uploaded
	LogBehind          int64 // times that the local log was found to end below the seam
	Gaps               int64 // declared gaps
	GapRecords         int64 // offsets in them
	Divergences        int64
	Resets             int64      // times that an operator gave up what was lost
	Expired            int64      // fragments that retention removed from the store
	BytesExpired       int64      // of chunks in them
	LastPersist        pos.Millis // 0: none yet
}

// Describe asks a replica reader, with Call, for its Status as it is now. That it
// answers tells that it is not stuck; what it published last does not.
type Describe struct{}

// Status is what the operator sees of one replica reader. All "next" offsets are
// exclusive; an offset of -1 means that there is none.
type Status struct {
	Stream   StreamStatus   `json:"stream"`
	Remote   RemoteStatus   `json:"remote_tier"`
	Pipeline PipelineStatus `json:"upload_pipeline"`
	Fragment FragmentStatus `json:"current_fragment"`

	known bool           // whether there is a pointer, and where what it names ends
	end   pos.Offset     // of what the pointer names, be that there or not; 0: there is none
	kept  []manifest.Gap // what lies in the store behind that, in order: uploaded, not persisted
	why   string         // what failed last, see Hindrance
}

// Hindrance is why the stream does not get on at this moment, be it for long or not, and be it
// trouble or not; "" if nothing has failed since something got on.
func (s Status) Hindrance() string { return cmp.Or(s.Trouble(), s.why) }

// Undeclared returns what is lost and not declared yet: what lies behind all that was ever
// stored and below the floor of the local log, and neither was uploaded nor is being, at the
// first try. Each becomes a declared gap with the next fragment that is persisted. seam is
// where the stored manifest ends for all that others know; NoOffset: they know nothing.
func (s Status) Undeclared(seam, floor pos.Offset) (gaps []manifest.Gap) {
	from := max(s.end, seam)
	if !s.known && seam == pos.NoOffset {
		return nil
	}
	for _, k := range append(slices.Clone(s.kept), manifest.Gap{From: floor, To: floor}) {
		if to := min(k.From, floor); from < to {
			gaps = append(gaps, manifest.Gap{From: from, To: to})
		}
		from = max(from, k.To)
	}
	return gaps
}

// StreamStatus says how the replica reader is.
type StreamStatus struct {
	ID    pos.StreamID `json:"id"`
	Epoch pos.Epoch    `json:"epoch"`
	State string       `json:"state"` // resolving, waiting, stalled, placing, running, stopped
	Why   string       `json:"why,omitempty"`
	Until pos.Millis   `json:"until_ms,omitempty"` // waiting, stalled: when it is tried again
}

// RemoteStatus says what the object store holds.
type RemoteStatus struct {
	Known         bool         `json:"known"`
	First         pos.Offset   `json:"first"`
	Next          pos.Offset   `json:"next"`           // uploaded and in order, perhaps not persisted
	PersistedNext pos.Offset   `json:"persisted_next"` // the seam
	Revision      pos.Revision `json:"revision"`
	Bytes         int64        `json:"bytes"`
	Fragments     int          `json:"fragments"`
	FirstTime     pos.Millis   `json:"first_timestamp_ms"` // 0: none
}

// PipelineStatus says what is under way.
type PipelineStatus struct {
	Anchor         string     `json:"anchor"`    // unknown, pending, writing, done
	Cut            int        `json:"cut"`       // not submitted yet
	Submitted      int        `json:"submitted"` // waiting for the governor
	Uploading      int        `json:"uploading"` // each with its deadline
	Uploaded       int        `json:"uploaded"`  // waiting for their turn
	Bytes          int64      `json:"bytes"`     // of all these
	Edits          int        `json:"edits"`     // since the last persist
	EditsInPersist int        `json:"edits_in_persist"`
	BytesInPersist int64      `json:"bytes_in_persist"` // applied and not persisted
	Persisting     bool       `json:"persisting"`
	Retaining      bool       `json:"retaining"`             // a removal by retention is not persisted yet
	PersistWhy     string     `json:"persist_why,omitempty"` // why the last try failed, also if it is the first
	LastPersist    pos.Millis `json:"last_persist_ms"`       // 0: none since it started
	Waiters        int        `json:"waiters"`
	Stalled        pos.Offset `json:"stalled_offset"` // the lowest that does not get on, see Trouble
	StalledWhy     string     `json:"stalled_why,omitempty"`
}

// FragmentStatus says what is being assembled.
type FragmentStatus struct {
	First   pos.Offset `json:"first"`
	Next    pos.Offset `json:"next"`
	Target  int64      `json:"target_bytes"`  // it is cut at this size
	Bytes   int64      `json:"bytes"`         // on disk
	Payload int64      `json:"payload_bytes"` // of records, without the chunks' headers, filters and trailers
	Chunks  int        `json:"chunks"`
	Due     pos.Millis `json:"due_ms,omitempty"` // when its age cuts it
}

var phaseNames = [...]string{"new", "resolving", "waiting", "stalled", "placing", "waiting", "running", "stopped"}

var anchorNames = [...]string{"unknown", "pending", "writing", "done"}

// Counts returns what was counted so far.
func (m *Machine) Counts() Counts { return m.counts }

// Status returns the state for the operator.
func (m *Machine) Status() Status {
	s := Status{
		Stream:   StreamStatus{ID: m.cfg.Stream, Epoch: m.cfg.Epoch, State: phaseNames[m.phase], Why: m.why, Until: m.until},
		Remote:   RemoteStatus{First: pos.NoOffset, Next: pos.NoOffset, PersistedNext: pos.NoOffset},
		Pipeline: m.pipelineStatus(),
		known:    m.shown || !m.pointer.Revision.IsZero(),
		end:      m.pointer.Next,
		kept:     m.kept(),
		why:      m.hindrance(),
		Fragment: FragmentStatus{
			First: m.assembly.First(), Next: m.assembly.Next(), Target: m.assembly.Target(),
			Bytes: m.assembly.Bytes(), Payload: m.assembly.Payload(), Chunks: m.assembly.Chunks(),
		},
	}
	if due, ok := m.assembly.Due(); ok {
		s.Fragment.Due = due
	}
	if m.shown {
		s.Remote = RemoteStatus{
			Known: true, First: m.stored.First, Next: m.stored.Next, PersistedNext: m.stored.Next,
			Revision: m.stored.Revision, Bytes: m.stored.Size, Fragments: len(m.stored.Entries),
			FirstTime: max(m.stored.FirstTime, 0),
		}
		if m.now != nil {
			s.Remote.Next = m.now.Next
		}
	}
	return s
}

// kept is what can still be persisted although the local log may be trimmed above it.
func (m *Machine) kept() (all []manifest.Gap) {
	if m.now == nil {
		return nil
	}
	first := len(m.now.Entries)
	for first > 0 && m.now.Entries[first-1].Next > m.stored.Next {
		first--
	}
	for _, e := range m.now.Entries[first:] {
		all = append(all, manifest.Gap{From: e.First, To: e.Next})
	}
	for _, f := range m.flights {
		if f.stage == stageUploaded || f.stage == stageUploading && f.fails == 0 {
			all = append(all, manifest.Gap{From: f.frag.First, To: f.frag.Next})
		}
	}
	return all
}

func (m *Machine) pipelineStatus() PipelineStatus {
	s := PipelineStatus{
		Anchor: anchorNames[m.anchors], Edits: len(m.edits), EditsInPersist: m.persist.edits,
		BytesInPersist: m.applied.bytes, Persisting: m.persist.stage != persistIdle,
		LastPersist: m.counts.LastPersist, Waiters: len(m.waiters),
	}
	s.Stalled, s.StalledWhy = m.stalled()
	for _, e := range m.edits {
		s.Retaining = s.Retaining || e.Op == manifest.OpRemoveHead
	}
	for _, f := range m.flights {
		s.Bytes += f.frag.Size
		switch f.stage {
		case stageCut:
			s.Cut++
		case stageSubmitted:
			s.Submitted++
		case stageUploading:
			s.Uploading++
		case stageUploaded:
			s.Uploaded++
		}
	}
	if m.persist.fails > 0 {
		s.PersistWhy = m.persist.why
	}
	return s
}

// Trouble says what keeps the stream from getting into the store, empty if nothing
// does. What passes by itself in a moment is no trouble, see Passes.
func (s Status) Trouble() string {
	switch {
	case s.Stream.State == phaseNames[phaseWaiting], s.Stream.State == phaseNames[phaseStalled],
		s.Stream.State == phaseNames[phaseResolving] && s.Stream.Why != "": // tried again, after it failed
		return s.Stream.State + ": " + s.Stream.Why
	case s.Pipeline.StalledWhy != "":
		return fmt.Sprintf("stalled at offset %s: %s", s.Pipeline.Stalled, s.Pipeline.StalledWhy)
	}
	return ""
}
