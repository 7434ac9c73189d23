package writer

import (
	"testing"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/test/fake/fakemeta"
)

// Up to where a capture knows to be without the log is what its row says of this stream.
func TestWhatACaptureKnowsWithoutTheLog(t *testing.T) {
	for _, c := range []struct {
		what    string
		capture string
		row     *port.Capture
		fault   error
		want    pos.Offset
	}{
		{"no capture", "", &port.Capture{Name: "shop", Stream: "__s_1", EventOffset: 7}, nil, pos.NoOffset},
		{"one without a row", "shop", nil, nil, pos.NoOffset},
		{"one of an earlier stream", "shop", &port.Capture{Name: "shop", Stream: "__s_0", EventOffset: 7}, nil, pos.NoOffset},
		{"one that has confirmed nothing", "shop", &port.Capture{Name: "shop", Stream: "__s_1", EventOffset: pos.NoOffset}, nil, 0},
		{"one that has", "shop", &port.Capture{Name: "shop", Stream: "__s_1", EventOffset: 7}, nil, 8},
		{"one that can't be read", "shop", nil, port.Unavailable, 0},
	} {
		meta := fakemeta.New()
		if c.row != nil {
			if err := meta.SwapCapture(t.Context(), *c.row); err != nil {
				t.Fatal(err)
			}
		}
		meta.Fault = func(op, _ string) error { return map[string]error{"capture": c.fault}[op] }
		o := &opener{cfg: Config{Stream: "__s_1", Capture: c.capture, Metadata: meta}}
		if at, err := o.capture(t.Context()); port.ClassOf(err) != port.ClassOf(c.fault) || err == nil && at != c.want {
			t.Errorf("%s: %s, %v: want %s", c.what, at, err, c.want)
		}
	}
}
