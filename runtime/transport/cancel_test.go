package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func cancelOf(id string) string { return `{"requestId":` + id + `,"reason":"done"}` }

// D14: a cancel ends the stream of a legacy HTTP session at once and without a final result, whatever
// the form of its id; other streams, and equal values of another JSON type, go on.
func TestCancelledStreamOverHTTP(t *testing.T) {
	for _, m := range []mode{modes[2], modes[4]} {
		t.Run(m.name, func(t *testing.T) {
			g := newRig(t, server.Options{MaxStreams: 2})
			c := g.connect(m, HandlerOptions{}).(*httpClient)
			other := c.stream(`"7"`, `{"name":"tick"}`)
			other.want(wire.NotificationActive)
			kept := recv(t, g.opened, "the other stream")
			for i, ids := range [][2]string{{`7`, `7`}, {`7`, `7.0`}, {`1e3`, `1000`}, {`1.5`, `1.5`}, {`9007199254740993`, `9007199254740993`},
				{`"a\u0062"`, `"ab"`}, {`"x#1"`, `"x#1"`}, {`-0`, `0`}} {
				f := c.stream(ids[0], `{"name":"tick","arguments":{"channel":"x"}}`)
				f.want(wire.NotificationActive)
				recv(t, g.opened, "a stream")
				c.notify(methodCancelled, cancelOf(`9007199254740992`)) // nobody's
				c.notify(methodCancelled, cancelOf(ids[1]))
				if ended := recv(t, g.ended, "cancelled stream freed"); ended == kept {
					t.Fatal("the other stream ended")
				}
				g.emit(i)
				if rest := f.over(); len(rest) > 0 {
					t.Errorf("%s: after its cancel %q", ids[0], rest)
				}
				other.want(wire.NotificationEvent)
			}
			other.cancel()
		})
	}
}

