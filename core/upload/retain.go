package upload

import (
	"fmt"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// Bounds are a stream's retention, as it applies to the object store. A bound that is
// not above 0 does not bind.
type Bounds struct {
	MaxBytes int64         // of the chunks in all fragments
	MaxAge   time.Duration // since a fragment's latest chunk
}

// retain takes the oldest fragments out of the manifest that the bounds no longer want.
//
// It decides by what is persisted: what was appended since may yet be given up, and
// then more would be gone than the bounds ask for. While a removal, or another edit of
// the head, is not persisted, the live manifest no longer begins as the persisted one
// does, and nothing further is decided; so a decision is never taken twice.
func (m *Machine) retain() {
	n := m.expired()
	if n == 0 || m.contradicted || len(m.now.Entries) < n || m.now.Entries[n-1] != m.stored.Entries[n-1] {
		return
	}
	for i := range m.now.Entries[:n] {
		e := &m.now.Entries[i]
		m.drops = append(m.drops, m.fragmentKey(e.First, e.UID))
	}
	m.edit(manifest.RemoveHeadEdit(m.now, n))
}

// expired returns how many of the persisted manifest's oldest entries are to go.
func (m *Machine) expired() int {
	n, size := 0, m.stored.Size
	for ; n < len(m.stored.Entries); n++ {
		e := &m.stored.Entries[n]
		over := m.bounds.MaxBytes > 0 && size > m.bounds.MaxBytes
		if !over && !m.old(e.LastTime) {
			break
		}
		size -= e.Size
	}
	return n
}

func (m *Machine) maxAge() pos.Millis { return pos.Millis(m.bounds.MaxAge / time.Millisecond) }

// old subtracts, since a timestamp that nobody vouches for may be as large as it likes.
func (m *Machine) old(last pos.Millis) bool {
	age := m.maxAge()
	return age > 0 && last <= m.at.Now-age
}

// wakeRetention asks for a Tick when the oldest fragment comes of age: an idle stream
// expires too.
func (m *Machine) wakeRetention(earliest func(pos.Millis)) {
	if age := m.maxAge(); age > 0 && !m.stored.Empty() {
		if due := m.stored.FirstLastTime + age; due > m.at.Now {
			earliest(due)
		}
	}
}

// retired accounts for the removals among edits, which were persisted on top of old.
func (m *Machine) retired(old *manifest.Manifest, edits []manifest.Edit) {
	for _, e := range edits {
		if e.Op != manifest.OpRemoveHead {
			continue
		}
		bytes := int64(0)
		for i := range old.Entries[:e.Count] {
			bytes += old.Entries[i].Size
		}
		m.counts.Expired += int64(e.Count)
		m.counts.BytesExpired += bytes
		m.note(LevelInfo, fmt.Sprintf("retention has removed %d fragments from the object store, which begins at %s now", e.Count, e.At))
	}
}
