package s3store

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/actors/port"
)

// Put implements port.ObjectStore.
func (c *client) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	op := c.begin("put", key)
	if err := ready(ctx, key); err != nil {
		return op.fail(ctx, err)
	}
	b := newBody(body, size)
	given, err := c.send(ctx, op, key, b, c.forms.of(body, size), ifAbsent)
	switch own, sent := b.letGo(), b.sent(); {
	case own != nil:
		err = own // the request failed because of it
	case err == nil && sent != size:
		err = fmt.Errorf("answered as stored after %d of %d bytes: does a gateway in between answer for the store?: %w", sent, size, port.Unavailable)
	case err == nil:
		sum, _ := body.Sum()
		err = c.believe(ctx, op, stored{key: key, size: size, sum: sum, given: given})
	}
	return op.fail(ctx, err)
}

// send puts a body in one of the forms. given is the checksum in the answer to it.
func (c *client) send(ctx context.Context, op operation, key string, b *body, f form, ifAbsent bool) (given *string, err error) {
	in := c.putInput(key, b, ifAbsent)
	if f != formTrailer {
		crc, err := b.sum(ctx)
		if err != nil {
			return nil, err
		}
		in.ChecksumCRC32C = aws.String(encodeSum(crc))
	}
	out, err := c.api.PutObject(op.context(ctx), in, f.option(b))
	if err != nil {
		return nil, err
	}
	return out.ChecksumCRC32C, nil
}

func (c *client) putInput(key string, b *body, ifAbsent bool) *s3.PutObjectInput {
	in := &s3.PutObjectInput{
		Bucket:               aws.String(c.cfg.Bucket),
		Key:                  aws.String(key),
		Body:                 b,
		ContentLength:        aws.Int64(b.size),
		ContentType:          aws.String("application/octet-stream"),
		ExpectedBucketOwner:  optional(c.cfg.ExpectedOwner),
		ServerSideEncryption: types.ServerSideEncryption(c.cfg.Encryption),
		SSEKMSKeyId:          optional(c.cfg.KMSKeyID),
		StorageClass:         types.StorageClass(c.cfg.StorageClass),
	}
	if ifAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	return in
}

// encodeSum writes a checksum as headers and trailers carry it.
func encodeSum(crc32c uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32c))
}

// decodeSum reads a checksum from an answer. What is no CRC-32C of an object's bytes, a
// composite one of parts for example, is none.
func decodeSum(given *string) (crc32c uint32, ok bool) {
	b, err := base64.StdEncoding.DecodeString(aws.ToString(given))
	if err != nil || len(b) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

// stored is what a store says to have stored.
type stored struct {
	key   string
	size  int64
	sum   uint32  // CRC-32C
	given *string // that of the answer; nil: it has none
}

// believe decides whether an answer is a success: if it is taken for one and is none, the
// local copy is trimmed. It is, if it gives the checksum back. The word alone is not enough:
// the store is asked for the object's size then. A gateway that stores nothing and gives back
// what a header of the request announced is not found out; who lies so well could also answer
// the question.
func (c *client) believe(ctx context.Context, op operation, s stored) error {
	got, ok := decodeSum(s.given)
	switch {
	case ok && got == s.sum:
		return nil
	case ok:
		return fmt.Errorf("answered as stored with CRC-32C %08x, sent %08x: something between here and the store changes objects, or answers for it: %w",
			got, s.sum, port.Checksum)
	}
	return c.look(ctx, op, s)
}

// look asks for the size of an object that was answered as stored.
func (c *client) look(ctx context.Context, op operation, s stored) error {
	out, err := c.api.HeadObject(op.context(ctx), &s3.HeadObjectInput{
		Bucket: aws.String(c.cfg.Bucket), Key: aws.String(s.key), ExpectedBucketOwner: optional(c.cfg.ExpectedOwner),
	})
	if r := refusalOf(err); r != nil && r.status == http.StatusNotFound {
		return fmt.Errorf("answered as stored, but then the store has no such object: does a gateway in between answer for it?: %w", port.Unavailable)
	}
	if err != nil {
		return err
	}
	if out.ContentLength == nil || *out.ContentLength != s.size {
		return fmt.Errorf("answered as stored, but then the object has %d bytes of %d: does a gateway in between answer for the store?: %w",
			aws.ToInt64(out.ContentLength), s.size, port.Unavailable)
	}
	return nil
}
