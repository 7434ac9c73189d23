package s3store

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/actors/port"
	"millrace/test/porttest/storetest"
)

// A body is read once, whether it knows its checksum before or only when it was read,
// which takes a store that a probe has shown to take trailers.
func TestNothingIsReadTwice(t *testing.T) {
	s := open(t, configOf(bucket(t)))
	for _, late := range []bool{false, true} {
		for _, size := range []int{0, 1, 1000, 1 << 20, 5<<20 + 7} {
			b := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			src := &counted{ReadSeeker: bytes.NewReader(b)}
			body := port.NewBody(src, sum(b))
			if late {
				body = &storetest.Late{ReadSeeker: src}
			}
			must(t, s.Uploads().Put(t.Context(), fmt.Sprint("p/", size), body, int64(size), false))
			if got := src.read.Load(); got != int64(size) {
				t.Errorf("%d bytes were read of a body of %d (late: %v)", got, size, late)
			}
			if got, err := s.General().Get(t.Context(), fmt.Sprint("p/", size)); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes came back of %d, %v", len(got), size, err)
			}
		}
		must(t, s.General().Probe(t.Context()))
	}
}

// A store that takes trailers begins to break at them: the next probe, which a failed put is a
// reason for (actors/storemonitor), finds out.
func TestAStoreThatBeginsToBreakAtTrailers(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(onPut(says(400, errorXML("BadDigest"))))
	must(t, s.General().Probe(t.Context()))
	server.set(takes)
	must(t, putLate(t, s.Uploads()))
	var probing atomic.Bool
	server.set(onPut(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Amz-Trailer") != "":
			says(500, errorXML("InternalError"))(w, r)
		case probing.Load():
			says(400, errorXML("BadDigest"))(w, r)
		default:
			takes(w, r)
		}
	}))
	if err := putLate(t, s.Uploads()); port.ClassOf(err) != port.Unavailable {
		t.Fatal(err)
	}
	probing.Store(true)
	must(t, s.General().Probe(t.Context()))
	probing.Store(false)
	must(t, putLate(t, s.Uploads()))
}

