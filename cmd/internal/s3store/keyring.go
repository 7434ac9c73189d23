package s3store

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"millrace/actors/port"
	"millrace/core/pos"
)

// fetchWait is how long a request waits for credentials where there are none. When a node
// starts, whoever owns them is just fetching them; to fail at once would put the first
// uploads off by all the pauses of those who try again.
const fetchWait = 500 * time.Millisecond

// keyring implements port.Keyring, and is where the clients' signers ask.
type keyring struct {
	cfg      Config
	rejected chan struct{}

	mu    sync.Mutex
	held  *port.Credentials // nil: none
	why   string            // why there are none
	count uint64            // how many Use there were: the number of what is held
	used  chan struct{}     // closed by the next Use
}

var (
	_ port.Keyring            = (*keyring)(nil)
	_ aws.CredentialsProvider = (*keyring)(nil)
)

func newKeyring(cfg Config) *keyring {
	return &keyring{cfg: cfg, rejected: make(chan struct{}, 1), why: "none were fetched yet", used: make(chan struct{})}
}

// usedKey finds in a context where to note the number of the credentials that signed.
type usedKey struct{}

// noCredentials is why a request could not be signed.
type noCredentials struct{ why string }

func (e *noCredentials) Error() string { return "no credentials to sign with: " + e.why }

// Use implements port.Keyring.
func (k *keyring) Use(c port.Credentials) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = &c
	k.count++
	close(k.used)
	k.used = make(chan struct{})
	// A refusal of what was held before says nothing of these.
	select {
	case <-k.rejected:
	default:
	}
}

// Drop implements port.Keyring.
func (k *keyring) Drop(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held, k.why = nil, why
}

// Rejected implements port.Keyring.
func (k *keyring) Rejected() <-chan struct{} { return k.rejected }

// Retrieve implements aws.CredentialsProvider.
func (k *keyring) Retrieve(ctx context.Context) (aws.Credentials, error) {
	wait, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	for {
		held, number, why, used := k.look()
		if held == nil {
			select {
			case <-used:
				continue
			case <-wait.Done():
				return aws.Credentials{}, &noCredentials{why}
			}
		}
		if to, ok := ctx.Value(usedKey{}).(*uint64); ok {
			*to = number
		}
		return aws.Credentials{
			AccessKeyID: held.AccessKeyID, SecretAccessKey: held.SecretKey.Reveal(), SessionToken: held.SessionToken.Reveal(),
			Source: held.Source,
		}, nil
	}
}

// look returns what is held and its number, or why nothing is and what closes when
// something is again.
func (k *keyring) look() (held *port.Credentials, number uint64, why string, used <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held, k.count, k.why, k.used
}

// refused notes that the store refused the credentials of a number, and says what that
// means for who used them: it passes where a source can give others.
func (k *keyring) refused(number uint64) verdict {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil || number != k.count {
		return verdict{class: port.Unavailable, hint: "others are in use by now"}
	}
	select {
	case k.rejected <- struct{}{}:
	default:
	}
	switch k.held.Source {
	case sourceStatic:
		return verdict{class: port.Denied, hint: "set store.access_key_id and its secret to a pair that is valid"}
	case sourceEnvironment:
		return verdict{class: port.Denied, hint: "start the node anew with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN that are valid"}
	}
	return verdict{class: port.Unavailable, hint: "new ones are asked for (" + k.held.Source + ")"}
}

// millis is when credentials expire; 0: never.
func millis(c aws.Credentials) pos.Millis {
	if !c.CanExpire {
		return 0
	}
	return pos.MillisOf(c.Expires)
}
