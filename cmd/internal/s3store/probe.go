package s3store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"

	"millrace/actors/port"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// probeWrite asks for a write that can't be: one byte, announced with the checksum of
// another. doc.go says why. It asks in one form after the other, the best first, and the
// first whose checksum the store looks at is what fragments are put in from then on.
func (c *client) probeWrite(ctx context.Context, op operation) error {
	var refused error
	for _, f := range []form{formTrailer, formHeader, formSigned} {
		taken, err := c.probeForm(ctx, op, f)
		if taken && err == nil {
			c.forms.learn(f)
		}
		if taken || err != nil && !formMatters(err) {
			return err
		}
		if refused == nil || f == formHeader {
			refused = err
		}
	}
	return refused
}

// formMatters reports whether another form may fare better than the one refused with err:
// not if the store was too busy, or could not be reached.
func formMatters(err error) bool {
	class := port.ClassOf(err)
	return class == port.Denied || class == port.Unclassified
}

// probeForm asks in one form. The key is new each time, below the prefix that the node may
// write to. taken: no other form needs to be tried.
func (c *client) probeForm(ctx context.Context, op operation, f form) (taken bool, err error) {
	var uid [8]byte
	if _, err := rand.Read(uid[:]); err != nil {
		return false, op.fail(ctx, err)
	}
	key := "probe." + hex.EncodeToString(uid[:])
	if c.cfg.Prefix != "" {
		key = c.cfg.Prefix + "/" + key
	}
	const sent, announced = "x", "y"
	b := newBody(port.NewBody(strings.NewReader(sent), crc32.Checksum([]byte(announced), castagnoli)), 1)
	err = c.send(ctx, op, key, b, f, false)
	if own := b.letGo(); own != nil {
		return false, op.fail(ctx, own)
	}
	if err == nil {
		// It knows no checksums. What it made of the trailer is not known either, and may be
		// a part of the object.
		if err := c.unwrite(ctx, key); err != nil {
			return true, err
		}
		return f == formHeader, nil
	}
	if err := op.fail(ctx, err); port.ClassOf(err) != port.Checksum {
		return false, err
	}
	return true, nil
}

// unwrite removes the byte that a store took which knows no checksums.
func (c *client) unwrite(ctx context.Context, key string) error {
	failed, err := c.Delete(ctx, []string{key})
	for _, f := range failed {
		err = errors.Join(err, f.Err)
	}
	return err
}
