package node

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/supervision"
)

// snapshot is the tree as the supervisors show it.
func (n *Node) snapshot() supervision.Node { return supervision.Tree(n.root.Load()) }

// Tree implements admin.Node.
func (n *Node) Tree(q admin.TreeQuery) (admin.TreeNode, error) {
	if q.Limit <= 0 {
		q.Limit = admin.DefaultPage
	}
	q.Limit = min(q.Limit, admin.MaxPage)
	from := q.Path
	if from == "" {
		from = q.Factory
	}
	at, err := n.find(from)
	if err != nil {
		return admin.TreeNode{}, err
	}
	if q.Factory != "" {
		factory, err := n.find(q.Factory)
		if err != nil {
			return admin.TreeNode{}, err
		}
		if !isFactory(factory) {
			return admin.TreeNode{}, &admin.Error{Class: admin.Invalid, What: fmt.Sprintf("%s is no factory", factory.Path), Hint: "leave factory out; path=" + factory.Path + " shows it"}
		}
		q.Factory = factory.Path
	}
	return n.show(at, q), nil
}

// find returns the process at a path. A stream's name stands for its id. Where nothing
// says otherwise the path begins at the node.
func (n *Node) find(at string) (supervision.Node, error) {
	parts := strings.FieldsFunc(at, func(r rune) bool { return r == '/' })
	here := n.snapshot()
	if len(parts) > 0 && parts[0] == here.ID {
		parts = parts[1:]
	}
	for _, id := range parts {
		below := n.below(here)
		i := slices.IndexFunc(below, func(c supervision.Node) bool { return c.ID == id })
		if i < 0 {
			i = slices.IndexFunc(below, func(c supervision.Node) bool { return n.label(c.ID) == id })
		}
		if i < 0 {
			return here, &admin.Error{Class: admin.NotFound, What: fmt.Sprintf("there is no process %q below %s", id, here.Path), Hint: "millrace tree " + here.Path + " shows what there is"}
		}
		here = below[i]
	}
	return here, nil
}

// below lists the children of a process, with those of a factory that are parked.
func (n *Node) below(t supervision.Node) []supervision.Node {
	if !isFactory(t) || !t.Handle.Alive() {
		return t.Children
	}
	return append(t.Children, n.parked.below(t.Path)...)
}

func isFactory(t supervision.Node) bool {
	return t.Budget != nil && t.Budget.Strategy == supervision.SimpleOneForOne.String()
}

// show adds what the node knows to a part of the tree, and cuts factories down to a page.
func (n *Node) show(t supervision.Node, q admin.TreeQuery) admin.TreeNode {
	shown := admin.TreeNode{Node: t, Label: n.label(t.ID), Note: n.note(t), Trouble: n.troubled(t)}
	shown.Node.Children = nil
	children := n.below(t)
	if isFactory(t) {
		shown.Page, children = n.page(t.Path, children, q)
	}
	for _, c := range children {
		shown.Children = append(shown.Children, n.show(c, q))
	}
	return shown
}

// page picks the children of a factory that are shown: those in trouble first, then by
// name.
func (n *Node) page(factory string, all []supervision.Node, q admin.TreeQuery) (*admin.TreePage, []supervision.Node) {
	p := &admin.TreePage{Total: len(all), Limit: q.Limit, States: map[string]int{}}
	if q.Factory == factory || q.Factory == "" {
		p.Offset = max(0, q.Offset)
	}
	type ranked struct {
		supervision.Node
		rank int
		name string
	}
	var matched []ranked
	for _, c := range all {
		rank := 1
		if n.troubledBelow(c) {
			rank = 0
			p.Troubled++
		}
		p.States[c.State]++
		name := cmp.Or(n.label(c.ID), c.ID)
		if strings.Contains(c.ID, q.Search) || strings.Contains(name, q.Search) {
			matched = append(matched, ranked{c, rank, name})
		}
	}
	slices.SortStableFunc(matched, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name)) })
	p.Matched = len(matched)
	first := min(p.Offset, len(matched))
	var page []supervision.Node
	for _, m := range matched[first:min(first+q.Limit, len(matched))] {
		page = append(page, m.Node)
	}
	return p, page
}

// troubledBelow reports whether a process or one below it is in trouble.
func (n *Node) troubledBelow(t supervision.Node) bool {
	return n.troubled(t) || slices.ContainsFunc(t.Children, n.troubledBelow)
}

// troubled reports whether an operator should look at a process: it does not run and
// should, an earlier incarnation of it still does, or it was restarted just now.
func (n *Node) troubled(t supervision.Node) bool {
	switch t.State {
	case "restarting", "zombie", "stuck", admin.StateParked:
		return true
	case "undefined":
		return !strings.HasPrefix(t.LastExit, "normal") && (t.ID != idTiering || n.wish.enabled())
	}
	return t.Restarts > 0
}

// note says why a process does not run, and what will start it.
func (n *Node) note(t supervision.Node) string {
	switch {
	case t.State == admin.StateParked:
		return "parked: " + factories[path.Base(path.Dir(t.Path))]
	case t.State != "undefined":
		return ""
	case t.ID == idTiering && !n.wish.enabled():
		return "disabled by the " + n.wish.by() + "; millrace tiering enable starts it"
	case t.ID == idTiering:
		return "gave up; the keeper starts it again within a minute"
	case strings.HasPrefix(t.LastExit, "normal"):
		return "not needed"
	}
	return "millrace tree restart " + t.Path + " starts it"
}

// label is the name of the stream behind an id, "" if it is no stream's.
func (n *Node) label(id string) string {
	if l, ok := n.hooks.Lookup(pos.StreamID(id)); ok {
		return l.Name
	}
	name, ok := n.names.Load(id)
	if !ok {
		return ""
	}
	return name.(string)
}

// labelOf is the label of the one part of a path that has one.
func (n *Node) labelOf(at string) string {
	parts := strings.Split(at, "/")
	for i := 1; i < len(parts); i++ {
		if _, ok := factories[parts[i-1]]; ok {
			return n.label(parts[i])
		}
	}
	return ""
}
