package mcpe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// A policy refuses the event types that begin with its prefix. It refuses none while the prefix is "none".
type policy struct{ prefix atomic.Value }

func (p *policy) refuse(prefix string) { p.prefix.Store(prefix) }

func (p *policy) options() server.Options {
	p.refuse("none")
	return server.Options{Principal: as("ada"), Authorize: func(_ context.Context, _, event string, _ json.RawMessage) error {
		switch prefix := p.prefix.Load().(string); {
		case prefix == "panic":
			panic("the directory does not answer")
		case strings.HasPrefix(event, prefix):
			return events.Forbidden("")
		}
		return nil
	}}
}

// access runs f with a rig whose only principal is ada.
func access(t *testing.T, o mcpe.Options, f func(g *rig, p *policy)) {
	t.Helper()
	var p policy
	bubbleWith(t, p.options(), o, func(g *rig) { f(g, &p) })
}

func (g *rig) revoke(names ...string) {
	g.t.Helper()
	if err := g.es.Revoke(context.Background(), "ada", names...); err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait()
}

// wantState compares the only subscription of a peer.
func (p *peer) wantState(status string, pending int) {
	p.T.Helper()
	if l := p.list(`{}`); len(l) != 1 || l[0].Status != status || *l[0].PendingEvents != pending {
		p.T.Errorf("listed as %s with %d pending events, want %s with %d", l[0].Status, *l[0].PendingEvents, status, pending)
	}
}

// MCPE-AUTH-1: a digest that was collected before the access was taken away is not sent, and the subscription ends.
func TestDigestAfterRevocation(t *testing.T) {
	deliveries := map[string]string{
		"cron":      cron("@hourly", ""),
		"one":       cron("@hourly", `,"aggregateEvents":false`),
		"scheduled": `{"scheduledDelivery":{"deliverAt":"2000-01-08T00:00:00Z"}}`,
		"several":   `{"channels":["cron","scheduled"],"cronSchedule":{"expression":"@hourly"},"scheduledDelivery":{"deliverAt":"2000-01-08T00:00:00Z"}}`,
	}
	takings := map[string]func(*rig, *policy){
		"refused and revoked": func(g *rig, p *policy) {
			p.refuse("")
			g.revoke()
		},
		"refused and asked again": func(g *rig, p *policy) {
			p.refuse("")
			if err := g.es.Reauthorize(t.Context(), "ada"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		},
		"only revoked":  func(g *rig, _ *policy) { g.revoke() },
		"revoked types": func(g *rig, _ *policy) { g.revoke("github.push", "github.issue.opened", "slack.message") },
		"only refused": func(g *rig, p *policy) {
			p.refuse("")
			g.emit("github.push", 3)
			sleep(5*time.Minute + time.Second)
		},
	}
	for name, delivery := range deliveries {
		for _, filter := range []string{`{}`, `{"eventTypes":["github.push","slack.message"]}`} {
			for how, take := range takings {
				t.Run(name+" "+filter+" "+how, func(t *testing.T) {
					access(t, mcpe.Options{}, func(g *rig, pol *policy) {
						p := g.dial(legacy)
						p.subscribe(`{"filter":` + filter + `,"delivery":` + delivery + `}`)
						g.emit("github.push", 1)
						g.emit("slack.message", 2)
						synctest.Wait()
						take(g, pol)
						p.wantState("expired", 0)
						g.emit("github.push", 4)
						sleep(8 * 24 * time.Hour)
						p.want("subscription_expired()")
						pol.refuse("none")
						p.wantState("expired", 0)
					})
				})
			}
		}
	}
}

// MCPE-AUTH-1: the hooks are asked before each run, so that a run that comes before Reauthorize sends nothing, either.
func TestRunAsksHooks(t *testing.T) {
	for _, delivery := range []string{cron("* * * * *", ""), `{"scheduledDelivery":{"deliverAt":"2000-01-01T00:01:00Z"}}`} {
		access(t, mcpe.Options{}, func(g *rig, pol *policy) {
			p := g.dial(legacy)
			p.subscribe(`{"delivery":` + delivery + `}`)
			g.emit("github.push", 1)
			synctest.Wait()
			pol.refuse("github.")
			g.emit("github.issue.opened", 2)
			g.emit("slack.message", 3)
			sleep(time.Minute)
			if got := p.got(); !strings.HasPrefix(got, "batch(3)") {
				t.Errorf("%s: notified of %q", delivery, got)
			}
		})
	}
}

// MCPE-AUTH-1: a client that was away when the run was due is not sent what it may no longer receive.
func TestWaitingRunAsksHooks(t *testing.T) {
	access(t, mcpe.Options{}, func(g *rig, pol *policy) {
		p := g.dial(legacy)
		p.subscribe(`{"filter":{"eventTypes":["github.push"]},"delivery":` + cron("@hourly", "") + `}`)
		g.emit("github.push", 1)
		p.HangUp()
		sleep(time.Hour)
		pol.refuse("")
		sleep(time.Second)
		p = g.dial(legacy)
		p.wantState("active", 1)
		p.want("subscription_expired()")
		p.wantState("expired", 0)
	})
}

// MCPE-AUTH-1: of a type that is hidden or removed nothing is sent, and the subscription goes on.
func TestHiddenAndRemovedTypes(t *testing.T) {
	for how, change := range map[string]func(*rig, *atomic.Bool) error{
		"hidden":  func(_ *rig, hidden *atomic.Bool) error { hidden.Store(true); return nil },
		"removed": func(g *rig, _ *atomic.Bool) error { return g.es.Remove("github.push") },
	} {
		var hidden atomic.Bool
		so := server.Options{Visible: func(_ context.Context, _, event string) bool { return !hidden.Load() || event != "github.push" }}
		bubbleWith(t, so, mcpe.Options{}, func(g *rig) {
			p := g.dial(legacy)
			p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
			g.emit("github.push", 1)
			synctest.Wait()
			g.emit("slack.message", 2)
			synctest.Wait()
			if err := change(g, &hidden); err != nil {
				t.Fatal(err)
			}
			sleep(time.Hour)
			if got := p.got(); got != "batch(2)" {
				t.Errorf("%s: notified of %q", how, got)
			}
			p.wantState("active", 0)
			if n := g.a.Stats().Dropped; n != 1 {
				t.Errorf("%s: %d dropped", how, n)
			}
		})
	}
}

// MCPE-AUTH-1: a hook that fails decides nothing: the queue is neither sent nor dropped.
func TestFailingHookDelaysRun(t *testing.T) {
	access(t, mcpe.Options{}, func(g *rig, pol *policy) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
		g.emit("github.push", 1)
		synctest.Wait()
		pol.refuse("panic")
		sleep(time.Hour + time.Minute)
		p.want("")
		p.wantState("active", 1)
		pol.refuse("none")
		sleep(2 * time.Second)
		p.want("batch(1)")
	})
}

