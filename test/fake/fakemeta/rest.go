package fakemeta

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Capture implements port.Metadata.
func (m *Meta) Capture(ctx context.Context, name string) (port.Capture, error) {
	var found port.Capture
	err := m.do(ctx, "capture", name, func() error {
		c, ok := m.captures[name]
		if !ok {
			return port.NotFound
		}
		found = c
		return nil
	})
	return found, err
}

// SwapCapture implements port.Metadata.
func (m *Meta) SwapCapture(ctx context.Context, c port.Capture) error {
	return m.do(ctx, "swapcapture", c.Name, func() error {
		if old := m.captures[c.Name].Revision; old != c.Revision {
			return fmt.Errorf("revision %s is stored, not %s: %w", old, c.Revision, port.Conflict)
		}
		c.Revision++
		m.captures[c.Name] = c
		return nil
	})
}

// DeleteCapture implements port.Metadata.
func (m *Meta) DeleteCapture(ctx context.Context, name string) error {
	return m.do(ctx, "deletecapture", name, func() error {
		delete(m.captures, name)
		return nil
	})
}

// Setting implements port.Metadata.
func (m *Meta) Setting(ctx context.Context, key string) (string, error) {
	var value string
	err := m.do(ctx, "setting", key, func() error {
		found, ok := m.settings[key]
		if !ok {
			return port.NotFound
		}
		value = found
		return nil
	})
	return value, err
}

// PutSetting implements port.Metadata.
func (m *Meta) PutSetting(ctx context.Context, key, value string) error {
	return m.do(ctx, "putsetting", key, func() error {
		m.settings[key] = value
		return nil
	})
}

// Register implements port.Sessions.
func (m *Meta) Register(ctx context.Context, s port.Session, ttl time.Duration) (port.Session, error) {
	err := m.do(ctx, "register", s.Node.String(), func() error {
		s.Expires = pos.MillisOf(time.Now()).Add(ttl)
		m.sessions[s.Node] = s
		return nil
	})
	return s, err
}

// Renew implements port.Sessions.
func (m *Meta) Renew(ctx context.Context, node pos.NodeID, nonce pos.UID, ttl time.Duration) (port.Session, error) {
	var renewed port.Session
	err := m.do(ctx, "renew", node.String(), func() error {
		s, ok := m.sessions[node]
		if !ok || s.Nonce != nonce {
			return port.NotFound
		}
		s.Expires = pos.MillisOf(time.Now()).Add(ttl)
		m.sessions[node] = s
		renewed = s
		return nil
	})
	return renewed, err
}

// Sessions implements port.Sessions.
func (m *Meta) Sessions(ctx context.Context) ([]port.Session, error) {
	var live []port.Session
	err := m.do(ctx, "sessions", "", func() error {
		now := pos.MillisOf(time.Now())
		for _, node := range slices.Sorted(maps.Keys(m.sessions)) {
			if s := m.sessions[node]; s.Expires > now {
				live = append(live, s)
			}
		}
		return nil
	})
	return live, err
}

// AcquireLease implements port.Sessions.
func (m *Meta) AcquireLease(ctx context.Context, name string, holder pos.NodeID, nonce pos.UID, ttl time.Duration) (port.Lease, error) {
	var taken port.Lease
	err := m.do(ctx, "acquirelease", name, func() error {
		now := pos.MillisOf(time.Now())
		l := m.leases[name]
		if l.Holder != holder || l.Nonce != nonce {
			if l.Expires > now {
				return fmt.Errorf("held by %s for another %s: %w", l.Holder, l.Expires.Sub(now), port.Conflict)
			}
			l = port.Lease{Name: name, Holder: holder, Nonce: nonce, Token: l.Token + 1}
		}
		l.Expires = now.Add(ttl)
		m.leases[name], taken = l, l
		return nil
	})
	return taken, err
}
