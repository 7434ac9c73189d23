package node

import (
	"strings"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/keeper"
	"millrace/supervision"
)

// The ids of the tree's children, as they stand in paths and in the status.
const (
	idAdmin           = "admin"
	idLog             = "log"
	idReaders         = "readers"
	idReader          = "reader"
	idTiering         = "tiering"
	idCredentials     = "credentials"
	idManifestReplica = "manifest_replica"
	idReaper          = "reaper"
	idUploadPool      = "upload_pool"
	idGeneralPool     = "general_pool"
	idStoreMonitor    = "store_monitor"
	idGovernor        = "governor"
	idStreamFactory   = "stream_factory"
	idReplicaReader   = "replica_reader"
	idReconciler      = "reconciler"
	idCaptures        = "captures"
	idCapturer        = "capturer"
	idWriter          = "writer"
	idKeeper          = "keeper"
)

// The budgets. A stream's own is wider than the tree's, since what it costs when it
// is spent is one parked stream.
var (
	rootFlags    = supervision.Flags{Strategy: supervision.OneForOne, Intensity: 3, Period: 5 * time.Second}
	tieringFlags = supervision.Flags{Strategy: supervision.OneForOne, Intensity: 3, Period: 5 * time.Second}
	factoryFlags = supervision.Flags{Strategy: supervision.SimpleOneForOne, Intensity: 3, Period: 5 * time.Second}
	oneFlags     = supervision.Flags{
		Strategy: supervision.OneForOne, Intensity: 5, Period: 10 * time.Second,
		AutoShutdown: supervision.AnySignificant,
	}
)

const (
	// stopTime is what a worker gets to stop, inside the 10 s that the whole node has. What
	// owns files or a replication slot gets as long as it takes, within these 10 s: abandoned,
	// it would go on using them.
	stopTime = 5 * time.Second
	// keeperInterval and keeperMaxInterval are between two looks of the keeper, and its
	// longest back-off.
	keeperInterval    = 10 * time.Second
	keeperMaxInterval = time.Minute
)

// children is the tree below the root, in the order of starting.
func (n *Node) children() []supervision.Child {
	return []supervision.Child{
		worker(idAdmin, supervision.Permanent, func(any) actors.Process {
			return admin.New(admin.Config{Server: n.ports.Serve(n), Log: n.logger(idAdmin)})
		}),
		n.factory(idLog, supervision.Permanent, n.one(idWriter, supervision.Infinity, n.newWriter)),
		n.factory(idReaders, supervision.Permanent, supervision.Child{
			ID: idReader, New: n.newReader, Restart: supervision.Temporary, Shutdown: supervision.After(stopTime),
		}),
		n.tieringChild(),
		n.factory(idCaptures, supervision.Transient, n.one(idCapturer, supervision.Infinity, n.newCapturer)),
		worker(idKeeper, supervision.Permanent, func(any) actors.Process {
			return keeper.New(keeper.Config{
				Node: n.node(), Registry: n.registry,
				Interval: keeperInterval, MaxInterval: keeperMaxInterval,
				Look: n.look, Start: n.start, Log: n.logger(idKeeper),
			})
		}),
	}
}

// tiering is the documented tree of the tiering half, in the order of starting. Where the
// store is a directory, credentials and pools are ignored.
func (n *Node) tiering() []supervision.Child {
	return []supervision.Child{
		worker(idCredentials, supervision.Permanent, n.newCredentials),
		worker(idManifestReplica, supervision.Permanent, n.newManifestReplica),
		worker(idReaper, supervision.Permanent, n.newReaper),
		worker(idUploadPool, supervision.Permanent, n.newUploadPool),
		worker(idGeneralPool, supervision.Permanent, n.newGeneralPool),
		worker(idStoreMonitor, supervision.Permanent, n.newStoreMonitor),
		worker(idGovernor, supervision.Permanent, n.newGovernor),
		n.factory(idStreamFactory, supervision.Permanent, n.one(idReplicaReader, supervision.After(stopTime), n.newReplicaReader)),
		worker(idReconciler, supervision.Permanent, n.newReconciler),
	}
}

// one is the template of a factory's children: a supervisor around one worker, with
// a budget of its own. It ends with its worker, when that ends in good order; when
// the budget is spent the child is parked, and neither restarted nor charged to the
// factory: the keeper or the reconciler brings it back.
func (n *Node) one(id string, shutdown supervision.Shutdown, newWorker func(arg any) actors.Process) supervision.Child {
	return supervision.Child{
		ID: id, Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
		New: func(arg any) actors.Process {
			child := worker(id, supervision.Transient, func(any) actors.Process { return newWorker(arg) })
			child.Significant, child.Shutdown = true, shutdown
			return supervision.New(oneFlags, []supervision.Child{child}, n.observe)
		},
	}
}

func (n *Node) factory(id string, restart supervision.Restart, template supervision.Child) supervision.Child {
	return n.supervisor(id, restart, factoryFlags, func() []supervision.Child { return []supervision.Child{template} })
}

func (n *Node) supervisor(id string, restart supervision.Restart, flags supervision.Flags, children func() []supervision.Child) supervision.Child {
	return supervision.Child{
		ID: id, Restart: restart, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
		New: func(any) actors.Process { return supervision.New(flags, children(), n.observe) },
	}
}

func worker(id string, restart supervision.Restart, make func(any) actors.Process) supervision.Child {
	return supervision.Child{ID: id, Restart: restart, New: make, Shutdown: supervision.After(stopTime)}
}

// templateOf names a child without the id of its stream, so that metrics don't have
// a label for each of thousands.
func templateOf(path, id string) string {
	parts := strings.Split(path+"/"+id, "/")
	for i := 1; i < len(parts); i++ {
		if _, is := factories[parts[i-1]]; is {
			parts[i] = "*"
		}
	}
	return strings.Join(parts[1:], "/")
}
