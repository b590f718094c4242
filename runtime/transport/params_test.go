package transport

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// ofMembers is an object of n members in as many bytes as any other.
func ofMembers(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	return `{` + b.String() + `"x":"` + strings.Repeat("x", size-b.Len()-8) + `"}`
}

// CAP-5: what refusing long params and long arguments allocates does not grow with their members, over
// HTTP and on lines (S7).
func TestLongParamsAreNotLookedInto(t *testing.T) {
	g := newRig(t, server.Options{})
	defer g.stop()
	m := modes[3]
	for name, params := range map[string]func(members int) string{
		"params":    func(n int) string { return ofMembers(n, 3<<20) },
		"arguments": func(n int) string { return `{"name":"tick","arguments":` + ofMembers(n, 200<<10) + `}` },
	} {
		few, many := 10, 15_000
		for _, plain := range []bool{false, true} {
			g := g
			if plain {
				g = plainRig(t, server.Options{})
				defer g.stop()
			}
			h := NewHandler(g.es, HandlerOptions{})
			allocated := func(members int) float64 {
				body := m.request(`1`, wire.MethodPoll, params(members))
				return testing.AllocsPerRun(5, func() {
					r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json, text/event-stream")
					r.Header.Set(headerVersion, m.version)
					r.Header.Set(headerMethod, wire.MethodPoll)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "-32602") || !strings.Contains(w.Body.String(), " bytes of JSON, at most ") {
						t.Fatalf("%d %s", w.Code, w.Body)
					}
				})
			}
			if a, b := allocated(few), allocated(many); b > a+float64(many)/50 {
				t.Errorf("%s, plain %v: %v allocations for %d members, %v for %d", name, plain, a, few, b, many)
			}
		}
		if name == "params" {
			lines := func(members int) float64 {
				text := m.request(`1`, wire.MethodPoll, params(members))
				return testing.AllocsPerRun(5, func() {
					if _, bad := parsePostBody([]byte(text), 256<<10); bad == nil || string(bad.id) != "1" {
						t.Fatal(bad)
					}
				})
			}
			if a, b := lines(few), lines(many); b > a+10 {
				t.Errorf("lines: %v allocations for %d members, %v for %d", a, few, b, many)
			}
		}
	}
}
