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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
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
	loaded, err := config.LoadDefaultConfig(ctx, k.options()...)
	if err != nil {
		return port.Credentials{}, k.failed(ctx, "", err)
	}
	got, err := loaded.Credentials.Retrieve(ctx)
	if err != nil {
		return port.Credentials{}, k.failed(ctx, k.asked(), err)
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

// options make the SDK ask once and not for long: when to ask again is core/renew's.
func (k *keyring) options() []func(*config.LoadOptions) error {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, Protocols: http1()},
	}
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
			o.Client = imds.New(imds.Options{HTTPClient: client, Retryer: aws.NopRetryer{}, EnableFallback: aws.FalseTernary, Endpoint: os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), ClientEnableState: imdsState()})
		}),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.Retryer = aws.NopRetryer{} }),
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

// asked is the source that the SDK went to when its files and the environment held none.
func (k *keyring) asked() string {
	switch {
	case os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" || os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "":
		return sourceContainer
	}
	return ""
}

// failed gives err the shape the port demands.
func (k *keyring) failed(ctx context.Context, source string, err error) error {
	out := &port.CredentialsError{Source: source, Err: plain(err)}
	status := 0
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && resp.Response != nil {
		status = resp.HTTPStatusCode()
	}
	_, noProfile := errors.AsType[config.SharedConfigProfileNotExistError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case ctx.Err() != nil:
		out.Class = port.Timeout
	case noProfile:
		out.Source, out.Class = "profile "+k.profile(), port.NotFound
	case errors.Is(err, fs.ErrPermission) || status == http.StatusUnauthorized || status == http.StatusForbidden:
		out.Class = port.Denied
	case status == http.StatusNotFound || imdsState() == imds.ClientDisabled && source == "":
		out.Class = port.NotFound
		out.Err = fmt.Errorf("neither the environment nor profile %s nor a container nor the instance has credentials; "+
			"docs/configuration.md lists where a node looks: %w", k.profile(), plain(err))
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError || network:
		out.Class = port.Unavailable
	}
	return out
}
