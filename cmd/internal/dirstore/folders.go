package dirstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"millrace/actors/port"
)

// makeFolder makes a folder and its parents, each durably.
func (s *Store) makeFolder(dir string) error {
	if s.isSynced(dir) {
		return nil
	}
	parent := path.Dir(dir)
	if err := s.makeFolder(parent); err != nil {
		return err
	}
	err := s.root.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		err = s.checkFolder(dir)
	}
	if err != nil {
		return err
	}
	if err := s.syncFolder(parent); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced[dir] = true
	return nil
}

// checkFolder fails if an object stands where a folder is needed.
func (s *Store) checkFolder(dir string) error {
	info, err := s.root.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is an object, so none can lie below it: %w", dir, port.Denied)
	}
	return err
}

// forgetFolders makes makeFolder look again.
func (s *Store) forgetFolders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = map[string]bool{".": true}
}

func (s *Store) isSynced(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced[dir]
}

// syncFolder makes the entries of a folder durable.
func (s *Store) syncFolder(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// settleFolder makes deletions in a folder durable, and removes it and its parents as
// far as they are empty.
func (s *Store) settleFolder(dir string) error {
	err := s.syncFolder(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir != "." && s.isEmpty(dir) && s.prune(dir) {
		dir = path.Dir(dir)
	}
	return nil
}

func (s *Store) isEmpty(dir string) bool {
	f, err := s.root.Open(dir)
	if err != nil {
		return false
	}
	_, err = f.ReadDir(1)
	return f.Close() == nil && errors.Is(err, io.EOF)
}

// prune removes a folder that is empty; false if it could not, which harms nobody. The
// removal need not be durable: an empty folder is no object.
func (s *Store) prune(dir string) bool {
	s.tree.Lock()
	defer s.tree.Unlock()
	if s.root.Remove(dir) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.synced, dir)
	return true
}
