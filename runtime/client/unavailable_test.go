package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/racetest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/carry"
)

// absences are how a dead server shows itself.
var absences = map[string]func(*http.Request) (*http.Response, error){
	"502": func(r *http.Request) (*http.Response, error) { return plain(r, http.StatusBadGateway, ""), nil },
	"refused": func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	},
	"reset": func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	},
}

func plain(r *http.Request, status int, text string) *http.Response {
	w := &http.Response{StatusCode: status, Header: http.Header{}, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	w.Body = http.NoBody
	replaceBody(w, []byte(text))
	return w
}

// half is a balancer with one dead server: each request that gone says meets it, but for the end of a session.
func half(t *testing.T, f *fake, absent func(*http.Request) (*http.Response, error), gone func(*http.Request) bool) *http.Client {
	hc := f.httpClient(t)
	base := hc.Transport
	hc.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodDelete && gone(r) {
			if r.Body != nil {
				r.Body.Close()
			}
			return absent(r)
		}
		return base.RoundTrip(r)
	})
	return hc
}

// twin makes f two servers that look like one: nothing occurs before one is dead, and streams end with kill.
func (f *fake) twin() (dead *atomic.Bool, kill chan struct{}) {
	dead, kill = new(atomic.Bool), make(chan struct{})
	f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
		st.active("c0")
		if !dead.Load() {
			<-kill
			return nil, nil
		}
		st.event("e1", "c1")
		return hold(st)
	}
	f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
		if !dead.Load() {
			return polled("c0", false, 1), nil
		}
		return polled("c1", false, 1, "e1"), nil
	}
	return dead, kill
}

// L1, CLI-4: one of two servers behind a balancer without health checks dies. Whatever others ask
// meanwhile, a stream and a poll are served again within a second, with default options. The balancer draws lots, but
// sends ten requests at most to the dead one: the client tries more often than that in a second.
func TestL1DeadHalf(t *testing.T) {
	runs := racetest.Runs(100)
	for _, mode := range []string{wire.ModePush, wire.ModePoll} {
		for absence, absent := range absences {
			t.Run(mode+"/"+absence, func(t *testing.T) {
				worst := time.Duration(0)
				for range runs {
					synctest.Test(t, func(t *testing.T) {
						f := newFake(false)
						dead, kill := f.twin()
						var met atomic.Int32
						hc := half(t, f, absent, func(*http.Request) bool { return dead.Load() && rand.IntN(2) == 0 && met.Add(1) <= 10 })
						cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{Mode: mode})
						if err != nil {
							t.Fatal(err)
						}
						defer cl.Close()
						r := read(t, subscribe(t, cl))
						time.Sleep(rand.N(3 * time.Second))
						dead.Store(true)
						close(kill)
						killed := time.Now()
						r.want("e1")
						due := time.Second
						if mode == wire.ModePoll {
							due += time.Second // until it is asked for
						}
						d := time.Since(killed)
						if worst = max(worst, d); d > due {
							t.Errorf("after %v", d)
						}
					})
				}
				t.Logf("the worst of %d: %v", runs, worst)
			})
		}
	}
}

