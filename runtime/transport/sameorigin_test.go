package transport

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// AUTH-5: a handler next to MCP takes requests of programs and of the server's own pages, and on loopback only for a
// loopback Host.
func TestSameOrigin(t *testing.T) {
	own := SameOrigin(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	wide := AllowOrigins(own, "https://app.example.com")
	for _, c := range []struct {
		handler             http.Handler
		local, host, origin string
		want                int
	}{
		{own, "127.0.0.1", "127.0.0.1:8080", "", 202},
		{own, "127.0.0.1", "localhost:8080", "", 202},
		{own, "127.0.0.1", "localhost", "", 202},
		{own, "::1", "[::1]:8080", "", 202},
		{own, "127.0.0.1", "localhost:8080", "http://localhost:8080", 202},
		{own, "192.0.2.1", "mcp.example.com", "https://mcp.example.com", 202},
		{own, "192.0.2.1", "mcp.example.com", "https://evil.example", 403},
		{own, "127.0.0.1", "localhost:8080", "https://evil.example", 403},
		{own, "127.0.0.1", "localhost:8080", "null", 403},
		{own, "127.0.0.1", "evil.example:8080", "http://evil.example:8080", 403},
		{own, "127.0.0.1", "localhost.evil.example:8080", "", 403},
		{own, "::1", "evil.example", "", 403},
		{own, "127.0.0.1", "", "", 403},
		{wide, "127.0.0.1", "localhost:8080", "https://app.example.com", 202},
		{wide, "127.0.0.1", "localhost:8080", "https://evil.example", 403},
		{wide, "127.0.0.1", "evil.example:8080", "https://app.example.com", 403},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
			r, w := httptest.NewRequest(method, "http://x/notes", nil), httptest.NewRecorder()
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8080}))
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.handler.ServeHTTP(w, r); w.Code != c.want {
				t.Errorf("%s on %s for %q from %q: status %d, want %d", method, c.local, c.host, c.origin, w.Code, c.want)
			}
		}
	}
}
