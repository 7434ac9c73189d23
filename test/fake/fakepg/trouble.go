package fakepg

import (
	"fmt"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// SetDown makes the server unreachable, and breaks every connection.
func (db *DB) SetDown(down bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.down = down
	if down {
		db.breakAll("the server went down")
	}
}

// Crash restarts the server: connections, running transactions and temporary slots are
// gone, and so is the WAL that was not flushed.
func (db *DB) Crash() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.breakAll("the server crashed")
	db.rewind(db.flush)
}

// Rewind puts the server back to an LSN, as restoring an older copy of its disk does:
// the system identifier stays, slots stay but for what they had confirmed beyond. WAL
// ends between two records, the last one before to.
func (db *DB) Rewind(to pos.LSN) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.breakAll("the server was restored")
	for _, r := range db.wal {
		if r.final < to && to < r.end {
			to = r.final
		}
	}
	db.rewind(to)
	for _, s := range db.slots {
		s.confirmed = min(s.confirmed, to)
	}
}

func (db *DB) rewind(to pos.LSN) {
	db.abortRunning()
	var kept []*record
	for _, t := range db.tables {
		clear(t.rows)
	}
	for _, r := range db.wal {
		if r.end > to {
			continue
		}
		kept = append(kept, r)
		for i := range r.changes {
			db.apply(&r.changes[i])
		}
	}
	db.wal, db.lsn, db.flush, db.hold = kept, to, to, false
	db.touch()
}

func (db *DB) abortRunning() {
	for tx := range db.running {
		tx.done = true
	}
	clear(db.running)
	for _, t := range db.tables {
		clear(t.locks)
	}
}

// Promote makes the server another one: a standby on the next timeline, without slots.
func (db *DB) Promote() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.breakAll("the server was replaced")
	db.abortRunning()
	db.timeline++
	clear(db.slots)
	db.touch()
}

// SetSystemID makes the server another cluster that happens to hold the same tables.
func (db *DB) SetSystemID(id string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.breakAll("the server was replaced")
	db.abortRunning()
	db.systemID = id
	clear(db.slots)
	db.touch()
}

// SetWALLevel sets wal_level.
func (db *DB) SetWALLevel(level string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.walLevel = level
}

// SetViaRoot sets a publication's publish_via_partition_root.
func (db *DB) SetViaRoot(publication string, via bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.pub(publication).viaRoot = via
}

// FreezeStreams stops the walsenders: connections stay, and nothing comes over them.
func (db *DB) FreezeStreams(frozen bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.frozen = frozen
	db.touch()
}

// LoseSlot invalidates a slot, as max_slot_wal_keep_size does.
func (db *DB) LoseSlot(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if s := db.slots[name]; s != nil {
		s.lost = true
		if s.active != nil {
			s.active.fail(&port.PostgresError{Op: "stream", Class: pgout.SlotLost, Err: fmt.Errorf("terminating process to release replication slot %q", name)})
		}
	}
	db.touch()
}

// RemoveSlot drops a slot behind everybody's back.
func (db *DB) RemoveSlot(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if s := db.slots[name]; s != nil {
		if s.active != nil {
			s.active.fail(broken("the slot was dropped"))
		}
		delete(db.slots, name)
	}
	db.touch()
}

// AdvanceSlot moves a slot's confirmed_flush, as somebody else could.
func (db *DB) AdvanceSlot(name string, to pos.LSN) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.slots[name].confirmed = to
}

// HoldSlot makes a foreign backend hold a slot and returns its pid.
func (db *DB) HoldSlot(name string) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := db.connect()
	if s := db.slots[name]; s != nil {
		if s.active != nil {
			s.active.fail(broken("somebody else took the slot"))
		}
		s.active = c
	}
	return c.pid
}

// AddSlot makes a slot that is nobody's.
func (db *DB) AddSlot(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.slots[name] = &slot{name: name, confirmed: db.lsn, restart: db.lsn}
}

// Slot returns what the server knows of a slot; false if there is none.
func (db *DB) Slot(name string) (confirmed pos.LSN, active bool, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	s, ok := db.slots[name]
	if !ok {
		return 0, false, false
	}
	return s.confirmed, s.active != nil, true
}

// Slots is the number of slots, temporary ones included.
func (db *DB) Slots() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.slots)
}

// BreakConnections cuts every connection.
func (db *DB) BreakConnections() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.breakAll("the connection was reset")
}

func (db *DB) breakAll(why string) {
	for _, c := range db.conns {
		c.fail(broken(why))
	}
}

func broken(why string) error {
	return &port.PostgresError{Op: "receive", Class: pgout.Unavailable, Err: fmt.Errorf("%s", why)}
}
