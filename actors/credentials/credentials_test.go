package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/core/renew"
	"millrace/test/fake/fakekeyring"
)

// bench is a keyring and a system for the process that keeps it.
type bench struct {
	t    *testing.T
	sys  *actors.System
	ring *fakekeyring.Keyring
	log  bytes.Buffer

	mu     sync.Mutex
	values map[string]float64
}

func inBubble(t *testing.T, life time.Duration, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, sys: actors.NewSystem(7), ring: fakekeyring.New(life), values: map[string]float64{}}
		defer b.sys.Close()
		f(b)
	})
}

func (b *bench) Count(name string, delta int64, labels ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[fmt.Sprint(name, labels)] += float64(delta)
}

func (b *bench) Gauge(name string, value float64, _ ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[name] = value
}

func (b *bench) Forget(...string) {}

func (b *bench) value(name string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[name]
}

func (b *bench) start() *actors.Handle {
	b.t.Helper()
	h, err := b.sys.Start(context.Background(), actors.Spec{Path: "credentials", New: func() actors.Process {
		return New(Config{Keyring: b.ring, Metrics: b, Log: zerolog.New(&b.log), Random: func() uint64 { return 0 }})
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) uses(want string) {
	b.t.Helper()
	synctest.Wait()
	if got := strings.Join(b.ring.Uses(), " "); got != want {
		b.t.Fatalf("used %q, want %q", got, want)
	}
}

func status(h *actors.Handle) renew.Status {
	synctest.Wait()
	return h.Status().(renew.Status)
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestADayOfRenewals(t *testing.T) {
	inBubble(t, time.Hour, func(b *bench) {
		h := b.start()
		b.uses("key-1")
		if s := status(h); s.State != renew.StateValid || s.AccessKeyID != "key-1" || s.Expires == 0 {
			t.Fatalf("%+v", s)
		}
		pass(55*time.Minute - time.Millisecond)
		b.uses("key-1")
		pass(time.Millisecond)
		b.uses("key-1 key-2")
		pass(24 * time.Hour)
		if n := len(b.ring.Uses()); n < 25 || n > 30 {
			t.Errorf("%d renewals in a day", n)
		}
		if b.value("credentials_refreshes_total[]") != float64(len(b.ring.Uses())) || b.value("credentials_refresh_failures_total[]") != 0 {
			t.Errorf("counted %v", b.values)
		}
		if left := b.value("credentials_expiry_timestamp_seconds") - float64(time.Now().Unix()); left < 290 || left > 3600 {
			t.Errorf("they expire in %v s", left)
		}
		if s := b.log.String(); strings.Contains(s, "hush") || !strings.Contains(s, "key-1") {
			t.Errorf("logged %s", s)
		}
	})
}

// Nothing in the world fails the start, and the first answer counts.
func TestASourceThatIsDownForLong(t *testing.T) {
	inBubble(t, time.Hour, func(b *bench) {
		var down atomic.Bool
		down.Store(true)
		b.ring.Fault = func() error {
			if down.Load() {
				return errors.New("no route to the source")
			}
			return nil
		}
		h := b.start()
		if s := status(h); s.State != renew.StateNone || !strings.Contains(s.Why, "no route") || s.Until == 0 {
			t.Fatalf("%+v", s)
		}
		if at := b.value("credentials_expiry_timestamp_seconds"); at != 0 {
			t.Errorf("they expire at %v", at)
		}
		pass(time.Hour)
		down.Store(false)
		pass(time.Minute)
		b.uses("key-1")
		down.Store(true)
		pass(54 * time.Minute)
		if _, why := b.ring.InUse(); why != "" {
			t.Fatal("dropped before their end: " + why)
		}
		pass(10 * time.Minute)
		if _, why := b.ring.InUse(); !strings.Contains(why, "expired") || !strings.Contains(why, "no route") {
			t.Fatalf("dropped: %q", why)
		}
		if n := b.value("credentials_refresh_failures_total[]"); n < 100 || n > 160 {
			t.Errorf("%v failures", n)
		}
		if n := strings.Count(b.log.String(), "\n"); n != 4 {
			t.Errorf("%d lines of log for 4 transitions:\n%s", n, b.log.String())
		}
	})
}

func TestASourceThatHangs(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		n := 0
		b.ring.Latency = func() time.Duration {
			if n++; n == 1 {
				return 24 * time.Hour
			}
			return time.Second
		}
		h := b.start()
		pass(time.Minute)
		b.uses("key-1")
		if s := status(h); s.Expires != 0 || s.State != renew.StateValid || !math.IsInf(b.value("credentials_expiry_timestamp_seconds"), 1) {
			t.Errorf("%+v", s)
		}
	})
}

// Refusals by the store, a burst of them and then more, fetch at once and then every 5 s.
func TestTheStoreRefuses(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		b.start()
		pass(time.Minute)
		b.ring.Revoke()
		c, err := b.ring.Sign("get", "a")
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // what was signed before the new ones come
			if b.ring.Check("get", "a", c) == nil {
				t.Fatal("not refused")
			}
		}
		b.uses("key-1 key-2")
		for range 200 { // the new ones are refused as well
			b.ring.Revoke()
			c, err := b.ring.Sign("get", "a")
			if err != nil || b.ring.Check("get", "a", c) == nil {
				t.Fatal("not refused")
			}
			pass(100 * time.Millisecond)
		}
		if n := len(b.ring.Uses()); n < 5 || n > 7 {
			t.Errorf("%d fetches within 20 s of refusals", n)
		}
	})
}

// However it ends, the keyring is empty before a successor fills it.
func TestItsEndEmptiesTheKeyring(t *testing.T) {
	for name, end := range map[string]func(h *actors.Handle){
		"stopped": func(h *actors.Handle) { h.Stop(actors.Reason{Kind: actors.Shutdown}) },
		"killed":  func(h *actors.Handle) { h.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, time.Hour, func(b *bench) {
				h := b.start()
				b.uses("key-1")
				end(h)
				<-h.Done()
				if id, why := b.ring.InUse(); id != "" || !strings.Contains(why, "has ended") {
					t.Fatalf("in use %q, %q", id, why)
				}
				if at := b.value("credentials_expiry_timestamp_seconds"); !math.IsNaN(at) {
					t.Errorf("they expire at %v", at)
				}
				b.start()
				b.uses("key-1 key-2")
				pass(2 * time.Hour)
				if id, _ := b.ring.InUse(); id == "" {
					t.Error("the successor's were taken away")
				}
			})
		})
	}
}

func TestWithoutAKeyringItIsIgnored(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		_, err := b.sys.Start(context.Background(), actors.Spec{Path: "credentials", New: func() actors.Process {
			return New(Config{Metrics: b, Log: zerolog.Nop()})
		}})
		if !errors.Is(err, actors.ErrIgnore) {
			t.Fatal(err)
		}
	})
}
