// Package oauth lets an MCP server accept OAuth access tokens. The server is the resource server of RFC 6750. The
// identity provider runs the authorization server.
//
// [New] takes the configuration, [Resource.RequireToken] wraps the MCP handler, and [Resource.Register] registers a
// handler for the metadata (RFC 9728), which clients use to find the authorization server:
//
//	resource, err := oauth.New(oauth.Options{
//		URL:           "https://mcp.example.com/mcp",
//		Issuer:        "https://id.example.com",
//		Introspection: "https://id.example.com/introspect",
//	})
//	…
//	resource.Register(mux)
//	mux.Handle("/mcp", resource.RequireToken(transport.NewHandler(es, transport.HandlerOptions{})))
//
// Each token is introspected (RFC 7662) at most once a minute, or verified by [Options.Verify]. The subject becomes the
// principal, and a stream ends when the token that opened it expires. Set server.Options.Authorize to
// [Resource.Authorize] to end the subscriptions of a principal whose tokens were revoked.
//
// # Junk tokens
//
// Guessed tokens should delay their senders, but affect the users of valid tokens as little as possible. Invalid
// tokens are not counted by address, because all callers behind a proxy have the same address. Instead, only a few
// checks run at a time, and further tokens wait. Tokens that were valid a minute ago have priority. Then the senders
// of unknown tokens take turns, so a flood from one address delays mainly its own tokens; a valid token from that
// address that was never seen before can be refused. Valid and invalid tokens have separate caches, so invalid tokens
// evict only other invalid tokens. The response is 503 if a token has waited for 10 seconds, or if the authorization
// server is unavailable.
package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
)

// MetadataPath is the path of the metadata. The path of the resource may be appended to it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// bodyTime is the maximum time for reading the body of a request.
const bodyTime = 30 * time.Second

// Options configures a [Resource]. URL and Issuer are required, and so is either Introspection or Verify.
type Options struct {
	// URL is the public URL of the MCP endpoint. It is the audience of tokens.
	URL string
	// Name is the resource_name in the metadata. It may be empty.
	Name string
	// Issuer is the URL of the authorization server.
	Issuer string

	// Scopes lists the scopes that every token must have. The response to a request without one of them is 403.
	Scopes []string

	// Introspection is the URL of the authorization server's introspection endpoint.
	Introspection string
	// ClientID and ClientSecret authenticate this server for introspection with HTTP Basic. If ClientID is empty, no
	// credentials are sent.
	ClientID, ClientSecret string
	// HTTPClient sends the introspection requests. If it is nil, a client with default settings is used. Redirects are
	// never followed, because they would send the token to another URL.
	HTTPClient *http.Client

	// Verify is used instead of introspection, for example to check the signature of a JWT. It must also check the
	// token's audience and issuer, and that it is not bound to a key (cnf). For an invalid token, it must return an
	// error that wraps auth.ErrInvalidToken. Any other error is logged, and the response is 503. If Expiration is zero,
	// the token expires 10 minutes after the check.
	Verify func(ctx context.Context, token string) (*auth.TokenInfo, error)

	// Sender returns a string that identifies the sender of a request. It is used to let the senders of unknown tokens
	// take turns. The default is the remote address of the connection, of an IPv6 address only the first 48 bits.
	// Behind a proxy, return the address from the header that the proxy sets, such as X-Real-IP. Never use a header
	// that clients can set.
	Sender func(*http.Request) string

	// MaxChecks limits the introspections or calls of Verify that run concurrently; default 32.
	MaxChecks int

	// Logger logs errors of the authorization server, once for each change. If it is nil, slog.Default() is used.
	Logger *slog.Logger
}

// A Resource validates the access tokens of an MCP endpoint. It is safe for concurrent use.
type Resource struct {
	metadata http.Handler
	path     string // of the endpoint's URL, without a final slash
	require  func(http.Handler) http.Handler
	sender   func(*http.Request) string
	tokens   *tokenChecker
}

