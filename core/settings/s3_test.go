package settings

import (
	"strings"
	"testing"
)

// parseS3 parses a [store] of kind s3 with these keys besides bucket and region.
func parseS3(keys map[string]any) (Settings, error) {
	all := map[string]any{"kind": StoreS3, "bucket": "acme", "region": "eu-central-1"}
	for k, v := range keys {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	return Parse(Raw{Sections: map[string]map[string]any{"store": all}})
}

func TestABucketIsEnough(t *testing.T) {
	s, err := parseS3(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := S3{Bucket: "acme", Region: "eu-central-1", UploadConnections: 20, GeneralConnections: 200}
	if s.Store.S3 != want || s.Store.Kind != StoreS3 || len(s.Warnings) != 0 {
		t.Errorf("got %+v, warnings %q", s.Store, s.Warnings)
	}
}

func TestKeysOfTheStoreFitTogether(t *testing.T) {
	for _, c := range []struct {
		keys       map[string]any
		key, fault string
	}{
		{map[string]any{"bucket": nil}, "store.bucket", "required"},
		{map[string]any{"region": nil}, "store.region", "required"},
		{map[string]any{"region": nil, "endpoint": "http://127.0.0.1:7070"}, "", ""},
		{map[string]any{"path": "/mnt/x"}, "store.path", `only store.kind = "directory" has this key, and the kind is "s3"`},
		{map[string]any{"kind": nil}, "store.bucket", `only store.kind = "s3" has this key, and the kind is "directory"`},
		{map[string]any{"kind": StoreDirectory, "bucket": nil}, "store.region", "take it out"},
		{map[string]any{"access_key_id": "AK", "secret_key_env": "X"}, "store.access_key_id", "allow_static_credentials = true"},
		{map[string]any{"access_key_id": "AK", "allow_static_credentials": true}, "store.access_key_id", "its secret is missing"},
		{map[string]any{"access_key_id": "AK", "allow_static_credentials": true, "secret_key_env": "X", "secret_key_file": "y"}, "store.secret_key_env", "both set"},
		{map[string]any{"secret_key_env": "X"}, "store.secret_key_env", "no use without access_key_id"},
		{map[string]any{"secret_key_file": "X"}, "store.secret_key_file", "no use without access_key_id"},
		{map[string]any{"access_key_id": "AK", "allow_static_credentials": true, "secret_key_env": "X", "profile": "p"}, "store.profile", "both set"},
		{map[string]any{"access_key_id": "AK", "allow_static_credentials": true, "secret_key_env": "X"}, "", ""},
		{map[string]any{"kms_key_id": "k"}, "store.kms_key_id", "aws:kms"},
		{map[string]any{"kms_key_id": "k", "server_side_encryption": EncryptS3}, "store.kms_key_id", "aws:kms"},
		{map[string]any{"kms_key_id": "k", "server_side_encryption": EncryptKMS}, "", ""},
		{map[string]any{"server_side_encryption": ""}, "", ""},
		{map[string]any{"server_side_encryption": "kms"}, "store.server_side_encryption", `"AES256", "aws:kms"`},
		{map[string]any{"bucket": "Acme"}, "store.bucket", "byte 0"},
		{map[string]any{"bucket": "acme-"}, "store.bucket", "begins and ends"},
		{map[string]any{"bucket": "ac"}, "store.bucket", "3 to 63"},
		{map[string]any{"endpoint": "s3.example.com"}, "store.endpoint", "https://host"},
		{map[string]any{"endpoint": "https://user:hunter2@h"}, "store.endpoint", "https://host"},
		{map[string]any{"endpoint": "https://h/path"}, "store.endpoint", "nothing behind it"},
		{map[string]any{"endpoint": "https://"}, "store.endpoint", "https://host"},
		{map[string]any{"endpoint": "https://[::1"}, "store.endpoint", "https://host"},
		{map[string]any{"endpoint": "https://h:1:2"}, "store.endpoint", "https://host"},
		{map[string]any{"endpoint": "https://[::1]:9000"}, "", ""},
		{map[string]any{"endpoint": "https://s3.example.com:9000/"}, "", ""},
		{map[string]any{"expected_bucket_owner": "12345678901"}, "store.expected_bucket_owner", "12 bytes"},
		{map[string]any{"expected_bucket_owner": "12345678901x"}, "store.expected_bucket_owner", "12 digits"},
		{map[string]any{"storage_class": "DEEP_ARCHIVE"}, "store.storage_class", "restored"},
		{map[string]any{"storage_class": "standard"}, "store.storage_class", "A-Z"},
		{map[string]any{"storage_class": "STANDARD_IA"}, "", ""},
		{map[string]any{"upload_connections": int64(0)}, "store.upload_connections", "1 to 1000"},
		{map[string]any{"probe_interval": "1s"}, "store.probe_interval", "10s to 1d"},
	} {
		_, err := parseS3(c.keys)
		if c.fault == "" && err != nil {
			t.Errorf("%v: %v", c.keys, err)
		}
		if c.fault != "" {
			wantFault(t, err, c.key, c.fault)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats a secret: %v", err)
		}
	}
}

func TestWhatWorksBadlyIsWarnedAbout(t *testing.T) {
	for _, c := range []struct {
		keys   map[string]any
		warned string
	}{
		{map[string]any{"endpoint": "http://10.0.0.1:9000"}, "in clear"},
		{map[string]any{"endpoint": "http://127.0.0.1:9000"}, ""},
		{map[string]any{"endpoint": "http://localhost"}, ""},
		{map[string]any{"endpoint": "http://[::1]:9000"}, ""},
		{map[string]any{"bucket": "acme.com"}, "path_style"},
		{map[string]any{"bucket": "acme.com", "path_style": true}, ""},
	} {
		s, err := parseS3(c.keys)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Warnings, "; "); c.warned == "" && got != "" || !strings.Contains(got, c.warned) {
			t.Errorf("%v: warned %q, want %q", c.keys, got, c.warned)
		}
	}
}
