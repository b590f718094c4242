package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Every request to a callback names its sender: the challenge, the well-known document and the deliveries (HOOK-2,
// VER-2).
func TestUserAgent(t *testing.T) {
	for option, want := range map[string]string{"": "mcpe-gen", "tickets/1.2 (+https://tickets.example.com)": "tickets/1.2 (+https://tickets.example.com)"} {
		bubble(t, func(o *Options) { o.webhook().Callbacks.UserAgent = option }, func(t *testing.T, w *world) {
			e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			w.r.document = func(rw http.ResponseWriter) { fmt.Fprint(rw, `{"receivers":["/other"]}`) }
			w.subscribe("carol", params(secure, secretA, ""))
			if err := e.Emit(t.Context(), incident{ID: "x"}); err != nil {
				t.Fatal(err)
			}
			w.settle(time.Second)
			w.r.mu.Lock()
			defer w.r.mu.Unlock()
			if len(w.r.agents) != 3 || slices.ContainsFunc(w.r.agents, func(agent string) bool { return !strings.HasPrefix(agent, want) }) {
				t.Errorf("%q: %q", option, w.r.agents)
			}
		})
	}
	_, o := newReceiver(t)
	o.webhook().Callbacks.UserAgent = "a\r\nb"
	if _, err := New(mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil), o); err == nil || !strings.Contains(err.Error(), "user agent") {
		t.Errorf("a user agent of two lines: %v", err)
	}
}
