package transport

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A visitor asks a handler without a network, from an address and perhaps with a token.
type visitor struct {
	t              testing.TB
	h              http.Handler
	address, token string
}

func (v visitor) request(ctx context.Context, method, session, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	r.RemoteAddr = v.address
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set(headerSession, session)
	}
	return r
}

// begin begins a session; its id is empty if it was refused.
func (v visitor) begin() (status int, session string) {
	v.t.Helper()
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, v.request(context.Background(), http.MethodPost, "", initializeRequest(wire.RevisionLegacy)))
	if w.Header().Get("Retry-After") != "" {
		v.t.Error("Retry-After, and nobody knows when a session ends")
	}
	return w.Code, w.Header().Get(headerSession)
}

// lives reports whether a session answers.
func (v visitor) lives(session string) bool {
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, v.request(context.Background(), http.MethodPost, session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	return w.Code == http.StatusOK
}

// initialized completes the handshake of a session.
func (v visitor) initialized(session string) {
	v.h.ServeHTTP(httptest.NewRecorder(), v.request(context.Background(), http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// hold keeps the session's standing GET open until close is called.
func (v visitor) hold(session string) (closed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		v.h.ServeHTTP(httptest.NewRecorder(), v.request(ctx, http.MethodGet, session, ""))
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-over
	}
}

// CAP-7: an idle session of the older revisions ends, by default after 30 minutes; one with an open request is not idle.
func TestCAP7IdleSessionsEnd(t *testing.T) {
	for name, row := range map[string]struct {
		given time.Duration
		last  time.Duration // 0: for ever
	}{"default": {0, 30 * time.Minute}, "a minute": {time.Minute, time.Minute}, "never": {-1, 0}} {
		inBubble(t, name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			defer g.stop()
			v := visitor{t, bearer(NewHandler(g.es, HandlerOptions{SessionTimeout: row.given})), "192.0.2.1:1", "alice"}
			_, idle := v.begin()
			_, held := v.begin()
			closed := v.hold(held)
			if row.last == 0 {
				time.Sleep(1000 * time.Hour)
			} else {
				time.Sleep(row.last - time.Second)
				if !v.lives(idle) {
					t.Fatal("ended before its time")
				}
				time.Sleep(row.last + time.Second)
			}
			if got := v.lives(idle); got != (row.last == 0) {
				t.Errorf("an idle session lives: %v", got)
			}
			if !v.lives(held) {
				t.Error("a session with an open GET has ended")
			}
			closed()
			time.Sleep(row.last + time.Second)
			if got := v.lives(held); got != (row.last == 0) {
				t.Errorf("the GET is over, and the session lives: %v", got)
			}
		})
	}
}

// CAP-7: the bound of a principal is one of sessions in use: the longest idle one makes room. Only if each has an open
// request, a further one is refused; others are not concerned.
func TestCAP7IdleSessionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		h := bearer(NewHandler(g.es, HandlerOptions{MaxSessions: 2, SessionTimeout: -1}))
		alice, bob := visitor{t, h, "192.0.2.1:1", "alice"}, visitor{t, h, "192.0.2.1:2", "bob"}
		_, bobs := bob.begin()
		_, first := alice.begin()
		_, second := alice.begin()
		if !alice.lives(first) { // second is the longest idle one from now on
			t.Fatal("the first session has ended")
		}
		code, third := alice.begin()
		synctest.Wait()
		if code != http.StatusOK || !alice.lives(first) || alice.lives(second) || !alice.lives(third) || !bob.lives(bobs) {
			t.Fatalf("%d: lives: first %v, second %v, third %v, bob's %v", code, alice.lives(first), alice.lives(second), alice.lives(third), bob.lives(bobs))
		}
		closed := []func(){alice.hold(first), alice.hold(third)}
		if code, _ := alice.begin(); code != http.StatusTooManyRequests {
			t.Errorf("with two sessions in use: %d", code)
		}
		if code, _ := bob.begin(); code != http.StatusOK {
			t.Errorf("bob gets %d", code)
		}
		closed[0]()
		code, _ = alice.begin()
		synctest.Wait()
		if code != http.StatusOK || alice.lives(first) {
			t.Errorf("after one is idle: %d; the idle one lives: %v", code, alice.lives(first))
		}
		closed[1]()
		for range 100 { // as clients that restart do
			if code, _ := alice.begin(); code != http.StatusOK {
				t.Fatalf("a restart: %d", code)
			}
		}
		synctest.Wait()
		n := 0
		for range g.srv.Sessions() {
			n++
		}
		if n != 4 {
			t.Errorf("%d sessions, want two of each", n)
		}
	})
}

