package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// eras are how servers of the other era refuse a request: status and body, %s for its id. Those with a name of a
// language are what its SDK answers.
var eras = map[string]struct {
	status int
	body   string
}{
	"code":    {400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"]}}}`},
	"code200": {200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version"}}`},
	"header":  {400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"header mismatch"}}`},
	"invalid": {400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Invalid Request"}}`},
	"ts1":     {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Unsupported protocol version"},"id":null}`},
	"csharp":  {400, `{"error":{"code":-32000,"message":"Bad Request: A new session can only be created by an initialize request."},"id":"","jsonrpc":"2.0"}`},
	"python":  {400, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`},
	"rust":    {422, "Unexpected message, expect initialize request"},
	"session": {400, "Mcp-Session-Id header is required"},
	"plain":   {400, "Bad Request: Unsupported protocol version"},
	"method":  {405, "Method Not Allowed"},
	"accept":  {406, "Not Acceptable: client must accept both application/json and text/event-stream"},
	"media":   {415, "Unsupported Media Type: Content-Type must be application/json"},
}

// rolling makes f a server whose era changes.
func rolling(f *fake, old *atomic.Bool, refusal string) {
	f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
		legacy := m.Method == methodInitialize || r.Header.Get("Mcp-Protocol-Version") == wire.RevisionLegacy
		if legacy == old.Load() {
			return false
		}
		id := "null"
		if m.IsCall() {
			id = idText(m.ID.Raw())
		}
		e := eras[refusal]
		text := e.body
		if text[0] == '{' {
			w.Header().Set("Content-Type", "application/json")
		}
		text = strings.Replace(text, "%s", id, 1)
		w.WriteHeader(e.status)
		fmt.Fprint(w, text)
		return true
	}
}

// P2, CLI-4: a server goes back to an older revision and forth again, ten times, under poll, push and
// webhook: whatever its refusals look like, one handshake follows, and nothing is lost.
func TestP2RollbackAndForth(t *testing.T) {
	for refusal := range eras {
		for _, mode := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
			t.Run(refusal+"/"+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFake(false)
					h := newHooks(t, f, nil)
					h.ttl = 3 * time.Second
					var old atomic.Bool
					rolling(f, &old, refusal)
					var mu sync.Mutex
					head, cut := 1, make(chan struct{})
					after := func(cursor *string) int {
						n := 0
						if cursor != nil {
							fmt.Sscanf(*cursor, "c%d", &n)
						}
						return n
					}
					f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
						mu.Lock()
						defer mu.Unlock()
						var ids []string
						for n := after(p.Cursor) + 1; n <= head; n++ {
							ids = append(ids, fmt.Sprint("e", n))
						}
						return polled(fmt.Sprint("c", head), false, 1, ids...), nil
					}
					f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
						mu.Lock()
						from, to, end := after(st.p.Cursor)+1, head, cut
						mu.Unlock()
						st.active(fmt.Sprint("c", from-1))
						for n := from; n <= to; n++ {
							st.event(fmt.Sprint("e", n), fmt.Sprint("c", n))
						}
						select {
						case <-end:
						case <-st.ctx.Done():
						}
						return nil, nil
					}
					cl := h.client(carriers[3], Options{})
					s := subscribe(t, cl, WithMode(mode))
					r := read(t, s)
					if mode == wire.ModeWebhook {
						h.emit(1)
						h.deliver()
					}
					r.want("e1")
					for n := 2; n <= 11; n++ {
						old.Store(!old.Load())
						mu.Lock()
						head++
						close(cut)
						cut = make(chan struct{})
						mu.Unlock()
						if mode == wire.ModeWebhook {
							h.emit(1)
							time.Sleep(5 * time.Second) // a refresh
							h.deliver()
						}
						r.want(fmt.Sprint("e", n))
						time.Sleep(time.Second)
					}
					if legacy := cl.Session().InitializeResult().ProtocolVersion == wire.RevisionLegacy; legacy != old.Load() {
						t.Error("the session is of the other era")
					}
					if st := s.Subscription().Status(); st.Gaps != 0 || st.Received != 11 {
						t.Errorf("%+v", st)
					}
					if mode == wire.ModeWebhook && len(h.unsubscribed) != 0 {
						t.Errorf("unsubscribed %v", h.unsubscribed)
					}
					if _, err := cl.List(t.Context()); err != nil {
						t.Error(err)
					}
					old.Store(!old.Load())
					if _, err := cl.List(t.Context()); err != nil {
						t.Errorf("List after a change of era: %v", err)
					}
				})
			})
		}
	}
}

// P2: a bad call costs one handshake more and is final; what goes on beside it notices nothing.
func TestP2BadCall(t *testing.T) {
	for refusal, e := range eras {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(false)
			f.list = func() []wire.Descriptor {
				return []wire.Descriptor{descriptor("tick", "push"), descriptor("bad", "poll")}
			}
			streams := 0
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				streams++
				st.active("")
				time.Sleep(30 * time.Second)
				st.event("e1", "")
				return hold(st)
			}
			bad, accept := &atomic.Bool{}, true
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1000), nil }
			rolling(f, bad, refusal)
			inner := f.refuse
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				return m.Method == wire.MethodPoll && !accept && inner(w, r, m)
			}
			bad.Store(true)
			cl := connect(t, f, carriers[3], Options{})
			session := cl.Session()
			r := read(t, subscribe(t, cl))
			accepted, err := Subscribe(t.Context(), cl, Dynamic("bad"), nil)
			if err != nil {
				t.Fatal(err)
			}
			accept = false
			var status *StatusError
			_, err = Subscribe(t.Context(), cl, Dynamic("bad"), nil, WithCursorKey("other"))
			if err == nil || e.body[0] != '{' && (!errors.As(err, &status) || status.Status != e.status) {
				t.Errorf("%s: %v", refusal, err)
			}
			final := read(t, accepted)
			final.want("error")
			if !Final(final.err) {
				t.Errorf("%s: %v", refusal, final.err)
			}
			if n := len(f.sent(methodDiscover)); n < 2 || n > 3 {
				t.Errorf("%s: %d handshakes", refusal, n)
			}
			r.want("e1")
			if cl.Session() != session || streams != 1 {
				t.Errorf("%s: others were disturbed: %d streams", refusal, streams)
			}
		})
	}
}

// P2: a server of the other era that says 404 to what it does not know is asked by a fresh handshake, and one that
// goes on saying it is not given up.
func TestP2NothingThere(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(false)
			var old atomic.Bool
			polls := 0
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
				polls++
				return polled(fmt.Sprint("c", polls), false, 1, fmt.Sprint("e", polls)), nil
			}
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				known := m.Method == methodInitialize || r.Header.Get("Mcp-Protocol-Version") == wire.RevisionLegacy
				if !old.Load() || known && !back {
					return false
				}
				http.NotFound(w, r)
				return true
			}
			s := subscribe(t, connect(t, f, carriers[3], Options{Mode: wire.ModePoll, Logger: slog.New(slog.DiscardHandler)}))
			r := read(t, s)
			r.want("e1")
			old.Store(true)
			if back {
				go func() { time.Sleep(10 * time.Minute); old.Store(false) }()
			}
			began := time.Now()
			r.want("e2")
			if d := time.Since(began); !back && d > 2*time.Second || back && d > 11*time.Minute {
				t.Errorf("after %v", d)
			}
		})
	}
}

// P2: an instance without events ends nothing that had been accepted, unless it stays.
func TestP2InstanceWithoutEvents(t *testing.T) {
	for _, stays := range []bool{false, true} {
		for _, c := range carriers[2:] {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(c.legacy)
				polls := 0
				f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
					polls++
					return polled(fmt.Sprint("c", polls), false, 1, fmt.Sprint("e", polls)), nil
				}
				cl := connect(t, f, c, Options{Mode: wire.ModePoll})
				r := read(t, subscribe(t, cl))
				r.want("e1")
				f.change(`{}`)
				cl.mu.Lock()
				cl.sess.lose()
				cl.mu.Unlock()
				began := time.Now()
				go func() {
					time.Sleep(30 * time.Second)
					if !stays {
						f.change(bothCaps)
					}
				}()
				if !stays {
					r.want("e2")
					return
				}
				r.want("error")
				if d := time.Since(began); !errors.Is(r.err, ErrNoEvents) || !Final(r.err) || d < eventlessTimeout || d > 2*eventlessTimeout {
					t.Errorf("%v after %v", r.err, d)
				}
				f.change(bothCaps)
				if _, err := cl.List(t.Context()); err != nil {
					t.Errorf("List: %v", err)
				}
			})
		}
	}
}
