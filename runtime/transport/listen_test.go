package transport

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

const methodToolsChanged = "notifications/tools/list_changed"

// open sends any request that is answered by a stream.
func open(c client, m mode, id, method, params string) *feed {
	switch c := c.(type) {
	case *httpClient:
		return c.sse(m.request(id, method, params))
	case *lineClient:
		f := c.feed(id)
		c.send(m.request(id, method, params))
		return f
	}
	panic("unknown client")
}

func modernModes(t *testing.T, f func(t *testing.T, m mode)) {
	inEveryMode(t, func(t *testing.T, m mode) {
		if m.modern() {
			f(t, m)
		}
	})
}

// D8, LIST-5 on 2026-07-28: list_changed comes on a listen request that asked for it, with that
// request's id, also when nothing else was asked for; the acknowledged filter says so.
func TestListenForListChanged(t *testing.T) {
	modernModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		f := open(c, m, `41`, methodListen, `{"notifications":{"eventsListChanged":true}}`)
		ack := f.want(methodAcknowledged)
		if got := string(member(ack.params, "notifications")); got != `{"eventsListChanged":true}` {
			t.Errorf("acknowledged %s", got)
		}
		if got := subscriptionID(ack); got != `41` {
			t.Errorf("acknowledgement is labelled %s", got)
		}
		for _, name := range []string{"tock", "tack"} {
			g.addType(name)
			if got := f.want(wire.NotificationListChanged); subscriptionID(got) != `41` {
				t.Errorf("list_changed %s", got.params)
			}
		}
		go g.stop()
		final := f.want("")
		if string(final.id) != `41` || string(member(member(final.result, "_meta"), wire.MetaSubscriptionID)) != `41` {
			t.Errorf("final id %s result %s", final.id, final.result)
		}
	})
}

// LIST-5: other kinds asked for in the same listen request still work.
func TestListenWithOtherKinds(t *testing.T) {
	modernModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		f := open(c, m, `"l"`, methodListen, `{"notifications":{"eventsListChanged":true,"toolsListChanged":true}}`)
		ack := f.want(methodAcknowledged)
		if got := string(member(ack.params, "notifications")); got != `{"eventsListChanged":true,"toolsListChanged":true}` {
			t.Errorf("acknowledged %s", got)
		}
		g.addType("tock")
		f.want(wire.NotificationListChanged)
		g.addTool("more")
		if got := f.want(methodToolsChanged); subscriptionID(got) != `"l"` {
			t.Errorf("tools/list_changed %s", got.params)
		}
		g.addType("tack")
		f.want(wire.NotificationListChanged)
		go g.stop()
		if final := f.want(""); string(final.id) != `"l"` {
			t.Errorf("final id %s", final.id)
		}
	})
}

// D8: no list_changed for who has not asked: not on a listen request without the filter, and never
// on events/stream.
func TestListChangedOnlyWhereAsked(t *testing.T) {
	modernModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		silent := open(c, m, `1`, methodListen, `{"notifications":{"toolsListChanged":true,"eventsListChanged":false}}`)
		if got := string(member(silent.want(methodAcknowledged).params, "notifications")); got != `{"toolsListChanged":true}` {
			t.Errorf("acknowledged %s", got)
		}
		stream := c.stream(`2`, `{"name":"tick"}`)
		stream.want(wire.NotificationActive)
		asked := open(c, m, `3`, methodListen, `{"notifications":{"eventsListChanged":true}}`)
		asked.want(methodAcknowledged)
		g.addType("tock")
		asked.want(wire.NotificationListChanged)
		g.emit(1)
		stream.want(wire.NotificationEvent)
		select {
		case msg := <-silent.c:
			t.Errorf("unasked: %s", msg)
		default:
		}
		asked.cancel()
		silent.cancel()
		stream.cancel()
	})
}

// A refused listen request is refused by the SDK with the SDK's words.
func TestListenRefused(t *testing.T) {
	modernModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		f := open(g.connect(m, HandlerOptions{}), m, `1`, methodListen, `{"notifications":null,"eventsListChanged":true}`)
		if e := errorOf(t, f.want("")); e.Code != -32602 {
			t.Errorf("error %+v", e)
		}
	})
}

// LIST-5 in the legacy revisions: a session notification, on stdio as it is, over HTTP on the
// standalone stream of the session.
func TestListChangedLegacy(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		if m.modern() {
			return
		}
		g := newRig(t, server.Options{})
		var f *feed
		switch c := g.connect(m, HandlerOptions{}).(type) {
		case *httpClient:
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			resp, err := c.do(ctx, "GET", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			f = feedOf(t, resp, cancel)
		case *lineClient:
			f = c.feed("")
			c.rpc(`5`, methodPing, "") // "initialized" was read before it
		}
		g.addType("tock")
		if got := f.want(wire.NotificationListChanged); string(got.params) != `{}` {
			t.Errorf("list_changed %s", got.params)
		}
		g.addTool("more")
		f.want(methodToolsChanged) // the SDK's own still come
	})
}

// What the SDK does with the filter by itself. When this fails, the SDK has learned it, and
// listen.go may have become superfluous.
func TestSDKDoesNotKnowEventsListChanged(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[3]
	c := g.serve(m, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.srv }, &mcp.StreamableHTTPOptions{Stateless: true}))
	f := c.sse(m.request(`1`, methodListen, `{"notifications":{"eventsListChanged":true}}`))
	if got := string(member(f.want(methodAcknowledged).params, "notifications")); strings.Contains(got, wire.ListenFilter) {
		t.Errorf("the SDK acknowledges %s", got)
	}
	f.want("")
	f.over() // at once
}
