package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// BRIDGE-1: the tools list event types, subscribe within what is allowed, wait, show and mark as read, and unsubscribe.
func TestBRIDGE1Tools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), func(c *config.Config) {
			c.Allow = []config.Allow{{Server: "ci", Event: "ci.*"}}
			c.Subscriptions = []config.Subscription{{Server: "ci", Event: "ci.done", Arguments: json.RawMessage(`{"branch":"main"}`), Mode: "poll"}}
		}, nil)
		settled()
		if text := b.session.InitializeResult().Instructions; !strings.Contains(text, "events_wait") {
			t.Error(text)
		}
		var list struct{ Types []listedType }
		if err := b.call("events_list", nil, &list); err != nil || len(list.Types) != 1 || list.Types[0].Arguments != "branch=string" || !list.Types[0].Allowed {
			t.Fatal(err, list)
		}
		var made struct {
			Subscription subscriptionRow
			Was          bool `json:"subscribedAlready"`
		}
		dev := map[string]any{"server": "ci", "event": "ci.done", "arguments": map[string]any{"branch": "dev"}}
		if err := b.call("events_subscribe", dev, &made); err != nil || made.Was || made.Subscription.State != active || made.Subscription.MadeBy != "agent" {
			t.Fatal(err, made)
		}
		asText := map[string]any{"server": "ci", "event": "ci.done", "arguments": `{"branch":"dev"}`, "quietSeconds": nil} // HOST-1
		for _, again := range []map[string]any{dev, asText} {
			if err := b.call("events_subscribe", again, &made); err != nil || !made.Was {
				t.Fatal(err, made)
			}
		}
		h.emit("main", 1)
		h.emit("dev", 1)
		h.emit("other", 1)
		time.Sleep(time.Minute) // one of them polls
		synctest.Wait()
		rows := b.subscriptions()
		if len(rows) != 2 || rows[0].State != active || rows[0].Unread != 1 || rows[1].Unread != 1 || rows[1].Mode != "poll" {
			t.Fatalf("%+v", rows)
		}
		want(t, b.wait(5, "subscription", made.Subscription.Subscription), "dev1")
		var box inboxResult
		if err := b.call("events_inbox", nil, &box); err != nil || box.Notice != notice || box.Batches[0].Event != "ci.done" || string(box.Batches[0].Events[0].Data) != `{"branch":"main","n":1}` {
			t.Fatal(err, box)
		}
		want(t, idsOf(box), "main1")
		box = inboxResult{}
		if err := b.call("events_inbox", map[string]any{"read": []string{"b1", "b2", "b77"}}, &box); err != nil || *box.Read != 1 || len(box.Batches) != 0 {
			t.Fatal(err, box)
		}
		want(t, b.wait(0))
		if err := b.call("events_unsubscribe", map[string]any{"subscription": rows[0].Subscription}, nil); err != nil {
			t.Fatal(err)
		}
		h.emit("dev", 2)
		want(t, b.wait(5))
		b.end()
	})
}

// HOST-1: the arguments of an event type are taken as agent hosts send them, by the schema of the type.
func TestBRIDGE1ArgumentsAsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		urgent := typeOf("ci.urgent", nil)
		urgent.InputSchema = json.RawMessage(`{"type":"object","properties":{"branch":{"type":"string"},"urgent":{"type":"boolean"}},"additionalProperties":false}`)
		if _, err := server.Register(h.es, urgent, server.Hooks[runArguments, run]{}); err != nil {
			t.Fatal(err)
		}
		b := h.start(t.TempDir(), func(c *config.Config) { c.Allow = []config.Allow{{Server: "ci", Event: "*"}} }, nil)
		for args, want := range map[string]string{
			`{"urgent":"true","branch":"true"}`: `{"branch":"true","urgent":true}`,
			`{"urgent":"false","branch":null}`:  `{"urgent":false}`,
		} {
			var made struct{ Subscription subscriptionRow }
			err := b.call("events_subscribe", map[string]any{"server": "ci", "event": "ci.urgent", "arguments": json.RawMessage(args)}, &made)
			if got := string(made.Subscription.Arguments); err != nil || got != want {
				t.Errorf("%s: %s %v", args, got, err)
			}
		}
		b.end()
	})
}

