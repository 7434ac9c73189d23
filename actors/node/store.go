package node

import (
	"fmt"
	"strings"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/probe"
	"millrace/core/renew"
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
// doing: it refuses, or does not say whose it is.
func (n *Node) storeReasons() []string {
	s, ok := n.tieringStatus(idStoreMonitor).(probe.Status)
	if !ok || s.Owned && s.State != probe.StateNo {
		return nil
	}
	why := fmt.Sprintf("the object store is not accessible: %s: %s", s, s.Why)
	if s.State != probe.StateNo {
		why = fmt.Sprintf("it is not known whether the object store is accessible: %s", s)
	}
	return []string{strings.TrimSuffix(why, ": ")}
}
