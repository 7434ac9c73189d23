package keyringtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/actors/port"
)

// Rig is a new keyring, with a source that has credentials, and a far side that takes them.
type Rig struct {
	Keyring port.Keyring
	// Request sends one request, signed with what is in use. It returns the id of the key
	// that the far side saw, and the error that whoever asked gets.
	Request func(ctx context.Context) (keyID string, err error)
	// Refuse makes the far side refuse, from now on, what the source handed out so far. nil:
	// this can't be arranged.
	Refuse func()
	// Rotate makes the source hand out others from now on. nil: this can't be arranged.
	Rotate func()
}

// patience bounds what must happen soon.
const patience = 10 * time.Second

// Run checks the keyrings that open makes.
func Run(t *testing.T, open func(t *testing.T) Rig) {
	for name, check := range map[string]func(t *testing.T, r Rig){
		"empty":     checkEmpty,
		"use":       checkUse,
		"drop":      checkDrop,
		"rejection": checkRejection,
		"deadline":  checkDeadline,
		"secrets":   checkSecrets,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

func fetch(t *testing.T, r Rig) port.Credentials {
	t.Helper()
	c, err := r.Keyring.Fetch(t.Context())
	if err != nil || c.AccessKeyID == "" || c.SecretKey == "" || c.Source == "" {
		t.Fatalf("fetched %+v, %v", c, err)
	}
	return c
}

func signedWith(t *testing.T, r Rig, want port.Credentials) {
	t.Helper()
	if id, err := r.Request(t.Context()); err != nil || id != want.AccessKeyID {
		t.Errorf("a request was signed with %q, %v: want %q", id, err, want.AccessKeyID)
	}
}

func unavailable(t *testing.T, r Rig, why string) {
	t.Helper()
	id, err := r.Request(t.Context())
	if id != "" || port.ClassOf(err) != port.Unavailable || !strings.Contains(fmt.Sprint(err), why) {
		t.Errorf("a request without credentials was signed with %q: %v, want class %s and %q", id, err, port.Unavailable, why)
	}
}

// What is fetched is not in use, and before the first Use nothing passes.
func checkEmpty(t *testing.T, r Rig) {
	unavailable(t, r, "")
	fetch(t, r)
	unavailable(t, r, "")
}

// Every request is signed with what is in use when it begins.
func checkUse(t *testing.T, r Rig) {
	first := fetch(t, r)
	r.Keyring.Use(first)
	signedWith(t, r, first)
	if r.Rotate != nil {
		r.Rotate()
	}
	second := fetch(t, r)
	signedWith(t, r, first)
	r.Keyring.Use(second)
	signedWith(t, r, second)
	if r.Rotate != nil && first.AccessKeyID == second.AccessKeyID {
		t.Errorf("the source handed out %s twice", first.AccessKeyID)
	}
}

// Drop takes them away, for the reason given, until the next Use.
func checkDrop(t *testing.T, r Rig) {
	r.Keyring.Drop("there never were any")
	unavailable(t, r, "there never were any")
	c := fetch(t, r)
	r.Keyring.Use(c)
	r.Keyring.Drop("the rope has snapped")
	unavailable(t, r, "the rope has snapped")
	r.Keyring.Use(c)
	signedWith(t, r, c)
}

// Several refusals are one token until it is read; without any there is none.
func checkRejection(t *testing.T, r Rig) {
	r.Keyring.Use(fetch(t, r))
	if r.Refuse == nil {
		return
	}
	if rejected(r, time.Millisecond) {
		t.Error("a refusal nobody made")
	}
	r.Refuse()
	for range 3 {
		if _, err := r.Request(t.Context()); port.ClassOf(err) != port.Unavailable {
			t.Errorf("refused credentials: %v, want class %s: others may be taken", err, port.Unavailable)
		}
	}
	if !rejected(r, patience) {
		t.Error("the refusal is not told of")
	}
	if rejected(r, time.Millisecond) {
		t.Error("several refusals are told of several times")
	}
	if _, err := r.Request(t.Context()); err == nil || !rejected(r, patience) {
		t.Errorf("a later refusal is not told of: %v", err)
	}
}

func rejected(r Rig, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-r.Keyring.Rejected():
		return true
	case <-timer.C:
		return false
	}
}

// A fetch ends with its context.
func checkDeadline(t *testing.T, r Rig) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Keyring.Fetch(ctx); port.ClassOf(err) != port.Timeout {
		t.Errorf("fetched after the end: %v, want class %s", err, port.Timeout)
	}
}

// Credentials don't print what is secret.
func checkSecrets(t *testing.T, r Rig) {
	c := fetch(t, r)
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c)} {
		if strings.Contains(text, c.SecretKey.Reveal()) || c.SessionToken != "" && strings.Contains(text, c.SessionToken.Reveal()) {
			t.Errorf("a secret is printed: %s", text)
		}
	}
}
