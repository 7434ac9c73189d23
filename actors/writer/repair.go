package writer

import (
	"errors"

	"millrace/actors/port"
	"millrace/core/segment"
)

// repair makes the folder what analyse says it should be, and durable. Nothing is served
// before.
func (o *opener) repair(f segment.Folder, a *analysis) error {
	changed := len(a.rebuilt) > 0 || a.active.walked
	for _, first := range f.Orphans {
		if err := o.remove(segment.IndexName(first)); err != nil {
			return err
		}
		changed = true
	}
	for i := len(a.empty) - 1; i >= 0; i-- {
		if err := o.remove(segment.FileName(a.empty[i].First), segment.IndexName(a.empty[i].First)); err != nil {
			return err
		}
		changed = true
	}
	for _, r := range a.rebuilt {
		if err := o.writeIndex(r); err != nil {
			return err
		}
	}
	if a.active.walked {
		if err := o.mend(a.active); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return o.cfg.Disk.SyncDir(string(o.cfg.Stream))
}

func (o *opener) remove(names ...string) error {
	for _, name := range names {
		if err := o.cfg.Disk.Remove(string(o.cfg.Stream), name); err != nil && !port.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// mend cuts the newest segment after its last whole chunk, writes its index and syncs
// both.
func (o *opener) mend(e *end) error {
	f, err := o.cfg.Disk.Open(string(o.cfg.Stream), segment.FileName(e.pair.First), true)
	if err != nil {
		return err
	}
	defer giveBack(f)
	if e.walk.BadHeader || e.pair.Bytes < segment.FileHeaderSize {
		if _, err := f.WriteAt(segment.FileHeader(), 0); err != nil {
			return err
		}
	}
	if e.pair.Bytes > e.segment.Bytes {
		if err := f.Truncate(e.segment.Bytes); err != nil {
			return err
		}
	}
	if o.suspect {
		if err := rewrite(f, e.segment.Bytes); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		o.suspect = true
		return err
	}
	o.suspect = false
	return o.writeIndex(rebuilt{first: e.pair.First, records: e.records})
}

// rewritePiece is how much of a file is written again at a time.
const rewritePiece = 1 << 20

// rewrite writes a file's bytes again: after a failed sync the operating system takes
// them for written.
func rewrite(f port.File, size int64) error {
	buf := make([]byte, min(size, rewritePiece))
	for at := int64(0); at < size; {
		piece := buf[:min(size-at, int64(len(buf)))]
		n, err := f.ReadAt(piece, at)
		if n < len(piece) {
			return errors.Join(errors.New("a segment became shorter while it was written again"), err)
		}
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// writeIndex writes a whole index file and syncs it.
func (o *opener) writeIndex(r rebuilt) error {
	f, err := create(o.cfg.Disk, string(o.cfg.Stream), segment.IndexName(r.first))
	if err != nil {
		return err
	}
	defer giveBack(f)
	b := append(make([]byte, 0, segment.IndexSize(int64(len(r.records)))), segment.IndexHeader()...)
	for _, record := range r.records {
		b = record.Append(b)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.Sync()
}
