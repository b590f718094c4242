package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// TestVER1WellKnown publishes exactly the receiver's own prefix, below the base that callback URLs
// have, and takes no other method than GET and HEAD (VER-1).
func TestVER1WellKnown(t *testing.T) {
	for _, c := range []struct{ prefix, base, want string }{
		{"", "", "/mcp/webhooks/"},
		{"", "/base", "/base/mcp/webhooks/"},
		{"/hooks/", "/a/b", "/a/b/hooks/"},
		{"", "/", ""}, {"", "base", ""}, {"", "/base/", ""}, {"", "/../a", ""}, {"", "/a%2fb", ""}, {"", "/a//b", ""}, {"", "/a?b=", ""}, {"", `/a\b`, ""},
		{"/", "", ""}, {"/", "/a", "/a/"},
	} {
		r, _ := newReceiver(t, ReceiverOptions{Prefix: c.prefix})
		h, err := r.WellKnown(c.base)
		if err != nil {
			if c.want != "" {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		for method, status := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "OPTIONS": 405} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, wire.PathReceivers, nil))
			if w.Code != status {
				t.Errorf("%+v: %s gave %d", c, method, w.Code)
			}
			if method != http.MethodGet {
				continue
			}
			var doc wire.Receivers
			if err := jsonv2.Unmarshal(w.Body.Bytes(), &doc); err != nil || len(doc.Receivers) != 1 || doc.Receivers[0] != c.want {
				t.Errorf("%+v: %s, %v", c, w.Body, err)
			}
			if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "max-age=3600" {
				t.Errorf("%+v: %v", c, h)
			}
		}
	}
}
