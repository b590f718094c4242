package transport

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/origin"
)

// What pages of an allowed origin may send, beside the headers of the protocol, and read.
const (
	allowedMethods = "GET, POST, DELETE"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	preflightAge   = "7200" // seconds; Chromium keeps an answer no longer
)

var allowedHeaders = map[string]bool{"accept": true, "authorization": true, "content-type": true, "last-event-id": true}

// AllowOrigins lets web pages of the given origins call next, which may be any handler: it answers their browsers'
// preflight requests and marks the answers as theirs to read (CORS). It goes around authentication, which would refuse
// a preflight, and takes the place of [HandlerOptions.Origins] there:
//
//	mux.Handle("/mcp", transport.AllowOrigins(authenticate(transport.NewHandler(es, o)), "https://app.example.com"))
//
// An origin is scheme://host or scheme://host:port, in lower case; "*" is every origin, for servers whose callers all
// have tokens. A page of neither these nor the server's own origin is refused with 403, before anything of the body is
// read. Cookies are not allowed across origins. Where an origin is none, every request is answered 500, which says so.
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
// server's own origin reach next, as they reach MCP (AUTH-5). A page of another origin gets 403, and so does a request that
// arrives on loopback for a Host other than localhost or a loopback address, which is how a page reaches this machine after
// its name was made to lead here (DNS rebinding). Put [AllowOrigins] around it to allow some origins:
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

// admitted marks the context of a request that a gate has let through: the gates behind it do not ask again.
type admitted struct{}

// A gate keeps the pages of foreign origins out (AUTH-5).
type gate struct {
	rule *origin.Rule
	// trusted is the author's own protection, which may know further origins. It stays in force behind the gate.
	trusted *http.CrossOriginProtection
	err     error
}

// newGate makes a gate; what names the list of origins to the author who got it wrong.
func newGate(what string, origins []string, trusted *http.CrossOriginProtection) *gate {
	rule, err := origin.NewRule(origins...)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return &gate{rule, trusted, err}
}

// admits reports whether a request goes on. On false it is answered.
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
	if g.rule.Check(r) != nil && (g.trusted == nil || g.trusted.Check(origin.Unsafe(r)) != nil) {
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

// preflighted answers the question of a browser whether a request may be sent. The protocol has headers named after a
// tool's arguments, so what is allowed depends on what is asked for.
func preflighted(w http.ResponseWriter, r *http.Request) {
	var names []string
	for _, value := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if allowedHeaders[name] || strings.HasPrefix(name, "mcp-") {
				names = append(names, name)
			}
		}
	}
	header := w.Header()
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", allowedMethods)
	header.Set("Access-Control-Allow-Headers", strings.Join(names, ", "))
	header.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}
