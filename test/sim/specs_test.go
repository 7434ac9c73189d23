package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/core/resolve"
)

// wantSpecs is the whole tree as it is specified: each process with its restart type, how
// long it may take to stop, and of a supervisor strategy, intensity and period. What owns
// files or a replication slot is never abandoned; a stream and a capture have their own
// budget, and one that is spent is not charged to what stands above.
const wantSpecs = `
node                             one_for_one 3 in 5s
  admin                          permanent, 5s
  log                            permanent, infinity; simple_one_for_one 3 in 5s
    shop                         temporary, infinity; one_for_one 5 in 10s, any_significant
      writer                     transient, significant, infinity
  readers                        permanent, infinity; simple_one_for_one 3 in 5s
    1                            temporary, 5s
  tiering                        transient, infinity; one_for_one 3 in 5s
    credentials                  permanent, 5s
    manifest_replica             permanent, 5s
    reaper                       permanent, 5s
    upload_pool                  permanent, 5s
    general_pool                 permanent, 5s
    store_monitor                permanent, 5s
    governor                     permanent, 5s
    stream_factory               permanent, infinity; simple_one_for_one 3 in 5s
      shop                       temporary, infinity; one_for_one 5 in 10s, any_significant
        replica_reader           transient, significant, 5s
    reconciler                   permanent, 5s
  captures                       transient, infinity; simple_one_for_one 3 in 5s
    shop                         temporary, infinity; one_for_one 5 in 10s, any_significant
      capturer                   transient, significant, infinity
  keeper                         permanent, 5s
`

// TestTheTreeIsSpecified: the running tree is the one above, to the letter.
func TestTheTreeIsSpecified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := captured(t)
		defer stopNode(t, n)
		r, err := n.Open(context.Background(), "shop", admin.ReadSpec{From: resolve.Next(), Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var got strings.Builder
		writeSpecs(&got, tree(t, n, "node"), 0)
		if got, want := got.String(), wantSpecs[1:]; got != want {
			t.Errorf("the tree is\n%s\nwant\n%s", got, want)
		}
	})
}

func writeSpecs(w *strings.Builder, n admin.TreeNode, depth int) {
	name := n.ID
	if n.Label != "" {
		name = n.Label
	}
	var words []string
	for _, word := range []string{n.Restart, map[bool]string{true: "significant"}[n.Significant], n.Shutdown} {
		if word != "" {
			words = append(words, word)
		}
	}
	spec := strings.Join(words, ", ")
	if b := n.Budget; b != nil {
		flags := fmt.Sprintf("%s %d in %v", b.Strategy, b.Intensity, time.Duration(b.PeriodMS)*time.Millisecond)
		if b.AutoShutdown != "never" {
			flags += ", " + b.AutoShutdown
		}
		spec = strings.TrimPrefix(spec+"; "+flags, "; ")
	}
	fmt.Fprintf(w, "%-32s %s\n", strings.Repeat("  ", depth)+name, spec)
	for _, c := range n.Children {
		writeSpecs(w, c, depth+1)
	}
}
