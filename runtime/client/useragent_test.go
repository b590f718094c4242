package client

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// The requests of a client over HTTP name who calls.
func TestUserAgent(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
			return map[string]any{"events": []json.RawMessage{json.RawMessage(occurrenceOf("1", "c"))}, "cursor": "c"}, nil
		}
		read(t, subscribe(t, connect(t, f, c, Options{Mode: wire.ModePoll}))).want("1")
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.requests {
			if agent := r.Header.Get("User-Agent"); r.Header != nil && !strings.HasPrefix(agent, "mcpe-gen") {
				t.Errorf("%s: %q", r.Method, agent)
			}
		}
		if len(f.requests) == 0 {
			t.Error("no request")
		}
	})
}
