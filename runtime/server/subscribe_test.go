package server

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func TestSUB1SubscribeDeliverUnsubscribe(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		emit(t, e, incident{ID: "before"})
		s := w.subscribe("alice", params(plain, secretA, ""))
		if got := s.until(t); got != 30*time.Minute || s.Truncated || s.Cursor == nil || s.DeliveryStatus != nil {
			t.Errorf("got %+v, until %s", s, got)
		}
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		emit(t, e, incident{ID: "i2"})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "i1", "i2")
		for _, d := range w.r.all() {
			if !d.signedBy(secretA) || d.header.Get("X-MCP-Subscription-Id") != s.ID || d.url != plain {
				t.Errorf("%s %s: %v", d.url, d.raw, d.header)
			}
		}
		if n := len(w.r.challenges()); n != 1 {
			t.Errorf("%d challenges", n)
		}
		w.unsubscribe("alice", plain)
		emit(t, e, incident{ID: "i3"})
		w.settle(time.Hour)
		wantStrings(t, "delivered", w.r.shorts(), "i1", "i2")
	})
}

// TestSubscribeThroughTheSDK sends both methods the way they take in production: the principal
// comes from the request, results and errors go through the SDK (SUB-1, AUTH-3).
func TestSubscribeThroughTheSDK(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Principal = func(context.Context, *mcp.RequestExtra) string { return "alice" }
	})
	register(t, w.Server, "e", Hooks[filterArgs, incident]{})
	s := connect(t, w.Server)
	s.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	res := s.send(wire.MethodSubscribe, params(plain, secretA, `,"id":"sub_made_up"`))
	var got subscribed
	if err := json.Unmarshal(res.Result, &got); err != nil || got.ID != wire.SubscriptionID("webhook", "alice", plain, "e", []byte("{}")) || got.ResultType != "" {
		t.Errorf("%s %v", res.Result, res.Error)
	}
	res = s.send(wire.MethodSubscribe, params("http://other.test/", secretA, ""))
	wantError(t, asRPC(res.Error), -32602, `{"errors":[{"path":"/delivery/url","message":"is not https"}]}`)
	unsubscribe := `{"name":"e","delivery":{"url":"` + plain + `"}}`
	if res = s.send(wire.MethodUnsubscribe, unsubscribe); string(res.Result) != `{}` {
		t.Errorf("%s %v", res.Result, res.Error)
	}
	res = s.send(wire.MethodUnsubscribe, unsubscribe)
	wantError(t, asRPC(res.Error), -32011, `{"kind":"subscription"}`)
}
