package segment_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/core/pos"
	"millrace/core/segment"
)

func config(t *rapid.T) segment.Config {
	return segment.Config{
		Mode:             segment.SyncMode(rapid.IntRange(0, 2).Draw(t, "mode")),
		SyncEvery:        time.Second,
		SegmentMaxBytes:  int64(rapid.SampledFrom([]int{60, 300, 1000}).Draw(t, "segment bytes")),
		SegmentMaxChunks: int64(rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "segment chunks")),
		Retention:        retention(t),
	}
}

func retention(t *rapid.T) segment.Retention {
	bytes := rapid.SampledFrom([]int64{0, 0, 200, 1000, 4000})
	return segment.Retention{
		MaxBytes: bytes.Draw(t, "max bytes"), LocalMaxBytes: bytes.Draw(t, "local max"), LocalMinBytes: bytes.Draw(t, "local min"),
		MaxAge: rapid.SampledFrom([]time.Duration{0, 0, 5 * time.Second, time.Minute}).Draw(t, "max age"),
	}
}

// TestAnyHistory runs a log through random inputs, faults and power losses. The fake disk
// and Machine.Check watch every step; across power losses no committed record may go
// under Always, and none that was published as synced in any mode.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(t)
		alone := rapid.Bool().Draw(t, "alone")
		d := &disk{t: t, mode: cfg.Mode, files: map[pos.Offset]*segmentFile{}, now: 1000, alone: alone}
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			safe := live(t, d, cfg, alone)
			d.powerLoss()
			if f := d.found(); len(f.Segments) > 0 && f.Segments[len(f.Segments)-1].Next < safe {
				t.Fatalf("%s was promised to be safe, the disk ends at %s", safe, f.Segments[len(f.Segments)-1].Next)
			}
		}
	})
}

// live runs one writer and returns what must survive a power loss.
func live(t *rapid.T, d *disk, cfg segment.Config, alone bool) pos.Offset {
	d.epoch += 2
	d.m, d.ended, d.shown, d.opens, d.sync = segment.New(cfg), "", segment.View{}, 0, nil
	d.captured = pos.NoOffset
	d.step(&segment.Tick{Now: d.now})
	if d.opens != 1 {
		t.Fatal("the first tick does not open")
	}
	d.fault = false
	found := d.found()
	if len(found.Segments) == 0 {
		found.Start = pos.Offset(rapid.Int64Range(0, 500).Draw(t, "start"))
	}
	d.step(found)
	d.fault = rapid.Bool().Draw(t, "faults")
	for range rapid.IntRange(0, 60).Draw(t, "inputs") {
		if d.ended != "" {
			break
		}
		input(t, d, alone)
		if err := d.m.Check(); err != nil {
			t.Fatal(err)
		}
		d.settle(alone)
	}
	return d.shown.Synced
}

func input(t *rapid.T, d *disk, alone bool) {
	switch rapid.IntRange(0, 12).Draw(t, "input") {
	case 0, 1, 2, 3:
		batch(t, d)
	case 4, 5:
		d.synced()
	case 6:
		d.step(&segment.Retain{Seam: d.shown.First + pos.Offset(rapid.Int64Range(-1, 40).Draw(t, "seam")), Captured: pos.NoOffset, Now: d.now})
	case 7:
		r := retention(t)
		d.step(&segment.Retain{Seam: pos.NoOffset, Captured: pos.NoOffset, Set: &r, Now: d.now})
	case 8, 9:
		d.now += pos.Millis(rapid.SampledFrom([]int{1, 300, 1500, 20_000, 100_000}).Draw(t, "time passes"))
		d.step(&segment.Tick{Now: d.now, WantSync: rapid.Bool().Draw(t, "want sync"), Quiet: rapid.Bool().Draw(t, "quiet")})
	case 10:
		if !alone && d.mode != segment.Always {
			d.step(&segment.Committed{Next: d.m.Committed() + pos.Offset(rapid.Int64Range(0, 9).Draw(t, "commit")), Now: d.now})
		}
	case 11:
		if !alone {
			cut(t, d)
		}
	case 12:
		d.captured = max(0, d.shown.Committed-pos.Offset(rapid.Int64Range(0, 5).Draw(t, "captured")))
		d.step(&segment.Retain{Seam: pos.NoOffset, Captured: d.captured, Now: d.now})
	}
}

func batch(t *rapid.T, d *disk) {
	if !d.m.Ready() {
		return
	}
	d.now++
	records := uint32(rapid.IntRange(1, 5).Draw(t, "records"))
	if rapid.IntRange(0, 4).Draw(t, "foreign") == 0 {
		h := d.header(records)
		if d.m.CheckForeign(h) == nil {
			d.step(&segment.Foreign{Header: h, Now: d.now})
			return
		}
	}
	d.step(&segment.Batch{Records: records, Size: int64(48 + 5*records), Now: d.now})
}

func cut(t *rapid.T, d *disk) {
	if !d.m.Found() {
		return
	}
	end := d.m.Committed() + pos.Offset(rapid.Int64Range(0, 12).Draw(t, "cut at"))
	for _, e := range d.m.Epochs() {
		if d.m.CheckCut(e.Epoch, end) == nil {
			d.step(&segment.Cut{Epoch: e.Epoch, End: end, Now: d.now})
			return
		}
	}
}

// TestSameInputsSameEffects feeds two machines alike.
func TestSameInputsSameEffects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(t)
		a, b := segment.New(cfg), segment.New(cfg)
		now := pos.Millis(1)
		for range rapid.IntRange(1, 40).Draw(t, "inputs") {
			in := anyInput(t, now, a)
			now += pos.Millis(rapid.IntRange(0, 3000).Draw(t, "pause"))
			one, two := fmt.Sprintf("%+v", show(a.Step(in, nil))), fmt.Sprintf("%+v", show(b.Step(in, nil)))
			if one != two || a.Status() != b.Status() {
				t.Fatalf("%+v: %s and %s", in, one, two)
			}
		}
	})
}

func show(effects []segment.Effect) []any {
	var all []any
	for _, e := range effects {
		all = append(all, reflect.ValueOf(e).Elem().Interface())
	}
	return all
}

// anyInput is any input at all, also one no shell would send: the machine must not panic.
func anyInput(t *rapid.T, now pos.Millis, m *segment.Machine) segment.Input {
	o := pos.Offset(rapid.Int64Range(-1, 30).Draw(t, "offset"))
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return &segment.Found{Epoch: pos.Epoch(rapid.IntRange(0, 3).Draw(t, "epoch")), Start: max(o, 0), LastChunk: pos.NoOffset, Now: now}
	case 1, 2:
		return &segment.Batch{Records: uint32(rapid.IntRange(0, 4).Draw(t, "records")), Size: 100, Now: now}
	case 3:
		return &segment.Synced{Segment: max(o, 0), Next: m.Next(), Bytes: m.Status().Bytes, Cuts: rapid.IntRange(0, 1).Draw(t, "cuts"), Now: now}
	case 4:
		return &segment.Committed{Next: o, Now: now}
	case 5:
		return &segment.Failed{Op: segment.Op(rapid.IntRange(0, 6).Draw(t, "op")), Segment: o, Why: "why", Now: now}
	case 6:
		return &segment.Cut{Epoch: pos.Epoch(rapid.IntRange(0, 3).Draw(t, "epoch")), End: o, Now: now}
	case 7:
		r := retention(t)
		return &segment.Retain{Seam: o, Captured: pos.Offset(rapid.Int64Range(-1, 30).Draw(t, "captured")), Set: &r, Now: now}
	}
	return &segment.Tick{Now: now, WantSync: true}
}
