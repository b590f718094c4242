package subscriber_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// remove unsubscribes at a process.
func (p *process) remove(id string) {
	p.f.t.Helper()
	if ok, err := p.Remove(p.f.t.Context(), id); !ok || err != nil {
		p.f.t.Fatal(ok, err)
	}
}

// REP-11, SRV-3: while OnUnsubscribe is slow for more subscriptions than an owner rereads at once, the owner applies what
// another process changes of the next one. A subscription that begins under the same key waits for the hook.
func TestREP11SlowHooks(t *testing.T) {
	const slow = time.Minute
	shard := engine.Shard{Topic: "e"}
	for name, c := range map[string]struct {
		end   func(f *deployment, owner, other *process, id, principal, url string)
		hooks string
	}{
		"unsubscribed elsewhere": {func(_ *deployment, _, other *process, id, _, _ string) { other.remove(id) }, "on off"},
		"told of repeatedly": {func(_ *deployment, owner, other *process, id, _, _ string) {
			other.remove(id)
			synctest.Wait()
			owner.Changed(id, shard)
			synctest.Wait()
			owner.Changed(id, shard)
		}, "on off"},
		"made again elsewhere": {func(f *deployment, owner, other *process, id, principal, url string) {
			f.locked(func() { f.unheard = true })
			other.remove(id)
			if _, err := other.ask(f.t.Context(), principal, url); err != nil {
				f.t.Fatal(err)
			}
			f.locked(func() { f.unheard = false })
			owner.Changed(id, shard)
		}, "on off restored"},
		"expired": {func(f *deployment, _, _ *process, id, _, _ string) {
			r, _ := f.stored(id)
			time.Sleep(time.Until(r.ExpiresAt))
		}, "on off"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				other.author.set(func(a *author) { a.leaves = nil })
				stays := owner.subscribe("ann", origin+"stays").ID
				ids := map[string]string{}
				for i := range 20 {
					principal := fmt.Sprint("bob", i)
					res, err := owner.ask(t.Context(), principal, origin+principal, lasting(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					ids[principal] = res.ID
				}
				owner.author.set(func(a *author) { a.leaves = func(eventtype.Subscription) { time.Sleep(slow) } })
				began := time.Now()
				for principal, id := range ids {
					c.end(f, owner, other, id, principal, origin+principal)
				}
				if name != "expired" && time.Since(began) > while {
					t.Fatalf("it took %v to end them", time.Since(began))
				}
				if err := other.SetPaused(t.Context(), stays, true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(while)
				if !owner.Get(stays).Handle.Status().Paused {
					t.Error("the owner does not know of the pause")
				}
				time.Sleep(2 * slow)
				for principal := range ids {
					if got := owner.author.heardOf(principal); got != c.hooks {
						t.Errorf("the hooks heard %q, want %q", got, c.hooks)
					}
				}
			})
		})
	}
}

// SRV-3, REP-9: the author hears of an end whose record is deleted slowly while the shard is given away, before the next
// owner takes the shard or after the shard has come back. Nothing begins again.
func TestSRV3EndedWhileTheShardMoves(t *testing.T) {
	for name, again := range map[string]bool{"to another process": false, "and comes back": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner := f.process().own()
				id := owner.subscribe("ann", origin+"a").ID
				owner.slow(2*time.Second, "Owned.DeleteSubscription")
				go owner.End(owner.Get(id), fault.Revoked())
				time.Sleep(time.Second)
				close(owner.ownership.draining)
				<-owner.owning
				next := owner
				if again {
					owner.free()
					owner.own()
				}
				time.Sleep(while)
				f.gone("ended", id)
				owner.hooks("at the old owner", "on ann", "off ann")
				if !again {
					owner.free()
					next = f.process().own()
					next.hooks("at the next owner")
				}
				if n := owner.Delivering() + next.Delivering(); n != 0 {
					t.Errorf("%d are delivered to", n)
				}
			})
		})
	}
}

// Trap 6, SUB-5: a subscription whose end the engine reports before the subscription is live ends as soon as it is live.
func TestTrap6ReportedWhileStarting(t *testing.T) {
	for name, why := range map[string]delivery.End{"expired": delivery.Expired, "failed": delivery.Failed} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				id := p.subscribe("ann", origin+"a").ID
				if why == delivery.Expired {
					f.change(id, func(r *store.Subscription) { r.ExpiresAt = time.Now() })
				}
				if err := p.ReportWhileStarting(t.Context(), id, why); err != nil {
					t.Fatal(err)
				}
				time.Sleep(while)
				f.gone(name, id)
				p.hooks(name, "on ann", "off ann")
			})
		})
	}
}

// SRV-3: the log tells why a subscription has ended, once.
func TestSRV3LoggedEnd(t *testing.T) {
	for want, end := range map[string]func(f *deployment, owner, other *process, id string){
		"ends by unsubscribe": func(_ *deployment, owner, _ *process, id string) { owner.remove(id) },
		"has ended elsewhere": func(_ *deployment, _, other *process, id string) { other.remove(id) },
		"has ended and begun elsewhere": func(f *deployment, owner, other *process, id string) {
			f.locked(func() { f.unheard = true })
			other.remove(id)
			other.subscribe("ann", origin+"a")
			owner.Changed(id, engine.Shard{Topic: "e"})
		},
		"expires": func(f *deployment, _, _ *process, _ string) { time.Sleep(2 * time.Hour) },
		"is terminated: " + fault.Revoked().Kind.String(): func(_ *deployment, owner, _ *process, id string) {
			owner.End(owner.Get(id), fault.Revoked())
		},
		"without expiry is ended after failing too long: CallbackEndpointError": func(f *deployment, owner, _ *process, _ string) {
			f.r.on(func(*received) int { return http.StatusServiceUnavailable })
			owner.emit("1")
			time.Sleep(100 * time.Hour)
		},
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				var text bytes.Buffer
				owner, other := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) {
					o.Log = &fault.Log{Logger: slog.New(slog.NewTextHandler(&text, nil))}
					o.Terms.NoExpiry = true
					o.Delivery.NoExpiryRemoval = time.Hour
					o.Delivery.Suspend = delivery.Suspension{Window: time.Hour, Min: 3, Rate: 0.5, Span: -1}
				}).own(), f.process()
				id := owner.subscribe("ann", origin+"a", func(q *subscriber.Request, _ *wire.SubscribeParams) {
					q.Forever = strings.HasPrefix(want, "without expiry")
				}).ID
				end(f, owner, other, id)
				time.Sleep(while)
				owner.stop()
				var ends []string
				for line := range strings.Lines(text.String()) {
					if _, message, ok := strings.Cut(line, "webhook subscription "); ok && !strings.HasPrefix(message, "begins") {
						message, _, _ = strings.Cut(message, `"`)
						ends = append(ends, message)
					}
				}
				if !slices.Equal(ends, []string{want}) {
					t.Errorf("logged %q, want %q", ends, want)
				}
			})
		})
	}
}
