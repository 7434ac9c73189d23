package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"millrace/actors/port"
)

// script is a server that answers what it is told and keeps what it was asked.
type script struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []*http.Request
	sent   []string
}

func scripted(t *testing.T) *script {
	t.Helper()
	s := &script{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		s.asked, s.sent = append(s.asked, r), append(s.sent, string(body))
		answer := s.answer
		s.mu.Unlock()
		if err == nil && answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *script) set(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.asked, s.sent = answer, nil, nil
}

func (s *script) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *script) bodies() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Request-Id", "REQ1")
		w.WriteHeader(status)
		if _, err := io.WriteString(w, body); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
			return
		}
	}
}

// takes answers a put as a store does that has the object.
func takes(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	sum := r.Header.Get(trailerName)
	if _, behind, found := strings.Cut(string(b), trailerName+":"); r.Header.Get("X-Amz-Trailer") != "" && found {
		sum = strings.TrimSpace(behind)
	}
	w.Header().Set(trailerName, sum)
}

func errorXML(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>in the server's words</Message></Error>`
}

// against opens a store on a scripted server. Its credentials can be fetched anew.
func against(t *testing.T, server *script, change func(*Config)) *Store {
	t.Helper()
	cfg := configOf("acme")
	cfg.Endpoint = server.URL
	if change != nil {
		change(&cfg)
	}
	s := open(t, cfg)
	s.Keyring().Use(port.Credentials{Source: sourceInstance, AccessKeyID: "AK", SecretKey: "hunter2", SessionToken: "token-hunter2"})
	return s
}

func TestEachAnswerHasItsClass(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	for _, c := range []struct {
		status int
		code   string
		want   port.Class
		hint   string
	}{
		{503, "SlowDown", port.Throttled, ""},
		{503, "ServiceUnavailable", port.Unavailable, ""}, // also what the SDK makes of a gateway's 503 without a code
		{429, "TooManyRequests", port.Throttled, ""},
		{400, "ThrottlingException", port.Throttled, ""},
		{500, "InternalError", port.Unavailable, ""},
		{502, "BadGateway", port.Unavailable, ""},
		{504, "GatewayTimeout", port.Unavailable, ""},
		{409, "OperationAborted", port.Unavailable, ""},
		{409, "ConditionalRequestConflict", port.Unavailable, ""},
		{400, "IncompleteBody", port.Unavailable, ""},
		{400, "RequestTimeout", port.Timeout, ""},
		{408, "Whatever", port.Timeout, ""},
		{403, "AccessDenied", port.Denied, "docs/operations.md"},
		{403, "SomethingNew", port.Denied, ""},
		{401, "Unauthorized", port.Denied, ""},
		{405, "MethodNotAllowed", port.Denied, ""},
		{501, "NotImplemented", port.Denied, ""},
		{403, "SignatureDoesNotMatch", port.Denied, "secret key"},
		{400, "AuthorizationHeaderMalformed", port.Denied, "store.region"},
		{301, "PermanentRedirect", port.Denied, "store.region"},
		{307, "TemporaryRedirect", port.Unavailable, ""},
		{403, "RequestTimeTooSkewed", port.Unclassified, "clock"},
		{404, "NoSuchBucket", port.Denied, "store.bucket"},
		{404, "NoSuchKey", port.NotFound, ""},
		{404, "SomethingNew", port.Unavailable, "store.endpoint"},
		{412, "PreconditionFailed", port.Exists, ""},
		{400, "BadDigest", port.Checksum, ""},
		{400, "XAmzContentChecksumMismatch", port.Checksum, ""},
		{403, "QuotaExceeded", port.Full, ""},
		{507, "InsufficientStorage", port.Full, ""},
		{507, "SomethingNew", port.Full, ""},
		{400, "KMS.DisabledException", port.Denied, "store.kms_key_id"},
		{403, "InvalidObjectState", port.Denied, "archived"},
		{400, "InvalidArgument", port.Unclassified, ""},
		{403, "InvalidAccessKeyId", port.Unavailable, "instance role"},
		{400, "ExpiredToken", port.Unavailable, "instance role"},
		{400, "InvalidToken", port.Unavailable, "instance role"},
		{400, "TokenRefreshRequired", port.Unavailable, "instance role"},
	} {
		server.set(says(c.status, errorXML(c.code)))
		for op, err := range do(t.Context(), s.General()) {
			if op == "probe" {
				continue // an answer to HEAD has no words
			}
			if _, ok := errors.AsType[*port.StoreError](err); !ok || port.ClassOf(err) != c.want || c.hint != "" && !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%d %s, %s: class %q, want %q with %q: %v", c.status, c.code, op, port.ClassOf(err), c.want, c.hint, err)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "hunter2") || !strings.Contains(text, c.code) || !strings.Contains(text, "REQ1") {
				t.Errorf("%s says: %s", op, text)
			}
		}
	}
	atRest(t, s.GeneralPool())
}

