package s3store

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"millrace/actors/port"
)

// shelf is a server that knows no checksums: it stores what is put.
type shelf struct {
	mu      sync.Mutex
	objects []string
	put     http.HandlerFunc // nil: as it is
	keeps   bool             // refuses deletions
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPut && s.put != nil:
		s.put(w, r)
	case r.Method == http.MethodPut:
		if !slices.Contains(s.objects, r.URL.Path) {
			s.objects = append(s.objects, r.URL.Path)
		}
	case r.Method == http.MethodPost && s.keeps:
		says(403, errorXML("AccessDenied"))(w, r)
	case r.Method == http.MethodPost:
		s.objects = nil
		says(200, "<DeleteResult></DeleteResult>")(w, r)
	}
}

func (s *shelf) change(put http.HandlerFunc, keeps bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put, s.keeps = put, keeps
}

func (s *shelf) holds() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.objects)
}

// shelved opens a store on a server that knows no checksums.
func shelved(t *testing.T) (*Store, *shelf) {
	t.Helper()
	server, content := scripted(t), new(shelf)
	server.set(content.ServeHTTP)
	return against(t, server, func(c *Config) { c.Prefix = "some/prefix" }), content
}

// However many probes a store takes and keeps, and whichever client probes, one object is
// there; a probe removes it once deletions work, also where no byte is taken any more.
func TestProbesLeaveOneObjectAtMost(t *testing.T) {
	for name, later := range map[string]http.HandlerFunc{
		"takes it still":  nil,
		"knows checksums": says(400, errorXML("BadDigest")),
		"is full":         says(507, errorXML("InsufficientStorage")),
	} {
		s, server := shelved(t)
		server.change(nil, true)
		for range 3 {
			for _, client := range []port.ObjectStore{s.Uploads(), s.General()} {
				if err := client.Probe(t.Context()); port.ClassOf(err) != port.Denied {
					t.Errorf("deletions are refused: %v", err)
				}
			}
		}
		if got := server.holds(); len(got) != 1 || !strings.HasPrefix(got[0], "/acme/some/prefix/probe.") {
			t.Errorf("after many probes there are %v", got)
		}
		server.change(later, false)
		if err := s.General().Probe(t.Context()); (err == nil) != (name != "is full") {
			t.Errorf("one that %s: %v", name, err)
		}
		if got := server.holds(); len(got) != 0 {
			t.Errorf("one that %s has %v", name, got)
		}
	}
}

// What can't be removed is no reason to upload nothing where the store takes no more of it.
func TestAnObjectThatStaysIsNoVerdict(t *testing.T) {
	s, server := shelved(t)
	server.change(nil, true)
	if err := s.General().Probe(t.Context()); port.ClassOf(err) != port.Denied {
		t.Fatal(err)
	}
	server.change(says(400, errorXML("BadDigest")), true)
	must(t, s.General().Probe(t.Context()))
}

// A put of which no answer came may have been stored: the next probe removes it.
func TestAProbeWithoutAnAnswerIsRemovedLater(t *testing.T) {
	s, server := shelved(t)
	server.change(func(w http.ResponseWriter, r *http.Request) {
		server.objects = []string{r.URL.Path}
		panic(http.ErrAbortHandler)
	}, false)
	if err := s.General().Probe(t.Context()); port.ClassOf(err) != port.Unavailable || len(server.holds()) != 1 {
		t.Fatalf("%v, there are %v", err, server.holds())
	}
	server.change(says(400, errorXML("BadDigest")), false)
	must(t, s.General().Probe(t.Context()))
	if got := server.holds(); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
}

// Where payloads that are signed fail too, what is told is why those that are not do: the form
// that most stores take.
func TestAProbeTellsWhyTheUsualFormFails(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(onPut(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("X-Amz-Content-Sha256"), "UNSIGNED") {
			says(403, errorXML("AccessDenied"))(w, r)
			return
		}
		says(507, errorXML("InsufficientStorage"))(w, r)
	}))
	err := s.General().Probe(t.Context())
	if port.ClassOf(err) != port.Denied || !strings.Contains(err.Error(), "AccessDenied") || len(server.requests()) != 4 {
		t.Errorf("asked %d times: %v", len(server.requests()), err)
	}
}

// Two nodes do not delete what the other one puts.
func TestNodesProbeUnderNamesOfTheirOwn(t *testing.T) {
	a, b := newProbed("p").key, newProbed("p").key
	if a == b || port.CheckKey(a) != nil {
		t.Errorf("they put %s and %s", a, b)
	}
	if key := newProbed("").key; !strings.HasPrefix(key, "probe.") || port.CheckKey(key) != nil {
		t.Errorf("without a prefix it is %s", key)
	}
}
