package metadb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Register implements port.Sessions.
func (s *Store) Register(ctx context.Context, session port.Session, ttl time.Duration) (port.Session, error) {
	err := s.remembered(ctx, "register", session.Node.String(), func() error {
		session.Expires = pos.MillisOf(time.Now()).Add(ttl)
		s.sessions[session.Node] = session
		return nil
	})
	return session, err
}

// Renew implements port.Sessions.
func (s *Store) Renew(ctx context.Context, node pos.NodeID, nonce pos.UID, ttl time.Duration) (port.Session, error) {
	var renewed port.Session
	err := s.remembered(ctx, "renew", node.String(), func() error {
		session, ok := s.sessions[node]
		if !ok || session.Nonce != nonce {
			return port.NotFound
		}
		session.Expires = pos.MillisOf(time.Now()).Add(ttl)
		s.sessions[node], renewed = session, session
		return nil
	})
	return renewed, err
}

// Sessions implements port.Sessions.
func (s *Store) Sessions(ctx context.Context) ([]port.Session, error) {
	var live []port.Session
	err := s.remembered(ctx, "sessions", "", func() error {
		now := pos.MillisOf(time.Now())
		for _, node := range slices.Sorted(maps.Keys(s.sessions)) {
			if session := s.sessions[node]; session.Expires > now {
				live = append(live, session)
			}
		}
		return nil
	})
	return live, err
}

// AcquireLease implements port.Sessions.
func (s *Store) AcquireLease(ctx context.Context, name string, holder pos.NodeID, nonce pos.UID, ttl time.Duration) (port.Lease, error) {
	var taken port.Lease
	err := s.remembered(ctx, "acquire lease", name, func() error {
		now := pos.MillisOf(time.Now())
		l := s.leases[name]
		if l.Holder != holder || l.Nonce != nonce {
			if l.Expires > now {
				return fmt.Errorf("held by %s for another %s: %w", l.Holder, l.Expires.Sub(now), port.Conflict)
			}
			token, err := s.nextToken(ctx, name)
			if err != nil {
				return err
			}
			l = port.Lease{Name: name, Holder: holder, Nonce: nonce, Token: token}
		}
		l.Expires = now.Add(ttl)
		s.leases[name], taken = l, l
		return nil
	})
	return taken, err
}

// nextToken stores and returns the next token of a lease.
func (s *Store) nextToken(ctx context.Context, name string) (uint64, error) {
	var token uint64
	err := s.file.Update(ctx, func(tx *bbolt.Tx) error {
		token = loadNumber(tx, bTokens, name) + 1
		return tx.Bucket(bTokens).Put([]byte(name), number(token))
	})
	return token, err
}

// remembered runs f on what lives in memory.
func (s *Store) remembered(ctx context.Context, op, what string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return metaError(op, what, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return metaError(op, what, f())
}
