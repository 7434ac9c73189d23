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

// probeWrite asks for a write that can't be: one byte, announced with the checksum of
// another. doc.go says why. The key is new each time, below the prefix that the node may
// write to.
func (c *client) probeWrite(ctx context.Context, op operation) error {
	var uid [8]byte
	if _, err := rand.Read(uid[:]); err != nil {
		return op.fail(ctx, err)
	}
	key := "probe." + hex.EncodeToString(uid[:])
	if c.cfg.Prefix != "" {
		key = c.cfg.Prefix + "/" + key
	}
	const sent, announced = "x", "y"
	b := newBody(strings.NewReader(sent), 1, crc32.Checksum([]byte(sent), castagnoli))
	in := c.putInput(key, b, false)
	in.ChecksumCRC32C = encodeSum(crc32.Checksum([]byte(announced), castagnoli))
	_, err := c.api.PutObject(op.context(ctx), in, unsigned)
	if own := b.letGo(); own != nil {
		return op.fail(ctx, own)
	}
	if err == nil {
		return c.unwrite(ctx, key)
	}
	if err := op.fail(ctx, err); port.ClassOf(err) != port.Checksum {
		return err
	}
	return nil
}

// unwrite removes the byte that a store took which knows no checksums.
func (c *client) unwrite(ctx context.Context, key string) error {
	failed, err := c.Delete(ctx, []string{key})
	for _, f := range failed {
		err = errors.Join(err, f.Err)
	}
	return err
}
