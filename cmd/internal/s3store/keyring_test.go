package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
)

// alone takes away every source of credentials that this machine may have.
func alone(t *testing.T) (folder string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			must(t, os.Unsetenv(name))
		}
	}
	folder = t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(folder, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(folder, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return folder
}

// ringOf is the keyring of a store without keys of its own.
func ringOf(t *testing.T, change func(*Config)) *keyring {
	t.Helper()
	cfg := configOf("acme")
	cfg.AccessKeyID, cfg.SecretKey, cfg.AllowStatic = "", "", false
	if change != nil {
		change(&cfg)
	}
	return open(t, cfg).ring
}

func wantKeys(t *testing.T, k port.Keyring, source, id string, expires bool) port.Credentials {
	t.Helper()
	c, err := k.Fetch(t.Context())
	if err != nil || c.Source != source || c.AccessKeyID != id || (c.Expires != 0) != expires || c.SecretKey == "" {
		t.Fatalf("got %+v, %v; want %s from %s", c, err, id, source)
	}
	// The sources of these tests give an hour. The SDK takes five minutes off, if it is let.
	if left := time.Until(c.Expires.Time()); expires && left < 58*time.Minute {
		t.Errorf("%s: %v are left of its hour", source, left)
	}
	return c
}

func wantNoKeys(t *testing.T, k port.Keyring, class port.Class, says string) {
	t.Helper()
	c, err := k.Fetch(t.Context())
	if _, ok := errors.AsType[*port.CredentialsError](err); !ok || port.ClassOf(err) != class || !strings.Contains(err.Error(), says) {
		t.Errorf("got %+v, %v; want class %q saying %q", c, err, class, says)
	}
	if strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("a secret is in %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestStaticKeysHaveToBeAllowed(t *testing.T) {
	alone(t)
	for _, allowed := range []bool{true, false} {
		k := ringOf(t, func(c *Config) { c.AccessKeyID, c.SecretKey, c.AllowStatic = "STATIC", "hunter2", allowed })
		t.Setenv("AWS_ACCESS_KEY_ID", "ENV")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
		if allowed {
			wantKeys(t, k, sourceStatic, "STATIC", false)
		} else {
			wantNoKeys(t, k, port.Denied, "allow_static_credentials = true")
		}
	}
}

func TestTheOrderOfTheSources(t *testing.T) {
	folder := alone(t)
	k := ringOf(t, nil)
	wantNoKeys(t, k, port.NotFound, "neither the environment nor profile default nor a container nor the instance")

	meta := instance(t, "INSTANCE")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", meta.URL)
	wantKeys(t, k, sourceInstance, "INSTANCE", true)

	container := container(t, "CONTAINER")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.URL+"/creds")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hunter2-token")
	wantKeys(t, k, sourceContainer, "CONTAINER", true)

	write(t, filepath.Join(folder, "credentials"), "[default]\naws_access_key_id=PROFILE\naws_secret_access_key=hunter2\naws_session_token=hunter2t\n[other]\naws_access_key_id=OTHER\naws_secret_access_key=hunter2\n")
	if c := wantKeys(t, k, "profile default", "PROFILE", false); c.SessionToken.Reveal() != "hunter2t" {
		t.Errorf("session token %q", c.SessionToken.Reveal())
	}
	t.Setenv("AWS_PROFILE", "other")
	wantKeys(t, k, "profile other", "OTHER", false)

	t.Setenv("AWS_ACCESS_KEY_ID", "ENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("AWS_SESSION_TOKEN", "hunter2t")
	c := wantKeys(t, k, sourceEnvironment, "ENV", false)
	if out := fmt.Sprintf("%+v %v %#v", c, c, c); strings.Contains(out, "hunter2") {
		t.Errorf("credentials print their secrets: %s", out)
	}
	wantKeys(t, ringOf(t, func(c *Config) { c.Profile = "other" }), "profile other", "OTHER", false)
	wantNoKeys(t, ringOf(t, func(c *Config) { c.Profile = "none" }), port.NotFound, "none")
}

// A profile is read anew each time: something outside rotates it.
func TestAProfileThatIsRotated(t *testing.T) {
	folder := alone(t)
	k := ringOf(t, func(c *Config) { c.Profile = "p" })
	for _, id := range []string{"FIRST", "SECOND"} {
		write(t, filepath.Join(folder, "credentials"), "[p]\naws_access_key_id="+id+"\naws_secret_access_key=x\n")
		wantKeys(t, k, "profile p", id, false)
	}
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	write(t, filepath.Join(folder, "credentials"), "")
	write(t, filepath.Join(folder, "config"), `[profile p]
credential_process = printf '{"Version":1,"AccessKeyId":"PROCESS","SecretAccessKey":"x","Expiration":"`+expires+`"}'
`)
	wantKeys(t, k, "profile p", "PROCESS", true)
	write(t, filepath.Join(folder, "config"), "[profile p]\ncredential_process = false\n")
	wantNoKeys(t, k, port.Unavailable, "process")
	write(t, filepath.Join(folder, "config"), "[broken\n")
	wantNoKeys(t, k, port.NotFound, "p")
}

// instance is an instance's metadata service, version 2.
func instance(t *testing.T, id string) *script {
	t.Helper()
	s := scripted(t)
	s.set(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut:
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			says(200, "token")(w, r)
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			says(200, "role-of-the-node")(w, r)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/role-of-the-node"):
			says(200, fmt.Sprintf(`{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":%q,"SecretAccessKey":"hunter2","Token":"hunter2t","Expiration":%q}`,
				id, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	return s
}

// container is a container's credentials endpoint.
func container(t *testing.T, id string) *script {
	t.Helper()
	s := scripted(t)
	s.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "hunter2-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		says(200, fmt.Sprintf(`{"AccessKeyId":%q,"SecretAccessKey":"hunter2","Token":"hunter2t","Expiration":%q}`,
			id, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))(w, r)
	})
	return s
}

func TestSourcesThatFail(t *testing.T) {
	alone(t)
	k := ringOf(t, nil)
	server := scripted(t)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.URL)
	for _, c := range []struct {
		status int
		want   port.Class
	}{{403, port.Denied}, {401, port.Denied}, {500, port.Unavailable}, {429, port.Unavailable}, {404, port.NotFound}} {
		server.set(says(c.status, `{"code":"x","message":"y"}`))
		wantNoKeys(t, k, c.want, fmt.Sprint("status ", c.status))
		if n := len(server.requests()); n != 1 {
			t.Errorf("asked %d times", n)
		}
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/x")
	wantNoKeys(t, k, port.Unavailable, "container")

	must(t, os.Unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
	server.set(says(404, ""))
	wantNoKeys(t, k, port.NotFound, "neither")
	server.set(says(503, ""))
	wantNoKeys(t, k, port.Unavailable, "")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
	wantNoKeys(t, k, port.Unavailable, "")

	hang := make(chan struct{})
	server.set(func(http.ResponseWriter, *http.Request) { <-hang })
	defer close(hang)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.Fetch(ctx); port.ClassOf(err) != port.Timeout {
		t.Errorf("one that does not answer: %v", err)
	}
}

func rejected(k port.Keyring) bool {
	select {
	case <-k.Rejected():
		return true
	default:
		return false
	}
}

// A profile that somebody is writing, or wrote in part, is not the same as none.
func TestAProfileThatIsHalfWritten(t *testing.T) {
	folder := alone(t)
	k := ringOf(t, nil)
	for _, text := range []string{"[default]\naws_access_key_id=AKIA\n", "[default]\naws_access_key_id=AKIA\naws_secret_acc", "[default]\naws_secret_access_key=hunter2"} {
		write(t, filepath.Join(folder, "credentials"), text)
		wantNoKeys(t, k, port.Unclassified, "profile default: its files can't be used as they are")
	}
	write(t, filepath.Join(folder, "credentials"), "[default]\naws_access_key_id=AKIA\naws_secret_access_key=hunter2\n")
	wantKeys(t, k, "profile default", "AKIA", false)
}

func TestWithoutCredentialsNothingIsSent(t *testing.T) {
	server := scripted(t)
	synctest.Test(t, func(t *testing.T) { // in which a request that is sent would never end
		s := against(t, server, nil)
		s.Keyring().Drop("the process that owns them ended")
		began := time.Now()
		told := do(t.Context(), s.General())
		for op, err := range told {
			if port.ClassOf(err) != port.Unavailable || !strings.HasSuffix(err.Error(), "no credentials to sign with: the process that owns them ended") {
				t.Errorf("%s: %v", op, err)
			}
		}
		if took := time.Since(began); took != time.Duration(len(told))*fetchWait {
			t.Errorf("they waited %v for credentials", took)
		}
		unused, err := Open(s.ring.cfg)
		must(t, err)
		unused.GeneralPool().Open()
		if _, err := unused.General().Get(t.Context(), "p/a"); port.ClassOf(err) != port.Unavailable || !strings.Contains(err.Error(), "none were fetched yet") {
			t.Errorf("before the first: %v", err)
		}
		if rejected(s.Keyring()) {
			t.Error("what nobody asked the store for is told as refused")
		}
	})
	if n := len(server.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	s := against(t, server, nil)
	s.Keyring().Drop("the process that owns them ended")
	server.set(takes)
	s.Keyring().Use(port.Credentials{Source: "profile p", AccessKeyID: "NEW", SecretKey: "x", Expires: pos.MillisOf(time.Now())})
	must(t, put(t.Context(), s.General(), "p/a", []byte("x")))
	if got := server.requests()[0].Header.Get("Authorization"); !strings.Contains(got, "Credential=NEW/") {
		t.Errorf("signed %s", got)
	}
}

func TestRefusedCredentialsAreTold(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(says(400, errorXML("ExpiredToken")))
	for source, want := range map[string]port.Class{sourceInstance: port.Unavailable, sourceContainer: port.Unavailable,
		"profile p": port.Unavailable, sourceEnvironment: port.Denied, sourceStatic: port.Denied} {
		s.Keyring().Use(port.Credentials{Source: source, AccessKeyID: "OLD", SecretKey: "x"})
		for range 3 {
			if err := put(t.Context(), s.General(), "p/a", []byte("x")); port.ClassOf(err) != want || !strings.Contains(err.Error(), "ExpiredToken") {
				t.Errorf("from %s: %v", source, err)
			}
		}
		if !rejected(s.Keyring()) || rejected(s.Keyring()) {
			t.Errorf("from %s: not told exactly once", source)
		}
	}
	server.set(says(403, errorXML("AccessDenied")))
	if err := put(t.Context(), s.General(), "p/a", []byte("x")); err == nil || rejected(s.Keyring()) {
		t.Errorf("a permission that is missing says nothing of the credentials: %v", err)
	}
}

// A refusal of credentials that are not in use any more says nothing.
func TestALateRefusalIsNotTold(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	came, answer := make(chan struct{}), make(chan struct{})
	server.set(func(w http.ResponseWriter, r *http.Request) {
		close(came)
		<-answer
		says(400, errorXML("ExpiredToken"))(w, r)
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := put(t.Context(), s.General(), "p/a", []byte("x")); port.ClassOf(err) != port.Unavailable {
			t.Error(err)
		}
	})
	<-came
	s.Keyring().Use(port.Credentials{Source: sourceInstance, AccessKeyID: "NEW", SecretKey: "x"})
	close(answer)
	wg.Wait()
	if rejected(s.Keyring()) {
		t.Error("the new credentials were taken for refused")
	}
}

// Under load, credentials change again and again: every request is signed by one of them.
func TestARefreshUnderLoadLosesNothing(t *testing.T) {
	s := open(t, configOf(bucket(t)))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-done:
					return
				default:
				}
				if err := put(t.Context(), s.Uploads(), fmt.Sprint("p/", i, "/", round), []byte("x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		c, err := s.Keyring().Fetch(t.Context())
		must(t, err)
		s.Keyring().Use(c)
		if _, err := s.General().Get(t.Context(), "p/none"); !port.IsNotFound(err) {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
	if rejected(s.Keyring()) {
		t.Error("refused")
	}
}

// A node that starts uploads at once, while its credentials are being fetched.
func TestWhoSignsWaitsForCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring, began := newKeyring(Config{}), time.Now()
		ring.Drop("not fetched")
		time.AfterFunc(fetchWait/2, func() { ring.Use(port.Credentials{AccessKeyID: "a"}) })
		got, err := ring.Retrieve(t.Context())
		if err != nil || got.AccessKeyID != "a" || time.Since(began) != fetchWait/2 {
			t.Errorf("got %q, %v after %s", got.AccessKeyID, err, time.Since(began))
		}
		ring.Drop("gone")
		began = time.Now()
		if _, err := ring.Retrieve(t.Context()); !strings.Contains(fmt.Sprint(err), "gone") || time.Since(began) != fetchWait {
			t.Errorf("nobody fetches: %v after %s", err, time.Since(began))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		if _, err := ring.Retrieve(ended); err == nil || time.Since(began) != 0 {
			t.Errorf("nobody waits: %v after %s", err, time.Since(began))
		}
	})
}