// MCPE-AUTH-1: a handler gets neither what was collected nor what waits for it, and a handler that runs is stopped.
func TestHandlerAfterRevocation(t *testing.T) {
	for _, delivery := range []string{`{}`, cron("@hourly", `,"aggregateEvents":false`), `{"scheduledDelivery":{"deliverAt":"2000-01-08T00:00:00Z"}}`} {
		for how, take := range map[string]func(*rig, *policy){
			"revoked": func(g *rig, _ *policy) { g.revoke() },
			"refused": func(_ *rig, p *policy) { p.refuse("github.") },
		} {
			t.Run(delivery+how, func(t *testing.T) {
				var begun, stopped atomic.Int64
				o := mcpe.Options{Agent: &mcpe.AgentOptions{Handle: func(ctx context.Context, _ mcpe.AgentRequest) error {
					begun.Add(1)
					select {
					case <-ctx.Done():
						stopped.Add(1)
						return ctx.Err()
					case <-time.After(10 * time.Second):
						return nil
					}
				}}}
				access(t, o, func(g *rig, pol *policy) {
					p := g.dial(legacy)
					p.subscribe(`{"filter":{"eventTypes":["github.*"]},"delivery":` + delivery + `,"handler":{"type":"agent","instructions":"go"}}`)
					g.emit("github.push", 1, 2, 3)
					synctest.Wait()
					if strings.Contains(delivery, "cron") {
						sleep(time.Hour)
					}
					running := begun.Load()
					take(g, pol)
					sleep(8 * 24 * time.Hour)
					if begun.Load() != running {
						t.Errorf("%d runs began, %d of them before the access was taken away", begun.Load(), running)
					}
					if how == "revoked" && stopped.Load() != running {
						t.Errorf("%d of %d runs were stopped", stopped.Load(), running)
					}
					p.wantState("expired", 0)
				})
			})
		}
	}
}

