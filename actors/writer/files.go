package writer

import (
	"errors"
	"io/fs"
	"sync"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
)

// file is one file of the active pair. A sync that failed fails for everyone who
// shares the handle: the operating system tells only one of them.
type file struct {
	port.File
	mu     sync.Mutex
	err    error // of the sync that failed
	closed bool
}

// sync syncs the file. A file that was closed had been synced before.
func (f *file) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && !f.closed {
		f.err = f.Sync()
	}
	return f.err
}

// close waits for a sync that is under way.
func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		giveBack(f.File)
	}
}

// giveBack closes a file. That it fails does not matter: a close makes nothing durable, so
// what must survive was synced before, and the handle is gone in any case.
func giveBack(f port.File) {
	if err := f.Close(); err != nil {
		return
	}
}

// pair is an open segment and its index.
type pair struct {
	first          pos.Offset
	segment, index *file
}

// files does what the machine's effects say. It keeps the active pair open.
type files struct {
	disk   port.Disk
	folder string
	open   *pair
}

// at returns the open pair of a segment.
func (x *files) at(first pos.Offset) (*pair, error) {
	if x.open != nil && x.open.first == first {
		return x.open, nil
	}
	s, err := x.disk.Open(x.folder, segment.FileName(first), true)
	if err != nil {
		return nil, err
	}
	i, err := x.disk.Open(x.folder, segment.IndexName(first), true)
	if err != nil {
		giveBack(s)
		return nil, err
	}
	x.close()
	x.open = &pair{first: first, segment: &file{File: s}, index: &file{File: i}}
	return x.open, nil
}

// close gives the handles back.
func (x *files) close() {
	if x.open != nil {
		x.open.segment.close()
		x.open.index.close()
		x.open = nil
	}
}

// write puts the chunk and its index record where e says.
func (x *files) write(e *segment.Write, chunk []byte) error {
	p, err := x.at(e.Segment)
	if err != nil {
		return err
	}
	if _, err := p.segment.WriteAt(chunk, e.Position); err != nil {
		return err
	}
	var record [segment.IndexRecordSize]byte
	_, err = p.index.WriteAt(e.Index.Append(record[:0]), e.IndexAt)
	return err
}

func (x *files) truncate(e *segment.Truncate) error {
	p, err := x.at(e.Segment)
	if err != nil {
		return err
	}
	if err := p.segment.Truncate(e.Bytes); err != nil {
		return err
	}
	return p.index.Truncate(e.Index)
}

// remove deletes both files: the segment first, because an index without segment is
// seen to be a left-over.
func (x *files) remove(first pos.Offset) error {
	if x.open != nil && x.open.first == first {
		x.close()
	}
	for _, name := range []string{segment.FileName(first), segment.IndexName(first)} {
		if err := x.disk.Remove(x.folder, name); err != nil && !port.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// roll syncs the old pair and makes the new one. synced tells that a failure came
// after which nobody knows what is on disk.
func (x *files) roll(e *segment.Roll) (failed segment.Op, err error) {
	if e.Old != pos.NoOffset {
		p, err := x.at(e.Old)
		if err != nil {
			return segment.OpRoll, err
		}
		if err := p.segment.sync(); err != nil {
			return segment.OpRollSync, err
		}
		if err := p.index.sync(); err != nil {
			return segment.OpRollSync, err
		}
	}
	index, err := x.fresh(segment.IndexName(e.New), segment.IndexHeader())
	if err != nil {
		return segment.OpRoll, err
	}
	s, err := x.fresh(segment.FileName(e.New), segment.FileHeader())
	if err != nil {
		giveBack(index)
		return segment.OpRoll, err
	}
	x.close()
	x.open = &pair{first: e.New, segment: &file{File: s}, index: &file{File: index}}
	return segment.OpRollSync, x.disk.SyncDir(x.folder)
}

// fresh makes a synced file that holds the header only, in place of what a failed
// attempt may have left.
func (x *files) fresh(name string, header []byte) (port.File, error) {
	f, err := create(x.disk, x.folder, name)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(header, 0); err == nil {
		err = f.Sync()
	}
	if err != nil {
		giveBack(f)
		return nil, err
	}
	return f, nil
}

// create makes an empty file or empties the one that is there.
func create(disk port.Disk, folder, name string) (port.File, error) {
	f, err := disk.Create(folder, name)
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, port.Exists) {
		return f, err
	}
	if f, err = disk.Open(folder, name, true); err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		giveBack(f)
		return nil, err
	}
	return f, nil
}
