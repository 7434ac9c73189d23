package main

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/cmd/internal/dirstore"
	"millrace/cmd/internal/s3store"
	"millrace/core/settings"
)

// claimDeadline bounds how long the start waits for an S3 store. One that does not answer
// hinders nobody from publishing, so the node runs without it until it does. It is well below
// startTime, so that a command that waits for the node finds it.
const claimDeadline = 2 * time.Second

// objectStore is the object store of one run.
type objectStore struct {
	general port.ObjectStore
	uploads port.ObjectStore // of whole fragments
	remote  *node.Remote     // nil with a directory
	close   func() error
}

func openStore(cfg settings.Store) (*objectStore, error) {
	if cfg.Kind == settings.StoreDirectory {
		d, err := dirstore.Open(cfg.Path)
		if err != nil {
			return nil, err
		}
		return &objectStore{general: d, uploads: d, close: d.Close}, nil
	}
	s, err := s3store.Open(s3store.Config{
		Bucket: cfg.S3.Bucket, Prefix: cfg.Prefix, Region: cfg.S3.Region, Endpoint: cfg.S3.Endpoint, PathStyle: cfg.S3.PathStyle,
		Encryption: cfg.S3.Encryption, KMSKeyID: cfg.S3.KMSKeyID, ExpectedOwner: cfg.S3.ExpectedOwner, StorageClass: cfg.S3.StorageClass,
		AccessKeyID: cfg.S3.AccessKeyID, SecretKey: cfg.S3.SecretKey, AllowStatic: cfg.S3.AllowStatic, Profile: cfg.S3.Profile,
		UploadConnections: cfg.S3.UploadConnections, GeneralConnections: cfg.S3.GeneralConnections,
	})
	if err != nil {
		return nil, err
	}
	remote := &node.Remote{Keyring: s.Keyring(), UploadPool: s.UploadPool(), GeneralPool: s.GeneralPool()}
	return &objectStore{general: s.General(), uploads: s.Uploads(), remote: remote, close: s.Close}, nil
}

// where says in words where the store is.
func where(cfg settings.Store) string {
	if cfg.Kind == settings.StoreDirectory {
		return cfg.Path
	}
	at := "s3://" + cfg.S3.Bucket + "/" + cfg.Prefix
	if cfg.S3.Endpoint != "" {
		at += " at " + cfg.S3.Endpoint
	}
	return at
}

// claim makes sure that no other cluster's objects lie under our prefix. Where the marker
// is gone or damaged, or an S3 store does not tell within the deadline, the node starts:
// nothing is put or deleted before the store monitor knows that the prefix is ours.
func (o *objectStore) claim(c port.Claimant, log zerolog.Logger) error {
	c.Store = o.general
	ask, deadline := c.Claim, stopDeadline
	if o.remote != nil {
		ask, deadline = func(ctx context.Context) error { return o.claimS3(ctx, c) }, claimDeadline
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	err := ask(ctx)
	_, foreign := errors.AsType[*port.ForeignPrefixError](err)
	_, unmarked := errors.AsType[*port.UnmarkedError](err)
	switch {
	case err == nil:
	case unmarked:
		log.Warn().Err(err).Msg("the object store may not be the one that holds this cluster's objects; the node starts, and uploads and deletes nothing until its marker is back")
	case foreign || o.remote == nil:
		return err
	default:
		log.Warn().Err(err).Msg("the object store can't be used yet; the node starts without it and goes on trying")
	}
	return nil
}

// claimS3 claims with connections that it gives back: from here on they are owned by a
// process of the tree, which does not run yet. The credentials stay in use until the process
// that owns them has others, so that nothing has to wait for it at a start.
func (o *objectStore) claimS3(ctx context.Context, c port.Claimant) error {
	ring, pool := o.remote.Keyring, o.remote.GeneralPool
	keys, err := ring.Fetch(ctx)
	if err != nil {
		return err
	}
	ring.Use(keys)
	pool.Open()
	defer pool.Close()
	return c.Claim(ctx)
}
