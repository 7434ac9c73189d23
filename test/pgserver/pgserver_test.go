package pgserver

import "testing"

func TestServerStopsAndStartsAgain(t *testing.T) {
	s, err := Start("")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.PSQL("CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{Fast, Immediate} {
		if err := s.Stop(mode); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PSQL("SELECT 1"); err == nil {
			t.Fatalf("stopped %s, and still answers", mode)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if out, err := s.PSQL("SELECT id FROM kept"); err != nil || out != "7" {
			t.Fatalf("after %s: %q, %v", mode, out, err)
		}
	}
}
