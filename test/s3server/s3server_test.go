package s3server

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func answers(s *Server) bool {
	resp, err := http.Get(s.URL() + "/health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func TestServerStopsAndStartsAgain(t *testing.T) {
	s, err := Start("")
	if err != nil {
		t.Fatal(err)
	}
	addr := s.Addr()
	if err := s.MakeBucket("kept"); err != nil {
		t.Fatal(err)
	}
	for what, end := range map[string]func() error{"stopped": s.Stop, "killed": s.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if answers(s) {
			t.Fatalf("%s, and still answers", what)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if s.Addr() != addr || !answers(s) {
			t.Errorf("after it was %s: at %s instead of %s, or no answer", what, s.Addr(), addr)
		}
	}
	if _, err := os.Stat(s.Bucket("kept")); err != nil {
		t.Error(err)
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(dir); err == nil {
		t.Error("started over a file")
	}
}
