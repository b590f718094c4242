package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxAnswer is the maximum size of an introspection response in bytes.
const maxAnswer = 64 << 10

// An introspector introspects tokens at the authorization server (RFC 7662).
type introspector struct {
	Options
	at     *url.URL
	client http.Client
}

// An introspectionError reports a failure of the authorization server.
type introspectionError struct {
	url, what string
	err       error
}

func (e *introspectionError) Error() string { return fmt.Sprintf("%s: %s: %v", e.url, e.what, e.err) }
func (e *introspectionError) Unwrap() error { return e.err }

func newIntrospector(o Options) (*introspector, error) {
	at, err := url.Parse(o.Introspection)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return nil, fmt.Errorf("oauth: Options.Introspection is %q; set it to the http or https URL of the introspection endpoint, or set Options.Verify", o.Introspection)
	}
	in := &introspector{Options: o, at: at}
	if o.HTTPClient != nil {
		in.client = *o.HTTPClient
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = cmp.Or(max(o.MaxChecks, 0), defaultRunning)
		in.client.Transport = t
	}
	// A redirect would send the token to another URL and, on the same host, also the client's secret.
	in.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return in, nil
}

// isReadable reports whether the tokens go over a network in plain text.
func (in *introspector) isReadable() bool {
	ip, err := netip.ParseAddr(in.at.Hostname())
	local := in.at.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return in.at.Scheme == "http" && !local
}

// verify introspects a token. The error wraps auth.ErrInvalidToken or is an *introspectionError.
func (in *introspector) verify(ctx context.Context, token string) (*auth.TokenInfo, error) {
	failed := func(what string, err error) (*auth.TokenInfo, error) {
		return nil, &introspectionError{in.Introspection, what, err}
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, in.Introspection, strings.NewReader(form.Encode()))
	if err != nil {
		return failed("the request cannot be made", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", useragent.Default())
	if in.ClientID != "" {
		r.SetBasicAuth(url.QueryEscape(in.ClientID), url.QueryEscape(in.ClientSecret))
	}
	resp, err := in.client.Do(r)
	if err != nil {
		return failed("no answer", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return failed("unexpected status", fmt.Errorf("status %d", resp.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return failed("the answer cannot be read", err)
	}
	said, err := readAnswer(text)
	if err != nil {
		return failed("the answer cannot be read", err)
	}
	// A token that is bound to a key (RFC 8705, RFC 9449) is not a bearer token, and a refresh token gives no access.
	if said.bound || said.kind != "" && !strings.EqualFold(said.kind, "Bearer") || said.use != "" && said.use != "access_token" {
		return nil, auth.ErrInvalidToken
	}
	// A token for another server or from another issuer is invalid.
	if !said.active || said.sub == "" || !slices.Contains(said.aud, in.URL) || said.iss != "" && said.iss != in.Issuer {
		return nil, auth.ErrInvalidToken
	}
	info := &auth.TokenInfo{UserID: said.sub, Scopes: strings.Fields(said.scope)}
	if said.expires {
		if info.Expiration = time.Unix(int64(min(said.exp, 1<<40)), 0); !info.Expiration.After(time.Now()) {
			return nil, auth.ErrInvalidToken
		}
	}
	return info, nil
}

// An introspectionResponse is the content of an introspection response.
type introspectionResponse struct {
	active          bool
	bound           bool   // cnf is present
	kind            string // token_type
	use             string // token_use, an extension of Ory Hydra
	sub, scope, iss string
	aud             []string
	exp             float64 // seconds since 1970, in any notation
	expires         bool    // exp is present
}

// readAnswer parses an introspection response. Names are case-sensitive and must be unique, because the issuer could
// interpret an ambiguous response differently.
func readAnswer(text []byte) (said introspectionResponse, err error) {
	m, err := wire.DecodeMembers(text)
	if err != nil {
		return said, err
	}
	if m["active"] == nil {
		return said, errors.New(`"active" is missing`)
	}
	given := func(name string) bool { return m[name] != nil && string(m[name]) != "null" }
	said.bound, said.expires = given("cnf"), given("exp")
	if aud := m["aud"]; len(aud) > 0 && aud[0] == '"' { // a string or several (RFC 7519, 4.1.3)
		m["aud"] = slices.Concat([]byte{'['}, aud, []byte{']'})
	}
	for name, into := range map[string]any{"active": &said.active, "sub": &said.sub, "scope": &said.scope, "iss": &said.iss,
		"token_type": &said.kind, "token_use": &said.use, "exp": &said.exp, "aud": &said.aud} {
		if err := m.Read(name, into); err != nil {
			return said, err
		}
	}
	return said, nil
}
