package s3store

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"millrace/actors/port"
	"millrace/test/porttest/storetest"
)

// inForm makes a store put bodies that do not know their checksum in a form.
func inForm(s *Store, f form) {
	if f == formTrailer {
		s.uploads.forms.learn(formHeader, true)
	} else {
		s.uploads.forms.learn(f, false)
	}
}

func putLate(t *testing.T, s port.ObjectStore) error {
	t.Helper()
	return s.Put(t.Context(), "p/a", &storetest.Late{ReadSeeker: strings.NewReader("hello\n")}, 6, false)
}

// answers says that an object is stored, with a checksum if there is one, and what of it is
// there when it is asked for it.
func answers(sum string, status, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			w.WriteHeader(status)
		} else if sum != "" {
			w.Header().Set(trailerName, sum)
		}
	}
}

// A store that gave the checksum back goes on doing so, in the same form and whichever client
// asks: who answers without it, or with another one, has not got the object.
func TestWhatAStoreGaveBackItGoesOnGiving(t *testing.T) {
	for _, f := range []form{formHeader, formTrailer, formSigned} {
		server := scripted(t)
		s := against(t, server, nil)
		inForm(s, f)
		server.set(takes)
		must(t, putLate(t, s.Uploads()))
		if n := len(server.requests()); n != 1 {
			t.Errorf("form %d: asked %d times for what is vouched for", f, n)
		}
		for _, c := range []struct {
			sum  string
			want port.Class
			hint string
		}{
			{"", port.Unavailable, "without the CRC-32C that this store gave back before: does a gateway"},
			{"NT3Yvg==-1", port.Unavailable, "without the CRC-32C"},
			{"NT3YvgAA", port.Unavailable, "without the CRC-32C"},
			{"AAAAAA==", port.Checksum, "with CRC-32C 00000000, sent 353dd8be: something between here and the store"},
		} {
			server.set(answers(c.sum, 200, 6))
			for _, client := range []port.ObjectStore{s.Uploads(), s.General()} {
				if err := putLate(t, client); port.ClassOf(err) != c.want || !strings.Contains(err.Error(), c.hint) {
					t.Errorf("form %d, answered with %q: %v", f, c.sum, err)
				}
			}
		}
		server.set(takes)
		must(t, putLate(t, s.General()))
	}
}

// What a store gives back for one form says nothing of another: some know no checksum of a
// trailer when they write the head of their answer.
func TestEachFormIsLearnedByItself(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(takes)
	must(t, putLate(t, s.Uploads()))
	inForm(s, formTrailer)
	server.set(answers("", 200, 6))
	must(t, putLate(t, s.Uploads()))
}

// A store that never gave a checksum back is asked each time whether it has the object, until
// it does give one.
func TestAStoreThatGivesNothingBackIsAsked(t *testing.T) {
	server := scripted(t)
	s := against(t, server, func(c *Config) { c.ExpectedOwner = "123456789012" })
	for range 2 {
		server.set(answers("", 200, 6))
		must(t, putLate(t, s.Uploads()))
		asked := server.requests()
		if len(asked) != 2 || asked[1].Method != http.MethodHead || asked[1].URL.Path != "/acme/p/a" || asked[1].Header.Get("X-Amz-Expected-Bucket-Owner") == "" {
			t.Fatalf("it was asked %d times", len(asked))
		}
	}
	for _, c := range []struct {
		status, size int
		want         port.Class
		hint         string
	}{
		{404, 0, port.Unavailable, "has no such object: does a gateway"},
		{200, 5, port.Unavailable, "has 5 bytes of 6: does a gateway"},
		{403, 0, port.Denied, "docs/operations.md"},
		{503, 0, port.Throttled, ""},
	} {
		server.set(answers("", c.status, c.size))
		if err := putLate(t, s.Uploads()); port.ClassOf(err) != c.want || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("asked for the object it says %d: %v", c.status, err)
		}
	}
	server.set(answers("AAAAAA==", 200, 6))
	if err := putLate(t, s.Uploads()); port.ClassOf(err) != port.Checksum {
		t.Errorf("the first checksum it gives is another one: %v", err)
	}
}

// The real server gives the checksum back in each form, of an empty object too.
func TestTheRealServerVouchesForWhatItHas(t *testing.T) {
	for _, f := range []form{formHeader, formTrailer, formSigned} {
		for _, text := range []string{"", "hello\n"} {
			s := open(t, configOf(bucket(t)))
			inForm(s, f)
			must(t, s.Uploads().Put(t.Context(), "p/a", &storetest.Late{ReadSeeker: strings.NewReader(text)}, int64(len(text)), false))
			used := f
			if text == "" && f == formTrailer {
				used = formHeader
			}
			if !s.general.forms.gives[used].Load() {
				t.Errorf("form %d, %d bytes: it gave no checksum back", f, len(text))
			}
		}
	}
}

// A gateway that reads all of a body and says that it is stored, while the store behind it
// gets nothing, does not pass for it.
func TestAGatewayThatSwallowsObjects(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			says(200, "")(w, r)
			return
		}
		says(404, "")(w, r)
	})
	for _, f := range []form{formHeader, formTrailer, formSigned} {
		inForm(s, f)
		if err := putLate(t, s.Uploads()); port.ClassOf(err) != port.Unavailable {
			t.Errorf("form %d: %v", f, err)
		}
	}
}
