package segment_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
	"millrace/core/segment"
)

var update = flag.Bool("update", false, "write the traces anew")

// TestTraces plays the scripts of testdata. Lines that begin with ">" are inputs, the
// lines after each are what the machine answers, and "=" is its status.
func TestTraces(t *testing.T) {
	for _, name := range []string{"always", "failures", "lazy", "cluster", "captured"} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/" + name + ".trace"
			was, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(was))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(was) {
				t.Errorf("%s differs (go test -run TestTraces -update writes it anew):\n%s", file, got)
			}
		})
	}
}

// player is the machine of one trace. Time stands still but for "at=".
type player struct {
	m    *segment.Machine
	now  pos.Millis
	sync segment.Synced // what a Sync asked to be told
}

func play(t *testing.T, script string) string {
	var p player
	var out strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"), line == "":
			fmt.Fprintln(&out, line)
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&out, line)
			p.line(t, &out, line[2:])
		}
	}
	return out.String()
}

func (p *player) line(t *testing.T, out *strings.Builder, line string) {
	words := strings.Fields(line)
	args := arguments{t: t, line: line, of: map[string]string{}}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args.of[k] = v
	}
	if at, ok := args.of["at"]; ok {
		p.now = pos.Millis(args.int(at))
	}
	if words[0] == "new" {
		mode, err := segment.ParseSyncMode(args.of["mode"])
		if err != nil {
			t.Fatal(err)
		}
		p.m = segment.New(segment.Config{Mode: mode, SegmentMaxBytes: args.n("segment"), Retention: args.retention()})
		return
	}
	for _, e := range p.m.Step(p.input(words[0], args), nil) {
		if s, ok := e.(*segment.Sync); ok {
			p.sync = s.Done
		}
		fmt.Fprintf(out, "    %s\n", describe(e))
	}
	if err := p.m.Check(); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	s := p.m.Status()
	fmt.Fprintf(out, "  = %s first %s committed %s synced %s last %s, %d segments, %d bytes", s.State, s.First, s.Committed, s.Synced, s.Last, s.Segments, s.Bytes)
	if s.Why != "" {
		fmt.Fprintf(out, " (%s)", s.Why)
	}
	if at, ok := p.m.Due(); ok {
		fmt.Fprintf(out, ", due %d", int64(at))
	}
	fmt.Fprintln(out)
}

type arguments struct {
	t    *testing.T
	line string
	of   map[string]string
}

func (a arguments) int(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return n
}

func (a arguments) n(key string) int64 {
	if v, ok := a.of[key]; ok {
		return a.int(v)
	}
	return 0
}

func (a arguments) offset(key string) pos.Offset {
	if v, ok := a.of[key]; ok {
		return pos.Offset(a.int(v))
	}
	return pos.NoOffset
}

func (a arguments) retention() segment.Retention {
	return segment.Retention{
		MaxBytes: a.n("max"), LocalMaxBytes: a.n("local_max"), LocalMinBytes: a.n("local_min"),
		MaxAge: time.Duration(a.n("age")) * time.Millisecond,
	}
}

func (p *player) input(word string, a arguments) segment.Input {
	switch word {
	case "tick":
		_, want := a.of["want_sync"]
		_, quiet := a.of["quiet"]
		return &segment.Tick{Now: p.now, WantSync: want, Quiet: quiet}
	case "found":
		return p.found(a)
	case "batch":
		return &segment.Batch{Records: uint32(a.n("records")), Size: a.n("size"), Now: p.now}
	case "synced":
		p.sync.Now = p.now
		return &p.sync
	case "commit":
		return &segment.Committed{Next: a.offset("next"), Now: p.now}
	case "retain":
		in := &segment.Retain{Seam: a.offset("seam"), Captured: a.offset("captured"), Now: p.now}
		if _, ok := a.of["set"]; ok {
			r := a.retention()
			in.Set = &r
		}
		return in
	case "cut":
		return &segment.Cut{Epoch: pos.Epoch(a.n("epoch")), End: a.offset("end"), Now: p.now}
	case "fail":
		ops := map[string]segment.Op{
			"open": segment.OpOpen, "roll": segment.OpRoll, "roll_sync": segment.OpRollSync, "write": segment.OpWrite,
			"sync": segment.OpSync, "truncate": segment.OpTruncate, "remove": segment.OpRemove,
		}
		op, ok := ops[a.of["op"]]
		if !ok {
			a.t.Fatalf("%s: unknown op", a.line)
		}
		return &segment.Failed{Op: op, Segment: a.offset("segment"), Why: a.of["why"], Now: p.now}
	}
	a.t.Fatalf("unknown input %q", a.line)
	return nil
}

// found is an empty log at start, or one segment of one chunk.
func (p *player) found(a arguments) segment.Input {
	in := &segment.Found{Epoch: pos.Epoch(a.n("epoch")), Start: a.offset("start"), LastChunk: pos.NoOffset, Now: p.now}
	if first, ok := a.of["first"]; ok {
		f, next := pos.Offset(a.int(first)), a.offset("next")
		in.Segments = []segment.Segment{{First: f, Next: next, Bytes: 100, Chunks: 1, FirstTime: p.now, LastTime: p.now}}
		in.Epochs = []segment.EpochEnd{{Epoch: pos.Epoch(a.n("log_epoch")), End: next}}
		in.Committed, in.LastChunk = next, f
	}
	return in
}

func describe(e segment.Effect) string {
	v := reflect.ValueOf(e).Elem()
	return fmt.Sprintf("%s %+v", v.Type().Name(), v.Interface())
}
