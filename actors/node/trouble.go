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
		if s.Local == nil {
			return n.stopped("the log", path.Join("node", idLog, s.ID))
		}
		return strings.TrimSuffix(fmt.Sprintf("the log is %s: %s", s.State, s.Why), ": ")
	}
	if s.Feed != "" {
		if s.Capture == nil {
			return n.stopped("capture "+s.Feed, path.Join("node", idCaptures, s.Feed))
		}
		if c, ok := s.Capture.(pgout.Status); ok && c.Waiting != nil {
			return "capture " + s.Feed + ": " + c.Waiting.Why
		}
	}
	if !n.wish.enabled() {
		return ""
	}
	if s.Tiering == nil {
		return n.stopped("uploading", path.Join("node", idTiering, idStreamFactory, s.ID))
	}
	if u, ok := s.Tiering.(upload.Status); ok && u.Trouble() != "" {
		return "uploading is " + u.Trouble()
	}
	return ""
}

// undeclared is what a stream has lost and not declared yet. Its replica reader may have told
// of the seam before the last one: the list of objects that is shown, if one is, is newer.
func undeclared(s admin.StreamStatus) (gaps []admin.Gap) {
	u, _ := s.Tiering.(upload.Status)
	seam := pos.NoOffset
	if s.RemoteState == admin.RemoteKnown {
		seam = s.SeamNext
	}
	if !s.LocalFirst.Valid() {
		return nil
	}
	for _, g := range u.Undeclared(seam, s.LocalFirst) {
		gaps = append(gaps, admin.Gap(g))
	}
	return gaps
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
