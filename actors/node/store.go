package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/actors/storemonitor"
	"millrace/core/pos"
	"millrace/core/probe"
	"millrace/core/renew"
	"millrace/core/upload"
)

// store fills in what the processes around the object store publish.
func (n *Node) store(s *admin.NodeStatus) {
	s.Access = n.access()
	if n.ports.Remote.Keyring != nil {
		s.Credentials = &renew.Status{State: renew.StateNone, Why: n.absent(idCredentials)}
		if known, ok := n.tieringStatus(idCredentials).(renew.Status); ok {
			s.Credentials = &known
		}
	}
	for _, p := range []struct {
		id, name string
		pool     port.Pool
	}{{idUploadPool, poolUpload, n.ports.Remote.UploadPool}, {idGeneralPool, poolGeneral, n.ports.Remote.GeneralPool}} {
		if p.pool == nil {
			continue
		}
		shown := admin.Pool{Name: p.name, Closed: n.absent(p.id), PoolStats: p.pool.Stats()}
		if _, ok := n.tieringStatus(p.id).(port.PoolStats); ok {
			shown.Closed = ""
		}
		s.Pools = append(s.Pools, shown)
	}
}

// access says whether the object store can be used.
func (n *Node) access() string {
	if s, ok := n.tieringStatus(idStoreMonitor).(probe.Status); ok {
		return s.String()
	}
	return "not looked at: " + n.absent(idStoreMonitor)
}

// absent says why a process of tiering does not run.
func (n *Node) absent(id string) string {
	if !n.wish.enabled() {
		return "tiering is disabled by the " + n.wish.by()
	}
	return "the process " + id + " does not run"
}

// tieringStatus is what a worker of tiering publishes; nil if it does not run.
func (n *Node) tieringStatus(id string) any {
	h := n.process(idTiering, id)
	if !h.Alive() {
		return nil
	}
	return h.Status()
}

// storeReasons tells why nothing gets into the object store, if that is the store's own
// doing: it refuses, does not say whose it is, or has not answered for a while.
func (n *Node) storeReasons() []string {
	s, ok := n.tieringStatus(idStoreMonitor).(probe.Status)
	away := s.UnsureSince != 0 && pos.MillisOf(time.Now()).Sub(s.UnsureSince) >= upload.Passes
	if !ok || s.Owned && s.State != probe.StateNo && !away {
		return nil
	}
	if s.State != probe.StateNo {
		return []string{fmt.Sprintf("it is not known whether the object store is accessible: %s", s)}
	}
	return []string{fmt.Sprintf("the object store is not accessible: %s", s)}
}

// ClaimStore implements admin.Node. The store monitor does it: what it finds then opens the
// gate, and the connections of a store beyond the network are open while it runs.
func (n *Node) ClaimStore(ctx context.Context) (admin.StoreClaim, error) {
	claim := admin.StoreClaim{Store: n.about.Store, Marker: port.ClusterKey(n.cfg.Store.Prefix), Cluster: n.cluster.ID.String()}
	monitor := n.process(idTiering, idStoreMonitor)
	if !monitor.Alive() {
		return claim, n.notLookedAt()
	}
	n.log.Warn().Str("store", n.about.Store).Str("marker", claim.Marker).Msg("an operator says that the prefix of the object store is this cluster's")
	limited, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	answer, err := monitor.Call(limited, storemonitor.Restore{})
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return claim, &admin.Error{
			Class: admin.Unavailable,
			What:  fmt.Sprintf("it is not known yet whether the prefix of %s was claimed: the store has not answered within %s, and is waited for; the node's log says if it fails", n.about.Store, claimTime),
			Hint:  "millrace status tells how the store answers: accessible is yes once the prefix is claimed; or say it again",
		}
	}
	if err != nil {
		return claim, claimFailed(n.about.Store, err)
	}
	done, _ := answer.(storemonitor.Restored)
	claim.Restored = done.Put
	return claim, nil
}

// notLookedAt is the answer to what only the store monitor can do, while it does not run.
func (n *Node) notLookedAt() error {
	return &admin.Error{
		Class: admin.Unavailable, What: "the object store is not looked at: " + n.absent(idStoreMonitor),
		Hint: "millrace tiering enable starts it; nothing is uploaded before the store is looked at again",
	}
}

// claimFailed says why a prefix can't be made ours.
func claimFailed(store string, err error) error {
	e := &admin.Error{Class: admin.Unavailable, What: "the prefix of " + store + " was not claimed", Err: err, Hint: "millrace status tells how the store answers; say it again once it does"}
	_, foreign := errors.AsType[*port.ForeignPrefixError](err)
	_, ended := errors.AsType[*actors.DeadError](err)
	switch said, ok := errors.AsType[*port.StoreError](err); {
	case ended:
		e.What, e.Err = "the prefix of "+store+" is not known to be claimed: the store monitor ended while it was at it", nil
		e.Hint = "millrace status tells whose the store is found to be; say it again if its marker is missing"
	case foreign:
		e.Class, e.Hint = admin.Exists, "its objects are another cluster's and stay so: set another store.prefix, or restore this cluster's metadata.db"
	case ok && said.Class == port.NotFound:
		e.Class, e.Hint = admin.NotFound, "create the bucket, or the folder, first"
	case ok && said.Class == port.Denied:
		e.Class, e.Hint = admin.Forbidden, "the credentials must allow to read and to put an object below the prefix"
	default:
		e.What = "the prefix of " + store + " is not known to be claimed"
	}
	return e
}