// BRIDGE-1: what a tool does not take is refused, by the name of the member.
func TestBRIDGE1Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		if _, err := server.Register(h.es, typeOf("made", nil), server.Hooks[runArguments, run]{}); err != nil {
			t.Fatal(err)
		}
		b := h.start(t.TempDir(), func(c *config.Config) {
			ofDone(c)
			c.Allow = []config.Allow{{Server: "ci", Event: "ci.*"}}
			c.Limits.Subscriptions = 2
		}, nil)
		settled()
		config := b.subscriptions()[0].Subscription
		type m = map[string]any
		for _, test := range []struct {
			tool, want string
			args       m
		}{
			{"events_list", "server: there is no \"x\"; the servers are ci", m{"server": "x"}},
			{"events_list", "unknown", m{"unknown": 1}},
			{"events_subscribe", "event", m{"server": "ci"}},
			{"events_subscribe", "server: there is no", m{"server": "x", "event": "ci.done"}},
			{"events_subscribe", "event: the configuration of the bridge does not allow", m{"server": "ci", "event": "made"}},
			{"events_subscribe", `has no event type "ci.none"; did you mean "ci.done"? the event types are ci.done, made`, m{"server": "ci", "event": "ci.none"}},
			{"events_subscribe", `event: ci has no event type "ci_done"; did you mean "ci.done"?`, m{"server": "ci", "event": "ci_done"}},
			{"events_subscribe", "arguments", m{"server": "ci", "event": "ci.done", "arguments": 1}},
			{"events_subscribe", "no usable x-coalesce", m{"server": "ci", "event": "ci.done", "arguments": m{"branch": "x"}, "quietSeconds": 5}},
			{"events_subscribe", "nvalid", m{"server": "ci", "event": "ci.done", "arguments": m{"unknown": "x"}}},
			{"events_unsubscribe", "subscription: there is no", m{"subscription": "x"}},
			{"events_unsubscribe", "only its owner ends it", m{"subscription": config}},
			{"events_subscriptions", "x", m{"x": 1}},
			{"events_wait", "waitSeconds", m{"waitSeconds": 601}},
			{"events_wait", "quietSeconds", m{"quietSeconds": -1}},
			{"events_wait", "subscription: there is no", m{"subscription": "x"}},
			{"events_inbox", "read/0", m{"read": []string{"c1"}}},
			{"events_inbox", "more than 65536 bytes", m{"subscription": strings.Repeat("x", 1<<16)}},
		} {
			if err := b.call(test.tool, test.args, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s %v: %v, want %s", test.tool, test.args, err, test.want)
			}
		}
		if rows := b.subscriptions(); len(rows) != 1 {
			t.Errorf("what was refused is kept: %+v", rows)
		}
		if err := b.call("events_subscribe", m{"server": "ci", "event": "ci.done", "arguments": m{"branch": "a"}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := b.call("events_subscribe", m{"server": "ci", "event": "ci.done", "arguments": m{"branch": "b"}}, nil); err == nil || !strings.Contains(err.Error(), "limits.subscriptions") {
			t.Error(err)
		}
		b.end()
	})
}

