package sim

import (
	"flag"
	"testing"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed to run")
	seeds     = flag.Uint64("seeds", 200, "how many seeds to run")
)

// TestSeeds runs the simulation; see the package comment for how to repeat a failure.
func TestSeeds(t *testing.T) {
	var sum Tally
	effects := map[string]int{}
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		tally := Run(t, seed, 1+int(seed%6), 200)
		if t.Failed() {
			t.Fatalf("failed with -seed %d -seeds 1", seed)
		}
		sum.Lives += tally.Lives
		sum.PowerLosses += tally.PowerLosses
		sum.Kills += tally.Kills
		sum.Events += tally.Events
		sum.Commits += tally.Commits
		sum.Loads += tally.Loads
		sum.Objects += tally.Objects
		sum.Followed += tally.Followed
		sum.Trimmed += tally.Trimmed
		sum.Trims += tally.Trims
		sum.RemoteBytes += tally.RemoteBytes
		sum.PostgresCrashes += tally.PostgresCrashes
		for name, n := range tally.Effects {
			effects[name] += n
		}
	}
	t.Logf("seeds %d to %d: %+v", *firstSeed, *firstSeed+*seeds-1, sum)
	for name, n := range map[string]int{
		"lives": sum.Lives, "power losses": sum.PowerLosses, "kills": sum.Kills, "events": sum.Events,
		"commits": sum.Commits, "objects": sum.Objects, "trimmed offsets": sum.Trimmed, "loads": sum.Loads - int(*seeds),
		"records followed": sum.Followed, "segments trimmed": sum.Trims,
	} {
		if n <= 0 && *seeds >= 20 {
			t.Errorf("no %s in %d seeds: the simulation does not do what it is for", name, *seeds)
		}
	}
	for _, name := range append([]string{"disk.sync", "disk.remove", "store.getrange"}, turningPoints...) {
		if effects[name] == 0 && *seeds >= 20 {
			t.Errorf("no effect %s in %d seeds", name, *seeds)
		}
	}
}
