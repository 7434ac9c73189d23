package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/pgserver"
	"millrace/test/shop"
)

// shopNode is a node that captures the shop of a server of its own.
func shopNode(t *testing.T, server *pgserver.Server, scale int) (*node, *database) {
	t.Helper()
	url, err := shop.Create(context.Background(), server.DSN(), scale)
	must(t, err)
	d := adopt(t, server, url)
	n := newNode(t, small(config{
		"log":     `segment_max_bytes = "512KiB"`,
		"local":   `min_bytes = "1MiB"`,
		"capture": d.capture(`max_value = "100KiB"`),
	}))
	return n, d
}

// TestSignals stops the node under load in each way there is; nothing is lost, and
// nothing doubled.
func TestSignals(t *testing.T) {
	t.Parallel()
	server, err := clusters.get()
	must(t, err)
	n, d := shopNode(t, server, 1000)
	n.start()
	n.streaming("shop", 30*time.Second)
	writers := shop.Start(d.url, 3, 20*time.Millisecond, 7)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			writers.Stop()
		}
	})
	work := func(commits int64) {
		t.Helper()
		target := writers.Commits() + commits
		eventually(t, 30*time.Second, "the writers work", func() (bool, string) {
			select {
			case err := <-writers.Failed():
				t.Fatal(err)
			default:
			}
			return writers.Commits() >= target, fmt.Sprintf("%d of %d commits", writers.Commits(), target)
		})
	}

	for range 2 {
		work(60)
		if took := n.stop(); took > 10*time.Second {
			t.Errorf("SIGTERM took %s", took)
		}
		if log := n.log(); !strings.HasSuffix(strings.TrimSpace(log), `"message":"stopped"}`) {
			t.Errorf("the log of a stop ends with: %s", n.logTail())
		}
		n.start()
		n.streaming("shop", 20*time.Second)
	}

	work(60)
	stall := stalledReader(t, n)
	n.errors = append(n.errors, "shutdown_error") // of what the second signal cuts off
	twice(t, n)
	must(t, stall.Close())

	for range 10 {
		n.start()
		time.Sleep(time.Duration(10+rand.IntN(600)) * time.Millisecond)
		n.kill()
	}
	n.start()
	n.streaming("shop", 30*time.Second)
	work(60)
	acked := 0
	stopped = true
	for _, each := range writers.Stop() {
		acked += len(each)
	}
	d.caughtUp(n, 30*time.Second)
	if losses := n.metric("millrace_capture_losses_total"); losses != 0 {
		t.Errorf("%v losses were found", losses)
	}
	v := d.verify(n)
	voids := 0
	for _, r := range v.records {
		if e := r.event(t); e.Op == "t" && e.Source.Snapshot == "first" && e.Table() == "public.audit" {
			voids++
		}
	}
	if v.ledger.Commits < int64(acked) || voids != 1 {
		t.Errorf("the stream has %d commits and began to load %d times, want the %d that were acknowledged and once", v.ledger.Commits, voids, acked)
	}
	t.Logf("%d events, %d commits, %d rows", v.ledger.Events, v.ledger.Commits, v.rows)
}

// stalledReader begins a reading over HTTP and takes nothing of it: an orderly stop
// waits a while for it.
func stalledReader(t *testing.T, n *node) net.Conn {
	t.Helper()
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, failed)
	}}
	conn, err := narrow.Dial("tcp", n.listen)
	must(t, err)
	_, err = fmt.Fprintf(conn, "GET /streams/shop/records?from=first&follow=1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", n.listen, n.token())
	must(t, err)
	one := make([]byte, 1)
	_, err = conn.Read(one) // it has begun
	must(t, err)
	sent := -1.0
	eventually(t, 20*time.Second, "the reading stands still", func() (bool, string) {
		before := sent
		sent = n.metric("millrace_reader_bytes_total")
		time.Sleep(300 * time.Millisecond)
		return sent == before, fmt.Sprint(sent, " bytes read")
	})
	return conn
}

// twice ends the node with two signals, the second of which is not to be waited for.
func twice(t *testing.T, n *node) {
	t.Helper()
	p := n.process
	n.process = nil
	p.signal(t, syscall.SIGTERM)
	time.Sleep(300 * time.Millisecond)
	select {
	case <-p.ended:
		t.Fatal("the first SIGTERM ended the node before there could be a second one")
	default:
	}
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	code := p.wait(t, 5*time.Second)
	if took := time.Since(began); code != 1 || took > time.Second {
		t.Errorf("a second SIGTERM ended the node after %s with exit code %d", took, code)
	}
	if log := n.log(); !strings.Contains(log, "nothing that was committed is lost") {
		t.Errorf("the log ends with: %s", n.logTail())
	}
}

// TestASecondNodeIsRefused starts nodes on what belongs to another.
func TestASecondNodeIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.start()
	other := func(name, data, listen string) answer {
		second := &node{t: t, dir: t.TempDir(), listen: listen, name: name, data: data, store: n.store}
		second.configure(nil)
		return second.millrace("run")
	}
	pid := fmt.Sprintf("in use by process %d", n.process.cmd.Process.Pid)
	other(n.name, n.data, freeAddress(t)).want(t, 1, n.data, pid, "data_dir")
	// Another cluster on this one's store.
	other(n.name, filepath.Join(t.TempDir(), "data"), freeAddress(t)).want(t, 1, "names cluster", "as the owner", "set another store.prefix")
	if code, _ := n.get("/livez", ""); code != 200 {
		t.Errorf("the first node answers %d after others were refused", code)
	}
	n.stop()
	other("another", n.data, freeAddress(t)).want(t, 1, `belongs to node "e2e"`, `called "another"`)
	n.start()
}