// BRIDGE-1: events_wait answers when something comes, waits for the end of a burst, is empty when nothing comes, and
// what a call that was cancelled would have shown is shown by the next.
func TestBRIDGE1Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), func(c *config.Config) { ofDone(c); c.Limits.EventsPerBatch = 3 }, nil)
		settled()
		begun := time.Now()
		go func() {
			time.Sleep(20 * time.Second)
			h.emit("m", 1)
			for i := range 3 {
				time.Sleep(5 * time.Second)
				h.emit("m", i+2)
			}
		}()
		want(t, b.wait(60), "m1")
		if d := time.Since(begun); d < 20*time.Second || d > 22*time.Second {
			t.Errorf("after %v", d)
		}
		want(t, b.wait(60, "quietSeconds", 10), "m2", "m3", "m4")
		if d := time.Since(begun); d < 45*time.Second || d > 47*time.Second {
			t.Errorf("after %v", d)
		}
		want(t, b.wait(30))
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error)
		go func() { cancelled <- b.callContext(ctx, "events_wait", map[string]any{"quietSeconds": 20}, nil) }()
		settled()
		h.emit("m", 5, 6, 7, 8)
		settled()
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		settled()
		want(t, b.wait(5), "m5", "m6", "m7") // as many as a batch may have
		want(t, b.wait(5), "m8")
		b.end()
	})
}

// BRIDGE-2: after an orderly end nothing is shown twice, what was unread still is, and what came meanwhile is caught
// up. The agent's subscriptions are kept, but those that are no longer allowed.
func TestBRIDGE2Restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		allowed := func(c *config.Config) {
			ofDone(c)
			c.Allow = []config.Allow{{Server: "*", Event: "ci.*"}}
		}
		b := h.start(dir, allowed, nil)
		settled()
		if err := b.call("events_subscribe", map[string]any{"server": "ci", "event": "ci.done", "arguments": map[string]any{"branch": "a"}}, nil); err != nil {
			t.Fatal(err)
		}
		h.emit("m", 1, 2)
		want(t, b.wait(5, "quietSeconds", 1), "m1", "m2")
		h.emit("m", 3)
		settled()
		b.end()
		h.emit("m", 4)
		h.emit("a", 1)
		b = h.start(dir, allowed, nil)
		settled()
		got := b.wait(5, "quietSeconds", 3)
		slices.Sort(got)
		want(t, got, "a1", "a1", "m3", "m4") // a1 is of two subscriptions
		want(t, b.wait(5))
		b.end()
		b = h.start(dir, ofDone, nil)
		settled()
		if rows := b.subscriptions(); len(rows) != 1 || rows[0].MadeBy != "configuration" || !strings.Contains(b.said.String(), "no longer allowed") {
			t.Errorf("%+v, %s", rows, b.said)
		}
		want(t, b.wait(5))
		b.end()
	})
}

// BRIDGE-2: a restart catches up what is no older than catchUp.
func TestBRIDGE2CatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		b := h.start(dir, ofDone, nil)
		settled()
		h.emit("m", 1)
		want(t, b.wait(5), "m1")
		b.end()
		h.emit("m", 2)
		time.Sleep(25 * time.Hour)
		h.emit("m", 3)
		b = h.start(dir, ofDone, nil)
		want(t, b.wait(5, "quietSeconds", 2), "m3")
		b.end()
	})
}

// BRIDGE-2: a server that is away at the start is tried again until it is there, and events_subscriptions tells of it.
func TestBRIDGE2ServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		h.down.Store(true)
		b := h.start(t.TempDir(), func(c *config.Config) {
			ofDone(c)
			c.Allow = []config.Allow{{Server: "ci", Event: "*"}}
		}, nil)
		time.Sleep(time.Hour)
		rows := b.subscriptions()
		if len(rows) != 1 || rows[0].State == active || !strings.Contains(rows[0].Problem, "connection refused") {
			t.Errorf("%+v", rows)
		}
		var list struct {
			Types    []listedType
			Problems []listedServer
		}
		if err := b.call("events_list", nil, &list); err != nil || len(list.Problems) != 1 || !strings.Contains(list.Problems[0].Problem, "connection refused") {
			t.Error(err, list)
		}
		// What the agent subscribes to now is made once the server is there.
		if err := b.call("events_subscribe", map[string]any{"server": "ci", "event": "ci.done", "arguments": map[string]any{"branch": "a"}}, nil); err != nil {
			t.Fatal(err)
		}
		h.down.Store(false)
		time.Sleep(2 * time.Minute)
		h.emit("a", 1)
		want(t, b.wait(5, "quietSeconds", 1), "a1", "a1")
		for _, r := range b.subscriptions() {
			if r.State != active || r.Problem != "" {
				t.Errorf("%+v", r)
			}
		}
		b.end()
	})
}

