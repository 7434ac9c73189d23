package s3store

import (
	"hash/crc32"
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

// A checksum that comes back vouches for the object; another one is no success, in whatever
// form and by whichever client it was put.
func TestAChecksumThatComesBackVouches(t *testing.T) {
	for _, f := range []form{formHeader, formTrailer, formSigned} {
		server := scripted(t)
		s := against(t, server, nil)
		inForm(s, f)
		for _, client := range []port.ObjectStore{s.Uploads(), s.General()} {
			server.set(takes)
			must(t, putLate(t, client))
			if n := len(server.requests()); n != 1 {
				t.Errorf("form %d: asked %d times for what is vouched for", f, n)
			}
			server.set(answers("AAAAAA==", 200, 6))
			if err := putLate(t, client); port.ClassOf(err) != port.Checksum || !strings.Contains(err.Error(), "with CRC-32C 00000000, sent 353dd8be: something between here and the store") {
				t.Errorf("form %d: %v", f, err)
			}
		}
	}
}

// A store that gives no checksum back, or none of the object's bytes, is asked each time whether
// it has the object.
func TestAStoreThatGivesNothingBackIsAsked(t *testing.T) {
	server := scripted(t)
	s := against(t, server, func(c *Config) { c.ExpectedOwner = "123456789012" })
	for _, sum := range []string{"", "NT3Yvg==-1", "NT3YvgAA"} {
		server.set(answers(sum, 200, 6))
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
		{503, 0, port.Unavailable, ""},
	} {
		server.set(answers("", c.status, c.size))
		if err := putLate(t, s.Uploads()); port.ClassOf(err) != c.want || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("asked for the object it says %d: %v", c.status, err)
		}
	}
}

// The real server gives the checksum back in each form, of an empty object too.
func TestTheRealServerVouchesForWhatItHas(t *testing.T) {
	for _, f := range []form{formHeader, formTrailer, formSigned} {
		for _, text := range []string{"", "hello\n"} {
			s := open(t, configOf(bucket(t)))
			b := newBody(&storetest.Late{ReadSeeker: strings.NewReader(text)}, int64(len(text)))
			if f == formTrailer && text == "" {
				continue // there is no empty chunk to put it behind
			}
			given, err := s.uploads.send(t.Context(), s.uploads.begin("put", "p/a"), "p/a", b, f, false)
			must(t, err)
			if sum, ok := decodeSum(given); !ok || sum != crc32.Checksum([]byte(text), castagnoli) {
				t.Errorf("form %d, %q: it gave %v back", f, text, given)
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

// What a body fails with is no failure of the store, whatever becomes of the request: it would
// be taken for one that passes by itself.
func TestABodyThatFailsIsNoFailureOfTheStore(t *testing.T) {
	s := against(t, scripted(t), nil)
	for _, f := range []form{formHeader, formTrailer, formSigned} {
		inForm(s, f)
		for what, body := range map[string]port.Body{
			"knows its checksum": port.NewBody(failing{strings.NewReader("hello\n")}, sum([]byte("hello\n"))),
			"does not know it":   &storetest.Late{ReadSeeker: failing{strings.NewReader("hello\n")}},
		} {
			err := s.Uploads().Put(t.Context(), "p/a", body, 6, false)
			if port.ClassOf(err) != port.Unclassified || err == nil || !strings.HasSuffix(err.Error(), ": read the body: the segment was trimmed") {
				t.Errorf("form %d, one that %s: class %q, %v", f, what, port.ClassOf(err), err)
			}
		}
	}
}
