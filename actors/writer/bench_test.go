package writer_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/actors/writer"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/registry"
)

// void is a disk that forgets what is written: the benchmark measures the writer.
type void struct{ port.Disk }

func (void) Lease(context.Context, string) (func(), error) { return func() {}, nil }
func (void) List(string) ([]port.FileInfo, error)          { return nil, nil }
func (void) Create(string, string) (port.File, error)      { return voidFile{}, nil }
func (void) Open(string, string, bool) (port.File, error)  { return voidFile{}, nil }
func (void) Remove(string, string) error                   { return nil }
func (void) SyncDir(string) error                          { return nil }

type voidFile struct{ port.File }

func (voidFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (voidFile) Truncate(int64) error                   { return nil }
func (voidFile) Sync() error                            { return nil }
func (voidFile) Close() error                           { return nil }

// BenchmarkAppend sends appends of 100 records of 1 KiB, 100 of them at a time.
func BenchmarkAppend(b *testing.B) {
	w := newWorld(b)
	sys := actors.NewSystem(1)
	defer sys.Close()
	logs := hooks.New()
	cfg := writer.Config{
		Stream: stream, Node: node, Disk: void{}, Metadata: w.meta, State: w.state, Hooks: logs,
		Registry: registry.New(), Logger: zerolog.Nop(), Log: segment.Config{Retention: segment.Retention{MaxBytes: 1}},
	}
	h, err := sys.Start(b.Context(), actors.Spec{Path: "w", New: func() actors.Process { return writer.New(cfg) }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	if _, err := logs.Await(ctx, stream); err != nil {
		b.Fatal(err)
	}
	batch := make([]segment.Record, 100)
	for i := range batch {
		batch[i].Body = make([]byte, 1024)
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.SetParallelism(50)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if n%len(batch) != 0 {
				continue
			}
			a, err := h.Call(b.Context(), segment.Append{ExpectNext: pos.NoOffset, Records: batch})
			if _, ok := a.(segment.Appended); !ok || err != nil {
				b.Errorf("answer %+v, %v", a, err)
			}
		}
	})
}
