package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millrace/actors/port"
	"millrace/core/pos"
)

// client is the store through one pool.
type client struct {
	cfg  Config
	pool *pool
	ring *keyring
	// forms is shared by both clients: what one learns of the store, the other goes by.
	forms *forms
	probe *probed // shared too
	api   *s3.Client
}

var _ port.ObjectStore = (*client)(nil)

// withMD5 adds the older checksum to a small body, which some servers still insist on.
func withMD5(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return aws.String(s)
}

// ready fails for a key outside the rules and for a context that has ended.
func ready(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := port.CheckKey(key); err != nil {
			return fmt.Errorf("%w: %w", port.Denied, err)
		}
	}
	return ctx.Err()
}

// Get implements port.ObjectStore.
func (c *client) Get(ctx context.Context, key string) ([]byte, error) {
	op := c.begin("get", key)
	if err := ready(ctx, key); err != nil {
		return nil, op.fail(ctx, err)
	}
	out, err := c.api.GetObject(op.context(ctx), c.getInput(key))
	if err != nil {
		return nil, op.fail(ctx, err)
	}
	b, err := readAnswer(out.Body, out.ContentLength)
	return b, op.fail(ctx, err)
}

func (c *client) getInput(key string) *s3.GetObjectInput {
	return &s3.GetObjectInput{Bucket: aws.String(c.cfg.Bucket), Key: aws.String(key), ExpectedBucketOwner: optional(c.cfg.ExpectedOwner)}
}

// readAnswer reads the body of an answer and closes it.
func readAnswer(body io.ReadCloser, length *int64) (b []byte, err error) {
	defer func() { err = errors.Join(err, body.Close()) }()
	if length == nil {
		b, err = io.ReadAll(io.LimitReader(body, port.MaxGet+1))
		if err == nil && len(b) > port.MaxGet {
			err = fmt.Errorf("object has more than the %d bytes that are handed out: read ranges", port.MaxGet)
		}
		return b, err
	}
	if *length > port.MaxGet {
		return nil, fmt.Errorf("object has %d bytes, at most %d are handed out: read ranges", *length, port.MaxGet)
	}
	b = make([]byte, *length)
	if _, err = io.ReadFull(body, b); err != nil {
		return nil, fmt.Errorf("answer of %d bytes is cut: %w", *length, err)
	}
	// The end has to be read too, or the connection would not be used again.
	if n, err := body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("answer of %d bytes does not end: %w", *length, errors.Join(io.ErrUnexpectedEOF, err))
	}
	return b, nil
}

// GetRange implements port.ObjectStore.
func (c *client) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	op := c.begin("get range", key)
	if err := ready(ctx, key); err != nil {
		return nil, op.fail(ctx, err)
	}
	if off < 0 || n < 0 || n > port.MaxGet {
		return nil, op.fail(ctx, fmt.Errorf("range of %d bytes at %d: want at most %d bytes, nothing negative", n, off, port.MaxGet))
	}
	in := c.getInput(key)
	// A range of nothing can't be asked for; whether the object is there, one byte tells.
	last := off + max(n, 1) - 1
	in.Range = aws.String("bytes=" + strconv.FormatInt(off, 10) + "-" + strconv.FormatInt(max(off, last), 10))
	out, err := c.api.GetObject(op.context(ctx), in)
	if isPastTheEnd(err) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, op.fail(ctx, err)
	}
	b, err := readRange(out, off, max(n, 1))
	if err != nil {
		return nil, op.fail(ctx, err)
	}
	return b[:min(n, int64(len(b)))], nil
}

// readRange reads the answer to a question for n bytes at off, and checks that it is one.
func readRange(out *s3.GetObjectOutput, off, n int64) ([]byte, error) {
	if out.ContentRange == nil && aws.ToInt64(out.ContentLength) != 0 {
		return nil, errors.Join(errors.New("the store ignores ranges: it sent a whole object"), out.Body.Close())
	}
	b, err := readAnswer(out.Body, out.ContentLength)
	if err != nil || out.ContentRange == nil {
		return b, err
	}
	var first, last, size int64
	if _, err := fmt.Sscanf(*out.ContentRange, "bytes %d-%d/%d", &first, &last, &size); err != nil {
		return nil, fmt.Errorf("content range %q: %w", *out.ContentRange, err)
	}
	if want := min(n, size-off); first != off || int64(len(b)) != want {
		return nil, fmt.Errorf("asked for %d bytes at %d of %d, got %d at %d: %w", n, off, size, len(b), first, io.ErrUnexpectedEOF)
	}
	return b, nil
}

