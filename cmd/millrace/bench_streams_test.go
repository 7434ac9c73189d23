package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What many streams get: an append of 16 records of 1 KiB to each every 5 s, and an object
// of each once its first record is 10 s old.
const (
	manyStreams  = 1000
	appendEach   = 16
	appendEvery  = 5 * time.Second
	manySettings = `[log]
segment_max_bytes = "256KiB"
sync = "interval"
[local]
min_bytes = "64KiB"
[tiering]
fragment_max_age = "10s"
root_grace = "1m"
`
)

const (
	// sampleEvery is how often the bytes uploaded are looked at.
	sampleEvery = 100 * time.Millisecond
	// settle is how long streams have been busy before anything is measured.
	settle = time.Minute
	// calm is how long they are measured before the outage.
	calm = time.Minute
	// backLimit is within what the upload rate has to be back.
	backLimit = 5 * time.Second
	// lookFor is how long they are measured after it.
	lookFor = 90 * time.Second
)

var (
	outageFor = flag.Duration("outage", 5*time.Minute, "how long the store is down in BenchmarkStreams")
	soakFor   = flag.Duration("soak", 30*time.Minute, "how long BenchmarkSoak looks at the node")
)

// many is a node with many streams that are busy.
type many struct {
	*ground
	node    *process
	metrics string // URL

	mu      sync.Mutex
	samples []moment
}

// moment is how many bytes were uploaded at a time, and how many appended.
type moment struct {
	at              time.Time
	bytes, appended int64
}

func (m moment) behind() int64 { return m.appended - m.bytes }

func newMany(b *testing.B, settings string) *many {
	m := &many{ground: newGround(b)}
	m.must(m.server.MakeBucket("many"))
	file, listen := m.nodeFile("many", "many", settings)
	m.metrics = "http://" + listen + "/metrics"
	out, in, err := os.Pipe()
	m.must(err)
	began := time.Now()
	feeder := m.as("feed", feedTask{Config: file, Streams: manyStreams, Each: appendEach, Every: appendEvery, Feeders: 20})
	feeder.Stdout = in
	m.node = m.start(feeder)
	m.must(in.Close())
	up := make(chan struct{})
	go m.listen(out, up)
	select {
	case <-up:
	case err := <-m.node.done:
		m.fatal(m.node, fmt.Errorf("the node ended: %w", err))
	case <-time.After(3 * time.Minute):
		m.fatal(m.node, fmt.Errorf("%d streams are not made in 3 minutes", manyStreams))
	}
	b.Logf("%d streams made in %.1f s", manyStreams, time.Since(began).Seconds())
	return m
}

// listen takes in what the node's process prints.
func (m *many) listen(out io.ReadCloser, up chan struct{}) {
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var at, bytes, appended int64
		if _, err := fmt.Sscan(lines.Text(), &at, &bytes, &appended); err != nil {
			continue // nothing but samples is printed there
		}
		m.mu.Lock()
		if m.samples = append(m.samples, moment{time.UnixMilli(at), bytes, appended}); len(m.samples) == 1 {
			close(up)
		}
		m.mu.Unlock()
	}
}

// rates are the bytes a second, each over a second, of the samples that lie in [from, to).
func (m *many) rates(from, to time.Time) (at []time.Time, rates []float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	back := int(time.Second / sampleEvery)
	for i := back; i < len(m.samples); i++ {
		now, then := m.samples[i], m.samples[i-back]
		if !now.at.Before(from) && now.at.Before(to) {
			at = append(at, now.at)
			rates = append(rates, float64(now.bytes-then.bytes)/now.at.Sub(then.at).Seconds())
		}
	}
	return at, rates
}

func (m *many) uploaded() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.samples[len(m.samples)-1].bytes
}

// scrape reads the node's metrics, those of all streams added up, by name or, of what
// counts requests, by name and op.
func (m *many) scrape() map[string]float64 {
	resp, err := http.Get(m.metrics)
	m.must(err)
	defer resp.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment
		}
		name, labels, _ := strings.Cut(series, "{")
		if name == "millrace_store_requests_total" {
			name = strings.TrimSuffix(labels, "}")
		}
		sums[name] += x
	}
	m.must(lines.Err())
	return sums
}

// pass lets time go by, unless the node ends.
func (m *many) pass(d time.Duration) {
	m.b.Helper()
	select {
	case err := <-m.node.done:
		m.fatal(m.node, fmt.Errorf("the node ended: %w", err))
	case <-time.After(d):
	}
}

// phase is what a node did and used in a time.
type phase struct {
	took time.Duration
	cpu  time.Duration
	did  map[string]float64
}

func (m *many) phase(d time.Duration) phase {
	before, spent, began := m.scrape(), m.spent(m.node.cmd.Process.Pid), time.Now()
	m.pass(d)
	p := phase{took: time.Since(began), cpu: m.spent(m.node.cmd.Process.Pid) - spent, did: m.scrape()}
	for name := range p.did {
		p.did[name] -= before[name]
	}
	return p
}

func (p phase) cores() float64 { return p.cpu.Seconds() / p.took.Seconds() }

// BenchmarkStreams has 1,000 streams, each cut by age: what that costs, and what an outage
// of the store does. The server is killed and stays away; what is measured then is the
// time from when it answers again to when as much is uploaded in a second as before.
func BenchmarkStreams(b *testing.B) {
	for b.Loop() {
		m := newMany(b, manySettings)
		m.pass(settle)
		load, began := m.load(), time.Now()
		before := m.phase(calm)
		m.costs(before)
		b.Logf("memory       %.1f MiB, at most %.1f; load %s", m.memory(m.node, "VmRSS"), m.memory(m.node, "VmHWM"), load)
		_, rates := m.rates(began, time.Now())
		m.outage(before, median(rates))
		m.stop(m.node)
	}
	b.ReportMetric(0, "ns/op")
}

