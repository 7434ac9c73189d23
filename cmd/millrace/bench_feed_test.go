package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/cmd/internal/configfile"
	"millrace/core/pos"
	"millrace/core/segment"
)

// recordBytes is the size of a record.
const recordBytes = 1024

// fed is a node in this process, wired as millrace run wires it, and whoever appends to
// its streams.
type fed struct {
	world       *world
	node        *node.Node
	transferred atomic.Int64 // bytes uploaded, as the node counts them
	appended    atomic.Int64 // bytes of chunks appended, if each append is one
}

// counting listens to what the node counts.
type counting struct {
	port.Metrics
	transferred *atomic.Int64
}

func (c counting) Count(name string, delta int64, labels ...string) {
	if name == "bytes_transferred_total" {
		c.transferred.Add(delta)
	}
	c.Metrics.Count(name, delta, labels...)
}

func startFed(config string) (*fed, error) {
	cfg, err := configfile.Load(config)
	if err != nil {
		return nil, err
	}
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	f := &fed{}
	if f.world, err = openWorld(cfg, log); err != nil {
		f.world.close()
		return nil, err
	}
	ports := f.world.ports(cfg, log)
	ports.Metrics = counting{ports.Metrics, &f.transferred}
	if f.node, err = node.Start(context.Background(), cfg, ports, node.About{Version: version(), Store: where(cfg.Store)}, log); err != nil {
		f.world.close()
	}
	return f, err
}

func (f *fed) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	err := f.node.Stop(ctx)
	f.world.close()
	return err
}

// stream makes a stream and returns its writer.
func (f *fed) stream(name string) (*actors.Handle, error) {
	s, err := f.node.CreateStream(context.Background(), name, nil)
	if err != nil {
		return nil, err
	}
	at, err := f.node.Tree(admin.TreeQuery{Path: "node/log/" + s.ID + "/writer"})
	if err != nil {
		return nil, err
	}
	return at.Handle, nil
}

// publish appends records and returns when they are committed.
func publish(writer *actors.Handle, records []segment.Record) error {
	answer, err := writer.Call(context.Background(), segment.Append{ExpectNext: pos.NoOffset, Records: records})
	if refused, is := answer.(segment.Refused); err == nil && is {
		err = errors.New(refused.Why)
	}
	return err
}

// recordsOf makes records that differ from each other, and hardly compress.
func recordsOf(n int, seed uint64) []segment.Record {
	records := make([]segment.Record, n)
	for i := range records {
		body := make([]byte, recordBytes)
		for j := range body {
			seed = seed*6364136223846793005 + 1442695040888963407
			body[j] = byte(seed >> 56)
		}
		records[i].Body = body
	}
	return records
}

// fillTask makes a data folder with one stream of so many chunks of so many records.
type fillTask struct {
	Config, Stream string
	Chunks, Each   int
}

// fill appends one after the other: each becomes a chunk.
func fill(task []byte) error {
	var t fillTask
	if err := json.Unmarshal(task, &t); err != nil {
		return err
	}
	f, err := startFed(t.Config)
	if err != nil {
		return err
	}
	writer, err := f.stream(t.Stream)
	records := recordsOf(t.Each, 1)
	for i := 0; err == nil && i < t.Chunks; i++ {
		err = publish(writer, records)
	}
	return errors.Join(err, f.stop())
}

// feedTask keeps a node with many streams busy until a signal comes.
type feedTask struct {
	Config  string
	Streams int
	Each    int           // records of an append
	Every   time.Duration // between two appends to one stream
	Feeders int
}

// feed prints the time in milliseconds, the bytes uploaded so far and those appended, ten
// times a second, once all streams are there.
func feed(task []byte) error {
	var t feedTask
	if err := json.Unmarshal(task, &t); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	f, err := startFed(t.Config)
	if err != nil {
		return err
	}
	writers := make([]*actors.Handle, t.Streams)
	for i := range writers {
		if writers[i], err = f.stream(fmt.Sprintf("stream-%04d", i)); err != nil {
			return errors.Join(err, f.stop())
		}
	}
	stop := make(chan struct{})
	failed := make([]error, t.Feeders)
	var wg sync.WaitGroup
	for i := range t.Feeders {
		share := writers[i*len(writers)/t.Feeders : (i+1)*len(writers)/t.Feeders]
		wg.Go(func() { failed[i] = f.feed(share, recordsOf(t.Each, uint64(i)), t.Every, stop) })
	}
	err = f.sample(signals)
	close(stop)
	wg.Wait()
	return errors.Join(append(failed, err, f.stop())...)
}

// feed appends to one stream after the other, each in its turn.
func (f *fed) feed(writers []*actors.Handle, records []segment.Record, every time.Duration, stop chan struct{}) error {
	tick := time.NewTicker(every / time.Duration(len(writers)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		if err := publish(writers[i%len(writers)], records); err != nil {
			return err
		}
		f.appended.Add(int64(48 + len(records)*(4+recordBytes)))
	}
}

func (f *fed) sample(signals chan os.Signal) error {
	out := bufio.NewWriter(os.Stdout)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-signals:
			return nil
		case <-tick.C:
		}
		fmt.Fprintln(out, time.Now().UnixMilli(), f.transferred.Load(), f.appended.Load())
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// runTask runs a node as millrace run does, and profiles it.
type runTask struct{ Config, Profile string }

func run(task []byte) (err error) {
	var t runTask
	if err := json.Unmarshal(task, &t); err != nil {
		return err
	}
	out, err := os.Create(t.Profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return runNode(&globals{config: t.Config, out: os.Stdout, err: os.Stderr})
}