// D14: a cancel ends a held poll of a legacy HTTP session, and nothing is answered.
func TestCancelledPollOverHTTP(t *testing.T) {
	for _, id := range []string{`5`, `5.0`, `"p"`} {
		inBubble(t, id, func(t *testing.T) {
			g := newRig(t, server.Options{})
			m := modes[2]
			c := g.connect(m, HandlerOptions{}).(*httpClient)
			boot := c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`)
			f := make(chan string, 1)
			go func() {
				resp := c.post(context.Background(), m.request(id, wire.MethodPoll, `{"name":"tick","timeoutMs":30000,"cursor":`+string(member(boot.result, "cursor"))+`}`), nil)
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				f <- resp.Status + string(b)
			}()
			g.awaitPoll()
			c.notify(methodCancelled, cancelOf(id))
			if got := recv(t, f, "the cancelled poll"); got != "200 OK" {
				t.Errorf("answered by %s", got)
			}
		})
	}
}

// D14: only the session that opened a request can cancel it, and only its user.
func TestCancelOfAnotherSession(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[2]
	c := g.connect(m, HandlerOptions{}).(*httpClient)
	f := c.stream(`7`, `{"name":"tick"}`)
	f.want(wire.NotificationActive)
	second := g.dial(m, c.url, c.hc)
	second.notify(methodCancelled, cancelOf(`7`))
	body := m.request("", methodCancelled, cancelOf(`7`))
	for status, header := range map[int]map[string]string{
		http.StatusForbidden: {"Authorization": "Bearer mallory"},
		http.StatusNotFound:  {headerSession: "nosuch"},
	} {
		resp := c.post(context.Background(), body, header)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%v: %s", header, resp.Status)
		}
	}
	g.emit(1)
	f.want(wire.NotificationEvent)
	f.cancel()
}

// D14: a second request under the id of a live one is refused, whatever the methods, and the first
// goes on; afterwards the id is free.
func TestIDInUse(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[2]
	c := g.connect(m, HandlerOptions{}).(*httpClient)
	f := c.stream(`7`, `{"name":"tick"}`)
	f.want(wire.NotificationActive)
	for _, method := range []string{wire.MethodStream, wire.MethodPoll, wire.MethodList, "tools/list", methodPing} {
		for _, id := range []string{`7`, `7.0`} {
			resp := c.post(context.Background(), m.request(id, method, `{"name":"tick"}`), nil)
			status := resp.StatusCode
			if env := readMessage(t, resp); errorOf(t, env).Code != -32600 || string(env.id) != id || status != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s %s", method, id, status, env.id, env.error)
			}
		}
	}
	if env := c.rpc(`"7"`, wire.MethodPoll, `{"name":"tick"}`); env.result == nil {
		t.Errorf("of another type: %s", env.error)
	}
	g.emit(1)
	f.want(wire.NotificationEvent)
	c.notify(methodCancelled, cancelOf(`7`))
	f.over()
	if env := c.rpc(`7`, wire.MethodPoll, `{"name":"tick"}`); env.result == nil {
		t.Errorf("afterwards: %s", env.error)
	}
}

// D14: a cancel that comes before its request ends it, for two seconds; it is used up by that.
func TestCancelOvertakes(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[2]
	c := g.connect(m, HandlerOptions{}).(*httpClient)
	for _, method := range []string{wire.MethodStream, wire.MethodPoll} {
		c.notify(methodCancelled, cancelOf(`7.0`))
		f := c.sse(m.request(`7`, method, `{"name":"tick"}`))
		if rest := f.over(); len(rest) > 0 {
			t.Errorf("%s: %q", method, rest)
		}
	}
	if len(g.opened) > 0 {
		t.Error("a cancelled request reached the event type")
	}
	f := c.stream(`7`, `{"name":"tick"}`)
	f.want(wire.NotificationActive)
	f.cancel()
}

// D14: an initialize cannot be cancelled, as the protocol says.
func TestInitializeIsNotCancelled(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[2]
	c := g.connect(m, HandlerOptions{}).(*httpClient)
	c.notify(methodCancelled, cancelOf(`"i"`))
	resp := c.post(t.Context(), m.request(`"i"`, methodInitialize, `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`), nil)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `"id":"i"`) {
		t.Errorf("%s %q %v", resp.Status, body, err)
	}
}

// D14: cancels that await their request are bounded in time and number, for one session and in all.
func TestEarlyCancelsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s callRegistry
		key := func(session, id int) callKey {
			return newCallKey("alice", fmt.Sprint(session), json.RawMessage(fmt.Sprint(id)))
		}
		cancelled := func(k callKey) bool {
			c := &liveCall{key: k}
			if !s.register(c) {
				t.Fatal("in use")
			}
			s.unregister(c)
			return c.gone.Load()
		}
		for i := range 3 * maxEarlySession {
			s.cancel(key(0, i))
		}
		if s.count != maxEarlySession || cancelled(key(0, 0)) || !cancelled(key(0, 3*maxEarlySession-1)) || cancelled(key(0, 3*maxEarlySession-1)) {
			t.Errorf("%d kept", s.count)
		}
		for i := range 2 * maxEarly {
			s.cancel(key(i+1, 1))
		}
		if s.count > maxEarly {
			t.Errorf("%d kept in all", s.count)
		}
		time.Sleep(earlyWindow)
		if !cancelled(key(1, 1)) {
			t.Error("not kept for the window")
		}
		time.Sleep(time.Millisecond)
		if cancelled(key(2, 1)) {
			t.Error("kept for longer than the window")
		}
		s.cancel(key(0, 1))
		for range 2 {
			s.cancel(key(3, 1))
			time.Sleep(earlyWindow + time.Millisecond)
		}
		for i := range maxEarly { // the old ones make room
			s.cancel(key(i, 2))
		}
		if s.count != maxEarly || !cancelled(key(maxEarly-1, 2)) {
			t.Errorf("%d kept, the last is not", s.count)
		}
	})
}

// D14: when there are as many as may be, the sessions are looked through for old ones now and then, not
// for every cancel that comes. calls.cancel carries it.
func TestEarlyCancelsAreSweptInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s callRegistry
		cancel := func(session int) {
			s.cancel(newCallKey("alice", fmt.Sprint(session), json.RawMessage("1")))
		}
		kept := func(session int) bool {
			return len(s.early[newCallKey("alice", fmt.Sprint(session), json.RawMessage("1")).session]) > 0
		}
		cancel(0)
		time.Sleep(earlyWindow - time.Millisecond)
		for i := range maxEarly {
			cancel(i + 1) // the last one looks for old ones in vain
		}
		time.Sleep(2 * time.Millisecond)
		if cancel(maxEarly + 1); kept(maxEarly+1) || !kept(0) {
			t.Error("all sessions are looked through at once again")
		}
		time.Sleep(sweepInterval)
		if cancel(maxEarly + 1); !kept(maxEarly+1) || kept(0) || s.count != maxEarly {
			t.Errorf("an old one makes no room: %d kept", s.count)
		}
	})
}

// CAP-6: the ids of every method come back byte for byte, in both eras.
func TestIDsOfEveryMethod(t *testing.T) {
	ids := []string{`1`, `-1`, `1.0`, `1e3`, `1E+3`, `1.5`, `-0`, `9007199254740992`, `9007199254740993`, `12345678901234567890`, `1e400`, `0.1e-2`,
		`"a\u0062"`, `"#"`, `"7#1"`, `"\u2028"`, `"<&>"`, `"ü"`, `""`, `"\ud83d"`, `" \" \\ "`, `"` + strings.Repeat("i", 200) + `"`}
	inEveryMode(t, func(t *testing.T, m mode) {
		for _, rigOf := range []func(testing.TB, server.Options) *rig{newRig, plainRig} {
			g := rigOf(t, server.Options{})
			c := g.connect(m, HandlerOptions{})
			for _, row := range [][2]string{
				{wire.MethodList, ``}, {wire.MethodPoll, `{"name":"tick"}`}, {wire.MethodPoll, `{"name":"nope"}`}, {wire.MethodStream, `{"name":"nope"}`},
				{wire.MethodUnsubscribe, `{"name":"tick"}`}, {"tools/list", ``}, {"prompts/get", `{"name":"nope"}`}, {"no/such", ``}, {methodDiscover, ``},
			} {
				if m.overlay && !strings.HasPrefix(row[0], wire.MethodPrefix) {
					continue // next's
				}
				for _, id := range ids {
					env := rpcNamed(c, id, row[0], row[1])
					if string(env.id) != id {
						t.Errorf("%s: id %s comes back as %s (%s)", row[0], id, env.id, env.error)
					}
					if row[0] == "tools/list" && env.result == nil {
						t.Errorf("%s: id %s is refused: %s", row[0], id, env.error)
					}
				}
			}
		}
	})
}

// CAP-6, D14: a cancel ends the call with an equal id, however either is written, and not the one that the SDK takes for it.
func TestCancelsOfAlteredIDs(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		if m.http && m.modern() || m.overlay {
			return // its calls end with their requests, or are calls of the SDK's server without sessions, which never end them
		}
		g := newRig(t, server.Options{})
		ended := make(chan string, 10)
		mcp.AddTool(g.srv, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, in struct{ Name string }) (*mcp.CallToolResult, any, error) {
			<-ctx.Done()
			ended <- in.Name
			return nil, nil, ctx.Err()
		})
		c := g.connect(m, HandlerOptions{})
		cancel := func(id string) {
			if h, ok := c.(*httpClient); ok {
				resp := h.post(t.Context(), m.request("", methodCancelled, cancelOf(id)), nil)
				resp.Body.Close()
				return
			}
			c.(*lineClient).send(m.request("", methodCancelled, cancelOf(id)))
		}
		var calls sync.WaitGroup
		defer calls.Wait()
		pairs := [][2]string{{`9007199254740992`, `9007199254740992.0`}, {`1.0`, `1`}, {`9007199254740993`, `9007199254740993`}, {`12.5`, `125e-1`}, {`"<a>"`, `"<\u0061>"`}}
		for _, pair := range pairs {
			body := m.request(pair[0], methodCall, fmt.Sprintf(`{"name":"hang","arguments":{"Name":%q}}`, pair[0]))
			if h, ok := c.(*httpClient); ok {
				calls.Go(func() {
					resp := h.post(context.Background(), body, nil)
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				})
			} else {
				c.(*lineClient).send(body)
			}
		}
		synctest.Wait()
		for i := len(pairs) - 1; i >= 0; i-- { // the call with id 2^53 is the last, so its cancel comes after that of 2^53+1
			cancel(pairs[i][1])
			if got := recv(t, ended, "the end of "+pairs[i][0]); got != pairs[i][0] {
				t.Errorf("the cancel of %s ended %s", pairs[i][1], got)
			}
		}
	})
}

// rpcNamed is rpc with the header that some methods need.
func rpcNamed(c client, id, method, params string) envelope {
	if h, ok := c.(*httpClient); ok && method == "prompts/get" {
		resp := h.post(context.Background(), h.mode.request(id, method, params), map[string]string{"Mcp-Name": "nope"})
		return readMessage(h.t, resp)
	}
	return c.rpc(id, method, params)
}

// CAP-6: ids that the SDK takes for one are two, at the same time.
func TestIDsApart(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		boot := c.rpc(`"boot"`, wire.MethodPoll, `{"name":"tick"}`)
		params := `{"name":"tick","timeoutMs":20000,"cursor":` + string(member(boot.result, "cursor")) + `}`
		ids := []string{`1`, `1.5`, `1.25`, `"1"`, `9007199254740992`, `9007199254740993`}
		var got []chan envelope
		for _, id := range ids {
			ch := make(chan envelope, 1)
			got = append(got, ch)
			go func() { ch <- c.rpc(id, wire.MethodPoll, params) }()
		}
		synctest.Wait()
		g.emit(1)
		for i, ch := range got {
			if env := recv(t, ch, "poll "+ids[i]); string(env.id) != ids[i] || env.result == nil {
				t.Errorf("%s: %s %s", ids[i], env.id, env.error)
			}
		}
	})
}

// D14: on stdio too a second live request under one id is refused, with an error that cannot be taken
// for the answer to the first.
func TestIDInUseOnStdio(t *testing.T) {
	for _, m := range modes[:2] {
		g := newRig(t, server.Options{})
		c := g.stdio(m)
		f := c.stream(`7`, `{"name":"tick"}`)
		f.want(wire.NotificationActive)
		refused := c.feed("")
		c.send(m.request(`7.0`, wire.MethodPoll, `{"name":"tick"}`))
		if msg := refused.next(); !strings.Contains(msg, `"id":null`) || !strings.Contains(msg, `-32600`) {
			t.Errorf("answered by %s", msg)
		}
		g.emit(1)
		f.want(wire.NotificationEvent)
	}
}

// CAP-6: the subscriptionId of a listen request is its id, in what the SDK itself sends too.
func TestListenIDs(t *testing.T) {
	for _, m := range []mode{modes[1], modes[3]} {
		for _, filter := range []string{`{"toolsListChanged":true}`, `{"toolsListChanged":true,"eventsListChanged":true}`} {
			for i, id := range []string{`7`, `"ab"`, `7.0`, `9007199254740993`} {
				g := newRig(t, server.Options{}) // the SDK has one listen request a session
				c := g.connect(m, HandlerOptions{})
				var f *feed
				if h, ok := c.(*httpClient); ok {
					f = h.sse(m.request(id, methodListen, `{"notifications":`+filter+`}`))
				} else {
					l := c.(*lineClient)
					f = l.feed(id)
					l.send(m.request(id, methodListen, `{"notifications":`+filter+`}`))
				}
				if ack := f.want(methodAcknowledged); subscriptionID(ack) != id {
					t.Errorf("%s %s: acknowledged with %s", m.name, id, subscriptionID(ack))
				}
				done := make(chan struct{})
				go func() { // the SDK acknowledges before it listens
					for j := 0; ; j++ {
						select {
						case <-done:
							return
						case <-time.After(50 * time.Millisecond):
							g.addTool(fmt.Sprint("tool", i, ".", j))
						}
					}
				}()
				n := f.want("notifications/tools/list_changed")
				close(done)
				if subscriptionID(n) != id {
					t.Errorf("%s %s: notified with %s", m.name, id, subscriptionID(n))
				}
				f.cancel()
			}
		}
	}
}

// CAP-6: the answer to a call that is resumed has the call's own id.
func TestResumedIDs(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[2]
	c := g.connect(m, HandlerOptions{Streamable: resumable()}).(*httpClient)
	resp := c.post(context.Background(), m.request(`150`, "tools/list", ``), nil)
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	_, event, _ := strings.Cut(string(b), "id: ")
	event, _, _ = strings.Cut(event, "\n")
	if event == "" {
		t.Fatalf("no event id in %s", b)
	}
	resp, err := c.do(context.Background(), http.MethodGet, "", map[string]string{headerLastEventID: event})
	if err != nil {
		t.Fatal(err)
	}
	if env := readMessage(t, resp); string(env.id) != `150` || env.result == nil {
		t.Errorf("resumed: %s %s", env.id, env.error)
	}
}

// V10: a POST with Last-Event-ID, as libraries of event sources repeat one, is as one without; a GET resumes.
func TestLastEventIDOnPOST(t *testing.T) {
	for _, m := range []mode{modes[2], modes[3]} {
		for _, o := range []HandlerOptions{{}, {Streamable: resumable()}} {
			g := newRig(t, server.Options{})
			c := g.connect(m, o).(*httpClient)
			c.header.Set(headerLastEventID, "a_1")
			for id, method := range map[string]string{`1`: wire.MethodList, `2`: "tools/list"} {
				if got := c.rpc(id, method, ""); got.result == nil || string(got.id) != id {
					t.Errorf("%s %s: %s %s", m.name, method, got.id, got.error)
				}
			}
			f := c.stream(`3`, `{"name":"tick"}`)
			f.want(wire.NotificationActive)
			f.cancel()
			resp := c.post(t.Context(), m.request("", methodCancelled, cancelOf(`9`)), nil)
			resp.Body.Close()
			if resp.StatusCode != http.StatusAccepted {
				t.Errorf("%s: %s", m.name, resp.Status)
			}
		}
	}
}

// D14, CAP-6: numbers are compared exactly and by value.
func TestIDKey(t *testing.T) {
	equal := [][]string{{`1`, `1.0`, `1e0`, `10e-1`, `0.1E+1`, `1.000`}, {`0`, `-0`, `0.0`, `0e99999999999999999999`}, {`100`, `1e2`, `1E2`, `0.1e3`, `100.00`},
		{`-15`, `-1.5e1`}, {`"ab"`, `"a\u0062"`}, {`9007199254740992`}, {`9007199254740993`}, {`"1"`}, {`1e400`}, {`1e401`, `10e400`}, {`1e-400`},
		{`"n1e0"`}, {`"\ud800"`}, {`"\ud801"`}, {`"\ufffd"`}, {`1e99999999999999999999`}, {`1e99999999999999999998`}}
	class := map[string]int{}
	for i, ids := range equal {
		for _, id := range ids {
			key := idKey(json.RawMessage(id))
			if j, ok := class[key]; ok && j != i {
				t.Errorf("%s is taken for %s", id, equal[j][0])
			}
			class[key] = i
		}
	}
	if len(class) != len(equal) {
		t.Errorf("%d keys, want %d", len(class), len(equal))
	}
}
