package fakedisk

import "maps"

// entryOp is one create (node set) or remove (node nil) that no SyncDir covered.
type entryOp struct {
	name string
	node *node
}

// folder holds the names of one level. It is itself durable: Lease makes it so.
type folder struct {
	entries map[string]*node
	durable map[string]*node
	ops     []entryOp
}

func newFolder() *folder {
	return &folder{entries: map[string]*node{}, durable: map[string]*node{}}
}

func (f *folder) link(name string, n *node) {
	f.entries[name] = n
	f.ops = append(f.ops, entryOp{name, n})
}

func (f *folder) unlink(name string) {
	delete(f.entries, name)
	f.ops = append(f.ops, entryOp{name, nil})
}

func (f *folder) sync() {
	f.durable = maps.Clone(f.entries)
	f.ops = nil
}

// crashed returns the entries after a power loss that let the first kept ops through.
func (f *folder) crashed(kept int) map[string]*node {
	entries := maps.Clone(f.durable)
	for _, op := range f.ops[:min(max(kept, 0), len(f.ops))] {
		if op.node == nil {
			delete(entries, op.name)
		} else {
			entries[op.name] = op.node
		}
	}
	return entries
}
