package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/capturer"
	"millrace/actors/credentials"
	"millrace/actors/governor"
	"millrace/actors/manifestreplica"
	"millrace/actors/pools"
	"millrace/actors/port"
	"millrace/actors/reader"
	"millrace/actors/reaper"
	"millrace/actors/reconciler"
	"millrace/actors/replicareader"
	"millrace/actors/storemonitor"
	"millrace/actors/writer"
	"millrace/core/declare"
	"millrace/core/fragment"
	"millrace/core/pgout"
	"millrace/core/segment"
	"millrace/core/settings"
	"millrace/hooks"
	"millrace/supervision"
)

// readerMemory bounds what all readers of the node together hold of remote data.
const readerMemory = 64 << 20

// The pools' names in metrics and in the status.
const (
	poolUpload  = "upload"
	poolGeneral = "general"
)

func (n *Node) logger(role string) zerolog.Logger {
	return n.log.With().Str("role", role).Logger()
}

// newWriter makes the writer of the port.Stream it is given.
func (n *Node) newWriter(arg any) actors.Process {
	stream := arg.(port.Stream)
	return writer.New(writer.Config{
		Stream: stream.ID, Node: n.node(), Log: n.logConfig(stream), Retention: func() segment.Retention {
			latest, _ := n.rows.learn(stream)
			return n.logConfig(latest).Retention
		},
		Capture: n.captureOf(stream.Name),
		Disk:    n.ports.Disk, Metadata: n.ports.Metadata, State: n.ports.State,
		Hooks: n.hooks, Registry: n.registry, Logger: n.logger(idWriter),
	})
}

// captureOf is the capture into a stream, "" if there is none.
func (n *Node) captureOf(stream string) string {
	for _, c := range n.cfg.Captures {
		if c.Stream == stream {
			return c.Name
		}
	}
	return ""
}

// logConfig is the configuration under the stream's own arguments, which a client
// may have declared it with. Of the upper bounds only a tighter one than the node's has
// an effect; what stays on local disk is the stream's own choice.
func (n *Node) logConfig(stream port.Stream) segment.Config {
	mode, err := segment.ParseSyncMode(n.cfg.Log.Sync)
	if err != nil {
		mode = segment.Always
	}
	c := segment.Config{
		Mode: mode, SyncEvery: n.cfg.Log.SyncInterval, SegmentMaxBytes: n.cfg.Log.SegmentMaxBytes,
		Retention: segment.Retention{
			MaxBytes: n.cfg.Retention.MaxBytes, MaxAge: n.cfg.Retention.MaxAge,
			LocalMaxBytes: n.cfg.Local.MaxBytes, LocalMinBytes: n.cfg.Local.MinBytes,
		},
	}
	own, err := declare.Parse(stream.Arguments)
	if err != nil {
		n.log.Warn().Err(err).Str("stream", stream.Name).Msg("its arguments can't be read; the node's own bounds hold")
		return c
	}
	c.SegmentMaxBytes = tighter(c.SegmentMaxBytes, own.SegmentMaxBytes)
	c.Retention.MaxBytes = tighter(c.Retention.MaxBytes, own.MaxBytes)
	c.Retention.MaxAge = tighter(c.Retention.MaxAge, own.MaxAge)
	c.Retention.LocalMaxBytes = tighter(c.Retention.LocalMaxBytes, own.LocalMaxBytes)
	if own.LocalMinBytes != nil {
		c.Retention.LocalMinBytes = *own.LocalMinBytes
	} else if most := c.Retention.LocalMaxBytes; most > 0 {
		c.Retention.LocalMinBytes = min(c.Retention.LocalMinBytes, most)
	}
	return c
}

