package fakedisk

import (
	"maps"
	"slices"
)

// KillClone returns what kill -9 leaves: everything written, whether synced or not,
// and still subject to a later power loss. d and its handles fail from now on.
func (d *Disk) KillClone() *Disk {
	seen := map[*node]*node{}
	return d.clone(func(f *folder) *folder {
		kept := newFolder()
		for name, n := range f.entries {
			kept.entries[name] = cloneOnce(seen, n, (*node).clone)
		}
		for name, n := range f.durable {
			kept.durable[name] = cloneOnce(seen, n, (*node).clone)
		}
		for _, op := range f.ops {
			if op.node != nil {
				op.node = cloneOnce(seen, op.node, (*node).clone)
			}
			kept.ops = append(kept.ops, op)
		}
		return kept
	})
}

// CrashClone returns what a power loss leaves: what was synced, and of the rest what
// keep chooses. keep is asked for each folder how many of its creates and removes
// went through (in the order they were done), and for each file that is left how much
// of its unsynced changes did: bytes in the order they were written, so that the last
// write may be torn; a truncate counts as one. Folders and files are asked about in
// lexical order. nil keeps nothing. d and its handles fail from now on.
func (d *Disk) CrashClone(keep func(unsynced int) int) *Disk {
	return d.powerLoss(keep, func(n *node) *node {
		unsynced := n.unsynced()
		if unsynced == 0 || keep == nil {
			return n.crashed(0)
		}
		return n.crashed(keep(unsynced))
	})
}

// PageClone returns what a power loss leaves on a file system that writes back in
// any order: all creates and removes and all sizes went through, but of the pages of
// 4 KiB that were not synced only those that keep chooses; the others hold what was
// synced before, or zeros. d and its handles fail from now on.
func (d *Disk) PageClone(keep func(page int) bool) *Disk {
	everything := func(unsynced int) int { return unsynced }
	return d.powerLoss(everything, func(n *node) *node { return n.paged(keep) })
}

func (d *Disk) powerLoss(entries func(unsynced int) int, file func(*node) *node) *Disk {
	seen := map[*node]*node{}
	return d.clone(func(f *folder) *folder {
		kept := 0
		if len(f.ops) > 0 && entries != nil {
			kept = entries(len(f.ops))
		}
		left := f.crashed(kept)
		after := newFolder()
		for _, name := range slices.Sorted(maps.Keys(left)) {
			after.entries[name] = cloneOnce(seen, left[name], file)
		}
		after.sync()
		return after
	})
}

// clone makes the next disk of each folder and kills this one. The hooks do not go
// over: what fails next is for the caller to say.
func (d *Disk) clone(next func(*folder) *folder) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	after := New()
	after.capacity = d.capacity
	for _, name := range slices.Sorted(maps.Keys(d.folders)) {
		after.folders[name] = next(d.folders[name])
	}
	return after
}

func cloneOnce(seen map[*node]*node, n *node, clone func(*node) *node) *node {
	if seen[n] == nil {
		seen[n] = clone(n)
	}
	return seen[n]
}
