package upload

import (
	"slices"
	"testing"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// What is lost is told before a manifest declares it, from the moment the floor passes it:
// neither what is stored nor what is on its way for the first time is lost, what failed is.
func TestUndeclaredGaps(t *testing.T) {
	r, refs := running(t, testConfig, 180) // [100, 180) in four fragments, uploading
	lost := func(floor pos.Offset, want ...manifest.Gap) {
		t.Helper()
		if got := r.m.Status().Undeclared(pos.NoOffset, floor); !slices.Equal(got, want) {
			t.Errorf("with the floor at %s: %v, want %v", floor, got, want)
		}
	}
	lost(100)
	lost(180)
	lost(250, manifest.Gap{From: 180, To: 250}) // nobody has read that
	r.failUpload(refs[0], FaultTransient, 0)
	r.failUpload(refs[3], FaultTransient, 0)
	lost(100)
	lost(110, manifest.Gap{From: 100, To: 110})
	lost(250, manifest.Gap{From: 100, To: 120}, manifest.Gap{From: 160, To: 250})
	r.upload(refs[1])
	r.upload(refs[2])
	r.grant(r.m.flights[0].ref)
	lost(110, manifest.Gap{From: 100, To: 110}) // it has failed before
	r.failUpload(r.m.flights[0].ref, FaultMissing, 150)
	// [100, 120) is given up, so the two behind it are in the live manifest.
	if len(r.m.now.Gaps()) != 1 {
		t.Fatalf("%v", r.m.now.Gaps())
	}
	lost(150, manifest.Gap{From: 100, To: 120})
	r.persist()
	lost(150)
	lost(180, manifest.Gap{From: 160, To: 180})
}

// Of a stream of which nothing is stored all that is trimmed is lost; of one whose manifest
// is not known nothing can be said.
func TestUndeclaredGapsOfTheFirstRecords(t *testing.T) {
	r := opened(t, testConfig, nil, log(0, 100))
	if got := r.m.Status().Undeclared(pos.NoOffset, 40); !slices.Equal(got, []manifest.Gap{{From: 0, To: 40}}) {
		t.Errorf("got %v", got)
	}
	if got := newRig(t, testConfig).m.Status().Undeclared(pos.NoOffset, 40); got != nil {
		t.Errorf("of an unknown manifest: %v", got)
	}
	if got := newRig(t, testConfig).m.Status().Undeclared(30, 40); !slices.Equal(got, []manifest.Gap{{From: 30, To: 40}}) {
		t.Errorf("of one that others know: %v", got)
	}
}

// While the manifest is lost or can't be had, it is known where it ends all the same: what is
// trimmed behind that is in no tier.
func TestUndeclaredGapsOfAManifestThatIsLost(t *testing.T) {
	for _, res := range []Result{{FaultMissing, "no such key"}, {FaultTransient, "503"}} {
		r := lose(t, RootRead{Result: res})
		if got := r.m.Status().Undeclared(pos.NoOffset, 140); !slices.Equal(got, []manifest.Gap{{From: 100, To: 140}}) {
			t.Errorf("%+v: %v", res, got)
		}
		if got := r.m.Status().Undeclared(pos.NoOffset, 90); got != nil {
			t.Errorf("%+v: %v", res, got)
		}
	}
}
