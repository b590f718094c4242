package bridge

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// ACTOR-2: with `me` the agent's own actions do not come back to it, by subscriptions of the configuration and by those
// that it makes itself, unless one names actors. An event type that names no actor is said.
func TestACTOR2NotByMe(t *testing.T) {
	type push struct {
		By string `json:"by,omitempty"`
	}
	type arguments struct {
		NotBy []string `json:"notBy,omitempty"`
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		pushed, err := server.Register(h.es, events.Type[arguments, push]{Info: events.Info{Name: "ci.pushed", Description: "Somebody pushed.",
			Match:         []events.MatchRule{{Argument: wire.NotBy, Path: "/by", Op: events.MatchIn, Not: true}},
			Meta:          map[string]any{wire.MetaActor: "/by"},
			InputSchema:   json.RawMessage(`{"type":"object","properties":{"notBy":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`),
			PayloadSchema: json.RawMessage(`{"type":"object","properties":{"by":{"type":"string"}}}`)}}, server.Hooks[arguments, push]{})
		if err != nil {
			t.Fatal(err)
		}
		b := h.start(t.TempDir(), func(c *config.Config) {
			ofDone(c)
			c.Servers[0].Me = []string{"bot"}
			c.Allow = []config.Allow{{Server: "ci", Event: "ci.*"}}
			c.Subscriptions = append(c.Subscriptions, config.Subscription{Server: "ci", Event: "ci.pushed", Arguments: json.RawMessage(`{}`), Mode: "auto"})
		}, nil)
		settled()
		named := map[string]any{"server": "ci", "event": "ci.pushed", "arguments": map[string]any{"notBy": []string{"you"}}}
		var made struct{ Subscription subscriptionRow }
		if err := b.call("events_subscribe", named, &made); err != nil {
			t.Fatal(err)
		}
		for _, by := range []string{"bot", "you", ""} {
			if err := pushed.Emit(t.Context(), push{By: by}, events.WithID("by-"+by)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		h.emit("main", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		want(t, b.wait(5, "subscription", made.Subscription.Subscription), "by-bot", "by-")
		want(t, b.wait(5), "by-you", "by-", "main1")
		if text := b.said.String(); !strings.Contains(text, "ci ci.done: the event type names no actor") || strings.Contains(text, "ci.pushed: the event type") {
			t.Error(text)
		}
		b.end()
	})
}
