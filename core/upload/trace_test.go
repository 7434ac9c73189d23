package upload

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

var update = flag.Bool("update", false, "write the traces under testdata anew")

// tracer is a rig that writes down what goes in and what comes out.
type tracer struct {
	*rig
	text  strings.Builder
	start pos.Millis
}

func (t *tracer) say(text string) { fmt.Fprintf(&t.text, "\n# %s\n", text) }

func (t *tracer) in(in Input) {
	fmt.Fprintf(&t.text, "%8.3fs > %s\n", t.now.Sub(t.start).Seconds(), t.line(in))
	for _, e := range t.do(in) {
		fmt.Fprintf(&t.text, "            %s\n", t.line(e))
	}
}

func (t *tracer) wait(d time.Duration) {
	t.now = t.now.Add(d)
	t.in(Tick{t.stamp()})
}

// line prints an input or effect by its fields, without those that are zero.
func (t *tracer) line(v any) string {
	rv := reflect.ValueOf(v)
	parts := []string{rv.Type().Name()}
	for i := range rv.NumField() {
		name, f := rv.Type().Field(i).Name, rv.Field(i)
		if name == "Stamp" || f.IsZero() {
			continue
		}
		parts = append(parts, strings.ToLower(name)+"="+t.value(f.Interface()))
	}
	return strings.Join(parts, " ")
}

func (t *tracer) value(v any) string {
	switch v := v.(type) {
	case *fragment.Fragment:
		return fmt.Sprintf("[%s,%s)", v.First, v.Next)
	case *manifest.Manifest:
		return fmt.Sprintf("[%s,%s)x%d", v.First, v.Next, len(v.Entries))
	case []segment.ChunkRef:
		return fmt.Sprintf("[%s,%s)", v[0].Header.ID, v[len(v)-1].Header.Next())
	case []manifest.Edit:
		var ops []string
		for _, e := range v {
			ops = append(ops, fmt.Sprintf("%s[%s,%s)", e.Op, e.Entry.First, e.Entry.Next))
		}
		return "{" + strings.Join(ops, " ") + "}"
	case []byte:
		return fmt.Sprintf("%dbytes", len(v))
	case pos.Millis:
		return fmt.Sprintf("%.3fs", v.Sub(t.start).Seconds())
	case Result:
		return fmt.Sprintf("%s(%s)", v.Fault, v.Why)
	case Pointer:
		return fmt.Sprintf("{rev %s epoch %s next %s}", v.Revision, v.Epoch, v.Next)
	case Local:
		return fmt.Sprintf("[%s,%s)", v.First, v.Next)
	case manifest.Row:
		return "row"
	}
	return fmt.Sprint(v)
}

func TestTraceOfAStreamThroughAnOutage(t *testing.T) {
	r := newRig(t, testConfig)
	tr := &tracer{rig: r, start: r.now}
	tr.say("A new stream: no pointer, so nothing is in the store.")
	tr.in(Start{Stamp: r.stamp()})
	tr.in(PointerRead{Stamp: r.stamp(), Result: Result{FaultMissing, "no pointer"}})
	tr.in(Inspected{Stamp: r.stamp(), Local: Local{First: 0, Next: 40}})
	tr.say("Two fragments are cut; the anchor comes before any object.")
	tr.in(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(0, 40), End: true})
	tr.in(AnchorPut{Stamp: r.stamp(), Result: Result{FaultTransient, "timed out"}})
	tr.wait(time.Second)
	tr.in(AnchorPut{Stamp: r.stamp()})
	tr.in(Granted{Stamp: r.stamp(), Ref: 1})
	tr.in(Granted{Stamp: r.stamp(), Ref: 2})
	tr.say("The second is there first, and waits for its turn.")
	tr.in(Uploaded{Stamp: r.stamp(), Ref: 2})
	tr.in(Uploaded{Stamp: r.stamp(), Ref: 1})
	tr.wait(2 * time.Second)
	tr.in(RootPut{Stamp: r.stamp()})
	tr.in(PointerSwapped{Stamp: r.stamp()})
	tr.say("The object store goes down while the log grows.")
	tr.in(Moved{Stamp: r.stamp()})
	tr.in(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(40, 100), End: true})
	tr.in(Granted{Stamp: r.stamp(), Ref: 3})
	tr.in(Uploaded{Stamp: r.stamp(), Ref: 3, Result: Result{FaultTransient, "503"}})
	tr.in(Granted{Stamp: r.stamp(), Ref: 6})
	tr.in(Uploaded{Stamp: r.stamp(), Ref: 6, Result: Result{FaultTransient, "503"}})
	tr.wait(10 * time.Millisecond)
	tr.say("Local retention takes [40, 50) before it could be uploaded: a gap, and the rest of the fragment goes on.")
	tr.in(Granted{Stamp: r.stamp(), Ref: 7})
	tr.in(Uploaded{Stamp: r.stamp(), Ref: 7, Floor: 50, Result: Result{FaultMissing, "no segment 0"}})
	tr.in(Granted{Stamp: r.stamp(), Ref: 8})
	tr.in(Uploaded{Stamp: r.stamp(), Ref: 8, Floor: 50})
	tr.say("The answer to the swap is lost; the own uid tells.")
	tr.wait(2 * time.Second)
	tr.in(RootPut{Stamp: r.stamp()})
	next := one[SwapPointer](r).Next
	tr.in(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultUnknown, "connection lost"}})
	tr.in(PointerRead{Stamp: r.stamp(), Pointer: next})
	tr.say("The stream is deleted.")
	tr.in(StreamDeleted{r.stamp()})

	const file = "testdata/outage.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(tr.text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write it with -update", err)
	}
	if got := tr.text.String(); got != string(want) {
		t.Fatalf("the trace differs from %s; look at the difference, and write it anew with -update:\n%s", file, got)
	}
}
