package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

const resource = "https://mcp.example.com/mcp"

// An issuer is an authorization server with an answer for each token; for unknown ones the token is not active.
type issuer struct {
	mu    sync.Mutex
	say   map[string]func(*http.Request) (*http.Response, error)
	asked atomic.Int32
	delay time.Duration
	most  int // introspections at a time
	now   int
}

func (i *issuer) answer(token string, say func(*http.Request) (*http.Response, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.say[token] = say
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.asked.Add(1)
	i.mu.Lock()
	i.now++
	i.most = max(i.most, i.now)
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		i.now--
		i.mu.Unlock()
	}()
	select {
	case <-time.After(i.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if id, secret, _ := r.BasicAuth(); id != "events" || secret != "s3cret" {
		return answering(http.StatusUnauthorized, "who asks?")(r)
	}
	if !strings.HasPrefix(r.UserAgent(), "mcpe-gen") {
		return answering(http.StatusForbidden, "which program asks?")(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	say := i.say[form.Get("token")]
	i.mu.Unlock()
	if say == nil {
		say = answering(http.StatusOK, `{"active":false}`)
	}
	return say(r)
}

func answering(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Location": {"/elsewhere"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// active is an answer about a good token, with more members.
func active(more string) func(*http.Request) (*http.Response, error) {
	return answering(http.StatusOK, `{"active":true,"sub":"ada","scope":"events","aud":"`+resource+`"`+more+`}`)
}

func exp(in time.Duration) string { return fmt.Sprintf(`,"exp":%d`, time.Now().Add(in).Unix()) }

// An endpoint answers with the principal of the token that a request has.
type endpoint struct {
	*issuer
	resource *Resource
	mux      *http.ServeMux
	gate     *gate
	log      *strings.Builder
}

func newEndpoint(t *testing.T, change func(*Options)) *endpoint {
	e := &endpoint{issuer: &issuer{say: map[string]func(*http.Request) (*http.Response, error){}}, mux: http.NewServeMux(), log: &strings.Builder{}}
	o := Options{URL: resource, Issuer: "https://idp.example.com", Introspection: "https://inner.example.com:8443/introspect?key=INTERNAL",
		ClientID: "events", ClientSecret: "s3cret", HTTPClient: &http.Client{Transport: e.issuer}, Logger: slog.New(slog.NewTextHandler(e.log, nil))}
	if change != nil {
		change(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Register(e.mux)
	e.resource = r
	e.gate = r.tokens.gate
	e.mux.Handle("/mcp", r.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := auth.TokenInfoFromContext(r.Context())
		fmt.Fprint(w, info.UserID, info.Scopes)
	})))
	return e
}

// get sends a request from an address, with a token unless it is "".
func (e *endpoint) get(t *testing.T, path, token, from string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), httptest.NewRecorder()
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.RemoteAddr = from + ":1"
	e.mux.ServeHTTP(w, r)
	return w
}

// stranger returns an address that does not share its queue with another one. Two addresses share one in 1 of 256
// processes, since the hash is seeded.
func (e *endpoint) stranger(to string) string {
	for n := 1; ; n++ {
		if address := fmt.Sprint("198.51.100.", n); e.gate.queueFor(address) != e.gate.queueFor(to) {
			return address
		}
	}
}

const proxy = "192.0.2.7"

// TestTokens calls without a token, finds the authorization server as MCP clients do, and tries tokens for this and
// other servers.
func TestTokens(t *testing.T) {
	e := newEndpoint(t, nil)
	refused := e.get(t, "/mcp", "", proxy)
	if header := refused.Header().Get("WWW-Authenticate"); refused.Code != http.StatusUnauthorized ||
		!strings.Contains(header, "https://mcp.example.com/.well-known/oauth-protected-resource/mcp") {
		t.Errorf("without a token: status %d, WWW-Authenticate %q", refused.Code, header)
	}
	for _, path := range []string{MetadataPath, MetadataPath + "/mcp"} {
		var metadata struct {
			Resource             string
			AuthorizationServers []string `json:"authorization_servers"`
		}
		if err := json.Unmarshal(e.get(t, path, "", proxy).Body.Bytes(), &metadata); err != nil ||
			metadata.Resource != resource || len(metadata.AuthorizationServers) != 1 || metadata.AuthorizationServers[0] != "https://idp.example.com" {
			t.Errorf("%s: %+v, %v", path, metadata, err)
		}
	}
	if got := e.get(t, MetadataPath+"/other", "", proxy); got.Code != http.StatusNotFound {
		t.Errorf("the metadata of another resource: status %d", got.Code)
	}
	for token, row := range map[string]struct {
		say  func(*http.Request) (*http.Response, error)
		want int
	}{
		"good":                    {active(exp(time.Hour)), 200},
		"for-several":             {answering(200, `{"active":true,"sub":"ada","scope":"events","aud":["https://other.example.com","`+resource+`"]`+exp(time.Hour)+`}`), 200},
		"that-does-not-expire":    {active(""), 200},
		"with-null":               {active(`,"exp":null`), 200},
		"with-a-fraction":         {active(exp(time.Hour) + ".5"), 200},
		"with-an-exponent":        {active(`,"exp":9.9e9`), 200},
		"of-the-issuer":           {active(`,"iss":"https://idp.example.com"` + exp(time.Hour)), 200},
		"of-the-type":             {active(`,"token_type":"bearer"`), 200},
		"of-no-type":              {active(`,"token_type":null,"cnf":null`), 200},
		"of-type-dpop":            {active(`,"token_type":"DPoP"`), 401},
		"bound-to-a-key":          {active(`,"token_type":"Bearer","cnf":{"jkt":"x"}`), 401},
		"bound-to-a-certificate":  {active(`,"cnf":{"x5t#S256":"x"}`), 401},
		"for-use":                 {active(`,"token_use":"access_token"`), 200},
		"for-refresh":             {active(`,"token_use":"refresh_token"`), 401},
		"that-refreshes":          {active(`,"token_type":"refresh_token"`), 401},
		"guessed":                 {nil, 401},
		"of-another-issuer":       {active(`,"iss":"https://evil.example.com"` + exp(time.Hour)), 401},
		"for-another-server":      {answering(200, `{"active":true,"sub":"ada","aud":["https://other.example.com"]`+exp(time.Hour)+`}`), 401},
		"expired":                 {active(exp(-time.Hour)), 401},
		"of-nobody":               {answering(200, `{"active":true,"aud":"`+resource+`"`+exp(time.Hour)+`}`), 401},
		"active-in-another-case":  {answering(200, `{"Active":true,"SUB":"eve","AUD":"`+resource+`"}`), 503},
		"subject-in-another-case": {answering(200, `{"active":true,"Sub":"eve","aud":"`+resource+`"}`), 401},
		"active-twice":            {answering(200, `{"active":false,"active":true,"sub":"ada","aud":"`+resource+`"}`), 503},
		"subject-twice":           {active(`,"sub":"eve"`), 503},
		"active-as-text":          {answering(200, `{"active":"true","sub":"ada","aud":"`+resource+`"}`), 503},
		"cut-short":               {answering(200, `{"active":true`), 503},
		"redirected":              {answering(http.StatusTemporaryRedirect, ""), 503},
	} {
		e.answer(token, row.say)
		before := e.asked.Load()
		if got := e.get(t, "/mcp", token, proxy); got.Code != row.want || row.want == 200 && got.Body.String() != "ada[events]" {
			t.Errorf("a token %s: status %d, %q", token, got.Code, got.Body)
		}
		if n := e.asked.Load() - before; n != 1 {
			t.Errorf("a token %s: asked %d times", token, n)
		}
	}
	if got := e.get(t, "/mcp", strings.Repeat("x", maxToken+1), proxy); got.Code != http.StatusUnauthorized {
		t.Errorf("a token beyond the bound: %d", got.Code)
	}
}

// TestScopes refuses tokens that lack a scope, and names the scopes in the metadata.
func TestScopes(t *testing.T) {
	e := newEndpoint(t, func(o *Options) { o.Scopes = []string{"events", "admin"} })
	e.answer("one", active(""))
	e.answer("both", answering(200, `{"active":true,"sub":"ada","scope":"admin x events","aud":"`+resource+`"}`))
	for token, want := range map[string]int{"one": 403, "both": 200, "junk": 401} {
		if got := e.get(t, "/mcp", token, proxy); got.Code != want {
			t.Errorf("%s: status %d, want %d", token, got.Code, want)
		}
	}
	if body := e.get(t, MetadataPath, "", proxy).Body.String(); !strings.Contains(body, `"scopes_supported":["events","admin"]`) {
		t.Errorf("metadata %s", body)
	}
}

// TestOptions finds the name of the invalid option in each error.
func TestOptions(t *testing.T) {
	good := Options{URL: resource, Issuer: "https://idp.example.com", Introspection: "https://idp.example.com/introspect"}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"Options.URL":                              func(o *Options) { o.URL = "/mcp" },
		"Options.Issuer":                           func(o *Options) { o.Issuer = "" },
		`Options.Introspection is ""`:              func(o *Options) { o.Introspection = "" },
		`Options.Introspection is "idp"`:           func(o *Options) { o.Introspection = "idp" },
		`Options.Introspection is "ftp://idp/"`:    func(o *Options) { o.Introspection = "ftp://idp/" },
		`Options.Introspection is "https://"`:      func(o *Options) { o.Introspection = "https://" },
		"Options.Verify and Options.Introspection": func(o *Options) { o.Verify = (&introspector{}).verify },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %s", err, want)
		}
	}
}

// TestPlainIntrospection: a warning says that tokens are sent in plain text, unless they stay on this machine.
func TestPlainIntrospection(t *testing.T) {
	for at, want := range map[string]bool{"http://idp.internal/introspect": true, "https://idp.internal/introspect": false,
		"http://127.0.0.1:8080/introspect": false, "http://[::1]/introspect": false, "http://localhost/introspect": false} {
		e := newEndpoint(t, func(o *Options) { o.Introspection = at })
		if got := strings.Contains(e.log.String(), "plain http"); got != want {
			t.Errorf("%s: a warning %v, want %v", at, got, want)
		}
	}
}

// TestVerify replaces introspection, as for JWTs.
func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, func(o *Options) {
			o.Introspection, o.Verify = "", verifyJWT
		})
		for token, want := range map[string]int{"jwt": 200, "junk": 401, "expired": 401, "none": 401, "broken": 503} {
			if got := e.get(t, "/mcp", token, proxy); got.Code != want {
				t.Errorf("%s: status %d, want %d", token, got.Code, want)
			}
		}
		func() {
			defer func() { _ = recover() }() // as net/http does
			e.get(t, "/mcp", "panic", proxy)
		}()
		if got := e.get(t, "/mcp", "jwt", proxy); got.Code != http.StatusOK {
			t.Errorf("after a panic: status %d", got.Code)
		}
		if !strings.Contains(e.log.String(), "keys of the issuer") {
			t.Errorf("the log does not say what is wrong: %s", e.log)
		}
	})
}

