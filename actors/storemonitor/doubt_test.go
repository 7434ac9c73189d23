package storemonitor

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/upload"
	"millrace/registry"
)

// put puts an object through the gate.
func (b *bench) put(ctx context.Context) error {
	body := []byte("x")
	return b.gate.Guard(b.store).Put(ctx, "p/a", port.NewBody(bytes.NewReader(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))), 1, false)
}

// What fails is a reason to look at the store now and not only in five minutes; what a store
// that is well may do, and what the node gave up, is none.
func TestAFailureIsAReasonToLook(t *testing.T) {
	for class := port.Unclassified; class <= port.Full; class++ {
		looks := class != port.Throttled && class != port.Full && class != port.Exists
		inBubble(t, func(b *bench) {
			b.start()
			b.shows("yes", 1, passes)
			pass(time.Minute)
			b.fails(class)
			asked := b.asked.Load()
			if err := b.put(b.t.Context()); port.ClassOf(err) != class && class != port.Unclassified {
				t.Fatal(err)
			}
			b.fault.Store(nil)
			synctest.Wait()
			if got := b.asked.Load() > asked+1; got != looks {
				t.Errorf("after a put that is %s: looked %v, want %v", class, got, looks)
			}
		})
	}
	// One that is busy with everything is away, too.
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		pass(time.Minute)
		for _, failures := range []int{busyFor - 1, busyFor - 1, busyFor} {
			b.fails(port.Throttled)
			asked := b.asked.Load()
			for range failures {
				if b.put(b.t.Context()) == nil {
					t.Fatal("it does not fail")
				}
				synctest.Wait()
			}
			if looks := b.asked.Load() - asked - int64(failures); (looks > 0) != (failures == busyFor) {
				t.Errorf("%d operations of looks after %d failures", looks, failures)
			}
			b.fault.Store(nil)
			pass(time.Minute)
			if err := b.put(b.t.Context()); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
		}
	})
	// A deletion that fails is one as well.
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		pass(time.Minute)
		b.fails(port.Unavailable)
		asked := b.asked.Load()
		if _, err := b.gate.Guard(b.store).Delete(b.t.Context(), []string{"p/a"}); err == nil {
			t.Fatal("it does not fail")
		}
		synctest.Wait()
		if b.asked.Load() == asked+1 {
			t.Error("it did not look")
		}
	})
	// So is what is not found: it may be another store than the one that has it.
	for _, read := range []func(b *bench) error{
		func(b *bench) error { _, err := b.gate.Guard(b.store).Get(b.t.Context(), "p/none"); return err },
		func(b *bench) error {
			_, err := b.gate.Guard(b.store).GetRange(b.t.Context(), "p/none", 0, 1)
			return err
		},
	} {
		inBubble(t, func(b *bench) {
			b.start()
			b.shows("yes", 1, passes)
			pass(time.Minute)
			asked := b.asked.Load()
			if port.ClassOf(read(b)) != port.NotFound {
				t.Fatal("it is there")
			}
			synctest.Wait()
			if b.asked.Load() == asked+1 {
				t.Error("it did not look")
			}
			asked = b.asked.Load()
			pass(time.Minute)
			if _, err := b.gate.Guard(b.store).Get(b.t.Context(), "p/cluster"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if b.asked.Load() != asked+1 {
				t.Error("it looked since something was found")
			}
		})
	}
	// What the node gives up is none, unless its time was over.
	for cause, looks := range map[error]bool{nil: false, context.DeadlineExceeded: true} {
		inBubble(t, func(b *bench) {
			b.start()
			b.shows("yes", 1, passes)
			pass(time.Minute)
			b.store.Latency = func(_, key string) time.Duration {
				if key == "p/a" {
					return time.Hour
				}
				return 0
			}
			ctx, cancel := context.WithCancelCause(b.t.Context())
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			asked := b.asked.Load()
			if b.put(ctx) == nil {
				t.Fatal("it was given up")
			}
			synctest.Wait()
			if got := b.asked.Load() != asked; got != looks {
				t.Errorf("given up for %v: looked %v, want %v", cause, got, looks)
			}
		})
	}
}

