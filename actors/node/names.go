package node

import (
	"context"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/registry"
)

// Registry implements admin.Node.
func (n *Node) Registry() []admin.RegistryEntry {
	all := n.registry.All()
	entries := make([]admin.RegistryEntry, 0, len(all))
	for _, held := range all {
		entries = append(entries, n.entry(held.Name, held.Handle))
	}
	return entries
}

// Names implements admin.Node.
func (n *Node) Names(ctx context.Context, stream string) ([]admin.RegistryEntry, error) {
	row, err := n.row(ctx, stream)
	if err != nil {
		return nil, err
	}
	names := []registry.Name{n.name(kindWriter, row.ID.String()), n.name(kindReplicaReader, row.ID.String())}
	if capture := n.captureOf(row.Name); capture != "" {
		names = append(names, n.name(kindCapturer, capture))
	}
	var entries []admin.RegistryEntry
	for _, name := range names {
		h, _ := n.registry.WhereIs(name)
		e := n.entry(name, h)
		if name.ID == row.ID.String() {
			e.Label = row.Name
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// entry shows one name; h is nil when nobody holds it.
func (n *Node) entry(name registry.Name, h *actors.Handle) admin.RegistryEntry {
	e := admin.RegistryEntry{Kind: name.Kind, ID: name.ID, Label: n.label(name.ID), Node: name.Node, State: admin.Absent}
	if h.Alive() {
		e.State, e.Path, e.Incarnation, e.MailboxLen = admin.Registered, h.Path(), h.Incarnation(), h.MailboxLen()
	}
	return e
}
