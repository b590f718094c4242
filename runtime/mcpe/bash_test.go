package mcpe

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// MCPE-HAN-1, trap 14: what cannot stand in an environment is left out of it; a text with a zero byte or
// beyond the kernel's bound would keep the command from being run. variables carries it.
func TestBashVariables(t *testing.T) {
	e := &mcpewire.Event{ID: "evt_1", Type: "e", Data: json.RawMessage(`{}`),
		Metadata: mcpewire.Metadata{Priority: "high", Timestamp: "now", Tags: []string{"a\x00LD_PRELOAD=x", "b"}}}
	env := variables(e, []byte(`{"id":"evt_1"}`))
	for _, v := range env {
		if strings.ContainsRune(v, 0) || strings.HasPrefix(v, "MCPE_EVENT_TAGS=") {
			t.Errorf("%q stands in the environment", v)
		}
	}
	for _, want := range []string{"MCPE_EVENT_ID=evt_1", "MCPE_EVENT_DATA={}", `MCPE_EVENT_JSON={"id":"evt_1"}`} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	e.Metadata.Tags = []string{strings.Repeat("t", 2*maxVariable)}
	for _, v := range variables(e, []byte(strings.Repeat("x", maxVariable+1))) {
		if len(v) > maxVariable || strings.HasPrefix(v, "MCPE_EVENT_JSON=") || strings.HasPrefix(v, "MCPE_EVENT_DATA=") {
			t.Errorf("%.30s, %d bytes, stands in the environment", v, len(v))
		}
	}
}

// MCPE-HAN-1, trap 14: an event too large for an argument or a variable is an error that says so, and
// nothing is run; by its input it has any size. bash.run carries it.
func TestBashLargeEvents(t *testing.T) {
	b, err := newBash(BashOptions{Allow: []string{"true"}})
	if err != nil {
		t.Skip(err)
	}
	for input, want := range map[string]string{inputArgs: "does not fit an argument", inputEnv: "does not fit the environment", inputStdin: ""} {
		r := &run{handler: &mcpewire.Handler{Command: "true", Input: input, Timeout: 1000}}
		r.event.Data = json.RawMessage(`"` + strings.Repeat("x", maxVariable) + `"`)
		err := b.run(t.Context(), r)
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%s: %v", input, err)
			}
		} else if want != "" {
			t.Errorf("%s: it is run", input)
		}
	}
}

// MCPE-HAN-1: a handler cannot ask for more time than is allowed. bash.timeout carries it.
func TestBashTimeouts(t *testing.T) {
	b, err := newBash(BashOptions{Timeout: time.Minute, MaxTimeout: 2 * time.Minute})
	if err != nil {
		t.Skip(err)
	}
	for asked, want := range map[int64]time.Duration{0: time.Minute, -1: time.Minute, 1000: time.Second, 1e9: 2 * time.Minute} {
		h := &mcpewire.Handler{}
		h.Timeout = asked
		if got := b.timeout(h); got != want {
			t.Errorf("%d: %s, want %s", asked, got, want)
		}
	}
}
