package dirstore

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"millrace/actors/port"
	"millrace/core/pos"
)

// List implements port.ObjectStore.
func (s *Store) List(ctx context.Context, prefix, after string, max int) ([]port.ObjectInfo, bool, error) {
	if max < 1 || max > port.MaxList {
		max = port.MaxList
	}
	if err := s.ready(ctx); err != nil {
		return nil, false, storeError("list", prefix, err)
	}
	w := walk{store: s, ctx: ctx, prefix: prefix, after: after, max: max}
	if err := w.folder(""); err != nil {
		return nil, false, storeError("list", prefix, err)
	}
	return w.page, w.more, nil
}

// walk collects one page of a listing.
type walk struct {
	store         *Store
	ctx           context.Context
	prefix, after string
	max           int
	page          []port.ObjectInfo
	more          bool
}

// folder walks a folder, "" or a path that ends in a slash, in the order of the keys. A
// folder's name counts with its slash: "a-b" comes before what lies in "a", since
// '-' is less than '/'.
func (w *walk) folder(dir string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	names, err := w.store.names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if w.more {
			return nil
		}
		key := dir + name
		if strings.HasSuffix(key, "/") {
			err = w.descend(key)
		} else {
			err = w.object(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// descend walks a folder that can hold keys of the page.
func (w *walk) descend(dir string) error {
	if !strings.HasPrefix(dir, w.prefix) && !strings.HasPrefix(w.prefix, dir) {
		return nil
	}
	if dir <= w.after && !strings.HasPrefix(w.after, dir) {
		return nil // all its keys are less than after
	}
	return w.folder(dir)
}

func (w *walk) object(key string) error {
	if key <= w.after || !strings.HasPrefix(key, w.prefix) || port.CheckKey(key) != nil {
		return nil
	}
	if len(w.page) == w.max {
		w.more = true
		return nil
	}
	info, err := w.store.root.Lstat(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since the folder was read
	}
	if err != nil {
		return err
	}
	w.page = append(w.page, port.ObjectInfo{Key: key, Size: info.Size(), Modified: pos.MillisOf(info.ModTime())})
	return nil
}

// names returns the files of a folder, and its folders with a slash, sorted. Hidden
// and special files are left out; a folder that is not there has none.
func (s *Store) names(dir string) ([]string, error) {
	f, err := s.root.Open(path.Join(".", dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // removed since it was opened
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		switch name := e.Name(); {
		case name[0] == '.':
		case e.IsDir():
			names = append(names, name+"/")
		case e.Type().IsRegular():
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
