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

// probeWrite asks for writes that can't be: one byte, announced with the checksum of another.
// doc.go says why. No put goes in a form that the store has not shown to take, so it asks for
// the form of bodies that know their checksum, and for that of those that do not.
func (c *client) probeWrite(ctx context.Context, op operation) error {
	// Why trailers fail does not matter, if puts without one work.
	trailers, trailerErr := c.takes(ctx, op, formTrailer)
	known := formHeader
	ok, err := c.takes(ctx, op, formHeader)
	if !ok && formMatters(err) {
		if signed, signedErr := c.takes(ctx, op, formSigned); signed && signedErr == nil {
			known, ok, err = formSigned, true, nil
		}
	}
	if !ok || err != nil {
		return err
	}
	c.forms.learn(known, trailers && trailerErr == nil)
	return nil
}

// formMatters reports whether another form may fare better than the one refused with err:
// not if the store was too busy, or could not be reached.
func formMatters(err error) bool {
	class := port.ClassOf(err)
	return class == port.Denied || class == port.Unclassified
}

// takes reports whether the store takes puts of a form; if not, err is why. The key is new
// each time, below the prefix that the node may write to.
func (c *client) takes(ctx context.Context, op operation, f form) (bool, error) {
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
	_, err := c.send(ctx, op, key, b, f, false)
	if own := b.letGo(); own != nil {
		return false, op.fail(ctx, own)
	}
	if err == nil {
		// It knows no checksums. What it made of the trailer is not known either, and may be
		// a part of the object.
		return f != formTrailer, c.unwrite(ctx, key)
	}
	if mismatched(err) {
		return true, nil
	}
	return false, op.fail(ctx, err)
}

// mismatched reports whether a refusal is for the checksum. A SHA-256 that does not fit is
// what some say that take the name of a form for one.
func mismatched(err error) bool {
	r := refusalOf(err)
	return r != nil && byCode[r.code].class == port.Checksum && r.code != "XAmzContentSHA256Mismatch"
}

// unwrite removes the byte that a store took which knows no checksums.
func (c *client) unwrite(ctx context.Context, key string) error {
	failed, err := c.Delete(ctx, []string{key})
	for _, f := range failed {
		err = errors.Join(err, f.Err)
	}
	return err
}