// MCPE-AUTH-1: a handler gets the rest of a batch that waited for it.
func TestWaitingBatchLosesRefusedType(t *testing.T) {
	var got []string
	o := mcpe.Options{Agent: &mcpe.AgentOptions{Handle: func(_ context.Context, r mcpe.AgentRequest) error {
		for _, e := range r.Events {
			got = append(got, e.Metadata.SourceEventID)
		}
		time.Sleep(90 * time.Second)
		return nil
	}}}
	access(t, o, func(g *rig, pol *policy) {
		p := g.dial(legacy)
		p.subscribe(`{"delivery":` + cron("* * * * *", "") + `,"handler":{"type":"agent","instructions":"go"}}`)
		g.emit("github.push", 1)
		sleep(time.Minute + time.Second)
		g.emit("github.push", 2)
		g.emit("slack.message", 3)
		sleep(time.Minute)
		pol.refuse("github.")
		sleep(time.Hour)
		if want := []string{"github.push-1", "slack.message-3"}; !slices.Equal(got, want) {
			t.Errorf("handled %q, want %q", got, want)
		}
		if s := g.a.Stats(); s.Handled != 2 || s.Failed != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// MCPE-AUTH-1: a subscription to several types goes on with those that it may still receive, and says so.
func TestOneTypeTakenAway(t *testing.T) {
	access(t, mcpe.Options{}, func(g *rig, pol *policy) {
		p := g.dial(legacy)
		s := p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
		g.emit("github.push", 1)
		g.emit("slack.message", 2)
		g.emit("github.push", 3)
		synctest.Wait()
		g.revoke("github.push")
		p.wantState("active", 1)
		if l := p.list(`{}`); len(l[0].Warnings) != 1 || !strings.Contains(l[0].Warnings[0], "github.push") {
			t.Errorf("warnings %q", l[0].Warnings)
		}
		g.emit("github.push", 4)
		g.emit("slack.message", 5)
		sleep(time.Hour)
		p.want("batch(2,5)")
		u := &subscription{}
		p.ok("events_update", `{"subscriptionId":"`+s.ID+`","filter":{"eventTypes":["*"]}}`, u)
		g.emit("github.push", 6)
		sleep(time.Hour)
		p.want("batch(6)")
		if len(u.Warnings) != 0 {
			t.Errorf("warnings %q", u.Warnings)
		}
	})
}

// MCPE-AUTH-1: a paused subscription keeps its queue, so that a revocation ends it, too.
func TestPausedAndRevoked(t *testing.T) {
	access(t, mcpe.Options{}, func(g *rig, _ *policy) {
		p := g.dial(legacy)
		s := p.subscribe(`{"delivery":` + cron("@hourly", "") + `}`)
		g.emit("github.push", 1)
		synctest.Wait()
		id := `{"subscriptionId":"` + s.ID + `"}`
		p.ok("events_pause", id, nil)
		sleep(time.Hour)
		g.revoke()
		p.wantState("expired", 0)
		p.fails("events_resume", id, -32602, "expired")
		sleep(time.Hour)
		p.want("subscription_expired()")
	})
}

// MCPE-AUTH-1, MCPE-DEL-6: what was taken away stays so over a restart, also if the hooks changed while the server was
// down.
func TestRestartAfterRevocation(t *testing.T) {
	for _, filter := range []string{`{"eventTypes":["github.push"]}`, `{}`} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s running %v", filter, running), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "mcpe.db")
					var pol policy
					so := pol.options()
					start := func() (*rig, *sqlite.Store) {
						db, err := sqlite.Open(t.Context(), path, sqlite.Options{Synchronous: sqlite.Normal})
						if err != nil {
							t.Fatal(err)
						}
						so.Store = db
						return newRig(t, so, mcpe.Options{Store: db}), db
					}
					g, db := start()
					p := g.dial(legacy)
					p.subscribe(`{"filter":` + filter + `,"delivery":` + cron("@hourly", "") + `}`)
					g.emit("github.push", 1)
					g.emit("slack.message", 2)
					synctest.Wait()
					if running {
						g.revoke("github.push")
					} else {
						pol.refuse("github.push")
					}
					g.stop()
					db.Close()
					g, db = start()
					p = g.dial(legacy)
					synctest.Wait()
					if filter == `{}` {
						p.wantState("active", 1)
					} else {
						p.wantState("expired", 0)
					}
					g.emit("github.push", 3)
					sleep(time.Hour)
					switch {
					case filter == `{}`:
						p.want("batch(2)")
					case running: // the client was told before the restart
						p.want("")
					default:
						p.want("subscription_expired()")
					}
					g.stop()
					db.Close()
				})
			})
		}
	}
}
