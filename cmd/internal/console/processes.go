package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/actors/admin"
)

// Process is one process of the tree, with those below it.
type Process struct {
	admin.TreeNode
	Name     string
	Chip     Chip
	Open     bool   // shown unfolded at first
	Restarts string // "" when there were none of late
	Counts   string // of a factory's children
	Troubled int    // of them
	Pager    *Pager
	Below    []Process
}

var stateTones = map[string]string{
	"running": "good", "starting": "busy", "stopping": "busy", "restarting": "bad", "undefined": "bad", "zombie": "bad", "stuck": "bad", "parked": "bad", "stopped": "bad",
}

func process(t admin.TreeNode) Process {
	p := Process{TreeNode: t, Name: t.ID, Chip: Chip{t.State, stateTones[t.State]}, Open: t.Page == nil}
	if t.Label != "" {
		p.Name = t.Label
	}
	switch {
	case p.Chip.Tone == "":
		p.Chip.Tone = "wait"
	case t.State == "undefined" && strings.HasPrefix(t.Note, "disabled"):
		p.Chip = Chip{"disabled", "off"}
	case t.State == "undefined" && !t.Trouble:
		p.Chip = Chip{"not needed", "off"}
	case t.State == "undefined":
		p.Chip.Word = "not running"
	}
	if p.Note == p.Chip.Word {
		p.Note = "" // said once is enough
	}
	if t.Restarts > 0 {
		p.Restarts = things(t.Restarts, "restart") + " just now"
		if p.Chip.Tone == "good" {
			p.Chip.Tone = "wait"
		}
	}
	if page := t.Page; page != nil {
		p.Open = page.Troubled > 0 || page.Offset > 0
		p.Counts, p.Troubled = counts(page), page.Troubled
		if pager := pager(page.Offset, len(t.Children), page.Matched, factoryRows); pager.Prev >= 0 || pager.Next >= 0 {
			p.Pager = &pager
		}
	}
	for _, c := range t.Children {
		below := process(c)
		if t.Page != nil {
			below.Open = troubled(c)
		}
		p.Below = append(p.Below, below)
	}
	return p
}

// troubled reports whether a process or one below it is in trouble.
func troubled(t admin.TreeNode) bool { return t.Trouble || slices.ContainsFunc(t.Children, troubled) }

func counts(page *admin.TreePage) string {
	if page.Total == 0 {
		return "empty"
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(page.States)) {
		parts = append(parts, fmt.Sprintf("%s %s", thousands(page.States[state]), state))
	}
	return strings.Join(parts, ", ")
}
