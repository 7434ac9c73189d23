package s3store

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"millrace/actors/port"
	"millrace/core/settings"
	"millrace/test/porttest/storetest"
	"millrace/test/s3server"
)

// real is the server that the tests of this package share; each has buckets of its own.
var real *s3server.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if real, err = s3server.Start(""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := real.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

var buckets atomic.Int32

// bucket makes a bucket of the real server.
func bucket(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", buckets.Add(1))
	must(t, real.MakeBucket(name))
	return name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// configOf is how to reach a bucket of the real server.
func configOf(bucket string) Config {
	return Config{Bucket: bucket, Region: s3server.Region, Endpoint: real.URL(), PathStyle: true,
		AccessKeyID: s3server.AccessKeyID, SecretKey: s3server.SecretKey, AllowStatic: true,
		UploadConnections: 20, GeneralConnections: 200}
}

// open opens a store with pools open and keys in use.
func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	s.UploadPool().Open()
	s.GeneralPool().Open()
	s.Keyring().Use(port.Credentials{Source: sourceStatic, AccessKeyID: cfg.AccessKeyID, SecretKey: settings.Secret(cfg.SecretKey)})
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) port.ObjectStore { return open(t, configOf(bucket(t))).General() })
}

func TestContractOfUploads(t *testing.T) {
	storetest.Run(t, func(t *testing.T) port.ObjectStore { return open(t, configOf(bucket(t))).Uploads() })
}
