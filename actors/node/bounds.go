package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/declare"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/settings"
)

// swapTries is how often a stream's row is read again because another change came first.
const swapTries = 10

// rows are the streams' rows as this node knows them last. A writer that starts again
// finds its bounds here: what it was first started with may be out of date.
type rows struct {
	mu    sync.Mutex
	known map[pos.StreamID]port.Stream
	ids   map[string]pos.StreamID // by name
}

// learn takes a row, unless a newer one is known, and returns the newest. fresh says
// that there was something new in it.
func (r *rows) learn(row port.Stream) (latest port.Stream, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[row.ID]; ok && known.Revision >= row.Revision {
		return known, false
	}
	if r.known == nil {
		r.known, r.ids = map[pos.StreamID]port.Stream{}, map[string]pos.StreamID{}
	}
	r.known[row.ID], r.ids[row.Name] = row, row.ID
	return row, true
}

// of returns the row of that id.
func (r *rows) of(id pos.StreamID) (port.Stream, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.known[id]
	return row, ok
}

// named returns the id of the stream of that name.
func (r *rows) named(name string) (pos.StreamID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.ids[name]
	return id, ok
}

// search returns the id behind what is one, or the name of a stream.
func (r *rows) search(idOrName string) (pos.StreamID, bool) {
	if row, ok := r.of(pos.StreamID(idOrName)); ok {
		return row.ID, true
	}
	return r.named(idOrName)
}

// toRun returns the row of that id, of a stream that is to run here.
func (r *rows) toRun(id string) (port.Stream, bool) {
	row, ok := r.of(pos.StreamID(id))
	return row, ok && row.Phase != port.PhaseDeleting
}