// TestIssuerAway: callers learn that tokens cannot be checked, and nothing about the authorization server; the cause is
// in the log, once for each change.
func TestIssuerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		for kind, say := range map[string]func(*http.Request) (*http.Response, error){
			"refuses": func(*http.Request) (*http.Response, error) {
				return nil, errors.New("dial tcp 10.1.2.3:8443: connection refused")
			},
			"hangs": func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			},
			"answers 500":          answering(http.StatusInternalServerError, "10.1.2.3 is down"),
			"answers HTML":         answering(http.StatusOK, "<html>10.1.2.3</html>"),
			"answers another type": answering(http.StatusOK, `["10.1.2.3"]`),
		} {
			e.log.Reset()
			e.answer("ada's", say)
			for range 3 {
				got := e.get(t, "/mcp", "ada's", proxy)
				text := fmt.Sprint(got.Header(), got.Body)
				if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" || strings.TrimSpace(got.Body.String()) != errUnavailable.Error() {
					t.Errorf("an issuer that %s: %d %s", kind, got.Code, text)
				}
				for _, secret := range []string{"inner", "8443", "INTERNAL", "10.1.2.3", "deadline"} {
					if strings.Contains(text, secret) {
						t.Errorf("an issuer that %s: %q tells %s", kind, text, secret)
					}
				}
			}
			e.answer("ada's", active(exp(time.Hour)))
			if got := e.get(t, "/mcp", "ada's", proxy); got.Code != http.StatusOK {
				t.Errorf("after one that %s: %d", kind, got.Code)
			}
			if n := strings.Count(e.log.String(), "\n"); n != 2 || !strings.Contains(e.log.String(), "inner.example.com:8443") {
				t.Errorf("an issuer that %s: %d lines: %s", kind, n, e.log)
			}
			time.Sleep(2 * goodTTL)
		}
	})
}

