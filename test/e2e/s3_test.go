package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/test/s3server"
)

const bucket = "e2e"

// s3 starts a server with a bucket for one test.
func s3(t *testing.T, options ...s3server.Option) *s3server.Server {
	t.Helper()
	server, err := s3server.Start("", options...)
	must(t, err)
	t.Cleanup(func() {
		if err := server.Remove(); err != nil {
			t.Error(err)
		}
	})
	must(t, server.MakeBucket(bucket))
	return server
}

// keys are the environment of a node that may use the server.
var keys = []string{"AWS_ACCESS_KEY_ID=" + s3server.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + s3server.SecretKey}

// onS3 puts a node that does not run yet on the server's bucket.
func (n *node) onS3(server *s3server.Server, c config, env ...string) {
	n.t.Helper()
	n.onEndpoint(server.URL(), c, env...)
}

func (n *node) onEndpoint(url string, c config, env ...string) {
	n.t.Helper()
	c["store"] = fmt.Sprintf("kind = \"s3\"\nbucket = %q\nendpoint = %q\npath_style = true", bucket, url)
	n.store = ""
	// No keys of whoever runs the tests.
	n.env = append([]string{"AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(n.dir, "none"), "AWS_CONFIG_FILE=" + filepath.Join(n.dir, "none"),
		"AWS_EC2_METADATA_DISABLED=true", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=", "AWS_PROFILE="}, env...)
	n.configure(c)
}

// accessible waits until the node says of its store what it is to say.
func (n *node) accessible(limit time.Duration, says string) {
	n.t.Helper()
	eventually(n.t, limit, "the store is "+says, func() (bool, string) {
		_, body := n.get("/status", n.token())
		var s struct {
			Access      string `json:"store_access"`
			Credentials json.RawMessage
		}
		must(n.t, json.Unmarshal([]byte(body), &s))
		return strings.HasPrefix(s.Access, says), s.Access + "; credentials " + string(s.Credentials)
	})
}

// TestAnS3StoreThatComesLater starts a node whose store does not answer: it takes what
// happens, and puts it into the store when that is there. Then the bucket goes and comes.
func TestAnS3StoreThatComesLater(t *testing.T) {
	t.Parallel()
	server := s3(t)
	must(t, server.Kill())
	d := newDatabase(t, fillerSQL)
	c := small(config{"capture": d.capture("")})
	n := newNode(t, c)
	n.onS3(server, c, keys...)
	n.errors = []string{"the object store is not accessible"}
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.accessible(10*time.Second, "unknown since")
	if s, _ := n.status("shop"); s.SeamNext > 0 {
		t.Errorf("%s records are said to be in a store that never answered", s.SeamNext)
	}
	must(t, server.Restart())
	n.accessible(15*time.Second, "yes")
	n.until(30*time.Second, "shop", "everything is in the store", inBothTiers)

	must(t, os.Rename(server.Bucket(bucket), server.Bucket(bucket)+".away"))
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.until(20*time.Second, "shop", "uploads stall", func(s streamStatus) bool { return s.Tiering.Pipeline.StalledWhy != "" })
	n.kill()
	n.start()
	n.accessible(20*time.Second, "no (bucket does not exist)")
	must(t, os.Rename(server.Bucket(bucket)+".away", server.Bucket(bucket)))
	n.until(60*time.Second, "shop", "everything is in the store again", inBothTiers)
	n.millrace("status").want(t, 0, "accessible", "yes", "credentials", "environment", s3server.AccessKeyID, "upload pool", "general pool")
	d.verify(n)
	if gaps := n.metric("millrace_gaps_total"); gaps != 0 {
		t.Errorf("%v gaps", gaps)
	}
}

// TestAnS3StoreThatRefuses has a node without keys, one with keys that nobody knows, and one
// on the prefix of another cluster.
func TestAnS3StoreThatRefuses(t *testing.T) {
	t.Parallel()
	server := s3(t)
	c := config{}
	n := idleNode(t, c)
	n.errors = []string{"the object store is not accessible"}
	n.onS3(server, c)
	n.start()
	n.accessible(20*time.Second, "unknown since")
	n.millrace("status").want(t, 0, "credentials", "neither the environment nor profile")
	n.stop()

	n.onS3(server, c, "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=s3cret-of-nobody")
	n.start()
	n.accessible(20*time.Second, "no (access denied)")
	n.stop()
	if strings.Contains(n.log(), "s3cret-of-nobody") {
		t.Error("a secret is in the log")
	}

	n.onS3(server, c, keys...)
	n.start()
	n.accessible(20*time.Second, "yes")
	n.stop()
	other := idleNode(t, config{})
	other.errors = []string{"names cluster"}
	other.onS3(server, config{}, keys...)
	other.launch()
	p := other.process
	other.process = nil
	if code := p.wait(t, 20*time.Second); code == 0 || !strings.Contains(other.log(), "names cluster") {
		t.Errorf("on the prefix of another cluster: exit code %d\n%s", code, other.logTail())
	}
}

// TestAStartInFrontOfAStoreThatHangs has whoever asks meanwhile find the node, and a signal stop it
// in good order.
func TestAStartInFrontOfAStoreThatHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, silent.Close()) })
	asked := make(chan net.Conn, 100) // and never answered
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			asked <- c
		}
	}()
	c := config{}
	n := idleNode(t, c)
	n.onEndpoint("http://"+silent.Addr().String(), c, keys...)
	n.launch()
	first := <-asked
	n.millrace("status").want(t, 0, "unknown since")
	n.stop()
	must(t, first.Close())
	for len(asked) > 0 {
		must(t, (<-asked).Close())
	}
	before := len(n.log())
	n.launch()
	opening := <-asked
	if log := n.log()[before:]; strings.Contains(log, "admin surface is up") {
		t.Fatalf("it is up already: the test does not do what it is for\n%s", log)
	}
	n.stop()
	must(t, opening.Close())
	if log := n.log(); !strings.HasSuffix(strings.TrimSpace(log), `"message":"stopped"}`) {
		t.Errorf("the log ends with: %s", n.logTail())
	}
}

// TestCredentialsThatExpire gives keys for some seconds each, as a container's endpoint
// does: they are renewed while uploads go on, and none fails.
func TestCredentialsThatExpire(t *testing.T) {
	t.Parallel()
	server := s3(t)
	var given atomic.Int64
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given.Add(1)
		must(t, json.NewEncoder(w).Encode(map[string]string{
			"AccessKeyId": s3server.AccessKeyID, "SecretAccessKey": s3server.SecretKey,
			"Expiration": time.Now().Add(8 * time.Second).UTC().Format(time.RFC3339),
		}))
	}))
	t.Cleanup(source.Close)
	d := newDatabase(t, fillerSQL)
	c := small(config{"capture": d.capture("")})
	n := newNode(t, c)
	n.onS3(server, c, "AWS_CONTAINER_CREDENTIALS_FULL_URI="+source.URL+"/keys")
	n.start()
	n.streaming("shop", 20*time.Second)
	n.accessible(10*time.Second, "yes")
	for given.Load() < 5 {
		fill(d, 1)
		d.caughtUp(n, 10*time.Second)
	}
	n.until(20*time.Second, "shop", "everything is in the store", inBothTiers)
	n.millrace("status").want(t, 0, "credentials", "container", s3server.AccessKeyID)
	if failed := n.metric("millrace_transfers_failed_total"); failed != 0 {
		t.Errorf("%v uploads failed", failed)
	}
	d.verify(n)
}
