package s3store

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millrace/actors/port"
)

// form is how the bytes of a put are vouched for: where their checksum stands, and whether
// the request's signature covers them too.
type form int32

const (
	// formHeader announces the checksum in a header and signs no payload. A body that does
	// not know its checksum yet is read twice.
	formHeader form = iota
	// formTrailer sends the checksum behind the bytes, which are read once.
	formTrailer
	// formSigned is for a store, or a bucket's policy, that wants the payload signed: read
	// once more for its SHA-256.
	formSigned
)

// forms is what the store takes, as far as it is known.
type forms struct {
	known    atomic.Int32 // formHeader or formSigned: of bodies that know their checksum
	trailers atomic.Bool  // formTrailer, of those that do not
}

// of returns the form for a body.
func (f *forms) of(body port.Body, size int64) form {
	if _, knows := body.Sum(); !knows && size > 0 && f.trailers.Load() {
		return formTrailer
	}
	return form(f.known.Load())
}

// learn keeps what the store has shown to take.
func (f *forms) learn(known form, trailers bool) {
	f.known.Store(int32(known))
	f.trailers.Store(trailers)
}

// option makes a request of this form. b is its body.
func (f form) option(b *body) func(*s3.Options) {
	return func(o *s3.Options) {
		switch f {
		case formHeader:
			o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
		case formTrailer:
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				_, err := stack.Finalize.Swap(trailed{}.ID(), trailed{b})
				return err
			})
		case formSigned: // as the SDK does by itself
		}
	}
}

// What a request with a trailer says of itself, and how its body is encoded: aws-chunked
// with one chunk, as aws-sdk-go-v2 itself sends a body whose length it knows, and which it
// does over TLS only.
//
//	5a3\r\n                                        bytes of the payload, in hexadecimal
//	payload\r\n
//	0\r\n
//	x-amz-checksum-crc32c:mnG7TA==\r\n
//	\r\n
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
const (
	trailerHash = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	trailerName = "x-amz-checksum-crc32c"
	sumLength   = 8 // of a checksum in base64
)

// trailed is the step of a request that settles what its signature says of its payload.
type trailed struct{ b *body }

// ID is that of the step it stands for.
func (trailed) ID() string { return (&v4.ComputePayloadSHA256{}).ID() }

// HandleFinalize implements middleware.FinalizeMiddleware.
func (m trailed) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	req, ok := in.Request.(*smithyhttp.Request)
	if !ok {
		return out, metadata, fmt.Errorf("a request of type %T has no place for a trailer", in.Request)
	}
	encoded, length := encode(m.b)
	if req, err = req.SetStream(encoded); err != nil {
		return out, metadata, err
	}
	req.ContentLength = length
	req.Header.Set("Content-Encoding", "aws-chunked")
	req.Header.Set("X-Amz-Trailer", trailerName)
	req.Header.Set("X-Amz-Decoded-Content-Length", strconv.FormatInt(m.b.size, 10))
	in.Request = req
	return next.HandleFinalize(v4.SetPayloadHash(ctx, trailerHash), in)
}

// encode returns the body with its checksum behind it, and the length of both. Precondition:
// it is not empty.
func encode(b *body) (io.Reader, int64) {
	head := strconv.FormatInt(b.size, 16) + "\r\n"
	tail := &trailer{b: b}
	length := int64(len(head)) + b.size + int64(len(tail.text(strings.Repeat("=", sumLength))))
	return io.MultiReader(strings.NewReader(head), b, tail), length
}

// trailer is what follows the payload. Nothing of it is known before that was read.
type trailer struct {
	b    *body
	rest io.Reader // nil: not begun
}

func (t *trailer) text(sum string) string {
	return "\r\n0\r\n" + trailerName + ":" + sum + "\r\n\r\n"
}

func (t *trailer) Read(p []byte) (int, error) {
	if t.rest == nil {
		crc, err := t.b.whole()
		if err != nil {
			return 0, err
		}
		t.rest = strings.NewReader(t.text(encodeSum(crc)))
	}
	return t.rest.Read(p)
}
