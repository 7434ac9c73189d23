package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/cmd/internal/promhook"
	"millrace/core/settings"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakekeyring"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakepool"
	"millrace/test/fake/fakestate"
	"millrace/test/fake/fakestore"
)

// idleServer is a surface that nobody asks.
type idleServer struct{}

func (idleServer) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// scraped returns the lines of /metrics.
func scraped(t *testing.T, h *promhook.Hook) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	h.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	lines := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "millrace_") {
			lines[name] = value
		}
	}
	return lines
}

// A counter that appears with its first count hides that count from Prometheus' increase():
// each is there, with 0, as soon as whoever counts runs.
func TestCountersAreThereBeforeTheyCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := promhook.New("test", func(what string) { t.Error(what) })
		store, keys, up, general := fakestore.New(), fakekeyring.New(time.Hour), fakepool.New(2), fakepool.New(2)
		cfg := settings.Default()
		cfg.Node.Name = "n"
		n, err := node.Start(t.Context(), cfg, node.Ports{
			Disk: fakedisk.New(), Metadata: fakemeta.New(), State: fakestate.New("n"), Metrics: metrics,
			Store: fakepool.Behind(store, general, keys), Uploads: fakepool.Behind(store, up, keys),
			Remote: &node.Remote{Keyring: keys, UploadPool: up, GeneralPool: general},
			Serve:  func(admin.Node) admin.Server { return idleServer{} },
		}, node.About{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		// The first fetch of the credentials counts at once, and so does the claim of the
		// prefix; all else has nothing to count.
		counted := map[string]bool{"millrace_credentials_refreshes_total": true, "millrace_store_sent_bytes_total": true, "millrace_store_received_bytes_total": true}
		fresh := scraped(t, metrics)
		check := func(lines map[string]string, name string) {
			t.Helper()
			if value, ok := lines[name]; !ok || value != "0" && !counted[name] {
				t.Errorf("%s is %q, %v", name, value, ok)
			}
		}
		for _, m := range promhook.Metrics() {
			if m.Type == promhook.Counter && len(m.Labels) == 0 {
				check(fresh, m.FullName())
			}
		}
		for _, name := range []string{
			`millrace_pool_waits_total{pool="upload"}`, `millrace_pool_waits_total{pool="general"}`,
			`millrace_reader_local_damage_total{healed="true"}`, `millrace_reader_failures_total{class="denied"}`,
			`millrace_store_errors_total{class="denied",op="put"}`, `millrace_store_requests_total{op="delete"}`, `millrace_reader_moves_total{why="gap"}`, `millrace_reader_bytes_total{tier="remote"}`,
			`millrace_supervisor_events_total{child="tiering/governor",kind="max_intensity"}`,
			`millrace_supervisor_events_total{child="keeper",kind="restarted"}`,
		} {
			check(fresh, name)
		}
		st, err := n.CreateStream(t.Context(), "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		running := scraped(t, metrics)
		for _, m := range promhook.Metrics() {
			if m.Type == promhook.Counter && len(m.Labels) == 1 && m.Labels[0] == "stream" {
				name := m.FullName() + `{stream="` + st.ID + `"}`
				// It looked for what is stored as it came up.
				counted[name] = m.Name == "manifests_resolved_total" || m.Name == "manifests_resolved_empty_total"
				check(running, name)
			}
		}
		check(running, `millrace_supervisor_events_total{child="tiering/stream_factory/*/replica_reader",kind="max_intensity"}`)
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
