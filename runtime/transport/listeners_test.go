package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

const testKey = "example.test/adapter"

func hello(n string) port.Message {
	return port.Message{Method: "test/hello", Params: json.RawMessage(`{"n":` + n + `}`)}
}

// asking adds opt-ins to the _meta of a stateless request.
func asking(request, members string) string {
	return strings.Replace(request, `"_meta":{`, `"_meta":{`+members+`,`, 1)
}

func openListen(c client, m mode, id, params, members string) *feed {
	request := asking(m.request(id, methodListen, params), members)
	switch c := c.(type) {
	case *httpClient:
		return c.sse(request)
	case *lineClient:
		f := c.feed(id)
		c.send(request)
		return f
	}
	panic("unknown client")
}

// MCPE-NOTE-4 on 2026-07-28: a listen request that asks by an adapter's key gets its messages, with
// its own id on them, from the acknowledgement on; list_changed only if it asked for that too, and
// the messages of another key or principal never.
func TestListenForAdapter(t *testing.T) {
	modernModes(t, func(t *testing.T, m mode) {
		if m.overlay {
			return // which does not serve adapters
		}
		g := newRig(t, server.Options{})
		port.Of(g.es).AddListenKey(testKey)
		c := g.connect(m, HandlerOptions{})
		principal := ""
		if m.http {
			principal = "alice"
		}
		opened := make(chan port.Outlet, 4)
		defer port.Of(g.es).OnOutlet(func(o port.Outlet) {
			o.Send(hello("1"))
			opened <- o
		})()
		f := openListen(c, m, `7`, `{"notifications":{}}`, `"`+testKey+`":true,"other":true`)
		ack := f.want(methodAcknowledged)
		if string(member(member(ack.params, "_meta"), testKey)) != "true" || string(member(ack.params, "notifications")) != `{}` {
			t.Errorf("acknowledged %s", ack.params)
		}
		if o := <-opened; o.Session != "" || o.Key != testKey || o.Principal != principal {
			t.Errorf("outlet %+v", o)
		}
		g.addType("tock") // not asked for
		if n := port.Of(g.es).SendToListeners(principal, testKey, hello("2")); n != 1 {
			t.Errorf("%d listeners took the message", n)
		}
		if n := port.Of(g.es).SendToListeners(principal, "other", hello("3")) + port.Of(g.es).SendToListeners("somebody", testKey, hello("3")); n != 0 {
			t.Errorf("%d others took a message", n)
		}
		for _, n := range []string{"1", "2"} {
			got := f.want("test/hello")
			if string(member(got.params, "n")) != n || subscriptionID(got) != `7` {
				t.Errorf("got %s", got.params)
			}
		}
		go g.stop()
		if final := f.want(""); final.result == nil {
			t.Error("no final result")
		}
		f.over()
		if port.Of(g.es).SendToListeners(principal, testKey, hello("4")) != 0 {
			t.Error("the listen request is over and takes messages")
		}
	})
}

// MCPE-NOTE-4: who has the acknowledgement misses nothing: adapters know of the listen request before
// it is written. An outlet that took its time would lose what is sent at once.
func TestListenIsOpenBeforeItIsAcknowledged(t *testing.T) {
	modernModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		port.Of(g.es).AddListenKey(testKey)
		c := g.connect(m, HandlerOptions{})
		slow, acknowledged := make(chan struct{}), make(chan struct{})
		defer port.Of(g.es).OnOutlet(func(o port.Outlet) {
			if o.Key != testKey {
				return
			}
			close(slow)
			select {
			case <-acknowledged:
				t.Error("acknowledged before the outlet is open")
			case <-time.After(50 * time.Millisecond): // of real time, since the sockets are real
			}
		})()
		f := openListen(c, m, `1`, `{"notifications":{"eventsListChanged":true}}`, `"`+testKey+`":true`)
		<-slow
		g.addType("tock") // owed before the acknowledgement, and told after it
		f.want(methodAcknowledged)
		close(acknowledged)
		f.want(wire.NotificationListChanged)
	})
}

// A key that no adapter has is as if it were not there.
func TestListenForUnknownKey(t *testing.T) {
	g := newRig(t, server.Options{})
	defer g.stop()
	if w := parseListenRequest(port.Of(g.es), json.RawMessage(`{"notifications":{},"_meta":{"`+testKey+`":true}}`)); !w.isEmpty() {
		t.Errorf("wish %+v", w)
	}
}