func TestAnswersWithoutWords(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	for _, c := range []struct {
		status int
		body   string
		want   port.Class
		probe  port.Class
	}{
		{503, "", port.Unavailable, port.Unavailable},
		{500, "<html>oops</html>", port.Unavailable, port.Unavailable},
		{502, strings.Repeat("x", 1<<20), port.Unavailable, port.Unavailable},
		{403, "", port.Denied, port.Denied},
		{404, "", port.Unavailable, port.NotFound},
		{404, "<html>no such page</html>", port.Unavailable, port.NotFound},
		{301, "", port.Denied, port.Denied},
		{400, "", port.Unclassified, port.Unclassified},
	} {
		server.set(says(c.status, c.body))
		for op, err := range do(t.Context(), s.General()) {
			want := c.want
			if op == "probe" {
				want = c.probe
			}
			if port.ClassOf(err) != want || len(fmt.Sprint(err)) > 1000 {
				t.Errorf("%d %.20q, %s: %.500v, want class %q", c.status, c.body, op, err, want)
			}
		}
	}
}

// A success that is none: what a captive portal or a store that ignores half of the question says.
func TestSuccessesThatAreNone(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  port.Class
	}{
		"range ignored": {says(200, "0123456789"), port.Unclassified},
		"another range": {ranged("bytes 0-2/10", "012"), port.Unavailable},
		"short range":   {ranged("bytes 3-4/10", "34"), port.Unavailable},
		"no range":      {ranged("nonsense", "345"), port.Unclassified},
	} {
		server.set(c.answer)
		b, err := s.General().GetRange(t.Context(), "p/a", 3, 3)
		if err == nil || port.ClassOf(err) != c.class {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	server.set(ranged("bytes 3-5/10", "345"))
	if b, err := s.General().GetRange(t.Context(), "p/a", 3, 3); err != nil || string(b) != "345" {
		t.Errorf("the right range: %q, %v", b, err)
	}
	server.set(func(w http.ResponseWriter, _ *http.Request) { // sized by its end only
		w.(http.Flusher).Flush()
		if _, err := io.WriteString(w, "chunked"); err != nil {
			t.Error(err)
		}
	})
	if b, err := s.General().Get(t.Context(), "p/a"); err != nil || string(b) != "chunked" {
		t.Errorf("an answer without a length: %q, %v", b, err)
	}
	atRest(t, s.GeneralPool())
}

func ranged(at, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", at)
		w.WriteHeader(http.StatusPartialContent)
		if _, err := io.WriteString(w, body); err != nil {
			return
		}
	}
}

func TestPartsOfADeletionFail(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(says(200, `<?xml version="1.0" encoding="UTF-8"?><DeleteResult>
		<Error><Key>p/b</Key><Code>AccessDenied</Code><Message>no</Message></Error>
		<Error><Key>p/c</Key><Code>InternalError</Code><Message>later</Message></Error>
		<Error><Key>p/d</Key><Code>NoSuchKey</Code><Message>gone</Message></Error></DeleteResult>`))
	failed, err := s.General().Delete(t.Context(), []string{"p/a", "p/b", "p/c", "p/d", "../x"})
	must(t, err)
	got := map[string]port.Class{}
	for _, f := range failed {
		got[f.Key] = port.ClassOf(f.Err)
	}
	if len(got) != 3 || got["p/b"] != port.Denied || got["p/c"] != port.Unavailable || got["../x"] != port.Denied {
		t.Errorf("got %v", got)
	}
	r := server.requests()[0]
	if r.Header.Get("Content-Md5") == "" || r.Header.Get("X-Amz-Checksum-Crc32") == "" {
		t.Errorf("the request has no checksum: %v", r.Header)
	}
}

func TestPagesThatAreShort(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		body := `<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>`
		if q.Get("continuation-token") == "more" {
			body = `<IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>
				<Contents><Key>p/a%2Bb+c%25</Key><Size>3</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>
				<Contents><Key>p/folder/</Key><Size>0</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>`
		}
		says(200, `<ListBucketResult>`+body+`</ListBucketResult>`)(w, r)
	})
	page, more, err := s.General().List(t.Context(), "p /", "p /0", 10)
	if err != nil || more || len(page) != 1 || page[0].Key != "p/a+b c%" || page[0].Size != 3 || page[0].Modified.String() == "" {
		t.Errorf("got %v, %v, %v", page, more, err)
	}
	if got := server.requests(); len(got) != 2 || !strings.Contains(got[0].URL.RawQuery, "prefix=p%20%2F") || !strings.Contains(got[0].URL.RawQuery, "start-after=p%20%2F0") {
		t.Errorf("asked %v", got[0].URL)
	}
	server.set(says(200, `<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`))
	if _, _, err := s.General().List(t.Context(), "", "", 10); err == nil {
		t.Error("a page without its successor's place is taken for the last")
	}
}

