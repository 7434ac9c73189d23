package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const markerGone = "no (the cluster's marker is missing): "

// TestABucketThatIsEmptied deletes all objects of a node that runs: it does not take the
// empty bucket for its own, and says so. Then they come back without the marker, and the
// operator says that this is the bucket.
func TestABucketThatIsEmptied(t *testing.T) {
	t.Parallel()
	server := s3(t)
	d := newDatabase(t, fillerSQL)
	c := small(config{"capture": d.capture("")})
	n := newNode(t, c)
	n.errors = []string{"the object store is not accessible"}
	n.onS3(server, c, keys...)
	c["store"] += "\nprobe_interval = \"10s\""
	n.configure(c)
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.until(30*time.Second, "shop", "everything is in the store", inBothTiers)

	prefix := filepath.Join(server.Bucket(bucket), "millrace")
	must(t, os.Rename(prefix, prefix+".away"))
	n.accessible(20*time.Second, markerGone)
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.until(20*time.Second, "shop", "uploads are held", func(s streamStatus) bool { return s.Tiering.Pipeline.StalledWhy != "" })
	if _, err := os.Stat(filepath.Join(prefix, "cluster")); err == nil {
		t.Error("the marker was put again")
	}
	if held := bytesBelow(t, server.Bucket(bucket), ".fragment"); held != bytesBelow(t, prefix+".away", ".fragment") {
		t.Errorf("%d bytes of objects, some of them in a bucket that lost everything", held)
	}
	if up := n.metric("millrace_store_accessible"); up != 0 {
		t.Errorf("millrace_store_accessible is %v", up)
	}
	n.millrace("status").want(t, 0, "NOT READY", markerGone, "millrace tiering claim")

	must(t, os.RemoveAll(prefix))
	must(t, os.Rename(prefix+".away", prefix))
	must(t, os.Remove(filepath.Join(prefix, "cluster")))
	n.millrace("tiering", "claim").want(t, 0, "was put and names cluster")
	n.accessible(15*time.Second, "yes")
	n.until(60*time.Second, "shop", "everything is in the store again", inBothTiers)
	n.millrace("tiering", "claim").want(t, 0, "was there already")
	d.verify(n)
	if gaps := n.metric("millrace_gaps_total"); gaps != 0 {
		t.Errorf("%v gaps", gaps)
	}
}

// TestAFolderThatIsAnotherOne starts a node whose store was not mounted: an empty folder
// stands there. It runs and captures, and uploads nothing until the store is back.
func TestAFolderThatIsAnotherOne(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n := newNode(t, small(config{"capture": d.capture("")}))
	n.errors = []string{"the object store is not accessible"}
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.until(30*time.Second, "shop", "everything is in the store", inBothTiers)
	n.stop()
	must(t, os.Rename(n.store, n.store+".away"))
	must(t, os.Mkdir(n.store, 0o700))
	n.start()
	n.accessible(20*time.Second, markerGone)
	n.streaming("shop", 20*time.Second)
	fill(d, 2)
	d.caughtUp(n, 10*time.Second)
	if _, why := n.reasons(); why == "" {
		t.Error("the node is ready")
	}
	left, err := filepath.Glob(filepath.Join(n.store, "millrace", "*"))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("an empty mount point holds %v", left)
	}
	n.stop()
	must(t, os.RemoveAll(n.store))
	must(t, os.Rename(n.store+".away", n.store))
	marker := filepath.Join(n.store, "millrace", "cluster")
	must(t, os.WriteFile(marker, []byte("millrace-cluster 1 0123"), 0o600))
	n.start()
	n.accessible(20*time.Second, "no (the cluster's marker is damaged): ")
	n.millrace("tiering", "claim").want(t, 0, "was put and names cluster")
	n.accessible(10*time.Second, "yes")
	n.until(60*time.Second, "shop", "everything is in the store again", inBothTiers)
	d.verify(n)
	if gaps := n.metric("millrace_gaps_total"); gaps != 0 {
		t.Errorf("%v gaps", gaps)
	}
}

// TestAnS3StoreThatGoesAndIsLost takes the server away from a node that runs, for long enough
// that it is told everywhere, and gives it back; then the bucket loses everything, which the
// operator claims and, for the stream, gives up.
func TestAnS3StoreThatGoesAndIsLost(t *testing.T) {
	t.Parallel()
	server := s3(t)
	d := newDatabase(t, fillerSQL)
	c := small(config{"capture": d.capture("")})
	n := newNode(t, c)
	n.errors = []string{"the object store is not accessible", "an operator gave up what was lost"}
	n.onS3(server, c, keys...)
	n.start()
	n.streaming("shop", 20*time.Second)
	stored := func(s streamStatus) bool { return s.SeamNext == s.Next && s.LocalFirst > 0 }
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.until(30*time.Second, "shop", "everything is in the store", stored)

	must(t, server.Kill())
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	n.accessible(20*time.Second, "unknown since") // the next look but for the failure is minutes away
	n.until(60*time.Second, "shop", "uploads stall", func(s streamStatus) bool { return s.Tiering.Pipeline.StalledWhy != "" })
	if stalled := n.metric("millrace_upload_stalled"); stalled != 1 {
		t.Errorf("millrace_upload_stalled is %v", stalled)
	}
	eventually(t, 20*time.Second, "the node is not ready", func() (bool, string) {
		ready, why := n.reasons()
		return !ready && strings.Contains(why, "the object store is accessible: unknown since"), why
	})
	n.millrace("status", "shop").want(t, 0, "STALLED", "at offset")
	must(t, server.Restart())
	n.until(20*time.Second, "shop", "everything is in the store again", stored)
	eventually(t, 10*time.Second, "the node is ready", func() (bool, string) { return n.reasons() })
	if stalled := n.metric("millrace_upload_stalled"); stalled != 0 {
		t.Errorf("millrace_upload_stalled is %v", stalled)
	}
	d.verify(n)

	n.millrace("stream", "reset", "shop").want(t, 1, "was not reset: the stored manifest is neither lost nor damaged")
	must(t, os.RemoveAll(filepath.Join(server.Bucket(bucket), "millrace")))
	n.millrace("tiering", "claim").want(t, 0, "was put and names cluster")
	lost := n.until(30*time.Second, "shop", "the list is missed", func(s streamStatus) bool { return strings.Contains(s.Tiering.Stream.Why, " not in the object store") })
	fill(d, 2)
	d.caughtUp(n, 10*time.Second)
	if kept, _ := n.status("shop"); kept.LocalFirst != lost.LocalFirst {
		t.Errorf("local disk was trimmed from %s to %s for being in a store that is lost", lost.LocalFirst, kept.LocalFirst)
	}
	n.millrace("stream", "reset", "shop").want(t, 0, "given up: ", " of shop; the stream begins at offset "+lost.LocalFirst.String())
	after := n.until(60*time.Second, "shop", "what local disk has is in the store", stored)
	if got := n.records("shop", "--from", "first"); len(got) != int(after.Next-lost.LocalFirst) || got[0].Offset != lost.LocalFirst {
		t.Errorf("%d records from %s, want those from %s to %s", len(got), got[0].Offset, lost.LocalFirst, after.Next)
	}
}
