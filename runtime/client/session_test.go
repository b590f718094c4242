package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// CAP-1, CAP-2, D1: either form of the capability is enough, and so is an experimental one, which some SDKs alone let a
// server declare; with none nothing of events/* is ever sent and the error is typed.
func TestCAP2Capabilities(t *testing.T) {
	forms := map[string]bool{
		`{"events":{"listChanged":true}}`:                      true,
		`{"events":{}}`:                                        true,
		`{"extensions":{"io.modelcontextprotocol/events":{}}}`: true,
		bothCaps:                     true,
		`{}`:                         false,
		`{"events":null,"tools":{}}`: false,
		`{"extensions":{"io.modelcontextprotocol/other":{}},"tools":{}}`:           false,
		`{"experimental":{"events":{}}}`:                                           true,
		`{"experimental":{"io.modelcontextprotocol/events":{"listChanged":true}}}`: true,
		`{"experimental":{"events":null,"mcpe":{}}}`:                               false,
	}
	for caps, advertised := range forms {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			f.caps = caps
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
			cl := connect(t, f, c, Options{})
			_, err := cl.List(t.Context())
			if advertised {
				if err != nil {
					t.Errorf("%s: %v", caps, err)
				}
				subscribe(t, cl)
				return
			}
			if !errors.Is(err, ErrNoEvents) {
				t.Errorf("%s: %v", caps, err)
			}
			if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); !errors.Is(err, ErrNoEvents) {
				t.Errorf("%s: %v", caps, err)
			}
			time.Sleep(time.Hour)
			for _, m := range f.methods() {
				if strings.HasPrefix(m, "events/") || strings.HasPrefix(m, "subscriptions/") {
					t.Errorf("%s: sent %s", caps, m)
				}
			}
		})
	}
}

// CAP-3: the extension is declared with {} in initialize and in every request of the stateless era,
// beside what the application's SDK client declares, and Mcp-Name is not sent on events/*.
func TestCAP3Declared(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c", false, 0), nil }
		caps := &mcp.ClientCapabilities{}
		caps.AddExtension("x/y", map[string]any{"z": 1})
		cl := connect(t, f, c, Options{Client: mcp.NewClient(&mcp.Implementation{Name: "app", Version: "2"}, &mcp.ClientOptions{Capabilities: caps})})
		subscribe(t, cl)
		subscribe(t, cl, WithMode("poll"))
		checked := 0
		for _, r := range f.requests {
			var p struct {
				Capabilities json.RawMessage            `json:"capabilities"`
				Meta         map[string]json.RawMessage `json:"_meta"`
			}
			json.Unmarshal(r.Params, &p)
			declared := p.Capabilities
			if !c.legacy {
				declared = p.Meta[mcp.MetaKeyClientCapabilities]
			}
			if r.Method == "initialize" || !c.legacy && !strings.HasPrefix(r.Method, "notifications/") {
				checked++
				var d struct{ Extensions map[string]json.RawMessage }
				json.Unmarshal(declared, &d)
				if string(d.Extensions[wire.ExtensionID]) != "{}" || string(d.Extensions["x/y"]) != `{"z":1}` {
					t.Errorf("%s declares %s", r.Method, declared)
				}
			}
			if strings.HasPrefix(r.Method, "events/") && c.http {
				if r.Header.Get("Mcp-Name") != "" || !c.legacy && r.Header.Get("Mcp-Method") != r.Method {
					t.Errorf("%s headers %v", r.Method, r.Header)
				}
			}
		}
		if checked == 0 {
			t.Error("nothing checked")
		}
	})
}

// D3: a result may lack resultType, or have it.
func TestD3ResultType(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		n := 0
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
			n++
			p := polled(fmt.Sprint("c", n), false, 0, fmt.Sprint("e", n))
			if n == 1 {
				p = append([]byte(`{"resultType":"complete",`), p[1:]...)
			}
			return json.RawMessage(p), nil
		}
		read(t, subscribe(t, connect(t, f, c, Options{Mode: "poll"}))).want("e1", "e2")
	})
}

