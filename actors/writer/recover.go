package writer

import (
	"context"
	"errors"
	"strings"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
)

// survey lists a log's folder.
func survey(disk port.Disk, folder string) (segment.Folder, error) {
	infos, err := disk.List(folder)
	if err != nil {
		return segment.Folder{}, err
	}
	var s segment.Survey
	for _, f := range infos {
		s.Add(f.Name, f.Size)
	}
	return s.Folder(), nil
}

// recover finds out what the folder holds, decides with segment.Resolve how the log
// starts, and only then changes anything.
func (o *opener) recover(ctx context.Context, folder segment.Folder, seam pos.Offset) (*segment.Found, error) {
	a, err := o.analyse(folder)
	if err != nil {
		return nil, err
	}
	verdict := segment.Resolve(o.knowledge(a, seam))
	if verdict.Refuse != "" {
		return nil, errors.New(verdict.Refuse)
	}
	found := &segment.Found{
		Epoch: o.epoch, Start: verdict.Start, FromStore: verdict.FromStore,
		LastChunk: pos.NoOffset, Damage: strings.Join(a.damage, "; "),
	}
	if err := o.note(ctx, a, verdict); err != nil {
		return nil, err
	}
	if !verdict.Keep {
		for _, p := range folder.Pairs {
			found.Discard = append(found.Discard, p.First)
		}
		found.Discard = append(found.Discard, folder.Orphans...)
		return found, nil
	}
	if err := o.repair(folder, a); err != nil {
		return nil, err
	}
	found.Segments, found.Epochs, found.LastChunk = a.segments, a.epochs, a.active.lastChunk()
	found.Committed = a.segments[len(a.segments)-1].Next
	return found, nil
}

// knowledge is what Resolve decides by. That a segment was begun proves that everything
// before it had been synced.
func (o *opener) knowledge(a *analysis, seam pos.Offset) segment.Known {
	k := segment.Known{
		Own: o.epoch, Seam: seam, Kept: pos.NoOffset,
		Damage: a.broken, Crash: !o.known || o.rec.BootID != o.cfg.State.BootID(),
	}
	if o.known {
		k.Kept = o.rec.CommittedAtCleanStop
	}
	if a.active != nil {
		k.Pair, k.First = true, a.active.pair.First
		k.Chunks = a.active.segment.Chunks > 0
		k.Next, k.Epoch = a.active.segment.Next, a.active.last.Epoch
	}
	if len(a.empty) > 0 {
		k.Kept = max(k.Kept, a.empty[len(a.empty)-1].First)
	}
	return k
}

// note records in the node's state what must be known before the folder is changed: that
// the log begins anew, or that its indexes are not to be believed while they are rebuilt.
func (o *opener) note(ctx context.Context, a *analysis, v segment.Verdict) error {
	r := o.replica(o.rec.CommittedAtCleanStop, false)
	switch {
	case v.FromStore:
		r.CommittedAtCleanStop, r.Clean = pos.NoOffset, true
	case !v.Keep || !o.rec.Clean || !a.active.walked:
		return nil
	}
	o.rec.Clean = r.Clean
	return o.cfg.State.PutReplica(ctx, r)
}
