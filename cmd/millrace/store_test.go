package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/settings"
	"millrace/test/fake/fakemeta"
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

	claim := func(meta *fakemeta.Meta, cluster pos.UID) error {
		return store.claim(port.Claimant{Prefix: "some/prefix", Cluster: cluster, Settings: meta}, log)
	}
	ours, theirs := fakemeta.New(), fakemeta.New()
	if err := claim(ours, 1); err != nil || said.Len() != 0 {
		t.Errorf("the first: %v, said %s", err, &said)
	}
	err = claim(theirs, 2)
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
		if err := claim(theirs, 2); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
		if out := said.String(); !strings.Contains(out, "starts without it") || strings.Contains(out, s3server.SecretKey) {
			t.Errorf("said %s", out)
		}
		said.Reset()
	}
	if err := proxy.Set(faultproxy.Faults{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(server.Bucket("acme"), "some")); err != nil {
		t.Fatal(err)
	}
	if err := claim(ours, 1); err != nil || !strings.Contains(said.String(), "until its marker is back") {
		t.Errorf("a bucket that lost everything: %v, said %s", err, &said)
	}
	said.Reset()
	if err := os.Rename(server.Bucket("acme"), server.Bucket("acme")+".away"); err != nil {
		t.Fatal(err)
	}
	if err := claim(ours, 1); err != nil || !strings.Contains(said.String(), "starts without it") {
		t.Errorf("without a bucket: %v, said %s", err, &said)
	}
}

// A folder that is another one than before, an empty mount point for example, is not made
// ours in silence, and hinders no start; neither does a damaged marker.
func TestTheStartClaimsAFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	marker := filepath.Join(path, "p", "cluster")
	meta := fakemeta.New()
	claim := func(meta *fakemeta.Meta, cluster pos.UID) (string, error) {
		t.Helper()
		store, err := openStore(settings.Store{Kind: settings.StoreDirectory, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		err = store.claim(port.Claimant{Prefix: "p", Cluster: cluster, Settings: meta}, zerolog.New(&said))
		if err := store.close(); err != nil {
			t.Fatal(err)
		}
		return said.String(), err
	}
	for range 2 {
		if said, err := claim(meta, 1); err != nil || said != "" {
			t.Fatalf("%v, said %s", err, said)
		}
	}
	if _, err := claim(fakemeta.New(), 2); err == nil {
		t.Error("two clusters own the folder")
	}
	whole, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(marker, whole[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := claim(meta, 1); err != nil || !strings.Contains(said, "can't be read") || !strings.Contains(said, "millrace tiering claim") {
		t.Errorf("damaged: %v, said %s", err, said)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if said, err := claim(meta, 1); err != nil || !strings.Contains(said, "is gone") || !strings.Contains(said, "until its marker is back") {
		t.Errorf("gone: %v, said %s", err, said)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the marker was put again")
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