// tighter returns the smaller of two bounds, of which 0 does not bind.
func tighter[T ~int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// newReader makes the reader of the subscription it is given.
func (n *Node) newReader(arg any) actors.Process {
	s := arg.(subscription)
	return reader.New(reader.Config{
		Stream: s.stream, Spec: s.spec, Prefix: n.cfg.Store.Prefix,
		Hooks: n.hooks, Disk: n.ports.Disk, Store: n.ports.Store, Manifests: n.manifests, Metadata: n.ports.Metadata,
		Tiering: n.wish.enabled, Why: func() string { return n.remoteWhy(s.stream) }, Budget: n.budget,
		Metrics: n.ports.Metrics, Log: n.logger(idReader),
	})
}

func (n *Node) newCredentials(any) actors.Process {
	return credentials.New(credentials.Config{
		Keyring: n.ports.Remote.Keyring, Metrics: n.ports.Metrics, Log: n.logger(idCredentials),
	})
}

func (n *Node) newUploadPool(any) actors.Process {
	return pools.New(pools.Config{Name: poolUpload, Pool: n.ports.Remote.UploadPool, Metrics: n.ports.Metrics})
}

func (n *Node) newGeneralPool(any) actors.Process {
	return pools.New(pools.Config{Name: poolGeneral, Pool: n.ports.Remote.GeneralPool, Metrics: n.ports.Metrics})
}

func (n *Node) newStoreMonitor(any) actors.Process {
	return storemonitor.New(storemonitor.Config{
		Claimant: port.Claimant{Store: n.bare, Prefix: n.cfg.Store.Prefix, Cluster: n.cluster.ID, Settings: n.ports.Metadata},
		Gate:     n.gate, Registry: n.registry, Metrics: n.ports.Metrics, Log: n.logger(idStoreMonitor), Interval: n.cfg.Store.ProbeInterval,
	})
}

func (n *Node) newManifestReplica(any) actors.Process {
	return manifestreplica.New(manifestreplica.Config{
		Node: n.node(), Table: n.manifests, Registry: n.registry, Metrics: n.ports.Metrics, Log: n.logger(idManifestReplica),
	})
}

func (n *Node) newReaper(any) actors.Process {
	return reaper.New(reaper.Config{
		Node: n.node(), Registry: n.registry, Store: n.ports.Store, Metrics: n.ports.Metrics, Log: n.logger(idReaper),
	})
}

func (n *Node) newGovernor(any) actors.Process {
	return governor.New(governor.Config{
		Node: n.node(), Registry: n.registry, Metrics: n.ports.Metrics, MaxBytesPerSecond: n.cfg.Tiering.MaxBytesPerSecond,
		MaxInFlight: n.cfg.Store.S3.UploadConnections,
	})
}

// newReplicaReader makes the replica reader of the log it is given.
func (n *Node) newReplicaReader(arg any) actors.Process {
	t := n.cfg.Tiering
	return replicareader.New(replicareader.Config{
		Node: n.node(), Local: arg.(*hooks.Log), Registry: n.registry, Disk: n.ports.Disk, Store: n.ports.Store, Uploads: n.ports.Uploads,
		Metadata: n.ports.Metadata, Manifests: n.manifests, Metrics: n.ports.Metrics, Log: n.logger(idReplicaReader),
		Prefix:   n.cfg.Store.Prefix,
		Fragment: fragment.Config{TargetBytes: t.FragmentBytes, MaxAge: t.FragmentMaxAge},
		Discard:  t.OnGap == settings.GapDiscard, PersistEdits: t.PersistEdits, PersistInterval: t.PersistInterval,
		Grace: t.RootGrace, Owned: n.gate.Trusted,
	})
}

func (n *Node) newReconciler(any) actors.Process {
	return reconciler.New(reconciler.Config{
		Node: n.node(), Registry: n.registry, Hooks: n.hooks, Start: n.startReplicaReader,
		Interval: n.cfg.Tiering.ReconcileInterval, Metrics: n.ports.Metrics, Log: n.logger(idReconciler),
	})
}

// startReplicaReader starts a stream's supervisor under the stream factory. One that
// runs is left alone: the reconciler looks again.
func (n *Node) startReplicaReader(ctx context.Context, l *hooks.Log) error {
	err := startOne(ctx, n.process(idTiering, idStreamFactory), l.Stream.String(), l)
	if _, running := errors.AsType[*supervision.AlreadyStarted](err); running {
		return fmt.Errorf("the replica reader of the log before has not ended yet: %w", err)
	}
	return err
}

// newCapturer makes the capturer of the capture it is given.
func (n *Node) newCapturer(arg any) actors.Process {
	c := arg.(capture)
	return capturer.New(capturer.Config{
		Name: c.Name, Node: n.node(), Stream: c.stream, Slot: c.Slot, Publication: c.Publication,
		Hooks: n.hooks, Registry: n.registry, Disk: n.ports.Disk, Metadata: n.ports.Metadata,
		Postgres: n.ports.Postgres(c.Capture), Metrics: n.ports.Metrics, Log: n.logger(idCapturer),
		OnSlotLost: pgout.OnSlotLost(c.OnSlotLost), MaxValue: c.MaxValue,
	})
}
