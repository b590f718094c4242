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

// CORS values for pages of allowed origins.
const (
	allowedMethods = "GET, POST, DELETE"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	preflightAge   = "7200" // seconds; Chromium caches no longer
	maxAsked       = 64     // maximum number of request headers to allow
)

// AllowOrigins lets web pages of the given origins call next, which may be any handler. It answers their browsers'
// preflight requests and lets them read the responses (CORS). It wraps authentication, which would refuse a preflight,
// and replaces [HandlerOptions.Origins] there:
//
//	mux.Handle("/mcp", transport.AllowOrigins(authenticate(transport.NewHandler(es, o)), "https://app.example.com"))
//
// An origin is scheme://host or scheme://host:port, in lower case; "*" is every origin, for servers whose callers all
// have tokens. A page of any other foreign origin is refused with 403, before the body is read. Cookies are not allowed
// across origins. If an origin is malformed, every request is answered with 500 and the reason.
func AllowOrigins(next http.Handler, origins ...string) http.Handler {
	g := newGate("AllowOrigins", origins, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inbound.Deadline(w, r, defaultReadTimeout)
		if g.admits(w, r) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), admitted{}, true)))
		}
	})
}

// SameOrigin keeps web pages of other origins out of a handler next to [NewHandler]. Only programs and pages of the
// server's own origin reach next, as with MCP itself (AUTH-5). A page of another origin gets 403. So does a request
// that arrives on loopback for a Host other than localhost or a loopback address, as in DNS rebinding. Wrap it in
// [AllowOrigins] to allow some origins:
//
//	mux.Handle("POST /notes", transport.SameOrigin(authenticate(http.HandlerFunc(postNote))))
func SameOrigin(next http.Handler) http.Handler {
	g := newGate("SameOrigin", nil, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inbound.Deadline(w, r, defaultReadTimeout)
		if !g.admits(w, r) {
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

// admitted marks the context of a request that a gate has admitted, so that inner gates skip their check.
type admitted struct{}

// A gate refuses pages of foreign origins (AUTH-5).
type gate struct {
	rule *origin.Rule
	// trusted is the author's protection, which may allow further origins. It is still applied after the gate.
	trusted *http.CrossOriginProtection
	err     error
}

// newGate returns a gate. what names the option in errors about its origins.
func newGate(what string, origins []string, trusted *http.CrossOriginProtection) *gate {
	rule, err := origin.NewRule(origins...)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return &gate{rule, trusted, err}
}

// admits reports whether a request may continue. If not, it has answered the request.
func (g *gate) admits(w http.ResponseWriter, r *http.Request) bool {
	if r.Context().Value(admitted{}) != nil {
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
			preflighted(w, r)
			return false
		}
	}
	return true
}

// headerName matches a header name in a preflight request.
var headerName = regexp.MustCompile("^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$")

// preflighted answers a preflight request of an allowed page. It allows any header: the protocol has headers named
// after a tool's arguments, and servers and their middleware have their own.
func preflighted(w http.ResponseWriter, r *http.Request) {
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

// Challenge adds a WWW-Authenticate header to each 401 response of next that lacks one. HTTP requires it; the challenge
// is for a bearer token. The SDK's auth.RequireBearerToken adds it only for clients of OAuth:
//
//	handler := transport.Challenge(auth.RequireBearerToken(verify, nil)(transport.NewHandler(es, o)))
func Challenge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&challenger{w}, r) })
}

// A challenger is a response that gets a challenge if it is a 401.
type challenger struct{ http.ResponseWriter }

// Unwrap gives response controllers access to flushing and deadlines.
func (w *challenger) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header, with a challenge if necessary.
func (w *challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.ResponseWriter.WriteHeader(status)
}
