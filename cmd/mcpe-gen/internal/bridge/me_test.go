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
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// ACTOR-2: with `me` the agent's own actions do not come back to it, by subscriptions of the configuration and by those
// that it makes itself, unless one names actors. Their states, modes and gaps are shown. An event type that names no
// actor is said.
func TestACTOR2NotByMe(t *testing.T) {
	type push struct {
		By string `json:"by,omitempty"`
	}
	type arguments struct {
		Repo  string   `json:"repo,omitempty"`
		NotBy []string `json:"notBy,omitempty"`
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		pushed, err := server.Register(h.es, events.Type[arguments, push]{Info: events.Info{Name: "ci.pushed", Description: "Somebody pushed.",
			Match:         []events.MatchRule{{Argument: wire.NotBy, Path: "/by", Op: events.MatchIn, Not: true}},
			Meta:          map[string]any{wire.MetaActor: "/by"},
			InputSchema:   json.RawMessage(`{"type":"object","properties":{"repo":{"type":"string"},"notBy":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`),
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
		// The server gets the arguments of the configuration's subscription for the second one too.
		for _, args := range []map[string]any{{"repo": "r"}, {"notBy": []string{"bot"}}} {
			began := time.Now()
			if err := b.call("events_subscribe", map[string]any{"server": "ci", "event": "ci.pushed", "arguments": args}, nil); err != nil || time.Since(began) >= acceptTime {
				t.Errorf("%v: subscribed after %v: %v", args, time.Since(began), err)
			}
		}
		if _, err := h.es.Admin().RaiseGap(t.Context(), operator.Target{Event: "ci.pushed"}); err != nil {
			t.Fatal(err)
		}
		settled()
		for _, r := range b.subscriptions() {
			if r.Event == "ci.pushed" && (r.State != active || r.Mode != wire.ModePush || r.Gaps != 1 || !strings.Contains(r.Problem, "gap")) {
				t.Errorf("%+v", r)
			}
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
		want(t, b.wait(5), "by-you", "by-you", "by-you", "by-", "by-", "by-", "main1") // of three subscriptions
		if text := b.said.String(); !strings.Contains(text, "ci ci.done: the event type names no actor") || strings.Contains(text, "ci.pushed: the event type") {
			t.Error(text)
		}
		b.end()
	})
}
