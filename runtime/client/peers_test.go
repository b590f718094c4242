package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// Peers that need no program but this one; runtime/internal/testkit/peers has those of other makes, and `make peers` runs
// both.

// A server that leaves out every member that it may leave out is received from in each mode (P1, LIST-2, POLL-2,
// PUSH-1, SUB-4).
func TestPeerOmitsAllItMay(t *testing.T) {
	plain := func(id string) string {
		return fmt.Sprintf(`{"eventId":%q,"name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{}}`, id)
	}
	for _, mode := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
		t.Run(mode, func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c carrier) {
				f := newFake(c.legacy)
				f.caps = `{"events":{}}`
				h := newHooks(t, f, nil)
				f.override = func(*jsonrpc.Request) any {
					return json.RawMessage(`{"events":[{"name":"tick","delivery":["` + mode + `"]}]}`)
				}
				quiet := 3
				f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
					if quiet--; quiet >= 0 {
						return json.RawMessage(`{"cursor":"c0"}`), nil
					}
					return json.RawMessage(`{"events":[` + plain("e1") + `,` + plain("e2") + `],"cursor":"c2"}`), nil
				}
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
					st.send(wire.NotificationActive, `{}`)
					st.send(wire.NotificationHeartbeat, `{}`)
					st.send(wire.NotificationEvent, plain("e1"))
					st.send(wire.NotificationEvent, plain("e2"))
					return hold(st)
				}
				cl := h.client(c, Options{})
				s := subscribe(t, cl)
				if s.Subscription().Mode() != mode {
					t.Fatalf("by %s", s.Subscription().Mode())
				}
				if mode == wire.ModeWebhook {
					for _, id := range []string{"e1", "e2"} {
						if status := h.send(h.sub(), id, []byte(plain(id))); status != http.StatusNoContent {
							t.Error(status)
						}
					}
				}
				read(t, s).want("e1", "e2")
				if st := s.Subscription().Status(); st.LastError != nil || st.Gaps != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A server that is rolled back to the protocol era before and upgraded again, ten times, under live subscriptions in
// each mode: nothing is lost, doubled or told as a gap (P2, D4).
func TestPeerChangesItsEra(t *testing.T) {
	w := newHookWire()
	for _, c := range carriers[2:] {
		t.Run("from "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, c, w.server())
				cl, err := Connect(t.Context(), h.transport(), Options{Webhook: w.options(), Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cl.Close() })
				push, poll, hook := h.subscribe(cl, "", WithMode(wire.ModePush)), h.subscribe(cl, "", WithMode(wire.ModePoll)), h.subscribe(cl, "")
				last := 0
				for range 10 {
					h.emit(last+1, last+10)
					time.Sleep(time.Second)
					h.stop()
					h.c.legacy = !h.c.legacy
					h.start()
					h.emit(last+11, last+20)
					last += 20
					time.Sleep(2 * time.Minute)
				}
				push.want(ids(1, last, 1)...)
				poll.want(ids(1, last, 1)...)
				for _, got := range hook.all(last) {
					if !strings.HasPrefix(got, "e") || strings.HasPrefix(got, "error") {
						t.Fatalf("webhook: %s", got)
					}
				}
				for _, s := range []*typedSub{push, poll, hook} {
					s.silent()
				}
			})
		})
	}
}

// A balancer that answers every other request with 502 costs nothing: Connect, List and Subscribe succeed at the
// first try, each event is there within a second, and no interruption is told (L1).
func TestPeerAnswers502EveryOtherTime(t *testing.T) {
	for _, c := range carriers[2:] {
		for _, mode := range []string{wire.ModePush, wire.ModePoll} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHouse(t, c, server.Options{Store: lasting{memory.New()}})
					var posts atomic.Int64
					every := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method == http.MethodPost && posts.Add(1)%2 == 1 {
							http.Error(w, "", http.StatusBadGateway)
							return
						}
						h.ServeHTTP(w, r)
					})
					cl, err := Connect(t.Context(), HTTP("http://fake/mcp", newFake(false).serve(t, every)), Options{})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { cl.Close() })
					if _, err := cl.List(t.Context()); err != nil {
						t.Fatal(err)
					}
					s, err := Subscribe(t.Context(), cl, tickType(t, ""), tickArguments{}, WithMode(mode))
					if err != nil {
						t.Fatal(err)
					}
					arrived := make(chan string, 100)
					go func() {
						for ev, err := range s.Events() {
							if err != nil && !errors.Is(err, ErrClosed) {
								arrived <- err.Error()
								continue
							}
							arrived <- ev.ID
						}
					}()
					for n := 1; n <= 30; n++ {
						h.emit(n, n)
						began := time.Now()
						if got := <-arrived; got != fmt.Sprint("e", n) {
							t.Fatalf("%s, want e%d", got, n)
						}
						if d := time.Since(began); d > h.pollWait(mode)+time.Second {
							t.Errorf("e%d after %v", n, d)
						}
						if err := s.Subscription().Status().LastError; err != nil {
							t.Fatal(err)
						}
						time.Sleep(500 * time.Millisecond)
					}
				})
			})
		}
	}
}

// pollWait is how long a server's poller waits when nothing is wrong.
func (h *house) pollWait(mode string) time.Duration {
	if mode == wire.ModePoll {
		return 5 * time.Second
	}
	return 0
}