// L1: while every second request meets a dead server nothing fails that the application asks for, and
// neither the status nor the log shows an interruption. Unsubscribing and refreshing are repeated, too.
func TestL1NothingFails(t *testing.T) {
	for _, c := range carriers[2:] {
		for _, first := range []uint64{0, 1} {
			for absence, absent := range absences {
				t.Run(fmt.Sprint(c.name, absence, first), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFake(c.legacy)
						newHooks(t, f, nil)
						o, _, _, _ := kept(false)
						f.caps = `{"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}`
						f.listen = acknowledge(nil)
						f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
							st.active("c0")
							time.Sleep(10 * time.Second)
							st.event(fmt.Sprint("e", len(f.cursors())), "c1")
							return nil, nil
						}
						var polls atomic.Int32
						f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
							return polled("c1", false, 1, fmt.Sprint("p", polls.Add(1))), nil
						}
						h := f.hooks
						h.ttl = 10 * time.Second
						var n atomic.Uint64
						n.Store(first)
						hc := half(t, f, absent, func(*http.Request) bool { return n.Add(1)%2 == 0 })
						var log bytes.Buffer
						o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
						h.transport = HTTP("http://fake/mcp", hc)
						cl := h.client(c, o)
						poll := subscribe(t, cl, WithMode(wire.ModePoll), WithCursorKey("poll"))
						push := subscribe(t, cl, WithMode(wire.ModePush), WithCursorKey("push"))
						hook := subscribe(t, cl, WithMode(wire.ModeWebhook), WithCursorKey("hook"))
						go func() {
							for range push.Events() {
							}
						}()
						go func() {
							for range poll.Events() {
							}
						}()
						for range 100 {
							if _, err := cl.List(t.Context()); err != nil {
								t.Error(err)
							}
							time.Sleep(600 * time.Millisecond)
						}
						if err := poll.Subscription().Status().LastError; err != nil || polls.Load() < 50 {
							t.Errorf("%d polls, %v", polls.Load(), err)
						}
						if err := hook.Subscription().Status().LastError; err != nil || len(h.calls()) < 6 {
							t.Errorf("%d refreshes, %v", len(h.calls()), err)
						}
						if err := push.Subscription().Status().LastError; !errors.Is(err, errStreamEnded) || push.Subscription().Status().Received < 5 {
							t.Errorf("%d events, %v", push.Subscription().Status().Received, err)
						}
						cl.Close()
						if len(h.unsubscribed) != 1 {
							t.Errorf("unsubscribed %d times", len(h.unsubscribed))
						}
						if bytes.Contains(log.Bytes(), []byte("WARN")) || bytes.Contains(log.Bytes(), []byte("connected again")) {
							t.Errorf("log: %s", log.String())
						}
						if c.legacy != (len(f.sent(methodInitialize)) > 0) {
							t.Errorf("era: %v", f.methods())
						}
					})
				})
			}
		}
	}
}

// L1: that server/discover meets nobody says nothing of its revision: a reconnection is no handshake of an
// older one, of which one replica would know the session. A server that always fails so is connected by the
// older handshake, and the log says it.
func TestL1NoFallbackForADeadServer(t *testing.T) {
	for _, always := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(false)
			var failing atomic.Bool
			failing.Store(always)
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1), nil }
			hc := half(t, f, absences["502"], func(r *http.Request) bool { return failing.Load() && readRequestHead(r).Method == methodDiscover })
			var log bytes.Buffer
			cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if always {
				if v := cl.Session().InitializeResult().ProtocolVersion; v != wire.RevisionLegacy || !bytes.Contains(log.Bytes(), []byte("older revisions")) {
					t.Errorf("connected by %s, log: %s", v, log.String())
				}
				return
			}
			s := subscribe(t, cl, WithMode(wire.ModePoll))
			failing.Store(true)
			cl.mu.Lock()
			cl.sess.lose()
			cl.mu.Unlock()
			time.Sleep(30 * time.Second)
			if n := len(f.sent(methodInitialize)); n != 0 {
				t.Errorf("%d handshakes of an older revision", n)
			}
			failing.Store(false)
			time.Sleep(30 * time.Second)
			if v := cl.Session().InitializeResult().ProtocolVersion; v != wire.RevisionStateless || s.Subscription().Status().LastFrame.Before(time.Now().Add(-2*time.Second)) {
				t.Errorf("connected by %s, last heard %v", v, s.Subscription().Status().LastFrame)
			}
		})
	}
}

