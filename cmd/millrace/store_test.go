package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/port"
	"millrace/core/settings"
	"millrace/test/faultproxy"
	"millrace/test/s3server"
)

func s3Settings(t *testing.T, endpoint string) settings.Store {
	t.Helper()
	s, err := settings.Parse(settings.Raw{Sections: map[string]map[string]any{"store": {
		"kind": "s3", "bucket": "acme", "endpoint": endpoint, "path_style": true, "prefix": "some/prefix",
		"access_key_id": s3server.AccessKeyID, "secret_key_env": "X", "allow_static_credentials": true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.FillSecretKey(s3server.SecretKey); err != nil {
		t.Fatal(err)
	}
	return s.Store
}

// The start claims what nobody owns, refuses what somebody else does, and does not wait
// for a store that is not there.
func TestTheStartClaimsABucket(t *testing.T) {
	server, err := s3server.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Remove(); err != nil {
			t.Error(err)
		}
	})
	proxy, err := faultproxy.Start(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	if err := server.MakeBucket("acme"); err != nil {
		t.Fatal(err)
	}
	store, err := openStore(s3Settings(t, proxy.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.close(); err != nil {
			t.Error(err)
		}
	})
	var said bytes.Buffer
	log := zerolog.New(&said)

	if err := store.claim("some/prefix", 1, log); err != nil || said.Len() != 0 {
		t.Errorf("the first: %v, said %s", err, &said)
	}
	err = store.claim("some/prefix", 2, log)
	if foreign, ok := errors.AsType[*port.ForeignPrefixError](err); !ok || foreign.Owner != 1 {
		t.Errorf("another cluster: %v", err)
	}
	if got := store.remote.GeneralPool.Stats(); got.InUse != 0 || got.Open != 0 {
		t.Errorf("after the claim: %+v", got)
	}
	for name, o := range map[string]port.ObjectStore{"general": store.general, "uploads": store.uploads} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := o.Get(ctx, "some/prefix/cluster"); port.ClassOf(err) != port.Unavailable {
			t.Errorf("%s is of use before its owner runs: %v", name, err)
		}
		cancel()
	}
	for _, f := range []faultproxy.Faults{{Refuse: true}, {Reset: true}} {
		if err := proxy.Set(f); err != nil {
			t.Fatal(err)
		}
		if err := store.claim("some/prefix", 2, log); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
		if out := said.String(); !strings.Contains(out, "starts without it") || strings.Contains(out, s3server.SecretKey) {
			t.Errorf("said %s", out)
		}
		said.Reset()
	}
}

func TestWhereTheStoreIs(t *testing.T) {
	cfg := s3Settings(t, "http://127.0.0.1:1")
	if got := where(cfg); got != "s3://acme/some/prefix at http://127.0.0.1:1" {
		t.Errorf("got %s", got)
	}
	if got := where(settings.Default().Store); got != "millrace-data/store" {
		t.Errorf("got %s", got)
	}
}
