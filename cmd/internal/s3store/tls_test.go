package s3store

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/answertime"
)

// Over TLS a body whose checksum is known is sent as it is, too, without a trailer behind it.
func TestOverTLS(t *testing.T) {
	var sent []byte
	var asked *http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent, asked = b, r
		takes(w, r)
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
	must(t, s.Uploads().Put(t.Context(), "p/a", port.NewBody(body, sum(b)), int64(len(b)), false))
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

// Over TLS an answer is bounded as any other, and not only what moves no byte.
func TestAnAnswerOverTLSIsBounded(t *testing.T) {
	asked, held := make(chan struct{}), make(chan struct{})
	answer := sync.OnceFunc(func() { close(held) })
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-held
	}))
	defer server.Close()
	defer answer()
	cfg := configOf("acme")
	cfg.Endpoint = server.URL
	s := open(t, cfg)
	p := s.general.pool
	p.transport.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	got := make(chan error, 1)
	go func() {
		_, err := s.General().Get(t.Context(), "p/a")
		got <- err
	}()
	<-asked
	sent := time.Now()
	eventually(t, "it ends in time", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			return !time.Unix(0, c.until.Load()).After(sent.Add(answertime.Least))
		}
		return false
	})
	answer()
	must(t, <-got)
}

// AWS_CA_BUNDLE names whom to trust, for the store and for the sources of credentials.
func TestTheBundleOfTheEnvironment(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(takes))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("AWS_CA_BUNDLE", file)
	t.Setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cfg := configOf("acme")
	cfg.Endpoint = server.URL
	cfg.AccessKeyID, cfg.AllowStatic = "", false
	s := open(t, cfg)
	got, err := s.Keyring().Fetch(t.Context())
	if err != nil || got.AccessKeyID != "of-the-environment" {
		t.Fatalf("%+v, %v", got, err)
	}
	s.Keyring().Use(got)
	must(t, put(t.Context(), s.Uploads(), "p/a", []byte("x")))

	for name, content := range map[string]string{"no certificate": "nothing", "no file": ""} {
		if content == "" {
			must(t, os.Remove(file))
		} else {
			must(t, os.WriteFile(file, []byte(content), 0o600))
		}
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "AWS_CA_BUNDLE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