// CAP-7: whoever only initializes sessions ends its own, not the idle ones of others that share its account.
func TestCAP7UnusedSessionsMakeRoom(t *testing.T) {
	const most = 4
	for name, row := range map[string]struct {
		token      string
		users      int
		user, from func(i int) string
	}{
		"principal": {"alice", most - 1, func(int) string { return "192.0.2.1:1" }, func(int) string { return "192.0.2.2:1" }},
		"proxy":     {"", most - 1, func(int) string { return "192.0.2.1:1" }, func(int) string { return "192.0.2.1:2" }},
		"nobody": {"", anonymousFactor*most - 1, func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) },
			func(i int) string { return fmt.Sprintf("198.51.100.%d:1", i%200) }},
	} {
		inBubble(t, name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			defer g.stop()
			h := NewHandler(g.es, HandlerOptions{MaxSessions: most, SessionTimeout: -1})
			if row.token != "" {
				h = bearer(h)
			}
			at := func(address string) visitor { return visitor{t, h, address, row.token} }
			var used []string
			for i := range row.users {
				v := at(row.user(i))
				_, session := v.begin()
				v.initialized(session)
				if !v.lives(session) {
					t.Fatal("a new session does not answer")
				}
				used = append(used, session)
			}
			time.Sleep(time.Hour)
			last := ""
			for i := range 300 {
				v := at(row.from(i))
				code, session := v.begin()
				if code != http.StatusOK {
					t.Fatalf("initialize %d gets %d", i, code)
				}
				v.initialized(session)
				v.hold(session)() // as the SDK's client does
				synctest.Wait()
				last = session
			}
			for i, session := range used {
				if !at(row.user(i)).lives(session) {
					t.Errorf("used session %d has ended", i)
				}
			}
			if !at(row.from(299)).lives(last) {
				t.Error("the newest session has ended")
			}
			n := 0
			for range g.srv.Sessions() {
				n++
			}
			if n != len(used)+1 {
				t.Errorf("%d sessions, want %d", n, len(used)+1)
			}
		})
	}
}

// CAP-7: without a principal the bound is one of an address, and of all of these together.
func TestCAP7SessionsOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		h := NewHandler(g.es, HandlerOptions{MaxSessions: 1})
		at := func(address string) visitor { return visitor{t, h, address, ""} }
		begin := func(address string, want int) (held func()) {
			t.Helper()
			code, session := at(address).begin()
			if code != want {
				t.Fatalf("%s: %d, want %d", address, code, want)
			}
			if code != http.StatusOK {
				return func() {}
			}
			return at(address).hold(session)
		}
		first := begin("[2001:db8:0:1::1]:1", http.StatusOK)
		defer first()
		begin("[2001:db8:0:1::2]:1", http.StatusTooManyRequests)
		for i := range anonymousFactor - 2 {
			defer begin("192.0.2."+string(rune('1'+i/10))+string(rune('0'+i%10))+":1", http.StatusOK)()
		}
		last := begin("[2001:db8:0:2::1]:1", http.StatusOK)
		begin("198.51.100.1:1", http.StatusTooManyRequests)
		last()
		begin("198.51.100.1:1", http.StatusOK)()
		if _, session := at("[2001:db8:0:3::1]:1").begin(); !at("[2001:db8:0:3::1]:1").lives(session) {
			t.Error("the longest idle session of all does not make room")
		}
	})
}

// CAP-7: a session whose client leaves before the answer does not stay.
func TestCAP7SessionOfALeaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		v := visitor{t, bearer(NewHandler(g.es, HandlerOptions{MaxSessions: 1})), "192.0.2.1:1", "alice"}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		v.h.ServeHTTP(httptest.NewRecorder(), v.request(ctx, http.MethodPost, "", initializeRequest(wire.RevisionLegacy)))
		synctest.Wait()
		if code, session := v.begin(); code != http.StatusOK || !v.lives(session) {
			t.Errorf("%d", code)
		}
		synctest.Wait()
		n := 0
		for range g.srv.Sessions() {
			n++
		}
		if n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// D14: what is held open in a session that makes room ends with it, so that it does not stay for a call of its client,
// which has gone and may come back for the answer.
func TestCAP7SessionMakesRoomDuringCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		defer g.stop()
		v := visitor{t, bearer(NewHandler(g.es, HandlerOptions{MaxSessions: 1, Streamable: resumable()})), "192.0.2.1:1", "alice"}
		_, session := v.begin()
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan struct{})
		go func() {
			defer close(over)
			r := v.request(ctx, http.MethodPost, session, modes[2].request(`"p"`, wire.MethodPoll, `{"name":"tick","timeoutMs":20000}`))
			v.h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		cancel()
		<-over
		if code, _ := v.begin(); code != http.StatusOK {
			t.Fatalf("%d", code)
		}
		synctest.Wait()
		if n := g.polls.Load(); n != 0 {
			t.Errorf("%d polls are held in a session that has ended", n)
		}
	})
}
