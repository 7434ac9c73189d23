package s3store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millrace/actors/port"
)

// maxMessage bounds what of a server's own words goes into an error, in bytes.
const maxMessage = 300

// verdict is what an answer means, and what its reader can do about it.
type verdict struct {
	class    port.Class
	hint     string
	rejected bool // the credentials were refused, not what they wanted to do
}

const noSuchBucket = "NoSuchBucket"

// byCode holds what S3 and its relatives say in words. A code stands here if its class is
// not what its status says, or if there is something to do about it.
var byCode = map[string]verdict{
	"NoSuchKey":           {class: port.NotFound},
	noSuchBucket:          {class: port.Denied, hint: "create the bucket, or set store.bucket"},
	"InvalidBucketName":   {class: port.Denied, hint: "set store.bucket"},
	"AccessDenied":        {class: port.Denied, hint: "docs/operations.md lists the permissions a node needs; with store.expected_bucket_owner set, the bucket may be another account's"},
	"AllAccessDisabled":   {class: port.Denied},
	"AccountProblem":      {class: port.Denied},
	"InvalidObjectState":  {class: port.Denied, hint: "the object is archived; a storage class that has to be restored before it is read can't be used"},
	"InvalidStorageClass": {class: port.Denied, hint: "set store.storage_class to one the store has"},

	"SignatureDoesNotMatch":                          {class: port.Denied, hint: "the secret key does not belong to the access key, or a proxy changes requests"},
	"AuthorizationHeaderMalformed":                   {class: port.Denied, hint: "set store.region to the bucket's"},
	"PermanentRedirect":                              {class: port.Denied, hint: "set store.region and store.endpoint to the bucket's"},
	"TemporaryRedirect":                              {class: port.Unavailable, hint: "the bucket is new and its name not known everywhere yet"},
	"IllegalLocationConstraint":                      {class: port.Denied, hint: "set store.region to the bucket's"},
	"RequestTimeTooSkewed":                           {class: port.Unclassified, hint: "this machine's clock is wrong: set it"},
	"InvalidAccessKeyId":                             {rejected: true},
	"ExpiredToken":                                   {rejected: true},
	"ExpiredTokenException":                          {rejected: true},
	"InvalidToken":                                   {rejected: true},
	"TokenRefreshRequired":                           {rejected: true},
	"InvalidClientTokenId":                           {rejected: true},
	"XAdminUserNotFound":                             {rejected: true}, // versitygw
	"UnrecognizedClientException":                    {rejected: true},
	"ServerSideEncryptionConfigurationNotFoundError": {class: port.Denied},

	"KMS.DisabledException":        {class: port.Denied, hint: "enable the key of store.kms_key_id"},
	"KMS.NotFoundException":        {class: port.Denied, hint: "set store.kms_key_id to a key of the bucket's region"},
	"KMS.KMSInvalidStateException": {class: port.Denied, hint: "the key of store.kms_key_id can't be used in its state"},
	"KMS.AccessDeniedException":    {class: port.Denied, hint: "allow the node to use the key of store.kms_key_id"},

	"SlowDown":                {class: port.Throttled},
	"Throttling":              {class: port.Throttled},
	"ThrottlingException":     {class: port.Throttled},
	"RequestLimitExceeded":    {class: port.Throttled},
	"BandwidthLimitExceeded":  {class: port.Throttled},
	"RequestThrottled":        {class: port.Throttled},
	"KMS.ThrottlingException": {class: port.Throttled},

	"InternalError":              {class: port.Unavailable},
	"OperationAborted":           {class: port.Unavailable},
	"ConditionalRequestConflict": {class: port.Unavailable}, // somebody else writes the key now; nobody won yet
	"IncompleteBody":             {class: port.Unavailable}, // the connection broke while we sent
	"RequestTimeout":             {class: port.Timeout},
	"PreconditionFailed":         {class: port.Exists},

	"BadDigest":                   {class: port.Checksum},
	"InvalidDigest":               {class: port.Checksum},
	"XAmzContentChecksumMismatch": {class: port.Checksum},
	"XAmzContentSHA256Mismatch":   {class: port.Checksum},

	"QuotaExceeded":       {class: port.Full},
	"InsufficientStorage": {class: port.Full},
	"XMinioStorageFull":   {class: port.Full},
	"EntityTooLarge":      {class: port.Denied},

	// A server over a file system can't have an object below another. versitygw says that a
	// folder is where the object should be also when a delete removed the folder it was to
	// be in; keys that are drawn anew each time meet that alone, and it passes.
	"ObjectParentIsFile":        {class: port.Denied, hint: "an object has the name of the key's folder"},
	"ExistingObjectIsDirectory": {class: port.Unavailable, hint: "a folder has the object's name, or its own went away meanwhile"},
	"XMinioParentIsObject":      {class: port.Denied, hint: "an object has the name of the key's folder"},
}