// callers makes the rig's tool report its caller.
func (g *rig) callers(f func(port.Caller)) {
	g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == methodCall {
				f(port.Of(g.es).CallerOf(ctx, req))
			}
			return next(ctx, method, req)
		}
	})
}

// MCPE-NOTE-3, MCPE-NOTE-4 on sessions: a tool learns the key of its caller's session, and what is
// sent after the reply comes after it. Raw messages go out as they are.
func TestSessionOutlet(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		keys := make(chan string, 1)
		g.callers(func(caller port.Caller) {
			if caller.Stateless != m.modern() {
				t.Errorf("stateless is %v", caller.Stateless)
			}
			caller.AfterReply(func() {
				port.Of(g.es).Send(caller.Session, hello("1"))
				port.Of(g.es).Send(caller.Session, port.Message{Raw: json.RawMessage(`{"jsonrpc":"2.0","id":"raw","result":{}}`)})
			})
			keys <- caller.Session
		})
		c := g.connect(m, HandlerOptions{})
		var f, raw *feed
		switch c := c.(type) {
		case *httpClient:
			c.header.Set("Mcp-Name", "noop")
			if !m.modern() {
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := c.do(ctx, http.MethodGet, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				f = feedOf(t, resp, cancel)
				raw = f
			}
		case *lineClient:
			f, raw = c.feed(""), c.feed(`"raw"`)
		}
		reply := c.rpc("5", methodCall, `{"name":"noop","arguments":{}}`)
		if reply.result == nil {
			t.Fatalf("reply %s", reply.error)
		}
		key := <-keys
		if m.modern() || m.overlay {
			if key != "" {
				t.Errorf("a caller without a session here has the session %q", key)
			}
			return
		}
		if got := f.want("test/hello"); string(got.params) != `{"n":1}` {
			t.Errorf("got %s", got.params)
		}
		if got := raw.want(""); string(got.id) != `"raw"` {
			t.Errorf("got %s", got.id)
		}
		if l, ok := c.(*lineClient); ok {
			l.mu.Lock()
			all := strings.Join(l.all, "\n")
			l.mu.Unlock()
			if strings.Index(all, "test/hello") < strings.Index(all, `"id":5`) {
				t.Errorf("the message came before the reply:\n%s", all)
			}
		}
		if !port.Of(g.es).Reachable(key) {
			t.Error("the session is open and not reachable")
		}
	})
}

// A peer that reads nothing costs a bounded number of messages, and a closed session none.
func TestOutletIsBounded(t *testing.T) {
	g := newRig(t, server.Options{})
	keys := make(chan string, 1)
	g.callers(func(c port.Caller) { keys <- c.Session })
	c := g.stdio(modes[0])
	c.rpc("5", methodCall, `{"name":"noop","arguments":{}}`)
	key := <-keys
	hold := c.feed("") // 5,000 messages fit, then the client's reading stops
	_ = hold
	refused := false
	for range 20_000 {
		if !port.Of(g.es).Send(key, hello("1")) {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("no message was refused")
	}
	c.cancel()
	go func() {
		for range hold.c {
		}
	}()
	<-c.ran
	c.ran <- nil
	if port.Of(g.es).Send(key, hello("1")) {
		t.Error("a closed session takes messages")
	}
}

// No peer can say by which session it comes: the header is deleted from what comes in.
func TestReplyHeaderIsNotTakenFromPeers(t *testing.T) {
	g := newRig(t, server.Options{})
	ticket, replied := port.Of(g.es).ExpectReply(context.Background(), "http victim", "", true)
	defer replied()
	keys := make(chan string, 1)
	g.callers(func(c port.Caller) { keys <- c.Session })
	for _, m := range modes {
		if !m.http || m.h2 {
			continue
		}
		c := g.connect(m, HandlerOptions{}).(*httpClient)
		c.header.Set(port.ReplyHeader, ticket)
		c.header.Set("Mcp-Name", "noop")
		if c.rpc("1", methodCall, `{"name":"noop","arguments":{}}`).result == nil {
			t.Fatal("refused")
		}
		if key := <-keys; key == "http victim" {
			t.Errorf("%s: a peer took another's session", m.name)
		}
	}
}
