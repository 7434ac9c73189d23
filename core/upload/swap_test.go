package upload

import (
	"testing"
	"time"
)

// A swap that was refused is not tried again, also if what is read afterwards does not show who
// moved the pointer: what is read may be older than what refused it. The truth is learned anew.
func TestARefusedSwapIsNeverTriedAgain(t *testing.T) {
	refused := func(r *rig) {
		r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultConflict, "another revision is stored"}})
		one[ReadPointer](r)
	}
	same := func(r *rig) {
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
	}
	for what, c := range map[string]struct {
		fresh bool // nothing was stored before
		read  func(r *rig)
	}{
		"the pointer is where it was": {false, same},
		"and is read at the second try only": {false, func(r *rig) {
			r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "down"}})
			one[ReadPointer](r)
			same(r)
		}},
		"there is none, as before": {true, func(r *rig) {
			r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no pointer"}})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			r := applied(t, 1)
			if c.fresh {
				r = opened(t, testConfig, nil, Local{First: 0, Next: 20})
				r.chunks(0, 20)
				ref := r.anchored()[0].Ref
				r.grant(ref)
				r.upload(ref)
			}
			r.after(2 * time.Second)
			r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
			one[SwapPointer](r)
			refused(r)
			c.read(r)
			none[SwapPointer](r)
			one[Abort](r)
			r.after(time.Second)
			none[SwapPointer](r)
			one[ReadPointer](r)
		})
	}
}