// byStatus classes an answer whose code is not in byCode, or that had none.
func byStatus(status int) verdict {
	switch {
	case status == http.StatusTooManyRequests:
		return verdict{class: port.Throttled}
	case status == http.StatusNotImplemented:
		return verdict{class: port.Denied, hint: "the store does not know what was asked"}
	case status == http.StatusInsufficientStorage:
		return verdict{class: port.Full}
	case status >= http.StatusInternalServerError:
		return verdict{class: port.Unavailable}
	case status == http.StatusNotFound:
		// That an object is not there only the store may say, in its own words: it is believed.
		return verdict{class: port.Unavailable, hint: "that is not how S3 says that there is no object: is store.endpoint right?"}
	case status == http.StatusRequestTimeout:
		return verdict{class: port.Timeout}
	case status == http.StatusPreconditionFailed:
		return verdict{class: port.Exists}
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusMethodNotAllowed:
		return verdict{class: port.Denied, hint: byCode["AccessDenied"].hint}
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return verdict{class: port.Denied, hint: byCode["PermanentRedirect"].hint}
	}
	return verdict{class: port.Unclassified}
}

// refusal is a store's answer that is no success, in few words.
type refusal struct {
	status  int // 0: one key's part of a success
	code    string
	message string
	request string // the store's id of the request, for its support
	hint    string
	err     error // as the SDK tells it; nil for one key's part
}

func (r *refusal) Error() string {
	var b strings.Builder
	b.WriteString("the store answers ")
	if r.status != 0 {
		b.WriteString(strconv.Itoa(r.status) + " ")
	}
	b.WriteString(r.code)
	if r.message != "" && r.message != r.code {
		fmt.Fprintf(&b, ": %.*s", maxMessage, r.message)
	}
	if r.request != "" {
		fmt.Fprintf(&b, " (request %.80s)", r.request)
	}
	if r.hint != "" {
		b.WriteString("; " + r.hint)
	}
	return b.String()
}

func (r *refusal) Unwrap() error { return r.err }

// operation is one call of the port.
type operation struct {
	client *client
	name   string
	key    string
	used   *uint64 // which of the keyring's credentials signed it; 0: none yet
}

func (c *client) begin(name, key string) operation {
	return operation{client: c, name: name, key: key, used: new(uint64)}
}

// context makes the keyring note what it signs the operation's requests with.
func (op operation) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, usedKey{}, op.used)
}

// fail gives err the shape the port demands; nil stays nil.
func (op operation) fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	class, err := op.classify(ctx, err)
	return &port.StoreError{Op: op.name, Key: op.key, Class: class, Err: err}
}

func (op operation) classify(ctx context.Context, err error) (port.Class, error) {
	if r := refusalOf(err); r != nil {
		v, known := byCode[r.code]
		if !known {
			v = byStatus(r.status)
		}
		if op.name == "probe" && (r.code == "NotFound" || r.code == noSuchBucket) {
			// An answer to HEAD has no words but its status.
			v = verdict{class: port.NotFound, hint: byCode[noSuchBucket].hint}
		}
		if v.rejected {
			v = op.client.ring.refused(*op.used)
		}
		r.hint = v.hint
		return v.class, r
	}
	if unsigned, ok := errors.AsType[*noCredentials](err); ok {
		return port.Unavailable, unsigned
	}
	switch {
	case ctx.Err() != nil:
		return port.Timeout, fmt.Errorf("%w: %w", ctx.Err(), plain(err))
	case errors.Is(err, errClosed):
		return port.Unavailable, errClosed
	case port.ClassOf(err) != port.Unclassified:
		return port.ClassOf(err), plain(err)
	}
	return broken(err)
}

// broken classes what happened without an answer, or in the middle of one.
func broken(err error) (port.Class, error) {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return port.Denied, fmt.Errorf("%w; the store's certificate has to be of an authority this machine trusts (SSL_CERT_FILE)", plain(err))
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return port.Denied, fmt.Errorf("%w; set store.endpoint to the name in the certificate, or store.path_style", plain(err))
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return port.Timeout, plain(err)
	}
	_, unsent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, network := errors.AsType[net.Error](err)
	if unsent || network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return port.Unavailable, plain(err)
	}
	return port.Unclassified, plain(err)
}

// plain takes the SDK's layers off an error that is no answer: which operation it was is
// said already.
func plain(err error) error {
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return send.Err
	}
	if operation, ok := errors.AsType[*smithy.OperationError](err); ok {
		return operation.Err
	}
	return err
}

// refusalOf returns the answer in err; nil if the store gave none.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	resp, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || resp.Response == nil || resp.HTTPStatusCode() < http.StatusMultipleChoices {
		return nil
	}
	r := &refusal{status: resp.HTTPStatusCode(), request: resp.Response.Header.Get("X-Amz-Request-Id"), err: err}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		r.code, r.message = api.ErrorCode(), api.ErrorMessage()
	}
	if r.code == "" || r.code == "UnknownError" {
		r.code = http.StatusText(r.status)
	}
	return r
}

// isPastTheEnd reports whether err says that a range begins at or after an object's end.
func isPastTheEnd(err error) bool {
	r := refusalOf(err)
	return r != nil && (r.status == http.StatusRequestedRangeNotSatisfiable || r.code == "InvalidRange")
}
