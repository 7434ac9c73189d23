package manifest

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"millrace/core/fragment"
	"millrace/core/pos"
)

// Kind tells what an entry stands for, by the height of the tree below it.
type Kind uint8

// Kinds of entries. The groups' numbers are reserved; no manifest may hold one.
const (
	KindFragment Kind = iota
	KindGroup
	KindKilo
	KindMega
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindFragment:
		return "fragment"
	case KindGroup:
		return "group"
	case KindKilo:
		return "kilo-group"
	case KindMega:
		return "mega-group"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Entry is one object of the remote tier: the records [First, Next).
type Entry struct {
	First, Next pos.Offset
	FirstTime   pos.Millis // of the first chunk
	LastTime    pos.Millis // the latest of all chunks
	Epoch       pos.Epoch  // of the last chunk
	Size        int64      // bytes of all chunks, as on disk; the index begins at fragment.DataStart + Size
	UID         pos.UID
	Chunks      int
	Kind        Kind
}

// EntryOf returns the entry of an uploaded fragment.
func EntryOf(f *fragment.Fragment) Entry {
	return Entry{
		First: f.First, Next: f.Next, FirstTime: f.FirstTime, LastTime: f.LastTime,
		Epoch: f.Epoch, Size: f.Size, UID: f.UID, Chunks: f.Chunks, Kind: KindFragment,
	}
}

// Manifest is what the remote tier holds of one stream. It is immutable.
//
//  1. 0 <= First <= Next
//  2. without entries First == Next, Size is 0 and both times are pos.NoMillis
//  3. with entries First and both times are the first entry's, Next the last one's
//  4. every entry is a fragment of at least one record, chunk and byte, with a uid,
//     whose latest time is not before its first
//  5. an entry begins where the one before it ends, or later: a declared gap
//  6. Size is the sum of the entries' sizes
//
// Decode and Apply return only manifests for which all six hold.
type Manifest struct {
	First, Next   pos.Offset // "f" and "n": the remote tier has [First, Next) but for its gaps
	FirstTime     pos.Millis
	FirstLastTime pos.Millis // latest time in the oldest entry: age retention looks at it
	Size          int64
	Entries       []Entry      // not to be changed
	Revision      pos.Revision // of the pointer that names it; 0: never stored
	Epoch         pos.Epoch    // of the writer that stored it
}

// New returns a manifest without entries whose next offset is at.
func New(at pos.Offset) *Manifest {
	return &Manifest{First: at, Next: at, FirstTime: pos.NoMillis, FirstLastTime: pos.NoMillis}
}

// Stamped returns m as the writer of the given epoch stores it under the revision.
func (m *Manifest) Stamped(epoch pos.Epoch, revision pos.Revision) *Manifest {
	s := *m
	s.Epoch, s.Revision = epoch, revision
	return &s
}

// Empty reports whether the remote tier holds nothing.
func (m *Manifest) Empty() bool { return len(m.Entries) == 0 }

// Check reports which invariant of Manifest does not hold.
func (m *Manifest) Check() error {
	if m.First < 0 || m.First > m.Next {
		return fmt.Errorf("manifest: invariant 1: first offset %d, next %d", m.First, m.Next)
	}
	if m.Empty() {
		if m.First != m.Next || m.Size != 0 || m.FirstTime != pos.NoMillis || m.FirstLastTime != pos.NoMillis {
			return fmt.Errorf("manifest: invariant 2: no entries, but [%d, %d), %d bytes, times %d and %d",
				m.First, m.Next, m.Size, m.FirstTime, m.FirstLastTime)
		}
		return nil
	}
	head, tail := &m.Entries[0], &m.Entries[len(m.Entries)-1]
	if m.First != head.First || m.Next != tail.Next || m.FirstTime != head.FirstTime || m.FirstLastTime != head.LastTime {
		return fmt.Errorf("manifest: invariant 3: [%d, %d) from %d to %d, but the entries say [%d, %d) from %d to %d",
			m.First, m.Next, m.FirstTime, m.FirstLastTime, head.First, tail.Next, head.FirstTime, head.LastTime)
	}
	var size int64
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("manifest: invariant 4: entry %d: %w", i, err)
		}
		if i > 0 && e.First < m.Entries[i-1].Next {
			return fmt.Errorf("manifest: invariant 5: entry %d begins at %d, before %d, where the one before it ends", i, e.First, m.Entries[i-1].Next)
		}
		size += e.Size
	}
	if size != m.Size {
		return fmt.Errorf("manifest: invariant 6: size is %d, the entries add up to %d", m.Size, size)
	}
	return nil
}

func (e *Entry) check() error {
	switch {
	case e.Kind == KindGroup, e.Kind == KindKilo, e.Kind == KindMega:
		return fmt.Errorf("it is a %s, which this version can't read: a newer Millrace wrote it, upgrade this node", e.Kind)
	case e.Kind != KindFragment:
		return fmt.Errorf("%s is unknown", e.Kind)
	case e.First < 0 || e.Next <= e.First:
		return fmt.Errorf("records [%d, %d)", e.First, e.Next)
	case e.Size <= 0 || e.Chunks <= 0:
		return fmt.Errorf("%d bytes in %d chunks", e.Size, e.Chunks)
	case e.UID.IsZero():
		return errors.New("it has no uid")
	case e.LastTime < e.FirstTime:
		return fmt.Errorf("latest time %d is before the first, %d", e.LastTime, e.FirstTime)
	}
	return nil
}

// Find returns the entry that contains o or, if none does, the first that follows
// it. Not ok: o lies at or above Next, or there are no entries.
func (m *Manifest) Find(o pos.Offset) (i int, ok bool) {
	i = sort.Search(len(m.Entries), func(i int) bool { return m.Entries[i].Next > o })
	return i, i < len(m.Entries)
}

// FindTime returns the first entry that has a chunk of time t or later. Not ok:
// all are earlier. It looks at every entry before it: timestamps need not rise.
func (m *Manifest) FindTime(t pos.Millis) (i int, ok bool) {
	i = slices.IndexFunc(m.Entries, func(e Entry) bool { return e.LastTime >= t })
	return max(i, 0), i >= 0
}

// Gap is a run of records that the stream had and no tier has: [From, To).
type Gap struct{ From, To pos.Offset }

// Gaps returns the declared gaps, in order.
func (m *Manifest) Gaps() []Gap {
	var gaps []Gap
	for i := 1; i < len(m.Entries); i++ {
		if from, to := m.Entries[i-1].Next, m.Entries[i].First; from < to {
			gaps = append(gaps, Gap{From: from, To: to})
		}
	}
	return gaps
}
