package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/settings"
)

func sized(n int64) *int64 { return &n }

// TestOperatorsStopAndStartProcesses: what may be stopped stops, comes back when told
// to, and the rest is refused with what to do instead.
func TestOperatorsStopAndStartProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := calmWorld(t, func(*world, *settings.Settings, *node.Ports) {})
		ctx := context.Background()
		st, err := n.CreateStream(ctx, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for path, want := range map[string]string{
			"": "which process is missing", "node": "SIGTERM", "node/admin": "restart the node", "admin": "restart the node", "node/log": "node/log/STREAM",
			"node/keeper": "the keeper brings back", "node/tiering": "millrace tiering disable", "node/nobody": `no process "nobody" below node`,
			"node/log/shop/writer/deeper": "no process",
		} {
			err := n.Terminate(ctx, path)
			var refusal *admin.Error
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Error()+refusal.Hint, want) || refusal.Class == admin.Internal {
				t.Errorf("terminating %q gave %v, want %q in it", path, err, want)
			}
		}
		if err := n.Restart(ctx, "node/admin"); err == nil {
			t.Error("the admin restarts itself")
		}
		governor := process(t, n, "node/tiering/governor")
		if err := n.Terminate(ctx, "node/tiering/governor"); err != nil || governor.Alive() {
			t.Errorf("the governor lives: %v", err)
		}
		if g := tree(t, n, "node/tiering/governor"); g.State != "undefined" || !g.Trouble || !strings.Contains(g.Note, "millrace tree restart node/tiering/governor") {
			t.Errorf("a stopped governor shows %+v", g)
		}
		for _, path := range []string{"node/tiering/governor", "node/tiering/governor", "node/tiering/stream_factory/shop", "node/tiering/stream_factory/shop/replica_reader", "node/log/shop", "node/log/" + st.ID + "/writer", "node/tiering"} {
			old := tree(t, n, path).Handle
			if err := n.Restart(ctx, path); err != nil {
				t.Errorf("restarting %s: %v", path, err)
			}
			if h := process(t, n, path); h == old {
				t.Errorf("%s is what it was", path)
			}
			// Not at the moment of one of the keeper's looks, which a restart sets off anew.
			time.Sleep(2*time.Minute + time.Second)
		}
		publish(t, n, pos.StreamID(st.ID), "after all that")
		time.Sleep(time.Minute)
		if got, err := n.Stream(ctx, "shop"); err != nil || got.SeamNext != 1 || got.Trouble != "" {
			t.Errorf("in the end %+v, %v", got, err)
		}
		stopNode(t, n)
	})
}

// TestFactoriesArePaged: each page in order, what is searched for by name, and the names
// of the registry beside them.
func TestFactoriesArePaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := calmWorld(t, func(*world, *settings.Settings, *node.Ports) {})
		ctx := context.Background()
		for i := range 25 {
			if _, err := n.CreateStream(ctx, fmt.Sprintf("s%02d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		var got []string
		for offset := 0; offset < 30; offset += 10 {
			page, err := n.Tree(admin.TreeQuery{Path: "node/log", Factory: "log", Offset: offset, Limit: 10})
			if err != nil || page.Page.Total != 25 || page.Page.Matched != 25 || page.Page.States["running"] != 25 {
				t.Errorf("%+v, %v", page.Page, err)
			}
			for _, c := range page.Children {
				got = append(got, c.Label)
			}
		}
		if len(got) != 25 || got[0] != "s00" || got[24] != "s24" {
			t.Errorf("the pages hold %q", got)
		}
		whole, err := n.Tree(admin.TreeQuery{Factory: "node/log", Offset: 20, Limit: 10, Search: "s1"})
		if err != nil || whole.Page.Matched != 10 || len(whole.Children) != 0 {
			t.Errorf("beyond what was searched for there are %d of %+v, %v", len(whole.Children), whole.Page, err)
		}
		if _, err := n.Tree(admin.TreeQuery{Factory: "node/tiering"}); err == nil || !strings.Contains(err.Error(), "no factory") {
			t.Errorf("paging what is no factory gave %v", err)
		}
		if held := n.Registry(); len(held) != 2*25+5 {
			t.Errorf("%d names are held", len(held))
		}
		names, err := n.Names(ctx, "s03")
		if err != nil || len(names) != 2 || names[0].State != admin.Registered || names[0].Label != "s03" || names[1].Kind != "replica_reader" {
			t.Errorf("names %+v, %v", names, err)
		}
		if _, err := n.SetTiering(ctx, false); err != nil {
			t.Fatal(err)
		}
		if names, err := n.Names(ctx, "s03"); err != nil || names[1].State != admin.Absent || names[1].Path != "" {
			t.Errorf("with tiering disabled %+v, %v", names, err)
		}
		if _, err := n.Names(ctx, "nobody"); err == nil {
			t.Error("a stream that is not there has names")
		}
		stopNode(t, n)
	})
}