// New returns a Resource. The error names the invalid option.
func New(o Options) (*Resource, error) {
	at, err := url.Parse(o.URL)
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("oauth: Options.URL is %q; set it to the public URL of the MCP endpoint", o.URL)
	}
	if o.Issuer == "" {
		return nil, errors.New("oauth: Options.Issuer is empty; set it to the URL of the authorization server")
	}
	o.Scopes = slices.Clone(o.Scopes)
	logger := cmp.Or(o.Logger, slog.Default())
	verify := o.Verify
	switch {
	case verify != nil && o.Introspection != "":
		return nil, errors.New("oauth: Options.Verify and Options.Introspection are both set; keep one")
	case verify == nil:
		in, err := newIntrospector(o)
		if err != nil {
			return nil, err
		}
		if in.isReadable() {
			logger.Warn("oauth: the introspection endpoint is plain http: everybody on the way can read the tokens", "url", o.Introspection)
		}
		verify = in.verify
	}
	sender := o.Sender
	if sender == nil {
		sender = inbound.Site
	}
	below := MetadataPath + at.EscapedPath()
	metadata := url.URL{Scheme: at.Scheme, Host: at.Host, Path: MetadataPath + at.Path, RawPath: below}
	return &Resource{
		path: strings.TrimSuffix(at.Path, "/"),
		metadata: auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
			Resource:               o.URL,
			AuthorizationServers:   []string{o.Issuer},
			BearerMethodsSupported: []string{"header"},
			ScopesSupported:        o.Scopes,
			ResourceName:           o.Name,
		}),
		require: auth.RequireBearerToken(infoFromContext, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata.String(), Scopes: o.Scopes}),
		sender:  sender,
		tokens:  newTokens(verify, &o, logger),
	}, nil
}

// Register registers a handler for the metadata on mux. The handler serves [MetadataPath] and that path followed by the
// path of the MCP endpoint. It does not require a token.
func (r *Resource) Register(mux *http.ServeMux) {
	serve := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		inbound.Deadline(w, q, bodyTime)
		if below := strings.TrimPrefix(q.URL.Path, MetadataPath); strings.TrimSuffix(below, "/") != "" && below != r.path {
			http.NotFound(w, q)
			return
		}
		r.metadata.ServeHTTP(w, q)
	})
	mux.Handle(MetadataPath, serve)
	mux.Handle(MetadataPath+"/", serve)
}

// RequireToken returns a handler that calls next for requests with a valid token. The request's context contains the
// token's auth.TokenInfo. The response to any other request is 401 with the URL of the metadata, or 503 if the token
// cannot be checked at the moment.
func (r *Resource) RequireToken(next http.Handler) http.Handler {
	next = r.require(next)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		inbound.Deadline(w, q, bodyTime)
		if token := bearerToken(q); token != "" {
			info, err := r.tokens.verify(q.Context(), token, r.sender(q))
			if errors.Is(err, errUnavailable) { // the SDK would answer 500
				w.Header().Set("Retry-After", "5")
				http.Error(w, errUnavailable.Error(), http.StatusServiceUnavailable)
				return
			}
			if err == nil {
				q = q.WithContext(context.WithValue(q.Context(), infoKey{}, info))
			}
		}
		next.ServeHTTP(w, q)
	})
}

// bearerToken returns the bearer token in a request, or "". It parses the header like auth.RequireBearerToken.
func bearerToken(q *http.Request) string {
	fields := strings.Fields(q.Header.Get("Authorization"))
	if len(fields) != 2 || !strings.EqualFold(fields[0], "Bearer") {
		return ""
	}
	return fields[1]
}

type infoKey struct{}

// infoFromContext returns the token info that RequireToken stored in the context.
func infoFromContext(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
	if info, ok := ctx.Value(infoKey{}).(*auth.TokenInfo); ok {
		return info, nil
	}
	return nil, auth.ErrInvalidToken
}
