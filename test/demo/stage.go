package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"millrace/test/pgserver"
	"millrace/test/shop"
)

const (
	// scale makes about 150,000 rows to load, so that a kill can hit the load.
	scale   = 20000
	writers = 4
	// pause is what each writer waits between transactions on average.
	pause = 60 * time.Millisecond
	// maxMemory is what the node may have resident at most.
	maxMemory = 120 << 20
)

// stage is what the demo runs on.
type stage struct {
	dir      string
	began    time.Time
	server   *pgserver.Server
	url      string // superuser's, of the shop's database
	tables   []shop.Table
	rows     int64 // loaded into the shop before the node ran
	node     *node
	client   *client
	remote   *remote // nil: the store is a folder
	outage   *comparison
	follower *follower
	writers  atomic.Pointer[shop.Writers] // nil before they start
	acked    map[int][]int
	read     atomic.Int64 // how far the stream was read back
	shown    shown
}

// newStage makes the folder that everything lies in. It can be entered by the user
// whom PostgreSQL runs as.
func newStage(binary string, s3 bool) (*stage, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: run it with make demo, which builds it", err)
	}
	dir, err := os.MkdirTemp("", "millrace-demo-")
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, began: time.Now()}
	s.node = &node{binary: binary}
	if s3 {
		if s.remote, err = newRemote(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return s, os.Chmod(dir, 0o755)
}

// say prints a step of the play with its time.
func (s *stage) say(format string, args ...any) {
	screen.print(fmt.Sprintf("%6.1f s  ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...))
}

// raise starts PostgreSQL, fills the shop and configures the node.
func (s *stage) raise(ctx context.Context) error {
	var err error
	s.say("starting a throw-away PostgreSQL in %s", s.dir)
	if s.server, err = pgserver.Start(filepath.Join(s.dir, "postgres")); err != nil {
		return wrap("start PostgreSQL", err)
	}
	if s.url, err = shop.Create(ctx, s.server.DSN(), scale); err != nil {
		return wrap("fill the shop", err)
	}
	if s.tables, err = shop.Tables(ctx, s.url); err != nil {
		return wrap("list the published tables", err)
	}
	for _, t := range s.tables {
		if err := shop.Rows(ctx, s.url, t, func([]string, [][]byte) error { s.rows++; return nil }); err != nil {
			return wrap("count the rows", err)
		}
	}
	captured, err := shop.URL(s.url, shop.Role, shop.Database)
	if err != nil {
		return err
	}
	listen, err := freePort()
	if err != nil {
		return err
	}
	store, env := fmt.Sprintf("path = %q\n", s.store()), []string(nil)
	if s.remote != nil {
		store, env = s.remote.settings()
		if err := s.remote.proxy.Set(mild); err != nil {
			return wrap("slow the network down", err)
		}
		s.say("an S3 server (versitygw) on %s, behind a network that takes %v more each way", s.remote.server.URL(), mild.Delay)
	}
	if s.node, err = newNode(s.node.binary, s.dir, listen, captured, shop.Publication, store); err != nil {
		return wrap("configure the node", err)
	}
	s.node.env = env
	s.client = &client{node: s.node}
	s.follower = &follower{client: s.client, now: time.Now}
	s.say("%d tables with %d rows to load", len(s.tables), s.rows)
	return nil
}

// freePort gives a loopback address that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// strike takes everything down. The folder stays when keep says so.
func (s *stage) strike(keep bool) error {
	var errs []error
	if w := s.writers.Load(); w != nil && s.acked == nil {
		w.Stop()
	}
	errs = append(errs, s.node.stop())
	if s.server != nil {
		errs = append(errs, wrap("stop PostgreSQL", s.server.Stop(pgserver.Immediate)))
	}
	if s.remote != nil {
		errs = append(errs, s.remote.stop())
	}
	if keep {
		fmt.Fprintf(os.Stderr, "demo: what it left is in %s: the node's log is node.log\n", s.dir)
	} else {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

func (s *stage) data() string { return filepath.Join(s.dir, "data") }

// store is the folder of the objects, which that of the S3 server's bucket is too.
func (s *stage) store() string {
	if s.remote != nil {
		return s.remote.server.Bucket(bucket)
	}
	return filepath.Join(s.dir, "store")
}

// local is the bytes of segments on the node's disk, stored those of fragments in the
// object store, as the file system tells them.
func (s *stage) local() int64  { return bytesOf(s.data(), ".segment") }
func (s *stage) stored() int64 { return bytesOf(s.store(), ".fragment") }

// bytesOf adds up the files below dir with a suffix.
func bytesOf(dir, suffix string) (sum int64) {
	each(dir, suffix, func(_ string, size int64) { sum += size })
	return sum
}

// invite says what to try on what is left running.
func (s *stage) invite() {
	fmt.Printf(`
The node and PostgreSQL are still up. Try, in another terminal:

  %[1]s status %[3]s --config %[2]s
  %[1]s read %[3]s --config %[2]s --from first --limit 3
  %[1]s read %[3]s --config %[2]s --from next --follow
  psql '%[4]s' -c "UPDATE products SET stock = stock + 1 WHERE sku = 'sku-1'"
  curl -H "Authorization: Bearer $(cat %[5]s)" http://%[6]s/tree

Interrupt this program (Ctrl-C) to stop both and remove %[7]s.
`, s.node.binary, s.node.configFile(), stream, s.url, s.node.tokenFile(), s.node.listen, s.dir)
}

// mib prints bytes.
func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