// costs prints what a gibibyte takes. The least that a fragment takes is one request.
func (m *many) costs(p phase) {
	uploaded := p.did["millrace_bytes_transferred_total"] / (1 << 30)
	fragments, persists := p.did["millrace_transfers_completed_total"], p.did["millrace_persists_completed_total"]
	puts, deletes := p.did[`op="put"`], p.did[`op="delete"`]
	m.b.Logf("uploaded     %.2f MiB/s in %.0f objects a second of %.1f KiB", uploaded*1024/p.took.Seconds(), fragments/p.took.Seconds(), uploaded*(1<<20)/fragments)
	m.b.Logf("a GiB takes  %.0f persists and %.0f requests: %.0f puts, %.0f deletes of up to 1000 keys", persists/uploaded, (puts+deletes)/uploaded, puts/uploaded, deletes/uploaded)
	m.b.Logf("an object    %.2f persists and %.2f requests (least possible: 1)", persists/fragments, (puts+deletes)/fragments)
	m.b.Logf("processor    %.2f of a core, appending included: %.1f ms an object", p.cores(), 1000*p.cpu.Seconds()/fragments)
	m.b.ReportMetric(persists/uploaded, "persists/GiB")
	m.b.ReportMetric((puts+deletes)/uploaded, "requests/GiB")
}

func (m *many) outage(before phase, usual float64) {
	killed := time.Now()
	m.must(m.server.Kill())
	m.pass(time.Second)
	down := m.uploaded()
	without := m.phase(*outageFor)
	m.b.Logf("without the store for %s: %.2f of a core (%.2f before), %.0f requests a second, %.1f MiB, at most %.1f", *outageFor, without.cores(), before.cores(),
		without.did[`op="put"`]/without.took.Seconds(), m.memory(m.node, "VmRSS"), m.memory(m.node, "VmHWM"))
	if got := m.uploaded(); got != down {
		m.b.Fatalf("%d bytes were uploaded while the store was down", got-down)
	}
	load := m.load()
	m.must(m.server.Restart())
	answers := time.Now()
	m.pass(lookFor)
	at, rates := m.rates(answers, answers.Add(lookFor))
	i := slices.IndexFunc(rates, func(r float64) bool { return r >= usual })
	if i < 0 {
		m.b.Fatalf("%s after the store answered the rate is not back at %.2f MiB/s: at most %.2f", lookFor, usual/(1<<20), slices.Max(rates)/(1<<20))
	}
	back := at[i].Sub(answers)
	m.b.Logf("back         at %.2f MiB/s %.1f s after the store answers (limit: %s); %.2f MiB/s in the busiest second; load %s",
		usual/(1<<20), back.Seconds(), backLimit, slices.Max(rates)/(1<<20), load)
	m.b.Logf("             as little is behind as was at most in the minute before: %s after", m.caught(killed, answers))
	m.b.ReportMetric(back.Seconds(), "s-to-full-speed")
}

// caught says how long after the outage no more is appended and not uploaded than was at
// some time in the calm before it.
func (m *many) caught(killed, answers time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	usual := int64(0)
	for _, s := range m.samples {
		switch {
		case s.at.Before(killed) && s.at.After(killed.Add(-calm)):
			usual = max(usual, s.behind())
		case s.at.After(answers) && s.behind() <= usual:
			return s.at.Sub(answers).Round(100 * time.Millisecond).String()
		}
	}
	return "more than " + lookFor.String()
}

// BenchmarkSoak looks at a node with 1,000 busy streams every 10 s for -soak, after it has
// been so for as long as it takes until retention deletes as much as comes.
func BenchmarkSoak(b *testing.B) {
	for b.Loop() {
		m := newMany(b, manySettings+"[retention]\nmax_age = \"2m\"\n")
		m.pass(min(6*time.Minute, *soakFor/2))
		m.soak()
		m.stop(m.node)
	}
	b.ReportMetric(0, "ns/op")
}

func (m *many) soak() {
	seen := map[string][]float64{}
	load, began, first := m.load(), time.Now(), m.scrape()
	for time.Since(began) < *soakFor {
		m.pass(10 * time.Second)
		now := m.scrape()
		handles, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.node.cmd.Process.Pid))
		m.must(err)
		for what, x := range map[string]float64{
			"MiB resident": m.memory(m.node, "VmRSS"), "handles": float64(len(handles)), "goroutines": now["go_goroutines"],
			"MiB of heap in use": now["go_memstats_heap_inuse_bytes"] / (1 << 20), "series": float64(len(now)),
		} {
			seen[what] = append(seen[what], x)
		}
	}
	last := m.scrape()
	n := len(seen["handles"])
	m.b.Logf("%d samples in %s; %.2f GiB uploaded in %.0f objects, %.0f persists; load %s at the beginning, %s at the end", n, time.Since(began).Round(time.Second),
		(last["millrace_bytes_transferred_total"]-first["millrace_bytes_transferred_total"])/(1<<30),
		last["millrace_transfers_completed_total"]-first["millrace_transfers_completed_total"],
		last["millrace_persists_completed_total"]-first["millrace_persists_completed_total"], load, m.load())
	for _, what := range []string{"MiB resident", "MiB of heap in use", "handles", "goroutines"} {
		xs := seen[what]
		a, z := median(xs[:n/3]), median(xs[n-n/3:])
		m.b.Logf("%-20s %.1f at the median of the first third, %.1f of the last: %.3f of it; %.1f to %.1f in all", what, a, z, z/a, slices.Min(xs), slices.Max(xs))
	}
}