// BRIDGE-2: a full inbox holds the subscription up, which events_subscriptions tells, and loses nothing.
func TestBRIDGE2Full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		small := func(c *config.Config) {
			ofDone(c)
			c.Limits.Inbox, c.Limits.EventsPerBatch, c.Limits.BatchesPerMinute = 5, 2, 6000
		}
		b := h.start(dir, small, nil)
		settled()
		var all []string
		for i := range 100 {
			h.emit("m", i)
			all = append(all, fmt.Sprint("m", i))
		}
		settled()
		var r struct {
			Inbox struct {
				Unread int
				Full   bool
				Note   string
			}
		}
		if err := b.call("events_subscriptions", nil, &r); err != nil || !r.Inbox.Full || r.Inbox.Unread != 5 || !strings.Contains(r.Inbox.Note, "inbox is full") {
			t.Fatal(err, r)
		}
		b.end() // also while it is held up
		b = h.start(dir, small, nil)
		var got []string
		for len(got) < len(all) {
			next := b.wait(60)
			if len(next) == 0 {
				break
			}
			got = append(got, next...)
		}
		want(t, got, all...)
		b.end()
	})
}

// BRIDGE-6: an agent gets no more results with events in a minute than the configuration says.
func TestBRIDGE6Pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), func(c *config.Config) { ofDone(c); c.Limits.BatchesPerMinute, c.Limits.EventsPerBatch = 4, 1 }, nil)
		settled()
		h.emit("m", 1, 2, 3, 4, 5, 6)
		settled()
		begun := time.Now()
		for i := range 4 {
			want(t, b.wait(0), fmt.Sprint("m", i+1))
		}
		want(t, b.wait(5))
		want(t, b.wait(30), "m5")
		if d := time.Since(begun); d < 14*time.Second || d > 17*time.Second {
			t.Errorf("after %v", d)
		}
		b.end()
	})
}

// BRIDGE-1: events are joined as their type says unless the configuration says otherwise; a burst is one batch.
func TestBRIDGE1Coalesce(t *testing.T) {
	burst := func(t *testing.T, own *config.Coalesce) inboxResult {
		h := newHouse(t, &wire.Coalesce{Key: []string{"/branch"}, QuietSeconds: 30, MaxSeconds: 300, Keep: "latest"})
		b := h.start(t.TempDir(), func(c *config.Config) { ofDone(c); c.Subscriptions[0].Coalesce = own }, nil)
		settled()
		for i := range 5 {
			h.emit("m", i)
			h.emit("n", i)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		var r inboxResult
		if err := b.call("events_wait", nil, &r); err != nil {
			t.Fatal(err)
		}
		b.end()
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		r := burst(t, nil)
		want(t, idsOf(r), "m4", "n4")
		if r.Batches[0].Count != 5 || r.Batches[0].Last.Sub(*r.Batches[0].First) != 40*time.Second {
			t.Errorf("%+v", r.Batches[0])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := burst(t, &config.Coalesce{Keep: "all", QuietSeconds: 20})
		want(t, idsOf(r), "m0", "m1", "m2", "m3", "m4", "n0", "n1", "n2", "n3", "n4")
		if len(r.Batches) != 2 {
			t.Errorf("%d batches", len(r.Batches))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if r := burst(t, &config.Coalesce{Off: true}); len(r.Batches) != 10 {
			t.Errorf("%d batches", len(r.Batches))
		}
	})
}

// BRIDGE-6: what a server sends is cut to its bounds, is marked, and shows all that it has.
func TestBRIDGE6Untrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), func(c *config.Config) { ofDone(c); c.Limits.BytesPerEvent = 300 }, nil)
		settled()
		hostile := "a\x1b]0;title\a\r\n\u202eb\u009bc"
		for i, text := range []string{hostile, strings.Repeat("é", 1000)} {
			if err := h.done.Emit(t.Context(), run{N: i, Text: text}, events.WithID(fmt.Sprint("e", i))); err != nil {
				t.Fatal(err)
			}
		}
		settled()
		for _, tool := range []string{"events_inbox", "events_wait"} {
			res, err := b.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
			if err != nil {
				t.Fatal(err)
			}
			text := res.Content[0].(*mcp.TextContent).Text
			if strings.ContainsFunc(text, plain.Hidden) || !strings.HasPrefix(text, `{"notice":"`+notice) || res.StructuredContent != nil {
				t.Errorf("%s: %q", tool, text)
			}
			var r inboxResult
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			var data run
			if err := json.Unmarshal(r.Batches[0].Events[0].Data, &data); err != nil || data.Text != hostile {
				t.Errorf("%v, %q", err, data.Text)
			}
			if e := r.Batches[1].Events[0]; e.Data != nil || len(e.Beginning) < 298 || len(e.Beginning) > 300 || e.Bytes < 2000 || strings.ContainsRune(e.Beginning, '\ufffd') {
				t.Errorf("%d bytes of %d", len(e.Beginning), e.Bytes)
			}
		}
		b.end()
	})
}