// L1: what may have been done is not done twice: a call of the application's is its own to repeat.
func TestL1ToolCallIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		calls := 0
		hc := half(t, f, absences["502"], func(r *http.Request) bool {
			tool := readRequestHead(r).Method == "tools/call"
			if tool {
				calls++
			}
			return tool
		})
		cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if _, err := cl.Session().CallTool(t.Context(), &mcp.CallToolParams{Name: "pay"}); err == nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
		// An adapter says which of its calls bear it.
		if _, err := cl.Session().CallTool(carry.Repeatable(t.Context()), &mcp.CallToolParams{Name: "events_list"}); err == nil || calls < 5 {
			t.Errorf("%d calls of what may be repeated, %v", calls, err)
		}
	})
}

// L1, CLI-4: a server that is gone altogether is looked for often in the first seconds, and then no more
// often than the pauses of Backoff alone would. One that asks for time gets it.
func TestL1GoneAltogether(t *testing.T) {
	for _, mode := range []string{wire.ModePush, wire.ModePoll} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(false)
			kill := make(chan struct{})
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); <-kill; return nil, nil }
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1), nil }
			var mu sync.Mutex
			var tries []time.Duration
			var dead time.Time
			hc := half(t, f, absences["refused"], func(*http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				if dead.IsZero() {
					return false
				}
				tries = append(tries, time.Since(dead))
				return true
			})
			cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			subscribe(t, cl)
			time.Sleep(time.Minute)
			mu.Lock()
			dead = time.Now()
			mu.Unlock()
			close(kill)
			time.Sleep(10*time.Minute + 10*time.Second)
			mu.Lock()
			all := slices.Clone(tries)
			mu.Unlock()
			early, last, longest := 0, time.Duration(0), time.Duration(0)
			for _, at := range all {
				if at < 5*time.Second {
					early++
					longest = max(longest, at-last)
					last = at
				}
			}
			// Pauses of 4 to 8 s, 8 to 16, … 30 to 60: at most 2 + 3 + 18 in ten minutes.
			late := 0
			for _, at := range all {
				if at > 10*time.Second {
					late++
				}
			}
			if early < 20 || early > 75 || longest > 1300*time.Millisecond || late < 8 || late > 23 {
				t.Errorf("%s: %d tries in the first 5 s, %v between two, %d in ten minutes after 10 s", mode, early, longest, late)
			}
			start := time.Now()
			if _, err := cl.List(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) > 1200*time.Millisecond {
				t.Errorf("List: %v after %v", err, time.Since(start))
			}
		})
	}
}

// L1, CLI-4: brisk pauses divide those of Backoff and add none after the first 5 s.
func TestL1Pauses(t *testing.T) {
	for range 1000 {
		p := backoffState{Backoff: Backoff{Min: time.Second, Max: time.Minute}}
		for p.waited < briskFor {
			if d := p.next(true); d > briskPause || d <= 0 {
				t.Fatalf("brisk: %v", d)
			}
		}
		if p.n < 3 || p.n > 5 {
			t.Fatalf("%d steps of Backoff in %v", p.n, p.waited)
		}
		p.next(true) // the rest of a step
		for n := p.n; n < 10; n++ {
			if d, full := p.next(true), min(time.Second<<n, time.Minute); d < full/2 || d > full {
				t.Fatalf("pause %d is %v", n, d)
			}
		}
		p.reset()
		if d := p.next(false); d < time.Second/2 || d > time.Second {
			t.Fatalf("not brisk: %v", d)
		}
	}
}

// L1: a refresh that fails is tried again before the grant lapses, however long the pauses have become.
func TestL1RefreshBeforeTheGrantLapses(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			h, cl := hooked(t, carriers[3], Options{})
			h.ttl = time.Minute
			s := subscribe(t, cl)
			h.set(func() {
				h.refuse = func(wire.SubscribeParams) *jsonrpc.Error { return h.f.err(wire.Internal, "") }
			})
			time.Sleep(58 * time.Second) // 18 s of them without a refresh
			h.set(func() { h.refuse = nil })
			before := len(h.calls())
			time.Sleep(90 * time.Second)
			calls := h.calls()
			if len(calls) <= before || calls[before].at.Sub(calls[0].at) > 63*time.Second {
				t.Errorf("the grant of %v was refreshed at %v", calls[0].at, calls[before].at)
			}
			s.Close()
		})
	}
}