// TestRetentionChangesWhileAStreamRuns: the running log trims at once; a crash of the
// writer and a restart of the node forget nothing; concurrent changes add up.
func TestRetentionChangesWhileAStreamRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ports node.Ports
		var config settings.Settings
		_, n := calmWorld(t, func(_ *world, s *settings.Settings, p *node.Ports) {
			s.Log.SegmentMaxBytes, s.Local.MinBytes, s.Local.MaxBytes = 8<<10, 1<<20, 1<<20
			ports, config = *p, *s
		})
		ctx := context.Background()
		st, err := n.CreateStream(ctx, "shop", map[string]string{"max-age": "7D"})
		if err != nil {
			t.Fatal(err)
		}
		id := pos.StreamID(st.ID)
		write := func() {
			for range 100 {
				publish(t, n, id, strings.Repeat("x", 1000))
			}
			time.Sleep(time.Minute)
		}
		bytes := func() int64 {
			got, err := n.Stream(ctx, "shop")
			if err != nil {
				t.Fatal(err)
			}
			return got.LocalBytes
		}
		write()
		if bytes() < 100_000 {
			t.Errorf("%d bytes before anything was changed", bytes())
		}
		got, err := n.SetRetention(ctx, "shop", admin.Retention{LocalMaxBytes: sized(40_000), LocalMinBytes: sized(20_000)})
		want := segment.Retention{MaxAge: 7 * 24 * time.Hour, LocalMaxBytes: 40_000, LocalMinBytes: 20_000}
		if err != nil || got.Effective != want || !got.Applied || len(got.Notes) != 0 {
			t.Errorf("changed to %+v, %v", got, err)
		}
		if bytes() > 40_000 {
			t.Errorf("%d bytes after the change", bytes())
		}
		process(t, n, "node/log/shop/writer").Kill()
		time.Sleep(time.Minute)
		write()
		if bytes() > 40_000 {
			t.Errorf("%d bytes after the writer was restarted: it forgot its bounds", bytes())
		}
		if now := process(t, n, "node/log/shop/writer").Status().(segment.Status).Retention; now != want {
			t.Errorf("after a restart of the writer %+v", now)
		}
		stopNode(t, n)
		if n, err = node.Start(ctx, config, ports, node.About{}, quiet); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if now := process(t, n, "node/log/shop/writer").Status().(segment.Status).Retention; now != want {
			t.Errorf("after a restart of the node %+v", now)
		}
		refused, err := n.SetRetention(ctx, "shop", admin.Retention{LocalMinBytes: sized(50_000)})
		if err == nil || !strings.Contains(err.Error(), "more than local-max-bytes, 40000") {
			t.Errorf("a window wanted larger than it may be: %+v, %v", refused, err)
		}
		blink := time.Millisecond
		for _, change := range []admin.Retention{{MaxBytes: sized(0)}, {MaxBytes: sized(1)}, {MaxBytes: sized(4095)}, {LocalMaxBytes: sized(100)}, {MaxAge: &blink}} {
			var e *admin.Error
			if _, err := n.SetRetention(ctx, "shop", change); !errors.As(err, &e) || e.Class != admin.Invalid {
				t.Errorf("%+v gave %v", change, err)
			}
		}
		got, err = n.SetRetention(ctx, "shop", admin.Retention{LocalMaxBytes: sized(4 << 20), LocalMinBytes: sized(admin.Unset)})
		if err != nil || got.Effective.LocalMaxBytes != 1<<20 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "local.max_bytes is 1MiB") {
			t.Errorf("looser than the node's own: %+v, %v", got, err)
		}
		stopNode(t, n)
	})
}

// TestChangesOfRetentionMeet: changes that are made at the same time all hold, also when
// the metadata store loses the outcome of some.
func TestChangesOfRetentionMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := calmWorld(t, func(w *world, _ *settings.Settings, _ *node.Ports) { w.meta.Latency = w.latency(10 * time.Millisecond) })
		ctx := context.Background()
		if _, err := n.CreateStream(ctx, "shop", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		week := 7 * 24 * time.Hour
		done := make(chan error, 3)
		for _, change := range []admin.Retention{{MaxBytes: sized(1 << 30)}, {MaxAge: &week}, {LocalMinBytes: sized(0)}} {
			go func() {
				_, err := n.SetRetention(ctx, "shop", change)
				done <- err
			}()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		row, err := w.meta.StreamByName(ctx, "shop")
		if err != nil || row.Arguments["max-length-bytes"] != "1073741824" || row.Arguments["max-age"] != "604800s" || row.Arguments["local-min-bytes"] != "0" {
			t.Errorf("stored are %v, %v", row.Arguments, err)
		}
		stopNode(t, n)
	})
}

// TestItem42SwitchingTieringLeavesRetentionAlone: a stream's bounds are the same however
// often tiering finds it, also while the metadata store can't be asked.
func TestItem42SwitchingTieringLeavesRetentionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		_, n := calmWorld(t, func(w *world, _ *settings.Settings, _ *node.Ports) {
			w.meta.Fault = func(string, string) error {
				if down.Load() {
					return port.Unavailable
				}
				return nil
			}
		})
		defer stopNode(t, n)
		ctx := context.Background()
		if _, err := n.CreateStream(ctx, "shop", map[string]string{"max-age": "7D", "max-length-bytes": "70000"}); err != nil {
			t.Fatal(err)
		}
		bounds := func() segment.Retention {
			return process(t, n, "node/log/shop/writer").Status().(segment.Status).Retention
		}
		want := bounds()
		if want.MaxAge != 7*24*time.Hour || want.MaxBytes != 70_000 {
			t.Fatalf("bounds %+v", want)
		}
		for i := range 6 {
			if _, err := n.SetTiering(ctx, i%2 == 1); err != nil {
				t.Fatal(err)
			}
			down.Store(true)
			time.Sleep(time.Minute)
			down.Store(false)
			time.Sleep(time.Minute)
			if got := bounds(); got != want {
				t.Errorf("after switch %d the bounds are %+v, before %+v", i, got, want)
			}
		}
		s, err := n.Stream(ctx, "shop")
		if err != nil || s.Upload.Status == nil || s.Upload.Status.Stream.State != "running" {
			t.Errorf("afterwards %+v, %v", s.Upload, err)
		}
	})
}
