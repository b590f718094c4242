package transport

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/origin"
)

// Values for CORS responses to pages of allowed origins.
const (
	allowedMethods = "GET, POST, DELETE"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	preflightAge   = "7200" // seconds; Chromium caches no longer
	maxAsked       = 64     // maximum number of request headers to allow
)

// AllowOrigins returns a handler that allows web pages of the given origins to call next, which can be any handler. It
// answers preflight requests and allows the pages to read the responses (CORS). Wrap it around authentication, which
// would refuse preflight requests, instead of setting [HandlerOptions.Origins]:
//
//	mux.Handle("/mcp", transport.AllowOrigins(authenticate(transport.NewHandler(es, o)), "https://app.example.com"))
//
// An origin is scheme://host or scheme://host:port, in lower case. "*" allows every origin, for servers that require a
// token from every caller. Requests from pages of other foreign origins are refused with 403 before the body is read.
// Cookies are not allowed across origins. If an origin is malformed, every request is answered with 500 and the reason.
func AllowOrigins(next http.Handler, origins ...string) http.Handler {
	g := newGate("AllowOrigins", origins, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inbound.Deadline(w, r, defaultReadTimeout)
		if g.admit(w, r) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), admittedKey{}, true)))
		}
	})
}

// SameOrigin returns a handler that refuses requests to next from web pages of other origins. Use it for handlers on
// the same server as [NewHandler], which has the same protection (AUTH-5). Requests from pages of other origins are
// refused with 403. So are requests that arrive on loopback with a Host other than localhost or a loopback address, as
// in DNS rebinding. To allow other origins, wrap the handler in [AllowOrigins]:
//
//	mux.Handle("POST /notes", transport.SameOrigin(authenticate(http.HandlerFunc(postNote))))
func SameOrigin(next http.Handler) http.Handler {
	g := newGate("SameOrigin", nil, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inbound.Deadline(w, r, defaultReadTimeout)
		if !g.admit(w, r) {
			return
		}
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if local != nil && isLoopback(local.String()) && !isLoopback(r.Host) {
			http.Error(w, fmt.Sprintf("Forbidden: this server is on loopback, and the Host %q is not; a proxy on the same machine must set Host", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admittedKey is the context key for requests that a gate has admitted. Inner gates then skip their check.
type admittedKey struct{}

// A gate refuses requests from pages of foreign origins (AUTH-5).
type gate struct {
	rule *origin.Rule
	// trusted is the protection configured by the application, which may allow further origins. It also applies after
	// the gate.
	trusted *http.CrossOriginProtection
	err     error
}

// newGate returns a gate. The what argument is the name of the option in errors about its origins.
func newGate(what string, origins []string, trusted *http.CrossOriginProtection) *gate {
	rule, err := origin.NewRule(origins...)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return &gate{rule, trusted, err}
}

// admit reports whether a request may continue. If not, admit has already responded.
func (g *gate) admit(w http.ResponseWriter, r *http.Request) bool {
	if r.Context().Value(admittedKey{}) != nil {
		return true
	}
	if g.err != nil {
		http.Error(w, g.err.Error(), http.StatusInternalServerError)
		return false
	}
	if g.rule.Names() {
		w.Header().Add("Vary", "Origin")
	}
	if g.rule.Check(r) != nil && (g.trusted == nil || len(r.Header["Origin"]) > 1 || g.trusted.Check(origin.Unsafe(r)) != nil) {
		http.Error(w, "Forbidden: pages of this origin may not call this server (transport.AllowOrigins, HandlerOptions.Origins)", http.StatusForbidden)
		return false
	}
	if named := g.rule.Named(r); named != "" {
		w.Header().Set("Access-Control-Allow-Origin", named)
		w.Header().Set("Access-Control-Expose-Headers", exposedHeaders)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			answerPreflight(w, r)
			return false
		}
	}
	return true
}

// headerName matches a lower-case header name in a preflight request.
var headerName = regexp.MustCompile("^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$")

// answerPreflight answers a preflight request from an allowed page. It allows any header, because the protocol has
// headers named after a tool's arguments, and servers and middleware may define others.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	var names []string
	for name := range strings.SplitSeq(strings.Join(r.Header["Access-Control-Request-Headers"], ","), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if len(names) < maxAsked && headerName.MatchString(name) {
			names = append(names, name)
		}
	}
	header := w.Header()
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", allowedMethods)
	header.Set("Access-Control-Allow-Headers", strings.Join(names, ", "))
	header.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}

// Challenge returns a handler that adds a WWW-Authenticate header to 401 responses of next that do not have one. HTTP
// requires this header. The added challenge requests a bearer token. The SDK's auth.RequireBearerToken adds the header
// only for OAuth clients:
//
//	handler := transport.Challenge(auth.RequireBearerToken(verify, nil)(transport.NewHandler(es, o)))
func Challenge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&challengeWriter{w}, r) })
}

// A challengeWriter adds a challenge to 401 responses.
type challengeWriter struct{ http.ResponseWriter }

// Unwrap gives response controllers access to flushing and deadlines.
func (w *challengeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header and adds a challenge if necessary.
func (w *challengeWriter) WriteHeader(status int) {
	if status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.ResponseWriter.WriteHeader(status)
}