// BRIDGE-6, BRIDGE-7: a flood fills no more than the inbox, and the agent gets all of it in order at its own pace.
func TestBRIDGE6Flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), func(c *config.Config) {
			ofDone(c)
			c.Limits.Inbox, c.Limits.EventsPerBatch, c.Limits.BatchesPerMinute = 40, 100, 6000
		}, nil)
		settled()
		const n = 1000
		var flood sync.WaitGroup
		flood.Go(func() {
			for i := range n {
				h.emit("m", i)
				time.Sleep(time.Millisecond)
			}
		})
		defer flood.Wait()
		next := 0
		for next < n {
			got := b.wait(60)
			if len(got) == 0 || len(got) > 40 {
				t.Fatalf("%d events after %d", len(got), next)
			}
			for _, id := range got {
				if id != fmt.Sprint("m", next) {
					t.Fatalf("%s is not the %dth", id, next)
				}
				next++
			}
		}
		b.end()
	})
}

// BRIDGE-3: with wake.channel the capability is declared, and what comes is sent as a notification once the agent is
// initialized: text and a map of strings. It stays unread for the tools and is not announced again.
func TestBRIDGE3Channel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		dir := t.TempDir()
		channel := func(c *config.Config) { ofDone(c); c.Channel = true; c.Limits.EventsPerBatch = 2 }
		var mu sync.Mutex
		var sent []channelMessage
		take := func() []channelMessage {
			settled()
			mu.Lock()
			defer mu.Unlock()
			all := sent
			sent = nil
			return all
		}
		other := func(method string, params json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			var m channelMessage
			if err := wire.Decode(params, &m); err != nil || method != "notifications/claude/channel" {
				t.Errorf("%s %s: %v", method, params, err)
			}
			sent = append(sent, m)
		}
		b := h.start(dir, channel, other)
		settled()
		if c := b.session.InitializeResult().Capabilities.Experimental; fmt.Sprint(c) != "map[claude/channel:map[]]" {
			t.Error(c)
		}
		if err := h.done.Emit(t.Context(), run{Branch: "\x1b[2J", N: 1}, events.WithID("e1")); err != nil {
			t.Fatal(err)
		}
		got := take()
		if len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		want(t, slices.Sorted(maps.Keys(got[0].Meta)), "batches", "count", "event", "server", "subscription")
		if m := got[0]; !strings.HasPrefix(m.Content, notice) || strings.ContainsRune(m.Content, '\x1b') || !strings.Contains(m.Content, `"eventId":"e1"`) || m.Meta["event"] != "ci.done" || m.Meta["batches"] != "b1" || m.Meta["count"] != "1" {
			t.Errorf("%+v", m)
		}
		for key := range got[0].Meta {
			if !regexp.MustCompile(`^[A-Za-z0-9_]+$`).MatchString(key) {
				t.Error(key)
			}
		}
		h.emit("m", 2, 3, 4)
		if got := take(); len(got) < 2 {
			t.Errorf("%d notifications for 3 events of which 2 are a batch", len(got))
		}
		b.end()
		b = h.start(dir, channel, other)
		if got := take(); len(got) != 0 {
			t.Errorf("announced again: %+v", got)
		}
		var box inboxResult
		if err := b.call("events_inbox", map[string]any{"read": []string{"b2"}}, &box); err != nil || len(box.Batches) != 2 || !box.Batches[0].Announced {
			t.Errorf("%v %+v", err, box)
		}
		b.end()
	})
}

