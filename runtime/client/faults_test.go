package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const uninitializedBody = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`

// CLI-4: servers of other languages answer a session that they lost by a restart with 400. One fresh
// handshake overcomes it; a second 400 is final. httpTap.translate and standing.next carry it.
func TestCLI4RestartAnsweredBy400(t *testing.T) {
	for _, restarts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(true)
			polls, stale := 0, ""
			f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
				if polls++; polls == 1 {
					return polled("c0", false, 1000), nil
				}
				return polled("c1", false, 1000, "e1"), nil
			}
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				if m.Method != wire.MethodPoll {
					return false
				}
				session := r.Header.Get(sessionHeader)
				if stale == "" {
					stale = session // the first poll is answered, then the server restarts
					return false
				}
				if restarts && session != stale {
					return false
				}
				w.WriteHeader(http.StatusBadRequest)
				io.WriteString(w, uninitializedBody)
				return true
			}
			s := subscribe(t, connect(t, f, carriers[2], Options{}), WithMode("poll"))
			r := read(t, s)
			if restarts {
				r.want("e1")
			} else {
				r.want("error")
				var status *StatusError
				if !errors.As(r.err, &status) || status.Status != 400 || !Final(r.err) || !strings.Contains(r.err.Error(), "not initialized") {
					t.Errorf("%v", r.err)
				}
			}
			if n := len(f.sent("initialize")); n != 2 {
				t.Errorf("restarts %v: %d handshakes, %v", restarts, n, f.methods())
			}
		})
	}
}

// CLI-2: a null or anything else that is no object is no payload, whatever it decodes into (OCC-1).
func TestCLI2DataIsAnObject(t *testing.T) {
	type payload struct {
		N string `json:"n"`
	}
	for _, data := range []string{"null", "[]", "5", `"x"`, "true"} {
		o := item{occurrence: &wire.Occurrence{EventID: "e", Name: "tick", Timestamp: "2026-11-20T08:00:00Z", Data: json.RawMessage(data)}}
		core := fuzzSubscription()
		var bad *PayloadError
		if ev, err := typedItem[struct{}, payload](core, o); !errors.As(err, &bad) || ev.ID != "e" || string(bad.Occurrence.Raw) != data {
			t.Errorf("%s, typed: %+v, %v", data, ev, err)
		}
		if _, err := typedItem[json.RawMessage, json.RawMessage](core, o); !errors.As(err, &bad) || !strings.Contains(err.Error(), "not an object") {
			t.Errorf("%s, raw: %v", data, err)
		}
	}
}

// CLI-4: a server that cannot be reached for a while is told of in the status, with the cause, and in
// the log when it is back; the application sees nothing of it.
func TestCLI4ConnectionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(false)
		var mu sync.Mutex
		down, polls := false, 0
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			if polls++; polls < 3 {
				return polled("c0", false, 1000), nil
			}
			return polled("c1", false, 1000, "e1"), nil
		}
		hc := f.httpClient(t)
		base := hc.Transport
		hc.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return nil, fmt.Errorf("dial tcp: connect: %w", syscall.ECONNREFUSED)
			}
			return base.RoundTrip(r)
		})
		var log bytes.Buffer
		cl, err := Connect(t.Context(), HTTP("http://fake/mcp", hc), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		s := subscribe(t, cl, WithMode("poll"))
		set := func(v bool) { mu.Lock(); down = v; mu.Unlock() }
		set(true)
		time.Sleep(5 * time.Minute)
		err = s.Subscription().Status().LastError
		if !errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "rejected by transport") {
			t.Errorf("status: %v", err)
		}
		set(false)
		read(t, s).want("e1")
		cl.Close()
		if strings.Count(log.String(), "receiving again") != 1 {
			t.Errorf("log: %s", log.String())
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// CLI-3: no server is waited for longer than an hour, whatever it asks for.
func TestCLI3NextPollIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{"1e18": time.Hour, "1e400": time.Hour, "3600001": time.Hour, "5000.0": 5 * time.Second,
		"-1": 0, "0": 0, "null": 0, `"5000"`: 0, "true": 0, "": 0} {
		if got := (&pollResult{NextPollMs: json.RawMessage(text)}).nextPollWait(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// LIST-2: one malformed descriptor hides no other, and is told of.
func TestLIST2MalformedDescriptor(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.override = func(*jsonrpc.Request) any {
			return json.RawMessage(`{"events":[{"name":"bad","delivery":5},{"name":"tick","delivery":["poll"]},null]}`)
		}
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1000, "e1"), nil }
		cl := connect(t, f, c, Options{})
		all, err := cl.List(t.Context())
		if err != nil || len(all) != 1 || string(all[0].InputSchema) != "{}" || string(all[0].PayloadSchema) != "{}" {
			t.Fatalf("%+v, %v", all, err)
		}
		bad := cl.Unreadable()
		if len(bad) != 2 || bad[0].Event != "bad" || bad[0].index != 0 || bad[1].index != 2 || !strings.Contains(bad[0].Error(), "/delivery") {
			t.Errorf("%v", bad)
		}
		read(t, subscribe(t, cl)).want("e1")
		if _, err := Subscribe(t.Context(), cl, Dynamic("bad"), nil); !errors.As(err, new(*DescriptorError)) {
			t.Error(err)
		}
	})
}

// CLI-5: any grant down to two seconds is refreshed in time, by the server's clock where it is known;
// a shorter one is an error.
func TestCLI5ShortGrant(t *testing.T) {
	for _, tt := range []struct {
		grant time.Duration
		ok    bool
	}{{45 * time.Second, true}, {10 * time.Second, true}, {3 * time.Second, true}, {time.Second, false}, {0, false}} {
		t.Run(tt.grant.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, cl := hooked(t, carriers[3], Options{})
				h.ttl = tt.grant
				s, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil)
				if !tt.ok {
					var answer *AnswerError
					if !errors.As(err, &answer) || !strings.Contains(err.Error(), "too short") || h.live() != 0 {
						t.Errorf("%v, %d live", err, h.live())
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				time.Sleep(10 * tt.grant)
				for _, d := range gaps(h.calls()) {
					if d >= tt.grant || d < tt.grant/3 {
						t.Errorf("refreshed after %v", d)
					}
				}
				if n := len(h.calls()); n < 10 || n > 40 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
}

// CLI-7a: truncated says nothing where there is no replay; what a type without replay loses between two
// streams is a gap, once. subscription.truncated and stream.begin carry it.
func TestCLI7aTruncatedWithoutReplay(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		streams := 0
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			streams++
			st.truncated("")
			st.event(fmt.Sprint("e", streams), "")
			if streams < 3 {
				return empty, nil
			}
			return hold(st)
		}
		n := 0
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			n++
			return json.RawMessage(fmt.Sprintf(`{"events":[%s],"cursor":null,"truncated":true}`, eventJSON(fmt.Sprint("p", n), "-"))), nil
		}
		cl := connect(t, f, c, Options{})
		read(t, subscribe(t, cl, WithMode("push"))).want("e1", "gap:", "e2", "gap:", "e3")
		s := subscribe(t, cl, WithMode("poll"))
		read(t, s).want("p1", "p2", "p3")
		s.Close()
		n = 0
		// A type that had cursors before has lost what was after the last one: told once.
		read(t, subscribe(t, cl, WithMode("poll"), WithCursor("old"))).want("gap:", "p1", "p2")
	})
}

// CLI-7: a cursor that is refused as of another schema, and again, is given up with a gap; the
// subscription goes on from now. subscription.restart carries it.
func TestCLI7StaleSchemaCursor(t *testing.T) {
	for _, mode := range []string{"poll", "push"} {
		for _, live := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, live), func(t *testing.T) {
				eachCarrier(t, func(t *testing.T, c carrier) {
					f := newFake(c.legacy)
					refused := func() *jsonrpc.Error {
						return f.err(wire.Unsupported, `{"feature":"payloadSchema","reason":"schema_changed"}`)
					}
					calls := 0
					refuse := func(cursor *string) bool {
						calls++
						return cursor != nil && *cursor == "old" && !(live && calls == 1)
					}
					f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
						switch {
						case refuse(p.Cursor):
							return nil, refused()
						case p.Cursor == nil:
							return polled("new", false, 1000, "e1"), nil
						}
						return polled(*p.Cursor, false, 1000), nil
					}
					f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
						if refuse(st.p.Cursor) {
							return nil, refused()
						}
						if st.p.Cursor != nil { // live: a heartbeat resets what counts failures
							st.active("old")
							st.heartbeat("old")
							st.terminated(refused())
							return empty, nil
						}
						st.active("new")
						st.event("e1", "new2")
						return hold(st)
					}
					s := subscribe(t, connect(t, f, c, Options{}), WithMode(mode), WithCursor("old"))
					read(t, s).want("gap:", "e1")
					if calls > 5 {
						t.Errorf("%d calls", calls)
					}
				})
			})
		}
	}
}

// CLI-4: a stream that beats and never becomes active is given up, on Subscribe and later; it does not
// keep the caller waiting.
func TestCLI4NeverActive(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			for st.ctx.Err() == nil {
				st.heartbeat("c0")
				time.Sleep(10 * time.Second)
			}
			return nil, nil
		}
		start := time.Now()
		_, err := Subscribe(t.Context(), connect(t, f, c, Options{}), Dynamic("tick"), nil)
		var answer *AnswerError
		if !errors.As(err, &answer) || answer.Method != wire.MethodStream || time.Since(start) > 2*time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// CLI-2: an answer that cannot be used once is overcome in silence; when it stays so the application is
// told, once until something is received. subscription.tell carries it.
func TestCLI2UnusableAnswersAreTold(t *testing.T) {
	for bad, told := range map[int]bool{1: false, 3: false, 4: true, 20: true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(false)
			polls := 0
			f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
				switch polls++; {
				case polls == 1:
					return polled("c0", false, 1000), nil
				case polls <= 1+bad:
					return json.RawMessage(`{"events":5}`), nil
				}
				return polled("c1", false, 1000, "e1"), nil
			}
			r := read(t, subscribe(t, connect(t, f, carriers[3], Options{}), WithMode("poll")))
			if told {
				r.want("error")
				if !errors.As(r.err, new(*AnswerError)) || !errors.As(r.err, new(*RecoverableError)) || Final(r.err) {
					t.Errorf("%v", r.err)
				}
			}
			r.want("e1")
		})
	}
}
