package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/upload"
)

// Streams is one page of the streams.
type Streams struct {
	Total, Troubled, Matched int
	Gapped                   int // that lost records
	Rows                     []Stream
	Pager                    Pager
}

// Stream is one stream's row.
type Stream struct {
	admin.StreamStatus
	Chip  Chip
	Range Range
	Bars  []Bar // nil: nothing uploads it
}

// streams picks the page: those in trouble first, then by name.
func streams(n admin.Node, node admin.NodeStatus, all []admin.StreamStatus, q Query) Streams {
	out := Streams{Total: len(all)}
	var matched []admin.StreamStatus
	for _, s := range all {
		if len(s.Undeclared) > 0 || s.Gaps > 0 {
			out.Gapped++
		}
		if s.Trouble != "" {
			out.Troubled++
		} else if q.Troubled {
			continue
		}
		if q.Search == "" || strings.Contains(s.Name, q.Search) || strings.Contains(s.ID, q.Search) {
			matched = append(matched, s)
		}
	}
	slices.SortStableFunc(matched, func(a, b admin.StreamStatus) int {
		return cmp.Or(cmp.Compare(calm(a), calm(b)), strings.Compare(a.Name, b.Name))
	})
	out.Matched = len(matched)
	first := min(max(0, q.Offset), max(0, len(matched)-1)/streamRows*streamRows)
	page := matched[first:min(first+streamRows, len(matched))]
	for _, s := range page {
		out.Rows = append(out.Rows, Stream{
			StreamStatus: s, Chip: streamChip(s), Range: drawRange(s, n.Gaps(pos.StreamID(s.ID))), Bars: bars(s, node.FragmentBytes),
		})
	}
	out.Pager = pager(first, len(page), out.Matched, streamRows)
	return out
}

func calm(s admin.StreamStatus) int {
	if s.Trouble != "" {
		return 0
	}
	return 1
}

func streamChip(s admin.StreamStatus) Chip {
	switch s.State {
	case "running":
		if s.Trouble != "" {
			return Chip{"running, needs a look", "wait"}
		}
		return Chip{"running", "good"}
	case "opening", "recovering":
		return Chip{s.State, "busy"}
	case "waiting":
		return Chip{s.State, "wait"}
	}
	return Chip{s.State, "bad"}
}

// scale is the width of a drawing in its own units, sliver the least that can be seen.
const (
	scale  = 1000.0
	sliver = 3.0
)

// Part is a stretch of a drawing.
type Part struct{ X, W float64 }

// Range is where a stream's records lie, drawn to scale from the first that can be read
// to the next that will be written.
type Range struct {
	First, Next pos.Offset
	Store, Disk []Part
	Gaps        []Part
	Seam        *Part
	GapRecords  int64
	GapCount    int
	NotStored   int64
	Words       string // the drawing in words
}

func drawRange(s admin.StreamStatus, gaps []admin.Gap) Range {
	r := Range{First: s.First, Next: s.Next}
	if !r.First.Valid() { // what the store holds is not known: what is on disk is drawn
		r.First = s.LocalFirst
	}
	if !r.First.Valid() || s.Next <= r.First {
		r.Words = "Nothing is written yet."
		if s.Next > 0 {
			r.Words = "Nothing is left: retention has removed all that was written."
		}
		if s.RemoteWhy != "" && s.Next > 0 {
			r.Words = "On disk: nothing. In the store: not known: " + s.RemoteWhy + "."
		}
		return r
	}
	stored := s.RemoteFirst.Valid() && s.SeamNext > s.RemoteFirst
	gaps = slices.Clone(gaps)
	for _, g := range s.Undeclared {
		if g.From >= r.First { // else nothing before it can be read
			gaps = append(gaps, g)
		}
	}
	var words []string
	if stored {
		r.Seam = &Part{X: r.at(s.SeamNext) - sliver/2, W: sliver}
		from := s.RemoteFirst
		for _, g := range gaps {
			if from < g.From {
				r.Store = append(r.Store, r.part(from, min(g.From, s.SeamNext)))
			}
			from = g.To
		}
		if from < s.SeamNext {
			r.Store = append(r.Store, r.part(from, s.SeamNext))
		}
		words = append(words, fmt.Sprintf("In the store: offsets %s to %s, %s.", thousands(s.RemoteFirst), thousands(s.SeamNext-1), size(s.RemoteBytes)))
	} else if s.RemoteWhy != "" {
		words = append(words, "In the store: not known: "+s.RemoteWhy+".")
	} else {
		words = append(words, "In the store: nothing.")
	}
	if s.LocalFirst < s.Next {
		r.Disk = append(r.Disk, r.part(s.LocalFirst, s.Next))
		words = append(words, fmt.Sprintf("On disk: offsets %s to %s, %s.", thousands(s.LocalFirst), thousands(s.Next-1), size(s.LocalBytes)))
	} else {
		words = append(words, "On disk: nothing.")
	}
	for _, g := range gaps {
		r.Gaps = append(r.Gaps, r.part(g.From, g.To))
		r.GapRecords += int64(g.To - g.From)
	}
	if r.GapCount = len(gaps); r.GapCount > 0 {
		words = append(words, fmt.Sprintf("Lost: %s records in gaps.", thousands(r.GapRecords)))
	}
	r.NotStored = max(0, int64(s.Next-max(s.SeamNext, s.LocalFirst, 0)))
	r.Words = strings.Join(words, " ")
	return r
}

// at is the place of an offset on the drawing.
func (r Range) at(o pos.Offset) float64 {
	return scale * float64(o-r.First) / float64(r.Next-r.First)
}

// part is a stretch that can be seen, inside the drawing.
func (r Range) part(first, next pos.Offset) Part {
	p := Part{X: r.at(first), W: r.at(next) - r.at(first)}
	if p.W < sliver {
		p.W = sliver
		p.X = min(p.X, scale-sliver)
	}
	return p
}

// Bar is how full one stage of the way to the store is.
type Bar struct {
	Stage string
	Fill  float64 // of 100
	Size  string
	Count string // what the bytes are in; "" if there is nothing
}

// window is how many fragments may be ahead of the stored manifest.
const window = 8

// bars are the three stages of a stream's uploading.
func bars(s admin.StreamStatus, fragment int64) []Bar {
	u, ok := s.Tiering.(upload.Status)
	if !ok {
		return nil
	}
	p := u.Pipeline
	flights := p.Cut + p.Submitted + p.Uploading + p.Uploaded
	var objects, edits string
	if flights > 0 {
		objects = things(flights, "object")
	}
	if n := p.Edits + p.EditsInPersist; n > 0 {
		edits = things(n, "edit")
	}
	return []Bar{
		{"assembly", part(u.Fragment.Bytes, fragment), size(u.Fragment.Bytes), ""},
		{"transfer", part(p.Bytes, window*fragment), size(p.Bytes), objects},
		{"persist", part(p.BytesInPersist, window*fragment), size(p.BytesInPersist), edits},
	}
}

func things(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// part is a share in percent that shows when it is not nothing.
func part(n, of int64) float64 {
	if n <= 0 || of <= 0 {
		return 0
	}
	return min(100, max(1, 100*float64(n)/float64(of)))
}
