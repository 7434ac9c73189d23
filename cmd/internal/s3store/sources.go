package s3store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millrace/actors/port"
	"millrace/core/settings"
)

// Names of the sources, as the status shows them.
const (
	sourceStatic      = "configuration"
	sourceEnvironment = "environment"
	sourceContainer   = "container"
	sourceInstance    = "instance role"
)

// Fetch implements port.Keyring. The order is the SDK's: keys of the environment, a web
// identity's token, the shared profile (files, process, single sign-on, another role), the
// container's endpoint, the instance's role. Keys of the configuration come before all,
// and a profile that the configuration names before the environment. Files are read anew.
func (k *keyring) Fetch(ctx context.Context) (port.Credentials, error) {
	if k.cfg.AccessKeyID != "" {
		return k.static(ctx)
	}
	tap := newTap()
	loaded, err := config.LoadDefaultConfig(ctx, k.options(tap)...)
	if err != nil {
		return port.Credentials{}, k.unloaded(ctx, tap, err)
	}
	got, err := loaded.Credentials.Retrieve(ctx)
	if err != nil {
		return port.Credentials{}, k.failed(ctx, tap, err)
	}
	return port.Credentials{
		Source: k.named(got), AccessKeyID: got.AccessKeyID, SecretKey: settings.Secret(got.SecretAccessKey),
		SessionToken: settings.Secret(got.SessionToken), Expires: millis(got),
	}, nil
}

// static are the configuration's own.
func (k *keyring) static(ctx context.Context) (port.Credentials, error) {
	if !k.cfg.AllowStatic {
		return port.Credentials{}, &port.CredentialsError{Source: sourceStatic, Class: port.Denied, Err: errors.New(
			"store.access_key_id is set, but keys that never expire have to be allowed: set store.allow_static_credentials = true, " +
				"or better remove the keys and give the node a role")}
	}
	got, err := credentials.NewStaticCredentialsProvider(k.cfg.AccessKeyID, k.cfg.SecretKey.Reveal(), "").Retrieve(ctx)
	if err != nil {
		return port.Credentials{}, &port.CredentialsError{Source: sourceStatic, Class: port.Denied, Err: err}
	}
	return port.Credentials{Source: sourceStatic, AccessKeyID: got.AccessKeyID, SecretKey: settings.Secret(got.SecretAccessKey)}, nil
}

// dialPatience is for sources that may not be there at all: outside of EC2 nobody answers
// at the instance's address.
const dialPatience = 2 * time.Second

// tap is how the SDK's providers ask for credentials over HTTP. It keeps what came of the
// last question, which they tell in words only.
type tap struct {
	http.RoundTripper
	mu     sync.Mutex // a question that is given up goes on for a while
	asked  string     // path of the last question; "" = there was none
	status int        // 0: no answer
}

func newTap() *tap {
	dialer := &net.Dialer{Timeout: dialPatience}
	return &tap{RoundTripper: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, Protocols: http1()}}
}

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	status := 0
	if err == nil {
		status = resp.StatusCode
	}
	t.note(req.URL.Path, status)
	return resp, err
}

// watch does the same for the services that the SDK asks with clients of its own.
func (t *tap) watch(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("millrace tap", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if req, ok := in.Request.(*smithyhttp.Request); ok {
			status := 0
			if resp, ok := out.RawResponse.(*smithyhttp.Response); ok && resp != nil && resp.Response != nil {
				status = resp.StatusCode
			}
			t.note(req.URL.Path, status)
		}
		return out, metadata, err
	}), middleware.After)
}

func (t *tap) note(path string, status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked, t.status = "/"+strings.TrimPrefix(path, "/"), status
}

// last is what came of the last question.
func (t *tap) last() (asked string, status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked, t.status
}

