package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// recv waits for a value.
func recv[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("timeout: %s", what)
		panic("unreachable")
	}
}

// errorOf decodes an error response.
func errorOf(t testing.TB, env envelope) wire.ErrorObject {
	t.Helper()
	var e wire.ErrorObject
	if env.error == nil {
		t.Fatalf("no error: result %s", env.result)
	}
	if err := json.Unmarshal(env.error, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func subscriptionID(env envelope) string {
	return string(member(member(env.params, "_meta"), wire.MetaSubscriptionID))
}

// PUSH-1, PUSH-2, PUSH-3, PUSH-8, PUSH-9, PUSH-10, PUSH-11, D9: two streams with different ids on
// one client; each gets its own; a cancel ends one at once and leaves the other alone; the server
// ends the other with the final result of its revision.
func TestStreams(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		a, b := c.stream(`7`, `{"name":"tick","cursor":null}`), c.stream(`"b-1"`, `{"name":"tick","arguments":{"channel":"x"}}`)
		for id, f := range map[string]*feed{`7`: a, `"b-1"`: b} {
			active := f.want(wire.NotificationActive)
			if got := subscriptionID(active); got != id {
				t.Errorf("active of %s is labelled %s", id, got)
			}
			if string(member(active.params, "truncated")) != "false" || member(active.params, "cursor") == nil {
				t.Errorf("active %s", active.params)
			}
		}
		g.emit(1)
		if ev := a.want(wire.NotificationEvent); subscriptionID(ev) != `7` || string(member(member(ev.params, "data"), "seq")) != "1" || unquote(member(ev.params, "cursor")) == "" {
			t.Errorf("event %s", ev.params)
		}
		g.emit(2)
		a.want(wire.NotificationEvent)
		first, second := recv(t, g.opened, "first subscription"), recv(t, g.opened, "second subscription")
		if first == second {
			t.Error("two streams, one subscription")
		}
		for _, sub := range g.es.Subscriptions() { // AUTH-3
			if want := map[bool]string{true: "alice"}[m.http]; sub.Principal != want {
				t.Errorf("principal %q, want %q", sub.Principal, want)
			}
		}
		a.cancel()
		recv(t, g.ended, "cancelled stream freed") // PUSH-8: at once
		g.emit(3)
		if !m.http {
			synctest.Wait()
			select {
			case msg := <-a.c:
				t.Errorf("after cancel: %s", msg)
			default:
			}
		}
		go g.stop()
		final := b.want("")
		want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":"b-1"}}`
		if m.modern() {
			want = `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"b-1"}}`
		} else {
			want = `{"_meta":{}}`
		}
		if string(final.result) != want || string(final.id) != `"b-1"` {
			t.Errorf("final id %s result %s, want %s", final.id, final.result, want)
		}
		if rest := b.over(); len(rest) > 0 {
			t.Errorf("after the final result: %q", rest)
		}
	})
}

// PUSH-2: the id comes back as it was sent, whatever the SDK can make of it.
func TestIDsUnchanged(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		for i, id := range []string{`0`, `-3`, `12.0`, `1e2`, `9007199254740993`, `"s"`, `"a\u0062"`, `"<&>"`, `"ünï"`, `""`} {
			f := c.stream(id, `{"name":"tick"}`)
			if got := subscriptionID(f.want(wire.NotificationActive)); got != id {
				t.Errorf("active of %s is labelled %s", id, got)
			}
			g.emit(i)
			if got := subscriptionID(f.want(wire.NotificationEvent)); got != id {
				t.Errorf("event of %s is labelled %s", id, got)
			}
			f.cancel()
			recv(t, g.ended, "freed")
		}
		for _, id := range []string{`31.0`, `9007199254740993`, `"x\u0079"`} {
			f := c.stream(id, `{"name":"nope"}`)
			if refused := f.want(""); string(refused.id) != id {
				t.Errorf("refusal of %s has id %s", id, refused.id)
			}
		}
	})
}

// ERR-3: refusals of events/stream and events/poll carry code and data,
// and leave the session usable.
func TestRefusals(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{MaxStreams: 1})
		c := g.connect(m, HandlerOptions{})
		open := c.stream(`1`, `{"name":"tick"}`)
		open.want(wire.NotificationActive)
		for i, row := range []struct {
			params, code, data string
		}{
			{`{"name":"nope"}`, "-32011", `{"kind":"event"}`},
			{`{"name":"tick","arguments":{"bad":1}}`, "-32602", ``},
			{`{"name":5}`, "-32602", ``},
			{`{"name":"tick"}`, "-32013", `{"limit":"streams","max":1}`},
		} {
			f := c.stream(fmt.Sprint(10+i), row.params)
			e := errorOf(t, f.want(""))
			if fmt.Sprint(e.Code) != row.code || row.data != "" && string(e.Data) != row.data {
				t.Errorf("%s: %+v", row.params, e)
			}
		}
		e := errorOf(t, c.rpc(`20`, wire.MethodPoll, `{"name":"nope"}`))
		if e.Code != -32011 || string(e.Data) != `{"kind":"event"}` {
			t.Errorf("poll: %+v", e)
		}
		open.cancel()
		recv(t, g.ended, "freed")
		again := c.stream(`30`, `{"name":"tick"}`) // PUSH-10: an abort frees the slot at once
		again.want(wire.NotificationActive)
		again.cancel()
	})
}