// What a store can't do, or a bucket's policy refuses, a probe finds out, and puts go on in
// the form that is left. All of a body arrives in each.
func TestEachStoreGetsTheFormItTakes(t *testing.T) {
	const late, hash = "X-Amz-Trailer", "X-Amz-Content-Sha256"
	badDigest := says(400, errorXML("BadDigest"))
	for _, c := range []struct {
		what          string
		refuse        func(h http.Header) http.HandlerFunc // nil: it takes the form, and looks at the checksum
		trailer, hash string
		reads         int
	}{
		{"takes trailers", func(http.Header) http.HandlerFunc { return nil }, "x-amz-checksum-crc32c", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", 1},
		{"knows no trailers", func(h http.Header) http.HandlerFunc {
			if h.Get(late) != "" {
				return says(501, errorXML("NotImplemented"))
			}
			return nil
		}, "", "UNSIGNED-PAYLOAD", 2},
		{"takes the form for a checksum", func(h http.Header) http.HandlerFunc {
			if h.Get(late) != "" {
				return says(400, errorXML("XAmzContentSHA256Mismatch"))
			}
			return nil
		}, "", "UNSIGNED-PAYLOAD", 2},
		{"breaks at trailers", func(h http.Header) http.HandlerFunc {
			if h.Get(late) != "" {
				return says(500, errorXML("InternalError"))
			}
			return nil
		}, "", "UNSIGNED-PAYLOAD", 2},
		{"wants everything signed and looks at no checksum", func(h http.Header) http.HandlerFunc {
			if strings.Contains(h.Get(hash), "UNSIGNED") {
				return says(403, errorXML("AccessDenied"))
			}
			return says(200, "")
		}, "", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", 3},
		{"stores trailers as they come", func(h http.Header) http.HandlerFunc {
			if h.Get(late) != "" {
				return says(200, "")
			}
			return nil
		}, "", "UNSIGNED-PAYLOAD", 2},
		{"wants everything signed", func(h http.Header) http.HandlerFunc {
			if strings.Contains(h.Get(hash), "UNSIGNED") {
				return says(403, errorXML("AccessDenied"))
			}
			return nil
		}, "", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", 3},
	} {
		server := scripted(t)
		s := against(t, server, nil)
		server.set(onPut(func(w http.ResponseWriter, r *http.Request) {
			if answer := c.refuse(r.Header); answer != nil {
				answer(w, r)
				return
			}
			badDigest(w, r)
		}))
		must(t, s.General().Probe(t.Context()))
		server.set(takes)
		src := &counted{ReadSeeker: strings.NewReader("hello\n")}
		must(t, s.Uploads().Put(t.Context(), "p/a", &storetest.Late{ReadSeeker: src}, 6, false))
		r, body := server.requests()[0], server.bodies()[0]
		want := "hello\n"
		if c.trailer != "" {
			want = "6\r\nhello\n\r\n0\r\nx-amz-checksum-crc32c:NT3Yvg==\r\n\r\n"
			if got := r.Header.Get("X-Amz-Decoded-Content-Length") + r.Header.Get("Content-Encoding"); got != "6aws-chunked" {
				t.Errorf("one that %s is told %q", c.what, got)
			}
		} else if got := r.Header.Get("X-Amz-Checksum-Crc32c"); got != "NT3Yvg==" {
			t.Errorf("one that %s gets the checksum %q", c.what, got)
		}
		if body != want || r.ContentLength != int64(len(want)) || r.Header.Get(late) != c.trailer || r.Header.Get(hash) != c.hash {
			t.Errorf("one that %s gets %q of %d bytes with %v", c.what, body, r.ContentLength, r.Header)
		}
		if n := int(src.read.Load()); n != c.reads*6 {
			t.Errorf("for one that %s %d bytes were read", c.what, n)
		}
		if auth := r.Header.Get("Authorization"); strings.Contains(auth, "x-amz-trailer") != (c.trailer != "") {
			t.Errorf("one that %s: signed are %s", c.what, auth)
		}
	}
}

// A store that takes trailers and no unsigned payload gets signed ones of what knows its
// checksum: the marker, roots, and fragments that were read through.
func TestAFormForEachSortOfBody(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(onPut(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Content-Sha256") == "UNSIGNED-PAYLOAD" {
			says(403, errorXML("AccessDenied"))(w, r)
			return
		}
		says(400, errorXML("BadDigest"))(w, r)
	}))
	must(t, s.General().Probe(t.Context()))
	server.set(takes)
	must(t, put(t.Context(), s.General(), "p/root", []byte("hello\n")))
	must(t, s.Uploads().Put(t.Context(), "p/fragment", &storetest.Late{ReadSeeker: strings.NewReader("hello\n")}, 6, false))
	asked := server.requests()
	if got := asked[0].Header.Get("X-Amz-Content-Sha256"); got != "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" {
		t.Errorf("what knows its checksum goes as %s", got)
	}
	if got := asked[1].Header.Get("X-Amz-Trailer"); got == "" {
		t.Errorf("what does not goes as %v", asked[1].Header)
	}
}

// The checksum behind a body that turns out wrong never leaves.
func TestATrailerOfAWrongBodyIsNotSent(t *testing.T) {
	s := open(t, configOf(bucket(t)))
	must(t, s.General().Probe(t.Context()))
	for what, size := range map[string]int64{"shorter": 999, "longer": 1001} {
		err := s.Uploads().Put(t.Context(), "p/a", &storetest.Late{ReadSeeker: strings.NewReader(strings.Repeat("x", 1000))}, size, false)
		if port.ClassOf(err) != port.Checksum {
			t.Errorf("announced %s: %v", what, err)
		}
	}
	err := s.Uploads().Put(t.Context(), "p/a", &storetest.Late{ReadSeeker: failing{strings.NewReader(strings.Repeat("x", 1<<20))}}, 1<<20, false)
	if err == nil || !strings.Contains(err.Error(), "the segment was trimmed") {
		t.Errorf("a body without an end: %v", err)
	}
	if page, _, err := s.General().List(t.Context(), "", "", 0); err != nil || len(page) != 0 {
		t.Errorf("stored: %v, %v", page, err)
	}
}

// An answer that comes before the body was sent is none, whatever it says: believed, it would
// let the local copy be trimmed.
func TestAnEarlySuccessIsNone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(trailerName, r.Header.Get(trailerName)) // it even gives the checksum back
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()
	cfg := configOf("b")
	cfg.Endpoint = server.URL
	s := open(t, cfg)
	if err := put(t.Context(), s.Uploads(), "p/a", make([]byte, 8<<20)); port.ClassOf(err) != port.Unavailable {
		t.Errorf("got %v", err)
	}
}
