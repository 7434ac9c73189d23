package upload

import (
	"testing"

	"millrace/core/pos"
	"millrace/core/segment"
)

// That a store is known to be ours lets nothing be freed for a manifest that is not certain: which
// the local log contradicts, or may yet.
func TestAStoreThatIsOursFreesNothingForAManifestThatIsNotCertain(t *testing.T) {
	another := func(next pos.Offset) Local { // writer has written the log from 50 on
		return Local{Next: next, Epochs: []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 3, End: 150}}}
	}
	for what, found := range map[string]Local{"it is contradicted": another(150), "the log is shorter": another(50)} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, testConfig)
			r.do(Start{Stamp: r.stamp(), Disowned: true})
			r.resolve(stored())
			r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: found})
			r.do(StoreOwned{r.stamp()})
			none[Seam](r)
			if found.Next < 150 {
				r.do(Moved{Stamp: r.stamp(), Gen: r.m.gen})
				r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: another(150)})
				none[Seam](r)
			}
			r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
			r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen})
			if seam := one[Seam](r); seam.Next != 50 {
				t.Errorf("%+v", seam)
			}
		})
	}
}