// L1: repeating ends with the call.
func TestL1RepeatingEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		var dead atomic.Bool
		hc := half(t, f, absences["502"], func(*http.Request) bool { return dead.Load() })
		cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		dead.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := cl.List(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// L1, REP-15: a session of an older revision that dies with its server is replaced at once: a stream is served again
// within a second, although each second request meets the dead server.
func TestL1SessionDiesWithItsServer(t *testing.T) {
	for _, mode := range []string{wire.ModePush, wire.ModePoll} {
		for _, first := range []uint64{0, 1} {
			for absence, absent := range absences {
				t.Run(fmt.Sprint(mode, absence, first), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFake(true)
						dead, kill := f.twin()
						var n atomic.Uint64
						n.Store(first)
						hc := half(t, f, absent, func(*http.Request) bool { return dead.Load() && n.Add(1)%2 == 0 })
						cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{Mode: mode, Logger: slog.New(slog.DiscardHandler)})
						if err != nil {
							t.Fatal(err)
						}
						defer cl.Close()
						r := read(t, subscribe(t, cl))
						time.Sleep(1500 * time.Millisecond) // the next poll is half a second away
						dead.Store(true)
						f.forgetSessions()
						close(kill)
						killed := time.Now()
						r.want("e1")
						if d := time.Since(killed); d > time.Second {
							t.Errorf("after %v", d)
						}
					})
				})
			}
		}
	}
}

// L1, CLI-9: a session of an older revision hears of nothing without its standing stream, so the GET for that is
// repeated, too.
func TestL1StandingStream(t *testing.T) {
	for absence, absent := range absences {
		t.Run(absence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(true)
				f.caps = changingCaps
				gets := 0
				hc := half(t, f, absent, func(r *http.Request) bool {
					if r.Method == http.MethodGet {
						gets++
					}
					return r.Method == http.MethodGet && gets < 4
				})
				var rec recorder
				cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), rec.options())
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				time.Sleep(time.Second)
				go f.notifyAll(wire.NotificationListChanged)
				time.Sleep(time.Second)
				if n, _ := rec.seen(); n != 1 || gets != 4 {
					t.Errorf("%d readings after list_changed, %d GETs", n, gets)
				}
			})
		})
	}
}

// L1: a server that answers some requests and refuses others with 503 is not asked for those more often than one that
// is gone: that it answers a poll each second is no reason to repeat a stream on and on.
func TestL1OneRefused(t *testing.T) {
	minutes := 10
	if racetest.Enabled {
		minutes = 4
	}
	for _, method := range []string{wire.MethodStream, wire.MethodPoll, wire.MethodSubscribe, wire.MethodList, methodListen} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(false)
				h := newHooks(t, f, nil)
				h.ttl = 10 * time.Second
				f.caps = changingCaps
				f.listen = acknowledge(nil)
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
					st.active("c0")
					time.Sleep(10 * time.Second)
					return empty, nil
				}
				f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1), nil }
				var refusing atomic.Bool
				var refused atomic.Int32
				f.refuse = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Request) bool {
					if m.Method != method || !refusing.Load() {
						return false
					}
					refused.Add(1)
					http.Error(w, "overloaded", http.StatusServiceUnavailable)
					return true
				}
				refusing.Store(method == methodListen)
				cl := h.client(carriers[3], Options{Relist: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
				for _, mode := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
					subscribe(t, cl, WithMode(mode), WithCursorKey(mode))
				}
				refusing.Store(true)
				for minute := range minutes {
					refused.Store(0)
					time.Sleep(time.Minute)
					if n := refused.Load(); minute < 2 && n > 100 || minute >= 2 && n > 5 {
						t.Errorf("%d requests in minute %d", n, minute)
					}
				}
			})
		})
	}
}
