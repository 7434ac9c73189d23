package s3store

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/crc32"
	"strings"
	"sync/atomic"

	"millrace/actors/port"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// probeWrite asks for writes that can't be: one byte, announced with the checksum of another.
// doc.go says why. No put goes in a form that the store has not shown to take, so it asks for
// the form of bodies that know their checksum, and for that of those that do not.
func (c *client) probeWrite(ctx context.Context, op operation) error {
	// That the object of an earlier probe can't be removed says nothing of writes. If the store
	// takes it again, whoever puts it below tells.
	if c.probe.left.Load() && c.unwrite(ctx) != nil && ctx.Err() != nil {
		return op.fail(ctx, ctx.Err())
	}
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

// takes reports whether the store takes puts of a form; if not, err is why.
func (c *client) takes(ctx context.Context, op operation, f form) (bool, error) {
	const sent, announced = "x", "y"
	b := newBody(port.NewBody(strings.NewReader(sent), crc32.Checksum([]byte(announced), castagnoli)), 1)
	_, err := c.send(ctx, op, c.probe.key, b, f, false)
	if own := b.letGo(); own != nil {
		return false, op.fail(ctx, own)
	}
	if err == nil {
		// It knows no checksums. What it made of the trailer is not known either, and may be
		// a part of the object.
		c.probe.left.Store(true)
		return f != formTrailer, c.unwrite(ctx)
	}
	if mismatched(err) {
		return true, nil
	}
	if refusalOf(err) == nil {
		c.probe.left.Store(true) // for all that is known
	}
	return false, op.fail(ctx, err)
}

// mismatched reports whether a refusal is for the checksum. A SHA-256 that does not fit is
// what some say that take the name of a form for one.
func mismatched(err error) bool {
	r := refusalOf(err)
	return r != nil && byCode[r.code].class == port.Checksum && r.code != "XAmzContentSHA256Mismatch"
}

// probed is the object that probes put where a store takes it. It has one name for as long as
// the node runs, and no other node has it: of all probes one object is left at most, and a
// later one removes it.
type probed struct {
	key  string
	left atomic.Bool // it may be there
}

// newProbed draws the name, below the prefix that the node may write to.
func newProbed(prefix string) *probed {
	key := "probe." + strings.ToLower(rand.Text())
	if prefix != "" {
		key = prefix + "/" + key
	}
	return &probed{key: key}
}

// unwrite removes the byte that a store took which knows no checksums.
func (c *client) unwrite(ctx context.Context) error {
	failed, err := c.Delete(ctx, []string{c.probe.key})
	for _, f := range failed {
		err = errors.Join(err, f.Err)
	}
	if err == nil {
		c.probe.left.Store(false)
	}
	return err
}