// options make the SDK ask once and not for long: when to ask again is core/renew's.
func (k *keyring) options(tap *tap) []func(*config.LoadOptions) error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: tap}
	options := []func(*config.LoadOptions) error{
		// One of the SDK's own kind: it refuses any other where AWS_CA_BUNDLE is set.
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(client.Timeout).WithTransportOptions(func(tr *http.Transport) {
			tr.DisableKeepAlives, tr.Protocols = true, http1()
		}).WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialPatience })),
		config.WithAPIOptions([]func(*middleware.Stack) error{tap.watch}),
		// A life is what its source says; when to renew is core/renew's.
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = 0 }),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
			o.Client = imds.New(imds.Options{HTTPClient: client, Retryer: aws.NopRetryer{}, EnableFallback: aws.FalseTernary, Endpoint: os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), ClientEnableState: imdsState()})
		}),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient, o.Retryer = client, aws.NopRetryer{} }),
	}
	if k.cfg.Region != "" {
		options = append(options, config.WithRegion(k.cfg.Region))
	}
	if k.cfg.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(k.cfg.Profile))
	}
	return options
}

func imdsState() imds.ClientEnableState {
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return imds.ClientDisabled
	}
	return imds.ClientEnabled
}

// named says in words where the SDK has credentials from.
func (k *keyring) named(c aws.Credentials) string {
	switch {
	case strings.HasPrefix(c.Source, "EnvConfigCredentials"):
		return sourceEnvironment
	case c.Source == ec2rolecreds.ProviderName:
		return sourceInstance
	case c.Source == endpointcreds.ProviderName:
		return sourceContainer
	case c.Source == "WebIdentityCredentials":
		return "web identity"
	}
	return "profile " + k.profile()
}

func (k *keyring) profile() string {
	for _, name := range []string{k.cfg.Profile, os.Getenv("AWS_PROFILE"), os.Getenv("AWS_DEFAULT_PROFILE")} {
		if name != "" {
			return name
		}
	}
	return "default"
}

// tried is the source of which a path was asked last. A profile may ask services of its own,
// for single sign-on or another role.
func (k *keyring) tried(asked string) string {
	switch {
	case strings.HasPrefix(asked, "/latest/"):
		return sourceInstance
	case asked != "" && (os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" || os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != ""):
		return sourceContainer
	}
	return "profile " + k.profile()
}

// unloaded gives the shape the port demands to the failure of reading what says which sources
// there are: the environment and the profile's files.
func (k *keyring) unloaded(ctx context.Context, tap *tap, err error) error {
	if asked, _ := tap.last(); asked != "" || ctx.Err() != nil {
		return k.failed(ctx, tap, err)
	}
	if _, ok := errors.AsType[config.SharedConfigProfileNotExistError](err); ok {
		return k.failed(ctx, tap, err)
	}
	out := &port.CredentialsError{Source: "profile " + k.profile(), Err: fmt.Errorf(
		"its files can't be used as they are: write them whole, under another name, and move them into place: %w", plain(err))}
	if errors.Is(err, fs.ErrPermission) {
		out.Class = port.Denied
	}
	return out
}

// failed gives err the shape the port demands.
func (k *keyring) failed(ctx context.Context, tap *tap, err error) error {
	asked, status := tap.last()
	out := &port.CredentialsError{Source: k.tried(asked), Err: plain(err)}
	if status != 0 {
		out.Err = fmt.Errorf("status %d: %w", status, out.Err)
	}
	_, noProfile := errors.AsType[config.SharedConfigProfileNotExistError](err)
	_, process := errors.AsType[*processcreds.ProviderError](err)
	switch {
	case ctx.Err() != nil:
		out.Class = port.Timeout
	case noProfile:
		out.Class = port.NotFound
	case status == http.StatusUnauthorized, status == http.StatusForbidden, errors.Is(err, fs.ErrPermission):
		out.Class = port.Denied
	case status == http.StatusNotFound, asked == "" && !process && imdsState() == imds.ClientDisabled:
		out.Source, out.Class = "", port.NotFound
		out.Err = fmt.Errorf("neither the environment nor profile %s nor a container nor the instance has credentials; "+
			"docs/configuration.md says where a node looks: %w", k.profile(), out.Err)
	case process, asked != "" && (status == 0 || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError):
		out.Class = port.Unavailable
	}
	return out
}