// BRIDGE-3, BRIDGE-5: without wake.channel there is neither capability nor notification: the agent of every other test
// fails at one.
func TestBRIDGE3NoChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), ofDone, nil)
		settled()
		if c := b.session.InitializeResult().Capabilities; len(c.Experimental) != 0 || c.Tools == nil || c.Tools.ListChanged {
			t.Errorf("%+v", c)
		}
		h.emit("m", 1)
		settled()
		b.end()
	})
}

// BRIDGE-3: what is announced makes room in a full inbox, so that an agent that marks nothing gets everything.
func TestBRIDGE3Room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		var mu sync.Mutex
		n := 0
		b := h.start(t.TempDir(), func(c *config.Config) { ofDone(c); c.Channel = true; c.Limits.Inbox = 3 }, func(_ string, params json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			n += strings.Count(string(params), "eventId")
		})
		settled()
		for i := range 50 {
			h.emit("m", i)
		}
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if n != 50 {
			t.Errorf("%d of 50 events were announced", n)
		}
		b.end()
	})
}

// BRIDGE-1, BRIDGE-5: a call that waits reports progress to an agent that asks for it.
func TestBRIDGE1Progress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		b := h.start(t.TempDir(), ofDone, nil)
		settled()
		params := &mcp.CallToolParams{Name: "events_wait", Arguments: map[string]any{"waitSeconds": 35}}
		params.SetProgressToken("p")
		if _, err := b.session.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		settled()
		want(t, b.progress(), 10, 20, 30)
		b.end()
	})
}

// BRIDGE-6, BRIDGE-7: texts of a server that are not events are cut and escaped too: names, descriptions, refusals.
func TestBRIDGE7HostileTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		const bad = "\x1b]0;title\a\r\n\u202e\u009b"
		typ := typeOf("ci.bad", nil)
		typ.Description = bad + strings.Repeat("x", 100_000)
		_, err := server.Register(h.es, typ, server.Hooks[runArguments, run]{
			Authorize: func(context.Context, string, *runArguments) error {
				return events.Forbidden(bad + strings.Repeat("y", 100_000))
			}})
		if err != nil {
			t.Fatal(err)
		}
		b := h.start(t.TempDir(), func(c *config.Config) {
			if err := c.Add("ci", "ci.bad"); err != nil {
				t.Fatal(err)
			}
			c.Allow = []config.Allow{{Server: "ci", Event: "*"}}
		}, nil)
		settled()
		for tool, args := range map[string]map[string]any{
			"events_list":          nil,
			"events_subscriptions": nil,
			"events_subscribe":     {"server": "ci", "event": "ci.bad", "arguments": map[string]any{"branch": "b"}},
		} {
			res, err := b.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
			if err != nil {
				t.Fatal(err)
			}
			text := res.Content[0].(*mcp.TextContent).Text
			if strings.ContainsFunc(text, plain.Hidden) || len(text) > 10_000 || !strings.Contains(text, `u202e`) {
				t.Errorf("%s: %d bytes: %.300q", tool, len(text), text)
			}
		}
		if text := b.said.String(); strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), plain.Hidden) || !strings.Contains(text, "ci.bad") {
			t.Errorf("%.300q", text)
		}
		b.end()
	})
}

