package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A harness is a server of the stateless era with one type in one mode, or without the extension.
type harness struct {
	mode string

	mu      sync.Mutex
	methods []string
}

func (h *harness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h.mu.Lock()
	h.methods = append(h.methods, m.Method)
	h.mu.Unlock()
	result := map[string]string{
		"server/discover":    `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`,
		"events/list":        `{"events":[{"name":"conformance.ticks","delivery":["` + h.mode + `"]}]}`,
		"events/poll":        `{"events":[{"eventId":"e1","name":"conformance.ticks","timestamp":"2026-11-20T08:00:00Z","data":{"n":1}}],"cursor":"c1"}`,
		"events/subscribe":   `{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","cursor":null}`,
		"events/unsubscribe": `{}`,
	}[m.Method]
	if h.mode != "" {
		result = strings.Replace(result, `"capabilities":{}`, `"capabilities":{"events":{}}`, 1)
	}
	w.Header().Set("Content-Type", "application/json")
	if result == "" {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/active\",\"params\":{\"cursor\":null}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// The program subscribes in the mode that is offered, exits without an error when its time is over, and asks a
// server without the extension nothing (CLI-1, CAP-2). What it sends meanwhile is TestConformanceClientSuite's
// matter, in runtime/client.
func TestRun(t *testing.T) {
	for mode, want := range map[string]string{"poll": "events/poll", "push": "events/stream", "webhook": "events/subscribe", "": "server/discover"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := &harness{mode: mode}
			srv := httptest.NewServer(h)
			defer srv.Close()
			var out bytes.Buffer
			env := func(string) string { return `{"durationMs":700}` }
			began := time.Now()
			if err := run(t.Context(), []string{"--later-flag", srv.URL}, env, &out); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d < 700*time.Millisecond {
				t.Errorf("over after %v", d)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if !slices.Contains(h.methods, want) {
				t.Errorf("sent %v\n%s", h.methods, out.String())
			}
			if mode == "" && slices.ContainsFunc(h.methods, func(m string) bool { return strings.HasPrefix(m, "events/") }) {
				t.Errorf("sent %v", h.methods)
			}
			if got := strings.Contains(out.String(), `conformance.ticks by poll: e1 {"n":1}`); got != (mode == "poll") {
				t.Errorf("%s", out.String())
			}
		})
	}
}

// Mistakes are named.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		args []string
		env  string
		want string
	}{
		{nil, "", "usage"},
		{[]string{"http://127.0.0.1:1/mcp"}, `{`, "MCP_CONFORMANCE_CONTEXT"},
		{[]string{"http://127.0.0.1:1/mcp"}, `{"durationMs":2000}`, "refused"},
	} {
		err := run(t.Context(), tt.args, func(string) string { return tt.env }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt, err)
		}
	}
	if d, err := duration(""); d != defaultDuration || err != nil {
		t.Error(d, err)
	}
}
