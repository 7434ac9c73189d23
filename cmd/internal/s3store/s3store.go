package s3store

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millrace/actors/port"
	"millrace/core/settings"
)

// Config says where the bucket is and how to use it.
type Config struct {
	Bucket    string
	Prefix    string // the part of the bucket that the node may write to; "" = all of it
	Region    string // "" = us-east-1, which servers other than AWS take for any
	Endpoint  string // URL; "" = AWS's own for the region
	PathStyle bool   // the bucket is in the path, not in the host's name

	Encryption    string // "" = the bucket's default, "AES256" or "aws:kms"
	KMSKeyID      string // with "aws:kms" only; "" = the account's default key
	ExpectedOwner string // account id; "" = not checked
	StorageClass  string // "" = the bucket's default

	AccessKeyID string // with SecretKey, and only if AllowStatic
	SecretKey   settings.Secret
	AllowStatic bool
	Profile     string // of the shared files; "" = the SDK's choice

	UploadConnections  int // 1 or more
	GeneralConnections int // 1 or more
}

// Store is one bucket.
type Store struct {
	uploads *client
	general *client
	ring    *keyring
}

// Open makes a store. It does not talk to anybody: both pools are closed, and there are no
// credentials yet.
func Open(cfg Config) (*Store, error) {
	if cfg.Bucket == "" || cfg.UploadConnections < 1 || cfg.GeneralConnections < 1 {
		return nil, fmt.Errorf("S3 store: bucket %q with %d and %d connections: want a name, and one connection or more of each",
			cfg.Bucket, cfg.UploadConnections, cfg.GeneralConnections)
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Endpoint != "" {
		if u, err := url.Parse(cfg.Endpoint); err != nil || u.Host == "" {
			return nil, fmt.Errorf("S3 store: endpoint %q: want a URL, http:// or https:// and a host", cfg.Endpoint)
		}
	}
	roots, err := trusted()
	if err != nil {
		return nil, err
	}
	ring := newKeyring(cfg)
	shared := new(patience)
	uploads, general := newPool(cfg.UploadConnections, roots, shared), newPool(cfg.GeneralConnections, roots, shared)
	// Manifests are put and objects deleted through it too: a store that is slow to take
	// these must not keep readers waiting.
	general.writes = make(chan struct{}, max(1, cfg.GeneralConnections/2))
	forms, probe := new(forms), newProbed(cfg.Prefix)
	return &Store{ring: ring,
		uploads: &client{cfg: cfg, pool: uploads, ring: ring, forms: forms, probe: probe, api: newAPI(cfg, ring, uploads)},
		general: &client{cfg: cfg, pool: general, ring: ring, forms: forms, probe: probe, api: newAPI(cfg, ring, general)},
	}, nil
}

// trusted are the certificate authorities of AWS_CA_BUNDLE, which every program that talks
// to AWS goes by; nil: the system's.
func trusted() (*x509.CertPool, error) {
	file := os.Getenv("AWS_CA_BUNDLE")
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("S3 store: AWS_CA_BUNDLE: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("S3 store: AWS_CA_BUNDLE names %s, which holds no certificate in PEM", file)
	}
	return roots, nil
}

func newAPI(cfg Config, ring *keyring, p *pool) *s3.Client {
	options := s3.Options{
		Region:       cfg.Region,
		UsePathStyle: cfg.PathStyle,
		Credentials:  ring,
		HTTPClient:   p,
		Retryer:      aws.NopRetryer{},
		// What we put carries its checksum already, and what we get carries its own.
		RequestChecksumCalculation:                aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation:                aws.ResponseChecksumValidationWhenRequired,
		DisableLogOutputChecksumValidationSkipped: true,
	}
	if cfg.Endpoint != "" {
		options.BaseEndpoint = aws.String(cfg.Endpoint)
	}
	return s3.New(options)
}

// Uploads is the store through the pool of uploads.
func (s *Store) Uploads() port.ObjectStore { return s.uploads }

// General is the store through the pool of everything else.
func (s *Store) General() port.ObjectStore { return s.general }

// UploadPool is the pool of uploads; closed at first.
func (s *Store) UploadPool() port.Pool { return s.uploads.pool }

// GeneralPool is the pool of everything else; closed at first.
func (s *Store) GeneralPool() port.Pool { return s.general.pool }

// Keyring holds what both sign with; empty at first.
func (s *Store) Keyring() port.Keyring { return s.ring }

// Close ends everything that is under way and closes all connections.
func (s *Store) Close() error {
	s.uploads.pool.Close()
	s.general.pool.Close()
	return nil
}
