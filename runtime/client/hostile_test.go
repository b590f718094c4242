package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/hostileserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// What a client may do to a hostile server, and how long the server is.
const (
	hostileTime     = 2 * time.Minute
	hostileRequests = 130 // a minute
	hostileMessage  = 256 << 10
)

// A pipeConn is a process without one: lines over pipes.
type pipeConn struct {
	*lineConn
	once sync.Once
	end  func()
}

func (c *pipeConn) Close() error { c.once.Do(func() { c.lineConn.close(); c.end() }); return nil }

type pipeTransport struct{ conn *pipeConn }

func (t pipeTransport) Connect(context.Context) (mcp.Connection, error) { return t.conn, nil }

// stdioOf is the transport to s over lines, a fresh connection each time.
func stdioOf(t *testing.T, s *hostileserver.Server) mcp.Transport {
	return Dial(func(context.Context) (mcp.Transport, error) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		go func() {
			s.ServeStdio(t.Context(), in, out)
			out.Close()
			in.Close()
		}()
		l := newLineConn(fromServer, toServer, hostileMessage, slog.New(slog.DiscardHandler))
		return pipeTransport{&pipeConn{lineConn: l, end: func() { toServer.Close(); fromServer.Close() }}}, nil
	})
}

// A witness notes what an application and an operator see of a subscription.
type witness struct {
	mu    sync.Mutex
	seen  []string // errors, each text once
	good  int
	final error
	ended bool
}

func (w *witness) error(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && len(w.seen) < 1000 && !strings.Contains(strings.Join(w.seen, "\n"), err.Error()) {
		w.seen = append(w.seen, err.Error())
	}
}

func (w *witness) read(s *rawSub) {
	for ev, err := range s.Events() {
		w.error(err)
		w.mu.Lock()
		if err == nil && ev.ID == "good" {
			w.good++
		}
		if Final(err) {
			w.final = err
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *witness) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.good > 0 || w.ended
}

var hostileModes = map[string]string{hostileserver.List: wire.ModePoll, hostileserver.Poll: wire.ModePoll,
	hostileserver.Stream: wire.ModePush, hostileserver.Subscribe: wire.ModeWebhook}

// No answer of a server makes the client panic, hang, ask in a loop or lose an event in silence:
// whatever it answers, from the first call on or later, on either carrier, Subscribe ends in time, calls
// are spaced, what is wrong is named, and the subscription either ends with an error or has the event
// that there is once the server behaves (CLI-2, CLI-3, CLI-4, CLI-5, CLI-7).
func TestHostileServer(t *testing.T) {
	cases := hostileserver.Cases()
	if len(cases) < 80 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		for _, carrier := range []string{"http", "stdio"} {
			if carrier != "http" && (c.HTTP || testing.Short()) {
				continue
			}
			for _, early := range []bool{true, false} {
				if !early && c.Method == hostileserver.List {
					continue
				}
				name := fmt.Sprintf("%s/%s/%s/early=%v", strings.TrimPrefix(c.Method, "events/"), c.Name, carrier, early)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { hostileRun(t, c, carrier == "http", early) })
				})
			}
		}
	}
}

func hostileRun(t *testing.T, c hostileserver.Case, overHTTP, early bool) {
	s := &hostileserver.Server{Case: c, Delivery: hostileModes[c.Method]}
	o := Options{MaxMessage: hostileMessage}
	if s.Delivery == wire.ModeWebhook {
		o.Webhook = hostileHooks(t, s)
	}
	transport := stdioOf(t, s)
	if overHTTP {
		f := newFake(false)
		transport = HTTP("http://hostile/mcp", f.serve(t, s))
	}
	cl, err := Connect(t.Context(), transport, o)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := &witness{}
	if early {
		s.SetHostile(true)
	}
	began := time.Now()
	sub, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
	w.error(err)
	if d := time.Since(began); d > 3*time.Minute {
		t.Errorf("Subscribe took %v", d)
	}
	if sub != nil {
		defer sub.Close()
		go w.read(sub)
		time.Sleep(time.Second)
		s.SetHostile(true)
		for time.Since(began) < hostileTime && !w.done() {
			time.Sleep(10 * time.Second)
			w.error(sub.Subscription().Status().LastError)
		}
	} else if !early {
		t.Fatal(err)
	}
	all, spoiled := s.Requests()
	bound := max(1, int(time.Since(began)/time.Minute)) * hostileRequests
	if c.Method == hostileserver.List {
		bound += 1000 // one reading of a list
	}
	if all > bound {
		t.Errorf("%d requests in %v", all, time.Since(began))
	}
	if spoiled == 0 && !(w.done() && w.final != nil) {
		t.Error("never asked")
	}
	hostileVerdict(t, c, s, w, sub)
}

// hostileVerdict lets the server behave and sees what becomes of the subscription.
func hostileVerdict(t *testing.T, c hostileserver.Case, s *hostileserver.Server, w *witness, sub *rawSub) {
	s.SetHostile(false)
	for began := time.Now(); sub != nil && !w.done() && time.Since(began) < 90*time.Minute; {
		time.Sleep(10 * time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	said := strings.Join(w.seen, "\n")
	switch {
	case sub != nil && w.good == 0 && w.final == nil:
		t.Errorf("neither the event nor an end; %s", said)
	case w.good > 1:
		t.Errorf("the event came %d times", w.good)
	case c.Harmless && w.good == 0:
		t.Errorf("ended by what is harmless: %s", said)
	case !c.Harmless && said == "":
		t.Error("nothing was said")
	case !strings.Contains(said, c.Says):
		t.Errorf("%q is not in: %s", c.Says, said)
	case strings.Contains(said, "rejected by transport") || strings.Contains(said, "terminated without response"):
		t.Errorf("says nothing of the reason: %s", said)
	}
}

// hostileHooks receives what s delivers.
func hostileHooks(t *testing.T, s *hostileserver.Server) *WebhookOptions {
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver = func(url, secret string, good bool) {
		if !good {
			return
		}
		go func() {
			time.Sleep(time.Second)
			postTo(t, receiver, url, secret, "good", hostileserver.Good())
		}()
	}
	return &WebhookOptions{PublicURL: "https://receiver.example", Receiver: receiver}
}

// postTo posts a signed body and returns the status.
func postTo(t *testing.T, to http.Handler, url, secret, id string, body []byte) int {
	key, err := webhook.ParseSecret(secret)
	if err != nil {
		t.Error(err)
		return 0
	}
	m := webhook.Message{ID: id, Subscription: "sub_1", Body: body}
	r, err := webhook.Signer{Ring: webhook.NewRing(key)}.NewRequest(context.WithoutCancel(t.Context()), url, m)
	if err != nil {
		t.Error(err)
		return 0
	}
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w.Code
}

// What a server signs that is no occurrence is never taken for one, with and without a store, and what
// comes after it is (CLI-5).
func TestHostileWebhookBodies(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o, _, _, _ := kept(stored)
			h, cl := hooked(t, carriers[1], o)
			s := subscribe(t, cl, WithCursorKey("k"))
			sub := h.sub()
			for i, body := range hostileserver.Bodies {
				status := h.send(sub, fmt.Sprint("msg_", i), []byte(body))
				if ok := strings.HasPrefix(body, `{"type":"later"`) || strings.HasPrefix(body, `{"type":"verification","challenge":"c"`); ok != (status/100 == 2) {
					t.Errorf("%.80q: status %d", body, status)
				}
			}
			h.event(sub, 1, "c1")
			read(t, s).want("e1")
			if st := s.Subscription().Status(); st.Received != 1 || st.Gaps != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}
