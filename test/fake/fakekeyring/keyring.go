package fakekeyring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/settings"
)

// Keyring is a port.Keyring in memory. Latency and Fault are set before it is used.
type Keyring struct {
	Latency func() time.Duration // how long a fetch takes; nil: none
	Fault   func() error         // asked by each fetch, and answers in its place; nil: none

	mu       sync.Mutex
	life     time.Duration // of what is handed out; 0: for ever
	issued   int
	ends     map[string]pos.Millis // by key id, of what was handed out and not revoked; 0: never
	inUse    port.Credentials
	dropped  string // why nothing is in use; "": something is
	uses     []string
	signed   map[string]int // requests, by key id
	rejected chan struct{}
}

// New returns an empty keyring whose source hands out credentials of that life; 0: for ever.
func New(life time.Duration) *Keyring {
	return &Keyring{
		life: life, ends: map[string]pos.Millis{}, signed: map[string]int{}, rejected: make(chan struct{}, 1),
		dropped: "none were put in use yet",
	}
}

// Fetch implements port.Keyring.
func (k *Keyring) Fetch(ctx context.Context) (port.Credentials, error) {
	if k.Latency != nil {
		timer := time.NewTimer(k.Latency())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return port.Credentials{}, &port.CredentialsError{Source: source, Class: port.Timeout, Err: err}
	}
	if k.Fault != nil {
		if err := k.Fault(); err != nil {
			return port.Credentials{}, failure(err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.issued++
	c := port.Credentials{Source: source, AccessKeyID: fmt.Sprintf("key-%d", k.issued), SecretKey: settings.Secret("hush")}
	if k.life > 0 {
		c.Expires = pos.MillisOf(time.Now().Add(k.life))
	}
	k.ends[c.AccessKeyID] = c.Expires
	return c, nil
}

const source = "fake source"

// failure gives err the shape the port demands.
func failure(err error) error {
	if _, ok := errors.AsType[*port.CredentialsError](err); ok {
		return err
	}
	class := port.ClassOf(err)
	if class == port.Unclassified {
		class = port.Unavailable
	}
	return &port.CredentialsError{Source: source, Class: class, Err: err}
}

// Use implements port.Keyring.
func (k *Keyring) Use(c port.Credentials) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inUse, k.dropped = c, ""
	k.uses = append(k.uses, c.AccessKeyID)
}

// Drop implements port.Keyring.
func (k *Keyring) Drop(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inUse, k.dropped = port.Credentials{}, why
}

// Rejected implements port.Keyring.
func (k *Keyring) Rejected() <-chan struct{} { return k.rejected }

// Sign returns what a request that begins now is signed with.
func (k *Keyring) Sign(op, key string) (port.Credentials, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropped != "" {
		return port.Credentials{}, &port.StoreError{Op: op, Key: key, Class: port.Unavailable, Err: fmt.Errorf("no credentials: %s", k.dropped)}
	}
	k.signed[k.inUse.AccessKeyID]++
	return k.inUse, nil
}

// Check is the far side's: it refuses what has expired or was revoked, and says so.
func (k *Keyring) Check(op, key string, c port.Credentials) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ends, known := k.ends[c.AccessKeyID]
	if known && (ends == 0 || pos.MillisOf(time.Now()) < ends) {
		return nil
	}
	select {
	case k.rejected <- struct{}{}:
	default: // one refusal that nobody has looked at is enough
	}
	return &port.StoreError{Op: op, Key: key, Class: port.Unavailable, Err: fmt.Errorf("the store refuses %s as expired or unknown", c.AccessKeyID)}
}

// Revoke makes the far side forget all that was handed out so far.
func (k *Keyring) Revoke() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.ends)
}

// Uses lists the ids of what was put in use, in order; Signed how many requests each has signed.
func (k *Keyring) Uses() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.uses...)
}

// Signed returns how many requests began with a key id.
func (k *Keyring) Signed(id string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.signed[id]
}

// InUse returns the id of what is in use; if nothing is, why returns the reason.
func (k *Keyring) InUse() (id, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inUse.AccessKeyID, k.dropped
}

var _ port.Keyring = (*Keyring)(nil)
