package s3store

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/actors/port"
)

// Over TLS a body is sent as it is, too: read once, without a trailer behind it.
func TestOverTLS(t *testing.T) {
	var sent []byte
	var asked *http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent, asked = b, r
	}))
	defer server.Close()
	cfg := configOf("acme")
	cfg.Endpoint = server.URL
	s := open(t, cfg)
	b := bytes.Repeat([]byte("x"), 3<<20)

	err := put(t.Context(), s.Uploads(), "p/a", b)
	if port.ClassOf(err) != port.Denied || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("a certificate of nobody we trust: %v", err)
	}
	atRest(t, s.UploadPool())
	eventually(t, "the connection is gone", func() bool { return s.UploadPool().Stats().Open == 0 })

	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	s.uploads.pool.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	body := &counted{ReadSeeker: bytes.NewReader(b)}
	must(t, s.Uploads().Put(t.Context(), "p/a", body, int64(len(b)), sum(b), false))
	if n := body.read.Load(); n != int64(len(b)) || !bytes.Equal(sent, b) {
		t.Errorf("%d bytes were read, %d arrived, of %d", n, len(sent), len(b))
	}
	h := asked.Header
	if asked.ProtoMajor != 1 || h.Get("X-Amz-Content-Sha256") != "UNSIGNED-PAYLOAD" || h.Get("X-Amz-Trailer") != "" || h.Get("Content-Encoding") != "" {
		t.Errorf("%s with %v", asked.Proto, h)
	}
	if got := s.UploadPool().Stats(); got.Open != 1 || got.InUse != 0 {
		t.Errorf("the pool: %+v", got)
	}
}
