package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/cmd/internal/configfile"
	"millrace/cmd/internal/datadir"
	"millrace/cmd/internal/disk"
	"millrace/cmd/internal/httpadmin"
	"millrace/cmd/internal/logs"
	"millrace/cmd/internal/metadb"
	"millrace/cmd/internal/nodestate"
	"millrace/cmd/internal/pgrepl"
	"millrace/cmd/internal/promhook"
	"millrace/core/pos"
	"millrace/core/settings"
)

// stopDeadline bounds the whole stop of a node.
const stopDeadline = 10 * time.Second

func newRunCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run a node until it is told to stop",
		Long: "Run a node in the foreground. SIGTERM and SIGINT stop it in order, within 10 s; a second one at once.\n" +
			"It exits with a failure when its supervision tree gives up, so that a service manager starts it again.",
		Args: operands(0),
		RunE: func(*cobra.Command, []string) error { return runNode(g) },
	}
}

func runNode(g *globals) error {
	cfg, err := configfile.Load(g.config)
	if err != nil {
		return &failure{err: err, hint: "the keys are listed in docs/configuration.md"}
	}
	log, err := logs.New(g.log, cfg.Logging, secrets(cfg))
	if err != nil {
		return &failure{err: err}
	}
	for _, w := range cfg.Warnings {
		log.Warn().Msg(w)
	}
	// A signal that comes while all is opened and started stops what then runs, in good order;
	// giving the start up would kill what is half up. Of the world only the store is waited for,
	// when its prefix is claimed, and that has its deadline.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	w, err := openWorld(cfg, log)
	defer w.close()
	if err != nil {
		return &failure{err: err}
	}
	return serve(cfg, w, log, signals)
}

func secrets(cfg settings.Settings) (all []settings.Secret) {
	for _, c := range cfg.Captures {
		all = append(all, c.URL)
	}
	return append(all, cfg.Store.S3.SecretKey)
}

// serve runs the node on what is open, until a signal.
func serve(cfg settings.Settings, w *world, log zerolog.Logger, signals <-chan os.Signal) error {
	n, err := node.Start(context.Background(), cfg, w.ports(cfg, log), node.About{Version: version(), Store: where(cfg.Store)}, log)
	if err != nil {
		return &failure{what: "the node did not start", err: err}
	}
	log.Info().Str("node", cfg.Node.Name).Str("data_dir", cfg.Node.DataDir).Msg("running")
	select {
	case <-n.Done():
		return &failure{what: "the node gave up", err: fmt.Errorf("%s", n.Reason()), hint: "the log tells which part failed again and again; start it anew once the cause is gone"}
	case s := <-signals:
		log.Info().Stringer("signal", s).Msg("stopping")
	}
	ctx, cancelStop := context.WithTimeout(context.Background(), stopDeadline)
	defer cancelStop()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(ctx) }()
	select {
	case err = <-stopped:
	case <-ctx.Done():
		err = fmt.Errorf("the node did not stop within %s and was cut off", stopDeadline)
	case s := <-signals:
		err = fmt.Errorf("a second signal (%s) cut off the stop of the node", s)
	}
	if err != nil {
		// Code that was cut off may still use what is open; the end of the process closes it.
		w.closers = nil
		return &failure{err: err, hint: "nothing that was committed is lost"}
	}
	log.Info().Msg("stopped")
	return nil
}

// world holds the adapters of one run.
type world struct {
	dir       *datadir.Dir
	disk      *disk.Disk
	store     *objectStore
	meta      *metadb.Store
	state     *nodestate.State
	databases map[string]*pgrepl.Database
	closers   []func() error
}

// openWorld opens everything a node needs. What it returns is to be closed, also after
// an error.
func openWorld(cfg settings.Settings, log zerolog.Logger) (w *world, err error) {
	w = &world{databases: map[string]*pgrepl.Database{}}
	if w.dir, err = datadir.Open(cfg.Node.DataDir); err != nil {
		return w, err
	}
	w.closers = append(w.closers, w.dir.Close)
	if w.disk, err = disk.Open(w.dir.Streams()); err != nil {
		return w, err
	}
	if w.state, err = nodestate.Open(w.dir.File(nodestate.FileName), pos.NodeID(cfg.Node.Name)); err != nil {
		return w, err
	}
	w.closers = append(w.closers, w.state.Close)
	if w.meta, err = metadb.Open(w.dir.File(metadb.FileName)); err != nil {
		return w, err
	}
	w.closers = append(w.closers, w.meta.Close)
	if w.store, err = openStore(cfg.Store); err != nil {
		return w, err
	}
	w.closers = append(w.closers, w.store.close)
	if err = w.claim(cfg.Store.Prefix, log); err != nil {
		return w, err
	}
	for _, c := range cfg.Captures {
		d, err := pgrepl.Open(c.URL.Reveal(), pgrepl.Options{})
		if err != nil {
			return w, fmt.Errorf("capture %s: %w", c.Name, err)
		}
		w.databases[c.Name] = d
	}
	return w, nil
}

// claim makes sure that no other cluster's objects lie under our prefix.
func (w *world) claim(prefix string, log zerolog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	cluster, err := w.meta.Cluster(ctx)
	if err != nil {
		return err
	}
	return w.store.claim(port.Claimant{Prefix: prefix, Cluster: cluster.ID, Settings: w.meta}, log)
}

func (w *world) ports(cfg settings.Settings, log zerolog.Logger) node.Ports {
	metrics := promhook.New(version(), func(what string) { log.Error().Str("metric", what).Msg("a metric is used against its declaration") })
	return node.Ports{
		Disk: w.disk, Store: w.store.general, Uploads: w.store.uploads, Remote: w.store.remote, Metadata: w.meta, State: w.state, Metrics: metrics, Durations: metrics,
		Postgres: func(c settings.Capture) port.Postgres { return w.databases[c.Name] },
		Serve: func(n admin.Node) admin.Server {
			return httpadmin.New(httpadmin.Config{
				Listen: cfg.Admin.Listen, TokenFile: cfg.Admin.TokenFile, Node: n, Metrics: metrics.Handler(func() bool { ready, _ := n.Ready(); return ready }), Log: log,
				Listening: func(addr string) { log.Info().Str("address", addr).Msg("admin surface is up") },
			})
		},
	}
}

func (w *world) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		if err := w.closers[i](); err != nil {
			fmt.Fprintf(os.Stderr, "millrace: closing: %v\n", err)
		}
	}
}