// BRIDGE-6: a token is read from where the configuration says, each time anew, and no error has it.
func TestBRIDGE6Token(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("secret1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BRIDGE_TEST_TOKEN", "secret2")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(actVar, "print")
	for _, test := range []struct {
		token config.Token
		arg   string // what the command prints
		want  string
	}{
		{config.Token{}, "", ""},
		{config.Token{Text: "secret0"}, "", "secret0"},
		{config.Token{File: file}, "", "secret1"},
		{config.Token{Env: "BRIDGE_TEST_TOKEN"}, "", "secret2"},
		{config.Token{Command: []string{exe}}, "secret3\n", "secret3"},
		{config.Token{Env: "BRIDGE_TEST_NONE"}, "", "error: there is no token in the environment variable BRIDGE_TEST_NONE"},
		{config.Token{File: filepath.Join(dir, "none")}, "", "error: reading the token: "},
		{config.Token{Command: []string{exe}}, "secret\x1b[2J", "error: the token from the command"},
		{config.Token{Command: []string{exe}}, strings.Repeat("secret", 20_000), "error: asking the command"},
		{config.Token{Command: []string{filepath.Join(dir, "none")}}, "", "error: asking the command"},
	} {
		t.Setenv(argVar, test.arg)
		got, err := readToken(t.Context(), test.token, dir, nil)
		if err != nil {
			if got = "error: " + err.Error(); strings.Contains(got, "secret") {
				t.Error(got)
			}
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%+v: %.200q, want %q", test.token, got, test.want)
		}
	}
}

// BRIDGE-6: neither a server that is a command nor the command that prints a token gets the tokens of other servers
// from the environment; they get everything else.
func TestBRIDGE6TokensStayHome(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "environment")
	for name, value := range map[string]string{secretVar: "hush", "MCPE_GEN_TOKEN": "hush", "BRIDGE_TEST_OTHER": "loud", actVar: "environment", argVar: file} {
		t.Setenv(name, value)
	}
	c := config.New()
	c.Servers = []config.Server{{Name: "ci", Token: config.Token{Env: secretVar}},
		{Name: "program", Target: peer.Target{Command: []string{exe}}},
		{Name: "helper", Target: peer.Target{URL: "http://127.0.0.1:1/mcp"}, Token: config.Token{Command: []string{exe}}}}
	for _, s := range c.Servers[1:] {
		if _, err := newUpstream(s, Options{Config: c}).client(t.Context()); err == nil {
			t.Fatal("a program that ends at once is a server")
		}
		got, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(got), "hush") || !strings.Contains(string(got), "BRIDGE_TEST_OTHER=loud") {
			t.Errorf("%s: %v, environment\n%s", s.Name, err, got)
		}
		os.Remove(file)
	}
}

// BRIDGE-2: the state of a bridge is below the user's state directory, another one for each configuration.
func TestBRIDGE2StateDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	dir := func(c *config.Config) string {
		t.Helper()
		d, err := StateDir(c)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, other := config.New(), config.New()
	one.Servers = []config.Server{{Name: "ci", Target: peer.Target{URL: "https://ci.example.com/mcp?key=secret"}}}
	other.Servers = one.Servers
	ofDone(other)
	file := &config.Config{Path: filepath.Join(home, "my.yaml")}
	dirs := []string{dir(one), dir(other), dir(file)}
	for i, d := range dirs {
		if !strings.HasPrefix(d, filepath.Join(home, "mcpe-gen", "bridge")+string(filepath.Separator)) || strings.Contains(d, "secret") || slices.Index(dirs, d) != i {
			t.Error(d)
		}
	}
	if !strings.HasPrefix(filepath.Base(dirs[2]), "my-") || dir(file) != dirs[2] {
		t.Error(dirs[2])
	}
	s, err := openState(t.Context(), filepath.Join(home, "a", "b"), config.New().Limits)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(home, "a", "b")); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		t.Error(err, info.Mode())
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