// A thousand streams fail: the store is looked at every five seconds, not for each of them;
// and a successor of the monitor is told as well.
func TestManyFailuresAreLookedAtNowAndThen(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		for range 2 {
			pass(time.Minute)
			b.fails(port.Unavailable)
			asked, failed := b.asked.Load(), int64(0)
			for range 60 {
				for range 100 {
					if b.put(b.t.Context()) == nil {
						t.Fatal("it does not fail")
					}
					failed++
				}
				pass(time.Second)
			}
			if looks := (b.asked.Load() - asked - failed) / 2; looks < 12 || looks > 13 {
				t.Errorf("%d looks in a minute", looks)
			}
			b.shows("unknown", 1, passes)
			b.fault.Store(nil)
			pass(5 * time.Second)
			b.shows("yes", 1, passes)
			// The next one after all was well is looked at again.
			pass(time.Minute)
			asked = b.asked.Load()
			b.fails(port.Unavailable)
			if b.put(b.t.Context()) == nil {
				t.Fatal("it does not fail")
			}
			synctest.Wait()
			if b.asked.Load() == asked+1 {
				t.Error("it did not look")
			}
			b.fault.Store(nil)
			pass(5 * time.Second)
			b.shows("yes", 1, passes)
			b.kill()
			b.fails(port.Unavailable)
			if b.put(b.t.Context()) == nil {
				t.Fatal("it does not fail")
			}
			b.fault.Store(nil)
			b.start()
			b.shows("yes", 1, passes)
		}
	})
}

// reader stands for a replica reader and keeps what it is told.
type reader struct {
	names *registry.Registry
	id    string
	told  *atomic.Pointer[[]any]
}

func (r *reader) Init(c *actors.Context) error {
	if !r.names.Register(c, registry.Name{Kind: "replica_reader", ID: r.id, Node: "n"}) {
		return fmt.Errorf("%s is taken", r.id)
	}
	r.told.Store(new([]any))
	return nil
}

func (r *reader) Handle(_ *actors.Context, msg any) *actors.Reason {
	told := append(*r.told.Load(), msg)
	r.told.Store(&told)
	return nil
}

func (r *reader) Terminate(*actors.Context, actors.Reason) {}

// reader starts a replica reader and returns what it is told.
func (b *bench) reader(id string) *atomic.Pointer[[]any] {
	b.t.Helper()
	r := &reader{b.names, id, new(atomic.Pointer[[]any])}
	if _, err := b.sys.Start(b.t.Context(), actors.Spec{Path: "reader/" + id, New: func() actors.Process { return r }}); err != nil {
		b.t.Fatal(err)
	}
	return r.told
}

// restored has the marker put for an operator.
func (b *bench) restored() {
	b.t.Helper()
	if put, err := b.restore(); !put || err != nil {
		b.t.Fatal(put, err)
	}
}

func (b *bench) kill() {
	b.h.Kill()
	<-b.h.Done()
}

// Replica readers are told when the store is well again, and when it may be another one than
// the one that was ours.
func TestReplicaReadersAreToldOfTheStore(t *testing.T) {
	inBubble(t, func(b *bench) {
		told := []*atomic.Pointer[[]any]{b.reader("0"), b.reader("1")}
		expect := func(what string, want ...any) {
			t.Helper()
			synctest.Wait()
			for i := range told {
				if got := *told[i].Swap(new([]any)); !slices.Equal(got, want) {
					t.Errorf("%s: %d is told %#v, want %#v", what, i, got, want)
				}
			}
		}
		b.start()
		expect("at the start", upload.StoreOwned{}, upload.StoreBack{})
		pass(time.Hour)
		expect("while all is well")
		b.fails(port.Unavailable)
		pass(time.Hour)
		expect("while it is away", upload.StoreAway{Since: pos.MillisOf(time.Now().Add(5*time.Minute - time.Hour)), Why: "object store: probe: unavailable"})
		b.fault.Store(nil)
		pass(5 * time.Second)
		expect("when it is back", upload.StoreBack{})
		b.store.Drop("p/cluster")
		pass(5 * time.Minute)
		expect("when the marker is gone", upload.StoreDisowned{})
		b.restored()
		away := func() upload.StoreAway {
			return upload.StoreAway{Since: pos.MillisOf(time.Now()), Why: "an operator claims the prefix, and it is not known yet what lies there"}
		}
		expect("when it is claimed", upload.StoreDisowned{}, away(), upload.StoreReclaimed{}, upload.StoreBack{})
		b.store.Drop("p/cluster")
		b.restored() // before anybody noticed
		expect("when it is claimed", upload.StoreDisowned{}, away(), upload.StoreReclaimed{}, upload.StoreBack{})
		if put, err := b.restore(); put || err != nil {
			t.Fatal(put, err)
		}
		if expect("when there was nothing to claim", upload.StoreDisowned{}, away(), upload.StoreOwned{}, upload.StoreBack{}); !b.gate.Trusted() {
			t.Error("a stream that starts now would free nothing")
		}
		whole, _ := b.store.Object("p/cluster")
		b.store.Drop("p/cluster")
		pass(5 * time.Minute)
		b.kill()
		b.store.Replace("p/cluster", whole)
		b.start()
		expect("when the marker is gone and back, though the monitor is a new one", upload.StoreDisowned{}, upload.StoreReclaimed{}, upload.StoreBack{})
	})
}