func TestWhatARequestCarries(t *testing.T) {
	server := scripted(t)
	server.set(takes)
	s := against(t, server, func(c *Config) {
		c.Encryption, c.KMSKeyID, c.ExpectedOwner, c.StorageClass, c.Region = "aws:kms", "arn:aws:kms:x", "123456789012", "STANDARD_IA", "eu-central-1"
	})
	must(t, s.Uploads().Put(t.Context(), "p/a", port.NewBody(strings.NewReader("hello"), sum([]byte("hello"))), 5, true))
	h := server.requests()[0].Header
	for name, want := range map[string]string{
		"X-Amz-Server-Side-Encryption":                "aws:kms",
		"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "arn:aws:kms:x",
		"X-Amz-Expected-Bucket-Owner":                 "123456789012",
		"X-Amz-Storage-Class":                         "STANDARD_IA",
		"X-Amz-Checksum-Crc32c":                       "mnG7TA==",
		"X-Amz-Content-Sha256":                        "UNSIGNED-PAYLOAD",
		"X-Amz-Security-Token":                        "token-hunter2",
		"If-None-Match":                               "*",
		"X-Amz-Trailer":                               "",
		"Content-Encoding":                            "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	auth := h.Get("Authorization")
	for _, part := range []string{"Credential=AK/", "/eu-central-1/s3/aws4_request", "x-amz-checksum-crc32c", "x-amz-security-token"} {
		if !strings.Contains(auth, part) {
			t.Errorf("%q is not in %s", part, auth)
		}
	}
	must(t, put(t.Context(), s.Uploads(), "p/a", nil))
	if r := server.requests()[1]; r.ContentLength != 0 || r.Header.Get("If-None-Match") != "" || r.Header.Get("X-Amz-Checksum-Crc32c") != "AAAAAA==" {
		t.Errorf("an empty one: %d bytes, %v", r.ContentLength, r.Header)
	}
	server.set(says(404, errorXML("NoSuchKey")))
	do(t.Context(), s.General())
	for _, r := range server.requests() {
		if r.Header.Get("X-Amz-Expected-Bucket-Owner") != "123456789012" {
			t.Errorf("%s %s does not name the owner", r.Method, r.URL)
		}
	}
}

func TestWhereTheBucketStands(t *testing.T) {
	server := scripted(t)
	server.set(takes)
	host := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		style      bool
		path, host string
	}{{true, "/acme/p/a", strings.TrimPrefix(host, "http://")}, {false, "/p/a", "acme." + strings.TrimPrefix(host, "http://")}} {
		s := against(t, server, func(cfg *Config) { cfg.PathStyle, cfg.Endpoint = c.style, host })
		server.set(takes)
		s.general.pool.transport.DialContext = dialTo(server.Listener.Addr().String())
		must(t, put(t.Context(), s.General(), "p/a", []byte("x")))
		if r := server.requests()[0]; r.URL.Path != c.path || r.Host != c.host {
			t.Errorf("path style %v: %s at %s", c.style, r.URL.Path, r.Host)
		}
	}
}

func dialTo(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// A probe tells a store that would take a write from one that would not, and takes back
// what a store without checksums stored.
func TestWhatAProbeAsks(t *testing.T) {
	server := scripted(t)
	s := against(t, server, func(c *Config) { c.Prefix = "some/prefix" })
	for _, c := range []struct {
		what string
		put  http.HandlerFunc
		want port.Class
		ok   bool
		puts int // and deletions
	}{
		{"checks", says(400, errorXML("BadDigest")), 0, true, 2},
		{"denies", says(403, errorXML("AccessDenied")), port.Denied, false, 3},
		{"is full", says(507, errorXML("InsufficientStorage")), port.Full, false, 2},
		{"is busy", says(503, errorXML("SlowDown")), port.Throttled, false, 2},
		{"knows no checksums", says(200, ""), 0, true, 4},
	} {
		server.set(onPut(c.put))
		err := s.General().Probe(t.Context())
		if (err == nil) != c.ok || !c.ok && port.ClassOf(err) != c.want {
			t.Errorf("one that %s: %v, want class %q", c.what, err, c.want)
		}
		asked := server.requests()
		if asked[0].Method != http.MethodHead || !strings.HasPrefix(asked[1].URL.Path, "/acme/some/prefix/probe.") || len(asked) != 1+c.puts {
			t.Errorf("one that %s was asked %d times, at %s", c.what, len(asked), asked[1].URL)
		}
		if last := asked[len(asked)-1]; (last.Method == http.MethodPost) != (c.what == "knows no checksums") {
			t.Errorf("one that %s was asked %s %s last", c.what, last.Method, last.URL)
		}
	}
}

// onPut answers puts, and everything else well.
func onPut(put http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut:
			put(w, r)
		case http.MethodPost:
			says(200, "<DeleteResult></DeleteResult>")(w, r)
		default:
			w.WriteHeader(http.StatusOK)
		}
	}
}

func TestNothingIsAskedTwice(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	for _, answer := range []http.HandlerFunc{says(503, errorXML("SlowDown")), says(500, errorXML("InternalError")), says(400, errorXML("ExpiredToken")), says(403, errorXML("RequestTimeTooSkewed"))} {
		server.set(answer)
		if err := put(context.Background(), s.General(), "p/a", []byte("x")); err == nil {
			t.Error("no error")
		}
		if n := len(server.requests()); n != 1 {
			t.Errorf("asked %d times", n)
		}
	}
}
