package node

import (
	"fmt"
	"path"
	"strings"

	"millrace/actors/admin"
	"millrace/core/manifest"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/upload"
)

// trouble says what is wrong with a stream: with its log, its capture, its uploads, in
// this order.
func (n *Node) trouble(s admin.StreamStatus) string {
	if s.State != "running" {
		return n.troubleOf("the log", s.State, s.Why, "node/"+idLog+"/"+s.ID)
	}
	if s.Feed != "" {
		if s.Capture == nil {
			return n.troubleOf("capture "+s.Feed, "stopped", "", "node/"+idCaptures+"/"+s.Feed)
		}
		if c, ok := s.Capture.(pgout.Status); ok && c.Waiting != nil {
			return "capture " + s.Feed + ": " + c.Waiting.Why
		}
	}
	if !n.wish.enabled() {
		return ""
	}
	if s.Tiering == nil {
		return n.troubleOf("uploading", "stopped", "", "node/"+idTiering+"/"+idStreamFactory+"/"+s.ID)
	}
	if u, ok := s.Tiering.(upload.Status); ok && u.Trouble() != "" {
		return "uploading is " + u.Trouble()
	}
	return ""
}

// troubleOf says why something does not run, as far as that is known.
func (n *Node) troubleOf(what, state, why, at string) string {
	if parked, ok := n.parked.at(at); ok {
		return fmt.Sprintf("%s is parked: %s; %s", what, parked, factories[path.Base(path.Dir(at))])
	}
	return strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", what, state, why), ": ")
}

// Gaps implements admin.Node.
func (n *Node) Gaps(id pos.StreamID) []admin.Gap {
	row, ok := n.manifests.Manifest(id)
	if !ok || row.State != manifest.StateResolved {
		return nil
	}
	var gaps []admin.Gap
	for _, g := range row.Manifest.Gaps() {
		gaps = append(gaps, admin.Gap(g))
	}
	return gaps
}