// TestAnswersAreKept: one question serves all requests with a token, for a limited time.
func TestAnswersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		e.delay = time.Second
		e.answer("ada's", active(exp(90*time.Second)))
		e.answer("endless", active(""))
		want := func(what string, n int32) {
			t.Helper()
			if got := e.asked.Swap(0); got != n {
				t.Errorf("%s: asked %d times, want %d", what, got, n)
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if got := e.get(t, "/mcp", "ada's", proxy); got.Code != http.StatusOK {
					t.Errorf("concurrent requests: %d", got.Code)
				}
			})
		}
		all.Wait()
		want("100 concurrent requests", 1)
		for range 2 {
			e.get(t, "/mcp", "endless", proxy)
		}
		want("a token without an expiry", 1)
		for range 2 {
			e.get(t, "/mcp", "junk", proxy)
		}
		want("junk", 1)
		time.Sleep(badTTL)
		e.get(t, "/mcp", "junk", proxy)
		want("junk, later", 1)
		time.Sleep(goodTTL)
		e.get(t, "/mcp", "ada's", proxy)
		e.get(t, "/mcp", "endless", proxy)
		want("a minute later", 2)
		time.Sleep(30 * time.Second) // less than a minute, and it has expired
		if got := e.get(t, "/mcp", "ada's", proxy); got.Code != http.StatusUnauthorized {
			t.Errorf("after it expired: %d", got.Code)
		}
	})
}
