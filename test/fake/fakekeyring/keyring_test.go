package fakekeyring

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/test/porttest/keyringtest"
)

func request(k *Keyring) error {
	c, err := k.Sign("get", "a")
	if err != nil {
		return err
	}
	return k.Check("get", "a", c)
}

func TestContract(t *testing.T) {
	keyringtest.Run(t, func(*testing.T) keyringtest.Rig {
		k := New(time.Hour)
		return keyringtest.Rig{
			Keyring: k, Refuse: k.Revoke, Rotate: func() {},
			Request: func(context.Context) (string, error) {
				err := request(k)
				if id, _ := k.InUse(); err == nil {
					return id, nil
				}
				return "", err
			},
		}
	})
}

func TestTheFarSideKnowsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(time.Minute)
		c, err := k.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		k.Use(c)
		<-time.After(time.Minute - time.Millisecond)
		if err := request(k); err != nil {
			t.Error(err)
		}
		<-time.After(time.Millisecond)
		if err := request(k); port.ClassOf(err) != port.Unavailable {
			t.Errorf("expired: %v", err)
		}
		if k.Signed("key-1") != 2 || len(k.Uses()) != 1 {
			t.Errorf("signed %d, used %v", k.Signed("key-1"), k.Uses())
		}
	})
}

func TestFaultAndLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(0)
		k.Latency = func() time.Duration { return time.Minute }
		k.Fault = func() error { return errors.New("no route") }
		began := time.Now()
		if _, err := k.Fetch(t.Context()); port.ClassOf(err) != port.Unavailable || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := k.Fetch(ctx); port.ClassOf(err) != port.Timeout {
			t.Error(err)
		}
	})
}
