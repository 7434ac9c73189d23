package port

import (
	"context"

	"millrace/core/pos"
	"millrace/core/settings"
)

// Credentials are what requests to the object store are signed with. They never print
// their secrets.
type Credentials struct {
	Source       string // where they come from, in words: "environment", "profile backup", "instance role"
	AccessKeyID  string // public; the status shows it
	SecretKey    settings.Secret
	SessionToken settings.Secret
	Expires      pos.Millis // 0: never
}

// CredentialsError is a failed fetch. Classes: NotFound (no source has any), Denied (a
// source refuses, or static keys that are not allowed), Unavailable, Timeout and Unclassified.
type CredentialsError struct {
	Source string // which source; "" when all were tried
	Class  Class
	Err    error
}

// Error says what failed, where and why.
func (e *CredentialsError) Error() string {
	return "object store credentials: " + describe("fetch", e.Source, e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *CredentialsError) Unwrap() error { return e.Err }

// Is matches the error's class.
func (e *CredentialsError) Is(target error) bool { return target == error(e.Class) }

func (e *CredentialsError) portClass() Class { return e.Class }

// Keyring holds the credentials that requests to the object store are signed with, and
// knows where to get them. Safe from any goroutine.
type Keyring interface {
	// Fetch asks the configured sources, in their order, for credentials. What it returns
	// is not in use yet. *CredentialsError.
	Fetch(ctx context.Context) (Credentials, error)
	// Use signs every request that begins from now on with c. What is under way ends as it
	// began: both the old and the new are valid for a while.
	Use(c Credentials)
	// Drop takes them away: requests fail with class Unavailable, for the reason given,
	// until the next Use. So it is before the first one.
	Drop(why string)
	// Rejected receives after the store refused the credentials in use as expired or unknown.
	// It holds one token: several refusals before it is read count as one.
	Rejected() <-chan struct{}
}
