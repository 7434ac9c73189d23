package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/core/pos"
)

// What is uploaded: 64 fragments of 64 MiB and a little, each of so many chunks, so that
// the last chunk completes the last fragment.
const (
	fragments   = 64
	chunkEach   = 32 // records: as many as a writer always takes into one chunk
	chunkBytes  = 48 + chunkEach*(4+recordBytes)
	perFragment = (64<<20 + chunkBytes - 1) / chunkBytes
	concurrency = 8
)

// The limits: of the loop's throughput at least, of its processor time at most.
const (
	minThroughput = 0.85
	maxProcessor  = 1.3
	maxResident   = 150 // MiB
)

// BenchmarkUpload takes 4 GiB that lie on local disk into the store: the real node until
// all of it is durable there, against a loop of the SDK's PUTs of the same objects with the
// same checksum, which the SDK computes as it does for every program; and, without a limit,
// against one that is given the checksums. They take turns in who is first. All files are in
// the page cache before.
func BenchmarkUpload(b *testing.B) {
	u := newUpload(b)
	for b.Loop() {
		u.round()
	}
	b.ReportMetric(0, "ns/op")
	u.report()
}

// duel is one comparison.
type duel struct {
	*ground
	filled string // the data folder, as it was before anything was uploaded
	pieces []piece
	bytes  int64 // of all pieces
	rounds int

	ours, loops, given figures
	memory             []float64 // MiB
}

// figures are those of one contestant, of each round. server is what the server needed of
// the same two cores meanwhile.
type figures struct{ seconds, cpu, server []float64 }

func newUpload(b *testing.B) *duel {
	u := &duel{ground: newGround(b)}
	config, _ := u.nodeFile("fill", "none", "[log]\nsync = \"interval\"\n[tiering]\nenabled = false\n")
	u.filled = filepath.Join(u.dir, "fill", "data")
	began := time.Now()
	u.wait(u.start(u.as("fill", fillTask{Config: config, Stream: "backlog", Chunks: fragments * perFragment, Each: chunkEach})), 10*time.Minute)
	b.Logf("filled in %.1f s", time.Since(began).Seconds())
	u.node("first")
	u.take("first")
	u.ours, u.memory = figures{}, nil // that one was for the pieces, and to warm the server up
	return u
}

// take makes the pieces of the objects that the node made.
func (u *duel) take(bucket string) {
	pieces := filepath.Join(u.dir, "pieces")
	u.must(os.Mkdir(pieces, 0o755))
	u.each(u.server.Bucket(bucket), ".fragment", func(path string) {
		to := filepath.Join(pieces, filepath.Base(path))
		u.must(os.Link(path, to))
		crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		u.bytes += u.read(to, crc)
		u.pieces = append(u.pieces, piece{to, crc.Sum32()})
	})
	if len(u.pieces) != fragments {
		u.b.Fatalf("the node made %d objects of what should be %d", len(u.pieces), fragments)
	}
	u.must(os.RemoveAll(u.server.Bucket(bucket)))
}

func (u *duel) each(dir, suffix string, visit func(path string)) {
	u.must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, suffix) {
			visit(path)
		}
		return err
	}))
}

func (u *duel) read(path string, to io.Writer) int64 {
	f, err := os.Open(path)
	u.must(err)
	defer f.Close()
	n, err := io.Copy(to, f)
	u.must(err)
	return n
}

type contestant struct {
	*figures
	run func(bucket string)
}

// round measures all, and empties the store behind each.
func (u *duel) round() {
	u.rounds++
	contestants := []contestant{{&u.ours, u.node}, {&u.loops, u.loop(&u.loops, false)}, {&u.given, u.loop(&u.given, true)}}
	first := u.rounds % len(contestants)
	contestants = slices.Concat(contestants[first:], contestants[:first])
	load := u.load()
	for i, c := range contestants {
		bucket := fmt.Sprintf("round-%d-%d", u.rounds, i)
		u.each(u.filled, ".segment", func(path string) { u.read(path, io.Discard) })
		u.each(filepath.Join(u.dir, "pieces"), "", func(path string) { u.read(path, io.Discard) })
		syscall.Sync()
		before := u.spent(u.server.PID())
		c.run(bucket)
		c.server = append(c.server, (u.spent(u.server.PID()) - before).Seconds())
		u.must(os.RemoveAll(u.server.Bucket(bucket)))
	}
	last := func(xs []float64) float64 { return xs[len(xs)-1] }
	of := func(f *figures) string {
		return fmt.Sprintf("%.2f s and %.2f s of processor (server %.2f s)", last(f.seconds), last(f.cpu), last(f.server))
	}
	u.b.Logf("round %d: node %s, loop %s, given the checksums %s; node at most %.1f MiB; load before %s",
		u.rounds, of(&u.ours), of(&u.loops), of(&u.given), last(u.memory), load)
}