// A session that is lost, by a 404 for its id or the death of the process, is connected again; the
// subscriptions resume from their cursors, and application and registry notice nothing else.
func TestSessionLost(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		if c.http && !c.legacy {
			return // there are no sessions
		}
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			n := len(f.cursors())
			st.active("c0")
			st.event(fmt.Sprint("e", n), fmt.Sprint("c", n))
			if n > 1 {
				return hold(st)
			}
			select {
			case <-st.ctx.Done():
			case <-time.After(time.Minute):
			}
			return nil, nil
		}
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) { return polled(cursorOf(p)+"x", false, 10_000), nil }
		cl := connect(t, f, c, Options{})
		first := cl.Session()
		s := subscribe(t, cl)
		p := subscribe(t, cl, WithMode("poll"))
		r := read(t, s)
		r.want("e1")
		time.Sleep(30 * time.Second)
		if c.http {
			f.forgetSessions()
		} else {
			f.cut()
		}
		r.want("e2")
		time.Sleep(time.Minute)
		synctest.Wait()
		if cl.Session() == first {
			t.Error("the old session")
		}
		if got := f.cursors(); !slices.Equal(got, []string{"null", "c1"}) {
			t.Errorf("cursors %v", got)
		}
		if n := len(f.sent("initialize")) + len(f.sent("server/discover")); c.legacy && n != 4 || !c.legacy && n != 2 {
			t.Errorf("%d handshakes", n)
		}
		if got := p.Subscription().Status(); got.LastFrame.Before(time.Now().Add(-11 * time.Second)) {
			t.Errorf("the poll loop stopped: %+v", got)
		}
		if len(cl.Subscriptions()) != 2 {
			t.Error("registry")
		}
	})
}

// A server that is down for a while is tried again with backoff; a transport that serves one
// session only ends its subscriptions with ErrSessionLost.
func TestReconnectBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			st.event(fmt.Sprint("e", len(f.cursors())), "")
			return hold(st)
		}
		inner := f.transport(t, carriers[0]).(*dialed)
		var down atomic.Bool
		var tries atomic.Int32
		cl, err := Connect(t.Context(), Dial(func(ctx context.Context) (mcp.Transport, error) {
			if tries.Add(1); down.Load() {
				return nil, errors.New("down")
			}
			return inner.open(ctx)
		}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		r := read(t, subscribe(t, cl))
		r.want("e1")
		down.Store(true)
		f.cut()
		time.Sleep(10 * time.Minute)
		if n := tries.Load(); n < 10 || n > 25 {
			t.Errorf("%d tries in 10 minutes", n)
		}
		if _, err := cl.List(t.Context()); err == nil || !strings.Contains(err.Error(), "down") {
			t.Errorf("List: %v", err)
		}
		down.Store(false)
		r.want("e2")
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		once, err := f.transport(t, carriers[0]).(*dialed).open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cl, err := Connect(t.Context(), once, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		r := read(t, subscribe(t, cl))
		go func() { time.Sleep(time.Second); f.cut() }()
		r.want("error")
		if !errors.Is(r.err, ErrSessionLost) {
			t.Error(r.err)
		}
		if _, err := cl.List(t.Context()); !errors.Is(err, ErrSessionLost) {
			t.Error(err)
		}
	})
}

// A refusal that is no JSON-RPC message, which a proxy or an authenticator writes, is the error of
// its call; the session survives it.
func TestPlainRefusals(t *testing.T) {
	for _, c := range carriers[2:] {
		for status, permanent := range map[int]bool{400: true, 401: true, 403: true, 429: false, 500: false, 502: false, 503: false} {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(c.legacy)
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
					st.active("c0")
					st.event(fmt.Sprint("e", len(f.cursors())), "c1")
					time.Sleep(time.Second)
					return nil, nil
				}
				var refusing atomic.Bool
				refusing.Store(true)
				f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
					if !refusing.Load() || m.Method != wire.MethodStream {
						return false
					}
					w.Header().Set("Retry-After", "90")
					http.Error(w, "go away", status)
					return true
				}
				cl := connect(t, f, c, Options{})
				_, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
				var se *StatusError
				if !errors.As(err, &se) || se.Status != status || se.text != "go away" {
					t.Errorf("%d: %v", status, err)
				}
				session := cl.Session()
				refusing.Store(false)
				before := len(f.cursors())
				r := read(t, subscribe(t, cl))
				r.want(fmt.Sprint("e", before+1))
				refusing.Store(true)
				start := time.Now()
				if permanent {
					r.want("error")
					if !errors.As(r.err, &se) {
						t.Error(r.err)
					}
					return
				}
				go func() { time.Sleep(10 * time.Second); refusing.Store(false) }()
				r.want(fmt.Sprint("e", len(f.cursors())+2))
				if d := time.Since(start); d < 90*time.Second || d > 94*time.Second {
					t.Errorf("%d: Retry-After not honoured: %v", status, d)
				}
				if cl.Session() != session {
					t.Errorf("%d: the session was replaced", status)
				}
			})
		}
	}
}

// An answer of HTML with status 200 is a failure of its call only.
func TestForeignContent(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				if m.Method == wire.MethodStream {
					w.Header().Set("Content-Type", "text/html")
					fmt.Fprint(w, "<html>")
					return true
				}
				return false
			}
			cl := connect(t, f, c, Options{})
			_, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
			var se *StatusError
			if !errors.As(err, &se) {
				t.Error(err)
			}
			if _, err := cl.List(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