// The bucket goes between the two questions of a round: the gate is closed for that reason.
func TestABucketThatGoesBetweenTwoQuestions(t *testing.T) {
	inBubble(t, func(b *bench) {
		var gone atomic.Bool
		b.store.Fault = func(op, _ string) error {
			if op == "probe" && gone.Load() {
				return port.NotFound
			}
			return nil
		}
		b.start()
		b.shows("yes", 1, passes)
		gone.Store(true)
		pass(6 * time.Minute)
		b.shows("no (bucket does not exist)", 0, port.Denied)
		if err := b.put(b.t.Context()); !strings.Contains(err.Error(), "probe") {
			t.Errorf("refused with %v", err)
		}
	})
}

// A marker that was put, and could not be read back, is of another store all the same.
func TestAMarkerThatCannotBeReadBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		told := b.reader("0")
		var put atomic.Bool
		b.store.Fault = func(op, _ string) error {
			if op == "get" && put.Load() {
				return port.Unavailable
			}
			return nil
		}
		b.store.After = func(op, _ string) error {
			put.Store(put.Load() || op == "put")
			return nil
		}
		b.start()
		synctest.Wait()
		put.Store(false)
		pass(5 * time.Second)
		b.shows("yes", 1, passes)
		told.Store(new([]any))
		b.store.Drop("p/cluster")
		if _, err := b.restore(); err == nil {
			t.Fatal("it was read back")
		}
		put.Store(false)
		pass(5 * time.Second)
		if got := *told.Load(); !slices.Contains(got, any(upload.StoreReclaimed{})) {
			t.Errorf("told %v", got)
		}
	})
}

// While things are put the owner is looked at every ten seconds, with one question, and no
// more when that ends: a store that took the place of ours is noticed soon.
func TestTheOwnerIsLookedAtWhileThingsArePut(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		asked, puts := b.asked.Load(), int64(0)
		for range 600 {
			for range 3 {
				if err := b.put(b.t.Context()); err != nil {
					t.Fatal(err)
				}
				puts++
			}
			pass(100 * time.Millisecond)
		}
		if looks := b.asked.Load() - asked - puts; looks != 6 {
			t.Errorf("%d questions in a minute", looks)
		}
		pass(10 * time.Second)
		asked = b.asked.Load()
		pass(4 * time.Minute)
		if n := b.asked.Load() - asked; n != 0 {
			t.Errorf("%d questions while nothing is put", n)
		}
		b.store.Drop("p/cluster")
		if err := b.put(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		b.shows("no (the cluster's marker is missing)", 0, port.Denied)
	})
}

// However much fails while the monitor is at something, it finds one message of it.
func TestFailuresDoNotFillTheMailbox(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		pass(time.Minute)
		hold := make(chan struct{})
		b.hold.Store(&hold)
		b.fails(port.Unavailable)
		for range 100 {
			if b.put(b.t.Context()) == nil {
				t.Fatal("it does not fail")
			}
			synctest.Wait()
		}
		// And the answer to the look that the first of them was a reason for.
		if n := b.h.MailboxLen(); n < 1 || n > 2 {
			t.Errorf("%d messages wait", n)
		}
		b.hold.Store(nil)
		close(hold)
	})
}

// interrupted is a context that does something when it is asked whether it has ended.
type interrupted struct {
	context.Context
	asked func()
}

// Err implements context.Context.
func (i interrupted) Err() error {
	i.asked()
	return i.Context.Err()
}

// A monitor that comes just when a failure is told is told of it, and not the one before it: it
// would hear of no later one either.
func TestAFailureIsToldToTheMonitorThatIsThere(t *testing.T) {
	inBubble(t, func(b *bench) {
		var failed bool
		fault := b.store.Fault
		b.store.Fault = func(op, what string) error {
			err := fault(op, what)
			failed = failed || err != nil
			return err
		}
		b.start()
		b.shows("yes", 1, passes)
		pass(time.Minute)
		b.fails(port.Unavailable)
		asked := int64(0)
		if b.put(interrupted{b.t.Context(), func() {
			if !failed || asked > 0 {
				return
			}
			b.fault.Store(nil)
			b.kill()
			b.start()
			synctest.Wait() // it has looked, as at each start
			asked = b.asked.Load()
		}}) == nil || asked == 0 {
			t.Fatal("it does not fail, or nothing came in between")
		}
		pass(5 * time.Second)
		if b.asked.Load() == asked {
			t.Error("it did not look again")
		}
	})
}