// CAP-1, D1: both forms of the capability, in initialize or in server/discover.
func TestCapabilities(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		var result json.RawMessage
		switch c := c.(type) {
		case *httpClient:
			if m.modern() {
				result = c.rpc(`1`, methodDiscover, "").result
			} else {
				result = readMessage(t, c.post(context.Background(), initializeRequest(m.version), map[string]string{"Mcp-Session-Id": "-"})).result
			}
		case *lineClient:
			if m.modern() {
				result = c.rpc(`1`, methodDiscover, "").result
			} else {
				c.mu.Lock()
				env, _ := parseEnvelope([]byte(c.all[0]))
				c.mu.Unlock()
				result = env.result
			}
		}
		caps := member(result, "capabilities")
		for _, capability := range []json.RawMessage{member(caps, wire.CapabilityKey), member(member(caps, "extensions"), wire.ExtensionID)} {
			if string(capability) != `{"listChanged":true}` {
				t.Errorf("capability %s in %s", capability, caps)
			}
		}
	})
}

// CAP-3, CAP-4: neither the declaration nor Mcp-Name is required, nor checked; unknown params are
// ignored.
func TestDeclarationOptional(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		if h, ok := c.(*httpClient); ok {
			h.header.Set("Mcp-Name", "something else")
		}
		if r := c.rpc(`1`, wire.MethodPoll, `{"name":"tick","id":3,"other":{"x":1}}`); r.result == nil {
			t.Errorf("poll: %s", r.error)
		}
		if m.modern() {
			bare := strings.Replace(m.request(`2`, wire.MethodPoll, `{"name":"tick"}`), `{"extensions":{"io.modelcontextprotocol/events":{}}}`, `{}`, 1)
			switch c := c.(type) {
			case *httpClient:
				if r := readMessage(t, c.post(context.Background(), bare, nil)); r.result == nil {
					t.Errorf("undeclared: %s", r.error)
				}
			case *lineClient:
				f := c.feed(`2`)
				c.send(bare)
				if r := f.want(""); r.result == nil {
					t.Errorf("undeclared: %s", r.error)
				}
			}
		}
	})
}

// POLL-9: a held poll ends when its client goes away, in every revision and on every carrier.
func TestHeldPollEndsWithItsClient(t *testing.T) {
	for _, m := range modes {
		for _, plain := range []bool{false, true} {
			if plain && (!m.http || !m.modern()) { // nothing else counts them
				continue
			}
			inBubble(t, fmt.Sprintf("%s,plain=%v", m.name, plain), func(t *testing.T) {
				g := map[bool]func(testing.TB, server.Options) *rig{false: newRig, true: plainRig}[plain](t, server.Options{})
				c := g.connect(m, HandlerOptions{})
				boot := c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`)
				params := `{"name":"tick","timeoutMs":30000,"cursor":` + string(member(boot.result, "cursor")) + `}`
				switch c := c.(type) {
				case *httpClient:
					ctx, cancel := context.WithCancel(context.Background())
					failed := make(chan error, 1)
					go func() {
						_, err := c.do(ctx, "POST", m.request(`2`, wire.MethodPoll, params), nil)
						failed <- err
					}()
					g.awaitPoll()
					cancel()
					recv(t, failed, "abort")
				case *lineClient:
					f := c.feed(`2`)
					c.send(m.request(`2`, wire.MethodPoll, params))
					g.awaitPoll()
					f.cancel()
					synctest.Wait()
					select {
					case msg := <-f.c:
						t.Errorf("after cancel: %s", msg)
					default:
					}
				}
				synctest.Wait()
				if n := g.polls.Load(); n != 0 {
					t.Errorf("%d polls are still held", n)
				}
			})
		}
	}
}

// awaitPoll waits until a poll is held.
func (g *rig) awaitPoll() {
	g.t.Helper()
	if synctest.Wait(); g.polls.Load() == 0 {
		g.t.Error("no poll is held")
	}
}

// PUSH-10: no cap on streams of one client.
func TestManyStreams(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		n := 300 // more than HTTP/2 allows on one connection by default
		if !m.modern() {
			n = 100 // the same way, over sessions
		}
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		feeds := make([]*feed, n)
		for i := range feeds {
			feeds[i] = c.stream(fmt.Sprint(1000+i), `{"name":"tick"}`)
			feeds[i].want(wire.NotificationActive)
		}
		g.emit(1)
		for i, f := range feeds {
			if ev := f.want(wire.NotificationEvent); subscriptionID(ev) != fmt.Sprint(1000+i) {
				t.Fatalf("stream %d got %s", i, ev.params)
			}
		}
		if r := c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`); r.result == nil {
			t.Errorf("a call beside the streams: %s", r.error)
		}
		for _, f := range feeds {
			f.cancel()
		}
		g.awaitNone()
	})
}

// awaitNone checks that no stream is left.
func (g *rig) awaitNone() {
	g.t.Helper()
	left := func() (n int) {
		for _, sub := range g.es.Subscriptions() {
			if sub.Mode == wire.ModePush {
				n++
			}
		}
		return n
	}
	synctest.Wait()
	if n := left(); n > 0 {
		g.t.Errorf("%d subscriptions are left", n)
	}
}
