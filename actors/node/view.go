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
	at.Children = supervision.Below(at.Handle)
	return n.show(at, q), nil
}

// find returns the process at a path, and nothing below it. A stream's name stands for its
// id. Where nothing says otherwise the path begins at the node.
func (n *Node) find(at string) (supervision.Node, error) {
	if err := n.ambiguous(at); err != nil {
		return supervision.Node{}, err
	}
	here, rest := n.walk(at)
	if rest == "" {
		return here, nil
	}
	if !isFactory(here) {
		rest, _, _ = strings.Cut(rest, "/")
	}
	return here, &admin.Error{Class: admin.NotFound, What: fmt.Sprintf("there is no process %q below %s", rest, here.Path), Hint: "millrace tree " + here.Path + " shows what there is"}
}

// ambiguous refuses a path that ends in a worker's id and is, as a whole, the name of another
// stream too. Ids have no slashes, so that they tell one from the other.
func (n *Node) ambiguous(at string) error {
	at = strings.Trim(strings.TrimPrefix(strings.Trim(at, "/"), "node/"), "/")
	for _, factory := range []string{idLog, idCaptures, path.Join(idTiering, idStreamFactory)} {
		whole, below := strings.CutPrefix(at, factory+"/")
		worker := workers[path.Base(factory)]
		name, ends := strings.CutSuffix(whole, "/"+worker)
		if !below || !ends {
			continue
		}
		one, other := n.keptAs(path.Base(factory), whole), n.keptAs(path.Base(factory), name)
		if one != "" && other != "" {
			base := path.Join("node", factory)
			return &admin.Error{
				Class: admin.Invalid, What: fmt.Sprintf("%s can mean %q, or the %s of %q", path.Join("node", at), whole, worker, name),
				Hint: fmt.Sprintf("give the id: %s, or %s", path.Join(base, one), path.Join(base, other, worker)),
			}
		}
	}
	return nil
}

// walk follows a path as far as there are processes, and returns what is left of it. The
// name of a stream without a process is not taken for a shorter one that has one.
func (n *Node) walk(at string) (here supervision.Node, rest string) {
	here = supervision.Here(n.root.Load())
	rest = strings.Trim(at, "/")
	if first, after, _ := strings.Cut(rest, "/"); first == here.ID {
		rest = after
	}
	for rest != "" {
		var child supervision.Node
		found := false
		after, known := nextPart(rest, isFactory(here), func(part string) bool {
			child, found = n.child(here, part)
			return found || isFactory(here) && n.keptAs(here.ID, part) != ""
		})
		if !known || !found {
			break
		}
		here, rest = child, after
	}
	return here, rest
}

// nextPart finds the first part of a path. The name of a stream, below a factory, may hold
// slashes: there the longest that is one is taken.
func nextPart(path string, names bool, is func(part string) bool) (rest string, found bool) {
	if !names {
		part, rest, _ := strings.Cut(path, "/")
		return rest, is(part)
	}
	const longest = 256 // more than a name has
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '/') {
		if end < longest && is(path[:end]) {
			return strings.TrimPrefix(path[end:], "/"), true
		}
	}
	return path, false
}

// child returns one process below another, by its id or by the name of its stream.
func (n *Node) child(of supervision.Node, part string) (supervision.Node, bool) {
	ids := []string{part}
	if id, ok := n.rows.named(part); ok {
		ids = append(ids, id.String())
	}
	for _, id := range ids {
		if c, ok := supervision.LookAt(of.Handle, id); ok {
			return c, true
		}
	}
	for _, id := range ids {
		if away, ok := n.absences.at(path.Join(of.Path, id)); ok && isFactory(of) && of.Handle.Alive() {
			return away.node(path.Join(of.Path, id)), true
		}
	}
	return supervision.Node{}, false
}

// below lists the children of a process, with those of a factory that are parked or stopped.
func (n *Node) below(t supervision.Node) []supervision.Node {
	if !isFactory(t) || !t.Handle.Alive() {
		return t.Children
	}
	all := t.Children
	for _, away := range n.absences.below(t.Path) {
		if !slices.ContainsFunc(t.Children, func(c supervision.Node) bool { return c.ID == away.ID }) {
			all = append(all, away)
		}
	}
	return all
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
	case "restarting", "zombie", "stuck", admin.StateParked, admin.StateStopped:
		return true
	case "undefined":
		if t.ID == idTiering {
			return n.wish.enabled()
		}
		return !strings.HasPrefix(t.LastExit, "normal")
	}
	return t.Restarts > 0
}

// note says why a process does not run, and what will start it.
func (n *Node) note(t supervision.Node) string {
	switch {
	case absent(t):
		return t.State + ": " + factories[path.Base(path.Dir(t.Path))]
	case t.State != "undefined":
		return ""
	case t.ID == idTiering && !n.wish.enabled():
		return "disabled by the " + n.wish.by() + "; millrace tiering enable starts it"
	case t.ID == idTiering:
		return "gave up; the keeper starts it again within a minute"
	case strings.HasPrefix(t.LastExit, "normal"):
		return "not needed"
	}
	if starts := factories[path.Base(path.Dir(path.Dir(t.Path)))]; starts != "" {
		return "stopped; " + starts
	}
	return "millrace tree restart " + t.Path + " starts it"
}

// label is the name of the stream behind an id, "" if it is no stream's.
func (n *Node) label(id string) string {
	if l, ok := n.hooks.Lookup(pos.StreamID(id)); ok {
		return l.Name
	}
	row, _ := n.rows.of(pos.StreamID(id))
	return row.Name
}
