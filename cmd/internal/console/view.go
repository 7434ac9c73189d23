package console

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"millrace/actors/admin"
)

// Query is what of the node is looked at.
type Query struct {
	Search   string // in the names of streams, and of processes in a factory
	Troubled bool   // streams in trouble only
	Offset   int    // of the first stream shown
	Factory  string // path of the factory of which another page is shown
	Page     int    // offset in Factory
	Problems bool   // events of trouble only
}

// The numbers of rows on one page.
const (
	streamRows  = 20
	factoryRows = 8
	eventRows   = 25
)

// View is the content of the page.
type View struct {
	Now      time.Time
	Query    Query
	Node     admin.NodeStatus
	Tiering  Chip
	Access   Chip
	Headline string // one sentence: how the node is
	Calm     bool   // there is nothing to look at
	Streams  Streams
	Captures []Capture
	Tree     Process
	Events   []Event
	Kept     int // events remembered
}

// Chip is a state as a word with a colour. Tone is good, busy, wait, bad or off.
type Chip struct{ Word, Tone string }

// Pager is a way to the pages beside this one. Prev and Next are offsets, -1: none.
type Pager struct {
	First, Last, Of int // shown, counted from 1
	Prev, Next      int
}

func pager(offset, shown, of, size int) Pager {
	p := Pager{First: offset + 1, Last: offset + shown, Of: of, Prev: -1, Next: -1}
	if offset > 0 {
		p.Prev = max(0, offset-size)
	}
	if offset+shown < of {
		p.Next = offset + size
	}
	if shown == 0 {
		p.First = 0
	}
	return p
}

// Look gathers the view. It waits for no process; the metadata store is asked for the
// list of streams.
func Look(ctx context.Context, n admin.Node, q Query, now time.Time) (View, error) {
	v := View{Now: now, Query: q, Node: n.Status(ctx)}
	v.Tiering = tieringChip(n.Tiering())
	v.Access = accessChip(v.Node.Access)
	all, err := n.Streams(ctx)
	if err != nil {
		return v, err
	}
	v.Streams = streams(n, v.Node, all, q)
	for _, s := range all {
		if s.Feed != "" {
			v.Captures = append(v.Captures, capture(s, now))
		}
	}
	slices.SortStableFunc(v.Captures, func(a, b Capture) int { return strings.Compare(a.Name, b.Name) })
	query := admin.TreeQuery{Path: "node", Factory: q.Factory, Offset: q.Page, Limit: factoryRows, Search: q.Search}
	tree, err := n.Tree(query)
	if err != nil { // the factory that was looked at is gone
		if tree, err = n.Tree(admin.TreeQuery{Path: "node", Limit: factoryRows, Search: q.Search}); err != nil {
			return v, err
		}
	}
	v.Tree = process(tree)
	v.Events, v.Kept = events(n.Events(0).Events, q.Problems)
	v.headline()
	return v, nil
}

// headline sums the node up in one sentence.
func (v *View) headline() {
	troubled := v.Streams.Troubled
	v.Calm = v.Node.Ready && troubled == 0 && v.Node.Zombies == 0
	switch {
	case v.Calm && len(v.Streams.Rows) == 0 && v.Streams.Total == 0:
		v.Headline = "Everything runs; there is no stream yet."
	case v.Calm:
		v.Headline = "Everything runs."
	case troubled == 1:
		v.Headline = "1 stream is in trouble."
	case troubled > 1:
		v.Headline = thousands(troubled) + " streams are in trouble."
	case v.Node.Zombies > 0:
		v.Headline = "Processes that were stopped still run code."
	default:
		v.Headline = "The node is not ready."
	}
}

func tieringChip(t admin.Tiering) Chip {
	switch {
	case !t.Enabled:
		return Chip{"disabled by the " + t.By, "off"}
	case t.State == "enabled":
		return Chip{"enabled", "good"}
	}
	return Chip{t.State, "bad"}
}

func accessChip(access string) Chip {
	tone := "wait"
	switch {
	case access == "yes":
		tone = "good"
	case strings.HasPrefix(access, "no ("):
		tone = "bad"
	case strings.HasPrefix(access, "not looked at"):
		tone = "off"
	}
	return Chip{access, tone}
}

// Event is one line of the list of events.
type Event struct {
	admin.Event
	Chip Chip
	At   string // path, with a stream's name in place of its id
	Like int    // how many before it were alike
}

var eventTones = map[string]string{
	"started": "good", "restarted": "busy", "ignored": "off", "child_terminated": "off", "auto_shutdown": "off", "max_intensity": "bad",
	"start_error": "bad", "shutdown_error": "wait", "zombie": "bad",
}

// events turns the list round, newest first, folds what is all alike, and cuts it.
func events(all []admin.Event, problems bool) (shown []Event, kept int) {
	for _, e := range slices.Backward(all) {
		if problems && !e.Trouble {
			continue
		}
		if n := len(shown); n > 0 && alike(shown[n-1].Event, e) {
			shown[n-1].Like++
			continue
		}
		if len(shown) == eventRows {
			break
		}
		tone := eventTones[e.Kind]
		if e.Trouble && tone != "wait" {
			tone = "bad"
		}
		if tone == "" {
			tone = "busy"
		}
		shown = append(shown, Event{Event: e, Chip: Chip{strings.ReplaceAll(e.Kind, "_", " "), tone}, At: named(e.Path, e.Label)})
	}
	return shown, len(all)
}

// alike reports whether two events are the same thing happening to two of a factory's
// many: a thousand streams that start are one line.
func alike(a, b admin.Event) bool {
	return !a.Trouble && !b.Trouble && a.Kind == b.Kind && a.Label != "" && b.Label != "" && a.Reason == b.Reason
}

// named puts a stream's name in the place of its id, which is the part of the path that
// ends with the name's letters; other paths stay.
func named(at, label string) string {
	if label == "" {
		return at
	}
	parts := strings.Split(at, "/")
	for i, part := range parts {
		if i >= 2 && (parts[i-1] == "log" || parts[i-1] == "stream_factory") && part != label {
			parts[i] = label
			return path.Join(parts...)
		}
	}
	return at
}