// Delete implements port.ObjectStore.
func (c *client) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	op := c.begin("delete", first)
	if len(keys) > port.MaxDelete {
		return nil, op.fail(ctx, fmt.Errorf("%d keys, at most %d are taken at once: %w", len(keys), port.MaxDelete, port.Denied))
	}
	if err := ctx.Err(); err != nil {
		return nil, op.fail(ctx, err)
	}
	var failed []port.DeleteError
	var batch []types.ObjectIdentifier
	for _, key := range keys {
		if err := ready(ctx, key); err != nil {
			failed = append(failed, port.DeleteError{Key: key, Err: c.begin("delete", key).fail(ctx, err)})
		} else {
			batch = append(batch, types.ObjectIdentifier{Key: aws.String(key)})
		}
	}
	if len(batch) == 0 {
		return failed, nil
	}
	out, err := c.api.DeleteObjects(op.context(ctx), &s3.DeleteObjectsInput{
		Bucket: aws.String(c.cfg.Bucket), ExpectedBucketOwner: optional(c.cfg.ExpectedOwner),
		Delete: &types.Delete{Objects: batch, Quiet: aws.Bool(true)},
	}, withMD5)
	if err != nil {
		return nil, op.fail(ctx, err)
	}
	for _, e := range out.Errors {
		refused := &refusal{code: aws.ToString(e.Code), message: aws.ToString(e.Message)}
		if refused.code == "NoSuchKey" {
			continue
		}
		key := aws.ToString(e.Key)
		failed = append(failed, port.DeleteError{Key: key, Err: c.begin("delete", key).fail(ctx, refused)})
	}
	return failed, nil
}

// List implements port.ObjectStore.
func (c *client) List(ctx context.Context, prefix, after string, limit int) ([]port.ObjectInfo, bool, error) {
	op := c.begin("list", prefix)
	if limit < 1 || limit > port.MaxList {
		limit = port.MaxList
	}
	in := &s3.ListObjectsV2Input{
		Bucket: aws.String(c.cfg.Bucket), ExpectedBucketOwner: optional(c.cfg.ExpectedOwner),
		Prefix: aws.String(prefix), StartAfter: optional(after), EncodingType: types.EncodingTypeUrl,
	}
	// One more than asked tells whether more follow. Some servers say so of a page whose
	// successors have another prefix; only a page of MaxList has to be believed.
	goal := min(limit+1, port.MaxList)
	var page []port.ObjectInfo
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, op.fail(ctx, err)
		}
		in.MaxKeys = aws.Int32(int32(goal - len(page)))
		out, err := c.api.ListObjectsV2(op.context(ctx), in)
		if err == nil {
			page, err = appendObjects(page, out)
		}
		if err != nil {
			return nil, false, op.fail(ctx, err)
		}
		truncated := aws.ToBool(out.IsTruncated)
		if !truncated || len(page) >= goal {
			return page[:min(limit, len(page))], len(page) > limit || truncated && goal == limit, nil
		}
		// A store may send fewer than asked, and none at all.
		if in.ContinuationToken = out.NextContinuationToken; in.ContinuationToken == nil {
			return nil, false, op.fail(ctx, errors.New("the store's page is not the last, and does not say where the next begins"))
		}
	}
}

// appendObjects adds what a page lists. Names are percent-encoded on the way, because XML
// can't carry each of those that strangers may have stored.
func appendObjects(page []port.ObjectInfo, out *s3.ListObjectsV2Output) ([]port.ObjectInfo, error) {
	for _, o := range out.Contents {
		key := aws.ToString(o.Key)
		if out.EncodingType == types.EncodingTypeUrl {
			var err error
			if key, err = url.QueryUnescape(key); err != nil {
				return nil, fmt.Errorf("listed key: %w", err)
			}
		}
		if strings.HasSuffix(key, "/") {
			continue // a folder's marker, which some tools store, is no object of ours
		}
		page = append(page, port.ObjectInfo{Key: key, Size: aws.ToInt64(o.Size), Modified: pos.MillisOf(aws.ToTime(o.LastModified))})
	}
	return page, nil
}

// Probe implements port.ObjectStore.
func (c *client) Probe(ctx context.Context) error {
	op := c.begin("probe", "")
	if err := ctx.Err(); err != nil {
		return op.fail(ctx, err)
	}
	_, err := c.api.HeadBucket(op.context(ctx), &s3.HeadBucketInput{Bucket: aws.String(c.cfg.Bucket), ExpectedBucketOwner: optional(c.cfg.ExpectedOwner)})
	if err != nil && refusalOf(err) == nil {
		return op.fail(ctx, err)
	}
	// An answer to HEAD has no words: what is refused, and why, the write is told.
	if written := c.probeWrite(ctx, op); written != nil || err == nil {
		return written
	}
	return op.fail(ctx, err)
}
