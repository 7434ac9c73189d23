package manifest

import (
	"fmt"
	"slices"

	"millrace/core/pos"
)

// Op says what an Edit does.
type Op uint8

// Operations of an Edit.
const (
	OpAppend     Op = iota + 1 // adds Entry at the end
	OpTruncate                 // keeps the first Count entries
	OpRemoveHead               // removes the first Count entries
	OpReset                    // removes all entries and begins anew at At
)

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpAppend:
		return "append"
	case OpTruncate:
		return "truncate"
	case OpRemoveHead:
		return "remove head"
	case OpReset:
		return "reset"
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Edit is one change of a manifest, and the unit by which changes travel. It names
// what it was made for, so that one applied twice, out of turn or to another
// manifest is refused. Make it with AppendEdit, TruncateEdit, RemoveHeadEdit or
// ResetEdit.
type Edit struct {
	Op    Op
	Entry Entry      // append: what is added
	Count int        // truncate: entries kept; remove head: entries removed
	Len   int        // entries before the edit; a reset takes any number
	At    pos.Offset // append: next offset before; truncate, reset: next offset after; remove head: first offset after
}

// AppendEdit adds e behind m's last entry. Where e begins above m.Next, the records
// between become a declared gap, unless m is empty: then the manifest begins at e.
func AppendEdit(m *Manifest, e Entry) Edit {
	return Edit{Op: OpAppend, Entry: e, Len: len(m.Entries), At: m.Next}
}

// TruncateEdit keeps the first keep entries of m: the others diverge from the log.
// With keep 0 the next offset becomes m.First.
func TruncateEdit(m *Manifest, keep int) Edit {
	at := m.First
	if keep > 0 && keep <= len(m.Entries) {
		at = m.Entries[keep-1].Next
	}
	return Edit{Op: OpTruncate, Count: keep, Len: len(m.Entries), At: at}
}

// RemoveHeadEdit removes the n oldest entries of m. Its next offset stays.
func RemoveHeadEdit(m *Manifest, n int) Edit {
	at := m.Next
	if n >= 0 && n < len(m.Entries) {
		at = m.Entries[n].First
	}
	return Edit{Op: OpRemoveHead, Count: n, Len: len(m.Entries), At: at}
}

// ResetEdit gives up all entries; the remote tier begins anew at the offset at.
func ResetEdit(at pos.Offset) Edit { return Edit{Op: OpReset, At: at} }

// Apply returns m with the edits applied in order, or an error if one of them was
// not made for it. Epoch and revision stay: see Stamped. It copies the entries
// once, however many edits there are; who applies edits all the time holds a Draft.
func (m *Manifest) Apply(edits ...Edit) (*Manifest, error) {
	d := m.Draft()
	for _, e := range edits {
		if err := d.Apply(e); err != nil {
			return nil, err
		}
	}
	return d.Manifest(), nil
}

// Draft is a manifest that its owner changes in place: an append costs a constant
// amount, averaged over many. It is for one goroutine; the manifests it gives out
// are for everybody.
type Draft struct {
	// m.Entries may have room behind its end that no manifest given out can see.
	m Manifest
}

// Draft returns a draft that begins as m.
func (m *Manifest) Draft() *Draft {
	d := &Draft{m: *m}
	d.m.Entries = slices.Clip(m.Entries)
	return d
}

// Manifest returns what the draft holds now.
func (d *Draft) Manifest() *Manifest {
	m := d.m
	m.Entries = slices.Clip(m.Entries)
	return &m
}

// Stamp sets the epoch and the revision of the manifests to come.
func (d *Draft) Stamp(epoch pos.Epoch, revision pos.Revision) {
	d.m.Epoch, d.m.Revision = epoch, revision
}

// Apply applies one edit. On an error nothing changed.
func (d *Draft) Apply(e Edit) error {
	if e.Op != OpReset && e.Len != len(d.m.Entries) {
		return fmt.Errorf("manifest: %s was made for %d entries, there are %d: ask for the whole manifest", e.Op, e.Len, len(d.m.Entries))
	}
	switch e.Op {
	case OpAppend:
		return d.append(e)
	case OpTruncate:
		return d.truncate(e)
	case OpRemoveHead:
		return d.removeHead(e)
	case OpReset:
		return d.reset(e)
	}
	return fmt.Errorf("manifest: %s is unknown: ask for the whole manifest", e.Op)
}

func (d *Draft) append(e Edit) error {
	if err := e.Entry.check(); err != nil {
		return fmt.Errorf("manifest: append of [%d, %d): %w", e.Entry.First, e.Entry.Next, err)
	}
	if e.At != d.m.Next || e.Entry.First < d.m.Next {
		return fmt.Errorf("manifest: append of [%d, %d) was made for the next offset %d, which is %d", e.Entry.First, e.Entry.Next, e.At, d.m.Next)
	}
	d.m.Entries = append(d.m.Entries, e.Entry)
	d.m.Next = e.Entry.Next
	d.m.Size += e.Entry.Size
	d.setHead()
	return nil
}

func (d *Draft) truncate(e Edit) error {
	if e.Count < 0 || e.Count > len(d.m.Entries) {
		return fmt.Errorf("manifest: truncate keeps %d of %d entries", e.Count, len(d.m.Entries))
	}
	next := d.m.First
	if e.Count > 0 {
		next = d.m.Entries[e.Count-1].Next
	}
	if e.At != next {
		return fmt.Errorf("manifest: truncate to %d entries was made to end at %d, it would end at %d", e.Count, e.At, next)
	}
	for _, gone := range d.m.Entries[e.Count:] {
		d.m.Size -= gone.Size
	}
	// Without room behind its end: the next append must not write over entries
	// that manifests given out still show.
	d.m.Entries = d.m.Entries[:e.Count:e.Count]
	d.m.Next = next
	d.setHead()
	return nil
}

func (d *Draft) removeHead(e Edit) error {
	if e.Count < 0 || e.Count > len(d.m.Entries) {
		return fmt.Errorf("manifest: remove head takes %d of %d entries", e.Count, len(d.m.Entries))
	}
	first := d.m.Next
	if e.Count < len(d.m.Entries) {
		first = d.m.Entries[e.Count].First
	}
	if e.At != first {
		return fmt.Errorf("manifest: remove head of %d entries was made to begin at %d, it would begin at %d", e.Count, e.At, first)
	}
	for _, gone := range d.m.Entries[:e.Count] {
		d.m.Size -= gone.Size
	}
	d.m.Entries = d.m.Entries[e.Count:]
	d.setHead()
	return nil
}

func (d *Draft) reset(e Edit) error {
	if !e.At.Valid() {
		return fmt.Errorf("manifest: reset at offset %d", e.At)
	}
	d.m.Entries, d.m.Next, d.m.Size = nil, e.At, 0
	d.setHead()
	return nil
}

// setHead derives what Manifest says of its oldest entry (invariants 2 and 3).
func (d *Draft) setHead() {
	if len(d.m.Entries) == 0 {
		d.m.Entries = nil
		d.m.First, d.m.FirstTime, d.m.FirstLastTime = d.m.Next, pos.NoMillis, pos.NoMillis
		return
	}
	head := &d.m.Entries[0]
	d.m.First, d.m.FirstTime, d.m.FirstLastTime = head.First, head.FirstTime, head.LastTime
}