// all lists the streams that are to run here, in the order of their names.
func (r *rows) all() []port.Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []port.Stream
	for _, row := range r.known {
		if row.Phase != port.PhaseDeleting {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b port.Stream) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// learn takes a stream's row, and tells its running log if that changes its bounds.
func (n *Node) learn(row port.Stream) {
	latest, fresh := n.rows.learn(row)
	if !fresh {
		return
	}
	w, ok := n.registry.WhereIs(n.name(kindWriter, latest.ID.String()))
	if !ok {
		return // it asks when it has its name
	}
	bounds := n.logConfig(latest).Retention
	if s, ok := w.Status().(segment.Status); ok && s.Retention != bounds {
		w.Send(segment.SetRetention{Retention: bounds})
	}
}

// SetRetention implements admin.Node.
func (n *Node) SetRetention(ctx context.Context, stream string, change admin.Retention) (admin.RetentionStatus, error) {
	var err error
	for range swapTries {
		var row port.Stream
		if row, err = n.row(ctx, stream); err != nil {
			return admin.RetentionStatus{}, err
		}
		next := row
		if next.Arguments, err = changed(row.Arguments, change); err != nil {
			return admin.RetentionStatus{}, err
		}
		if err := n.checkBounds(next); err != nil {
			return admin.RetentionStatus{}, err
		}
		if !maps.Equal(row.Arguments, next.Arguments) {
			err = n.ports.Metadata.SwapStreams(ctx, []port.Stream{next})
			if port.IsConflict(err) || port.ClassOf(err) == port.UnknownOutcome {
				continue // the row that is read next tells what came of it
			}
			if err != nil {
				break
			}
			next.Revision++
			n.log.Info().Str("stream", row.Name).Any("arguments", next.Arguments).Msg("an operator changed the stream's retention")
		}
		return n.bounded(ctx, next), nil
	}
	return admin.RetentionStatus{}, unavailable(fmt.Sprintf("storing the retention of stream %q", stream), err)
}

// changed is a copy of a stream's arguments with other bounds.
func changed(old map[string]string, change admin.Retention) (map[string]string, error) {
	args := maps.Clone(old)
	if args == nil {
		args = map[string]string{}
	}
	set := func(name string, value *int64) {
		switch {
		case value == nil:
		case *value == admin.Unset:
			delete(args, name)
		default:
			args[name] = strconv.FormatInt(*value, 10)
		}
	}
	if least := change.MaxBytes; least != nil && *least != admin.Unset && *least < declare.LeastBound {
		return nil, &admin.Error{
			Class: admin.Invalid, What: fmt.Sprintf("%s of %d is not possible", declare.MaxLengthBytes, *least),
			Hint: fmt.Sprintf("a stream is bounded to %d bytes or more, since whole segments go; \"default\" takes the bound away", declare.LeastBound),
		}
	}
	set(declare.MaxLengthBytes, change.MaxBytes)
	set(declare.LocalMaxBytes, change.LocalMaxBytes)
	set(declare.LocalMinBytes, change.LocalMinBytes)
	switch {
	case change.MaxAge == nil:
	case *change.MaxAge == admin.Unset:
		delete(args, declare.MaxAge)
	case *change.MaxAge < time.Second || *change.MaxAge%time.Second != 0:
		return nil, &admin.Error{Class: admin.Invalid, What: fmt.Sprintf("a max-age of %s is not possible", *change.MaxAge), Hint: "an age is whole seconds, at least one"}
	default:
		args[declare.MaxAge] = declare.FormatAge(*change.MaxAge)
	}
	if _, err := declare.Parse(args); err != nil {
		return nil, &admin.Error{Class: admin.Invalid, What: "these bounds are not possible", Err: err, Hint: "a size is a number of bytes, an age whole seconds; \"default\" takes a bound away"}
	}
	return args, nil
}

// checkBounds refuses a window that is wanted larger than it may be.
func (n *Node) checkBounds(row port.Stream) error {
	r := n.logConfig(row).Retention
	if r.LocalMaxBytes > 0 && r.LocalMinBytes > r.LocalMaxBytes {
		return &admin.Error{
			Class: admin.Invalid, What: fmt.Sprintf("local-min-bytes would be %d, more than local-max-bytes, %d", r.LocalMinBytes, r.LocalMaxBytes),
			Hint: "set both in one command",
		}
	}
	return nil
}

// bounded tells the running log of a stream's bounds, and the operator what holds.
func (n *Node) bounded(ctx context.Context, row port.Stream) admin.RetentionStatus {
	s := admin.RetentionStatus{Stream: row.Name, Own: map[string]string{}, Effective: n.logConfig(row).Retention}
	n.rows.learn(row)
	for _, name := range []string{declare.MaxLengthBytes, declare.MaxAge, declare.LocalMaxBytes, declare.LocalMinBytes} {
		if value, ok := row.Arguments[name]; ok {
			s.Own[name] = value
		}
	}
	s.Notes = n.withoutEffect(row, s.Effective)
	if w, ok := n.registry.WhereIs(n.name(kindWriter, row.ID.String())); ok {
		_, err := w.Call(ctx, segment.SetRetention{Retention: s.Effective})
		s.Applied = err == nil
	}
	return s
}

// withoutEffect names the bounds of a stream that the node's own are tighter than.
func (n *Node) withoutEffect(row port.Stream, holds segment.Retention) (notes []string) {
	own, err := declare.Parse(row.Arguments)
	if err != nil {
		return []string{err.Error()}
	}
	size := func(name, key string, wanted, holds int64) {
		if wanted != 0 && wanted != holds {
			notes = append(notes, fmt.Sprintf("%s of %s has no effect: the node's %s is %s", name, settings.FormatSize(wanted), key, settings.FormatSize(holds)))
		}
	}
	size(declare.MaxLengthBytes, "retention.max_bytes", own.MaxBytes, holds.MaxBytes)
	size(declare.LocalMaxBytes, "local.max_bytes", own.LocalMaxBytes, holds.LocalMaxBytes)
	if own.MaxAge != 0 && own.MaxAge != holds.MaxAge {
		notes = append(notes, fmt.Sprintf("%s of %s has no effect: the node's retention.max_age is %s", declare.MaxAge, settings.FormatSpan(own.MaxAge), settings.FormatSpan(holds.MaxAge)))
	}
	return notes
}