// node runs the real node on a copy of the data folder, until everything is durable.
func (u *duel) node(bucket string) {
	u.must(u.server.MakeBucket(bucket))
	file, listen := u.nodeFile(bucket, bucket, "[local]\nmin_bytes = \"1TiB\"\n")
	data := filepath.Join(u.dir, bucket, "data")
	u.clone(data)
	began := time.Now()
	var p *process
	if profile := os.Getenv(profileEnv); profile != "" {
		p = u.start(u.as("run", runTask{Config: file, Profile: profile}))
	} else {
		p = u.start(exec.Command(u.binary, "run", "--config", file))
	}
	next := u.settled(file, listen, p)
	took := time.Since(began)
	u.memory = append(u.memory, u.ground.memory(p, "VmHWM"))
	u.stop(p)
	if next != fragments*perFragment*chunkEach {
		u.b.Fatalf("the store has %s records", next)
	}
	u.ours.add(took, p.cpu())
	u.must(os.RemoveAll(filepath.Join(u.dir, bucket)))
}

// settled waits until the store has all that was filled in.
func (u *duel) settled(file, listen string, p *process) pos.Offset {
	g := &globals{config: file, out: io.Discard, err: &bytes.Buffer{}}
	c, err := newClient(u.b.Context(), g)
	u.must(err)
	d, _, err := c.durable("backlog", fragments*perFragment*chunkEach-1, time.Minute, func(string) {})
	if err != nil {
		u.fatal(p, fmt.Errorf("waiting at %s: %w", listen, err))
	}
	return d.Next
}

func (f *figures) add(took, cpu time.Duration) {
	f.seconds = append(f.seconds, took.Seconds())
	f.cpu = append(f.cpu, cpu.Seconds())
}

// clone copies the filled data folder. Closed segments, which nobody writes to, are linked.
func (u *duel) clone(to string) {
	segments := 0
	u.each(u.filled, ".segment", func(string) { segments++ })
	u.must(filepath.WalkDir(u.filled, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(u.filled, path)
		switch target := filepath.Join(to, rel); {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case strings.HasSuffix(path, ".segment"):
			if segments--; segments > 0 { // they are walked in order
				return os.Link(path, target)
			}
			return copyFile(path, target)
		default:
			return copyFile(path, target)
		}
	}))
}

func copyFile(from, to string) error {
	in, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, in, 0o600)
}

// loop runs a peer.
func (u *duel) loop(to *figures, given bool) func(bucket string) {
	return func(bucket string) {
		u.must(u.server.MakeBucket(bucket))
		began := time.Now()
		p := u.start(u.as("put", putTask{Endpoint: u.server.URL(), Bucket: bucket, Pieces: u.pieces, Concurrency: concurrency, Given: given}))
		u.wait(p, 5*time.Minute)
		to.add(time.Since(began), p.cpu())
	}
}

func (u *duel) report() {
	gib, memory := float64(u.bytes)/(1<<30), slices.Max(u.memory)
	u.b.Logf("%.2f GiB in %d objects, medians of %d rounds", gib, len(u.pieces), u.rounds)
	throughput, cpu := u.against(&u.loops)
	u.b.Logf("throughput   %.3f GiB/s, the loop %.3f: %.2f of it (limit: at least %.2f)", gib/median(u.ours.seconds), gib/median(u.loops.seconds), throughput, minThroughput)
	u.b.Logf("processor    %.2f s/GiB, the loop %.2f: %.2f of it (limit: at most %.1f)", median(u.ours.cpu)/gib, median(u.loops.cpu)/gib, cpu, maxProcessor)
	throughputGiven, cpuGiven := u.against(&u.given)
	u.b.Logf("the loop that is given the checksums: %.3f GiB/s, %.2f of it; processor %.2f s/GiB, %.2f of it (no limit)",
		gib/median(u.given.seconds), throughputGiven, median(u.given.cpu)/gib, cpuGiven)
	u.b.Logf("the server  %.2f s/GiB for the node, %.2f for the loop, %.2f for the one that is given",
		median(u.ours.server)/gib, median(u.loops.server)/gib, median(u.given.server)/gib)
	u.b.Logf("memory       %.1f MiB at most (limit: %d)", memory, maxResident)
	u.b.ReportMetric(throughput, "of-the-loop's-throughput")
	u.b.ReportMetric(cpu, "of-the-loop's-processor")
	u.b.ReportMetric(memory, "MiB")
}

// against returns our ratios to a peer: medians of each round's own, since what else the
// machine does differs from round to round.
func (u *duel) against(peer *figures) (throughput, cpu float64) {
	var t, c []float64
	for i := range u.rounds {
		t = append(t, peer.seconds[i]/u.ours.seconds[i])
		c = append(c, u.ours.cpu[i]/peer.cpu[i])
	}
	return median(t), median(c)
}
