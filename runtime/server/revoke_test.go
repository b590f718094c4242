package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
)

// revocable lets the caller have its access taken away: by the hooks' answers, and by what tells the server of it.
type revocable struct {
	name           string
	denied, hidden bool
	do             func(*Server, context.Context) error
	want           string
}

// AUTH-2, REP-13: what a principal has open when its access is taken away gives it nothing that is emitted later: in
// the process that was asked at once, in others within two seconds. Requests that wait end with the reason.
func TestAUTH2NothingAfterRevocation(t *testing.T) {
	for _, c := range []revocable{
		{"revoked", false, false, func(s *Server, ctx context.Context) error { return s.Revoke(ctx, "ann") }, "Forbidden"},
		{"denied and revoked", true, false, func(s *Server, ctx context.Context) error { return s.Revoke(ctx, "ann", "e") }, "Forbidden"},
		{"denied and asked again", true, false, func(s *Server, ctx context.Context) error { return s.Reauthorize(ctx, "ann") }, "Forbidden"},
		{"hidden", false, true, func(s *Server, ctx context.Context) error { return s.RefreshVisibility(ctx) }, "NotFound"},
	} {
		for at, where := range []string{"asked here", "asked elsewhere"} {
			t.Run(c.name+", "+where, func(t *testing.T) { revoked(t, c, at) })
		}
	}
}

func revoked(t *testing.T, c revocable, at int) {
	var lost atomic.Bool
	change := func(o *Options) {
		o.Principal = func(context.Context, *mcp.RequestExtra) string { return "ann" }
		o.Authorize = func(ctx context.Context, principal, _ string, _ json.RawMessage) error {
			if got := PrincipalOf(ctx); got != principal {
				t.Errorf("Authorize is called for %q with the principal %q in its context", principal, got)
			}
			if c.denied && lost.Load() {
				return events.Forbidden("not any more")
			}
			return nil
		}
		o.Visible = func(context.Context, string, string) bool { return !c.hidden || !lost.Load() }
	}
	synctest.Test(t, func(t *testing.T) {
		shared := memcluster.New()
		f := newFleet(t, change, shared.Open(), shared.Open())
		w := f.world(t, 0)
		here, emitter := w.Server, f.emitters[0]
		if err := here.AddReadTools(readTool("e")); err != nil {
			t.Fatal(err)
		}
		f.r.on(func(w http.ResponseWriter, d *delivered) bool { // events are to be sent again
			if d.body.EventID == "" {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		w.subscribe("ann", params(plain, secretA, ""))
		w.settle(5 * time.Second)
		emit(t, emitter, incident{ID: "before"})
		opened := streamAs(t, here, "ann", `{"name":"e"}`)
		bootstrap := pollAs(t, here, "ann", `{"name":"e"}`)
		cursor, err := json.Marshal(bootstrap.Cursor)
		if err != nil {
			t.Fatal(err)
		}

		type answer struct {
			text string
			at   time.Time
		}
		answers := map[string]chan answer{}
		waits := func(kind string, call func() string) {
			ch := make(chan answer, 1)
			answers[kind] = ch
			go func() { text := call(); ch <- answer{text, time.Now()} }()
		}
		waits("poll", func() string {
			raw, rerr := call(here, "ann", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%s,"timeoutMs":25000}`, cursor))
			return fmt.Sprint(string(raw), rerr)
		})
		if err := here.AddWaitTool(); err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string]string{
			WaitTool: `{"events":[{"name":"e"}],"waitSeconds":50}`,
			"read_e": fmt.Sprintf(`{"cursor":%s,"waitSeconds":50}`, cursor),
		} {
			session := connect(t, here)
			waits(name, func() string {
				res := session.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,%s}`, name, args, statelessMeta))
				return fmt.Sprint(string(res.Result), res.Error)
			})
		}
		w.settle(time.Second)

		lost.Store(true)
		if err := c.do(f.servers[at], t.Context()); err != nil {
			t.Fatal(err)
		}
		began, bound := time.Now(), time.Duration(at)*2*time.Second
		time.Sleep(bound)
		emit(t, emitter, incident{ID: "after"})
		w.settle(time.Minute)
		for kind, ch := range answers {
			a := <-ch
			if !strings.Contains(a.text, c.want) || strings.Contains(a.text, "after") || a.at.Sub(began) > bound {
				t.Errorf("%s: %s after %v", kind, a.text, a.at.Sub(began))
			}
		}
		if slices.Contains(opened.ids(), "after") {
			t.Error("the stream has what was emitted later")
		}
		for _, d := range f.r.all() {
			if d.body.EventID != "" && d.at.Sub(began) > bound {
				t.Errorf("the webhook gets %s after %v", d.body.EventID, d.at.Sub(began))
			}
		}
	})
}

// AUTH-2: a poll whose access is taken away while the hooks let it in ends with what they say then; and what an
// operator ends, with the operator's reason.
func TestAUTH2PollsThatBegin(t *testing.T) {
	for _, c := range []struct {
		name string
		in   string // the hook during which it happens, "" for while the poll waits
		do   func(s *Server) error
		want string
	}{
		{"during Authorize", "Authorize", func(s *Server) error { return s.Reauthorize(context.Background(), "ann") }, "not any more"},
		{"during OnSubscribe", "OnSubscribe", func(s *Server) error { return s.Reauthorize(context.Background(), "ann") }, "not any more"},
		{"ended by an operator", "", func(s *Server) error {
			open, _ := s.Admin().Connections(context.Background())
			for _, i := range open {
				if err := s.Admin().EndConnection(i.ID, events.Forbidden("go away")); err != nil {
					return err
				}
			}
			return nil
		}, "go away"},
		{"a type that an operator ends", "", func(s *Server) error {
			_, err := s.Admin().Terminate(context.Background(), operator.Target{Event: "e"}, events.Forbidden("closed"))
			return err
		}, "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Options{Operators: operators.New()})
				var lost atomic.Bool
				var once sync.Once
				during := func(hook string) {
					if c.in == hook {
						once.Do(func() {
							lost.Store(true)
							if err := c.do(s); err != nil {
								t.Error(err)
							}
						})
					}
				}
				armed := false
				e := register(t, s, "e", Hooks[filterArgs, incident]{
					Authorize: func(context.Context, string, *filterArgs) error {
						if lost.Load() {
							return events.Forbidden("not any more")
						}
						if armed {
							during("Authorize")
						}
						return nil
					},
					OnSubscribe: func(context.Context, Subscription, *filterArgs) error {
						if armed {
							during("OnSubscribe")
						}
						return nil
					},
				})
				cursor := pollAs(t, s, "ann", `{"name":"e","arguments":{"minLevel":1}}`).Cursor
				armed = true
				if c.in == "" {
					time.AfterFunc(time.Second, func() { during("") })
				}
				time.AfterFunc(2*time.Second, func() { emit(t, e, incident{ID: "after", Level: 9}) })
				began := time.Now()
				raw, rerr := call(s, "ann", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q,"timeoutMs":20000}`, *cursor))
				if rerr == nil || !strings.Contains(string(rerr.Data), c.want) || time.Since(began) > time.Second {
					t.Errorf("%s, %v after %v", raw, rerr, time.Since(began))
				}
				time.Sleep(3 * time.Second) // the event is emitted before the test ends
			})
		})
	}
}
