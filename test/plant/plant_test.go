package plant

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var seeds = flag.String("seeds", "200", "how many seeds the simulation gets to find a plant")

// TestSimulationFindsEachPlant builds the simulation once for each broken rule and runs
// it until it fails.
func TestSimulationFindsEachPlant(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Plants {
		t.Run(p.Rule, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			overlay, err := p.overlay(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "sim.test")
			build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./test/sim")
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("the plant does not build: %v\n%s", err, out)
			}
			run := exec.Command(program, "-test.run", "^TestSeeds$", "-test.timeout", "3m", "-seed", fmt.Sprint(p.Seed), "-seeds", *seeds)
			run.Dir = filepath.Join(root, "test/sim")
			run.Env = append(os.Environ(), "GOTRACEBACK=single")
			out, err := run.CombinedOutput()
			switch finding := firstFinding(string(out)); {
			case err == nil:
				t.Fatalf("the simulation ran %s seeds and noticed nothing", *seeds)
			case finding == "":
				t.Fatalf("the simulation ended without saying what it found: %v\n%s", err, out[:min(len(out), 2000)])
			default:
				t.Logf("found: %s", finding)
			}
		})
	}
}

// firstFinding is the first line in which the simulation says of a seed what is wrong.
// A crash or a timeout of the simulation itself has none, and counts as nothing found.
func firstFinding(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, ".go:") && strings.Contains(line, ": seed ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// TestAPlantThatFitsNowhereIsRefused: a plant that no longer breaks anything must not
// pass for one that was found.
func TestAPlantThatFitsNowhereIsRefused(t *testing.T) {
	p := Plant{Edits: []Edit{{File: "go.mod", Old: "no such text", New: "x"}}}
	if _, err := p.overlay("../..", t.TempDir()); err == nil || !strings.Contains(err.Error(), "0 times") {
		t.Errorf("got %v", err)
	}
	p.Edits[0].Old = "\n"
	if _, err := p.overlay("../..", t.TempDir()); err == nil || !strings.Contains(err.Error(), "want once") {
		t.Errorf("got %v", err)
	}
}
