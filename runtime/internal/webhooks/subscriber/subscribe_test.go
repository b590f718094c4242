package subscriber_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// SUB-1, REP-11: whoever answers a subscribe, what is emitted after its arrival is delivered once, and so is what
// follows the cursor of the request. It is stored before the answer.
func TestSUB1Subscribe(t *testing.T) {
	for name, at := range map[string]func(f *deployment) (p, later *process){
		"the owner":                          func(f *deployment) (p, later *process) { p = f.process().own(); return p, p },
		"another process":                    func(f *deployment) (p, later *process) { p = f.process().own(); return f.process(), p },
		"a process before there is an owner": func(f *deployment) (p, later *process) { return f.process(), f.process() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p, owner := at(f)
				p.emit("1", "2")
				first := p.subscribe("ann", origin+"now")
				if r, ok := f.stored(first.ID); !ok || r.Principal != "ann" || r.URL != origin+"now" || first.Truncated || first.RefreshBefore == nil {
					t.Errorf("%+v, stored as %+v", first, r)
				}
				p.emit("3")
				replays := p.subscribe("bob", origin+"replay", from(first.Cursor))
				lost := p.subscribe("eve", origin+"lost", from(new(string)))
				if !lost.Truncated || replays.Truncated {
					t.Errorf("truncated: %v of an unknown cursor, %v of a known one", lost.Truncated, replays.Truncated)
				}
				if owner.ownership == nil {
					owner.own()
				}
				time.Sleep(while)
				p.emit("4")
				time.Sleep(while)
				f.r.wants("from now", "now", "3", "4")
				f.r.wants("from a cursor", "replay", "3", "4")
				f.r.wants("from nowhere", "lost", "4")
			})
		})
	}
}

// SUB-1: nothing is sent before the response is written, if the carrier tells when that is, and it is sent soon after.
func TestSUB1NothingOvertakesTheResponse(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		var written func()
		reply := func(q *subscriber.Request, _ *wire.SubscribeParams) {
			q.Reply = func(f func()) bool { written = f; return true }
		}
		over := func(q *subscriber.Request, _ *wire.SubscribeParams) { q.Reply = func(func()) bool { return false } }
		for _, c := range []struct {
			path string
			wish wish
		}{{"told", reply}, {"over", over}, {"untold", func(*subscriber.Request, *wire.SubscribeParams) {}}} {
			if _, err := p.ask(t.Context(), "ann", origin+c.path, c.wish); err != nil {
				t.Fatal(err)
			}
		}
		p.emit("1")
		time.Sleep(subscriber.SettleTime / 2)
		f.r.wants("a response that was just written", "over")
		time.Sleep(subscriber.SettleTime)
		f.r.wants("a response that was written", "over", "1")
		f.r.wants("at once", "told")
		f.r.wants("at once", "untold")
		time.Sleep(while)
		f.r.wants("while it is written", "told")
		f.r.wants("when nobody tells", "untold", "1")
		written()
		time.Sleep(2 * subscriber.SettleTime)
		f.r.wants("when it is written", "told", "1")
		if _, err := p.ask(t.Context(), "bob", origin+"never", reply); err != nil {
			t.Fatal(err)
		}
		p.emit("2")
		time.Sleep(subscriber.MaxReplyTime + time.Second)
		f.r.wants("a response that is never written", "never", "2")
	})
}

// kindOf is the kind of an error of the extension; 0 for another one.
func kindOf(err error) events.Kind {
	var e *events.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// A refusal is a way in which a subscribe is refused.
type refusal struct {
	before func(f *deployment, p *process)
	url    string // origin without one
	after  time.Duration
	kind   events.Kind // 0 for an error that callers see as an internal one
	text   string      // in the data of the error
	hooks  []string    // beside those of the first subscription
}

// hooked has OnSubscribe do something for bob.
func hooked(do func(ctx context.Context) error) func(*deployment, *process) {
	return func(_ *deployment, p *process) {
		p.author.set(func(a *author) {
			a.accepts = func(ctx context.Context, sub eventtype.Subscription) error {
				if sub.Principal != "bob" {
					return nil
				}
				return do(ctx)
			}
		})
	}
}

// faulty has steps of the store fail.
func faulty(steps ...string) func(*deployment, *process) {
	return func(_ *deployment, p *process) { p.faults(steps...) }
}

var refusals = map[string]refusal{
	"a hook refuses":                      {before: hooked(func(context.Context) error { return events.Forbidden("not you") }), kind: events.KindForbidden, text: "not you"},
	"a hook fails":                        {before: hooked(func(context.Context) error { return errors.New("its database is away") })},
	"a hook panics":                       {before: hooked(func(context.Context) error { panic("oops") })},
	"a hook takes longer than the caller": {before: hooked(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), after: time.Minute},
	"the callback answers its challenge wrongly": {url: strange, before: func(f *deployment, _ *process) {
		f.r.on(func(*received) int { return http.StatusNoContent })
	}, kind: wire.CallbackEndpointError, text: "challenge_failed"},
	"the callback hangs": {url: strange, before: func(f *deployment, _ *process) {
		f.r.on(func(*received) int { time.Sleep(8 * time.Second); return 0 })
	}, kind: wire.CallbackEndpointError, text: "timeout"},
	"the principal has too many": {before: func(f *deployment, p *process) {
		for i := range 10 {
			p.subscribe("bob", origin+string(rune('0'+i)))
		}
	}, kind: wire.ResourceExhausted, text: "subscriptions"},
	"the record cannot be read": {before: faulty("Subscription")},
	"the quota cannot be read":  {before: faulty("CountSubscriptions")},
	"its owner cannot be told": {before: func(f *deployment, p *process) {
		p.giveAway()
		f.locked(func() { f.untold = true })
	}, hooks: []string{"on bob", "off bob"}},
	"the record cannot be stored": {before: faulty("Admit"), hooks: []string{"on bob", "off bob"}},
}

// ERR-2, SRV-3: whatever refuses a subscribe, the caller gets its error, nothing is stored or delivered, hooks are
// called in pairs, and the same key can be subscribed later. Other subscriptions go on.
func TestERR2Refused(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				p.subscribe("ann", origin+"ann")
				if c.before != nil {
					c.before(f, p)
				}
				heard := len(p.author.heard)
				url := origin
				if c.url != "" {
					url = c.url
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := p.ask(ctx, "bob", url+"bob")
				if err == nil || kindOf(err) != c.kind || !contains(err, c.text) {
					t.Errorf("%v, of kind %d", err, kindOf(err))
				}
				f.r.on(nil)
				p.faults()
				f.locked(func() { f.untold = false })
				if p.ownership == nil {
					p.own()
				}
				synctest.Wait()
				got := slices.DeleteFunc(slices.Clone(p.author.heard[heard:]), func(h string) bool { return !strings.HasSuffix(h, "bob") })
				if !slices.Equal(got, c.hooks) {
					t.Errorf("hooks heard %q, want %q", got, c.hooks)
				}
				p.author.set(func(a *author) { a.accepts = nil })
				p.emit("1")
				time.Sleep(while)
				f.r.wants("the refused one", "bob")
				f.r.wants("another one", "ann", "1")
				if kindOf(err) == wire.ResourceExhausted {
					return
				}
				p.subscribe("bob", url+"bob")
				p.emit("2")
				time.Sleep(while)
				f.r.wants("when it is accepted", "bob", "2")
			})
		})
	}
}

// REP-22, ERR-2: where the answer of the store to a new record is lost, the subscriber gets the answer that fits what
// has become of it.
func TestREP22LostAnswerOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		p.store.Inject(memcluster.Faults{Lost: func(op string) bool { return op == "Admit" }})
		res := p.subscribe("ann", origin+"a")
		p.faults()
		if _, ok := f.stored(res.ID); !ok {
			t.Error("it is not stored")
		}
		p.emit("1")
		time.Sleep(while)
		f.r.wants("it is live", "a", "1")
		p.hooks("once", "on ann")
	})
}

// REP-12: two processes that are asked for one key at the same time make one subscription of it, which both answers
// name and which is delivered to once.
func TestREP12TwoSubscribeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		f.cluster.Slow(50 * time.Millisecond)
		answers := make(chan *subscriber.Result, 2)
		for _, p := range []*process{owner, other} {
			go func() {
				res, err := p.ask(t.Context(), "ann", origin+"a")
				if err != nil {
					t.Error(err)
				}
				answers <- res
			}()
		}
		a, b := <-answers, <-answers
		if a == nil || b == nil || a.ID != b.ID {
			t.Errorf("%+v, %+v", a, b)
		}
		time.Sleep(while)
		owner.emit("1")
		time.Sleep(while)
		f.r.wants("once", "a", "1")
	})
}

// REP-11: what was ordered after a record was made and before it was live ends it, and an event type that an operator
// has closed meanwhile does so.
func TestREP11OrderedMeanwhile(t *testing.T) {
	revoked := events.Forbidden("access revoked")
	for name, order := range map[string]func(f *deployment, p *process){
		"a revocation": func(f *deployment, p *process) {
			p.NoteRevoked(subscriber.Revocation{Principal: "bob", Names: []string{"e", "f"}, At: f.request()})
		},
		"the type is closed": func(_ *deployment, p *process) { p.typ.Close(&eventtype.Closing{Err: revoked}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				hooked(func(context.Context) error { order(f, p); return nil })(f, p)
				id := p.subscribe("bob", origin+"a").ID
				p.emit("1")
				time.Sleep(while)
				f.gone("ended", id)
				f.r.wants("its envelope", "a", terminated(revoked))
				p.hooks("in pairs", "on bob", "off bob")
			})
		})
	}
}

// SUB-3: what is wrong with the form of a subscribe is reported by its places, all at once.
func TestSUB3Form(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		_, err := p.ask(t.Context(), "ann", "http://elsewhere.test/", withSecret("short"), withArguments(`{"severity":"P9"}`))
		for _, want := range []string{"/delivery/url", "/delivery/secret", "/severity"} {
			if kindOf(err) != wire.InvalidParams || !contains(err, want) {
				t.Errorf("%v does not name %s", err, want)
			}
		}
		p.hooks("nobody is asked")
	})
}

// SUB-1: a process reads a record once to create a subscription, whether it is the owner or not.
func TestSUB1ReadsOnce(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				f.locked(func() { f.unheard = true })
				var reads atomic.Int64
				p := at(owner, other)
				p.store.Inject(memcluster.Faults{Fail: func(op string) error {
					if op == "Subscription" { // and none of the list
						reads.Add(1)
					}
					return nil
				}})
				p.subscribe("ann", origin+"a")
				if n := reads.Load(); n != 1 {
					t.Errorf("%d reads", n)
				}
			})
		})
	}
}

// SUB-1, CUR-7: a subscription to what a check finds begins at the upstream's present or at the cursor of the request,
// goes on after a restart where it was, and gets a repeat of nothing.
func TestSUB11CheckedTypeOverARestart(t *testing.T) {
	checks := func(_ *subscriber.Options, e *eventtypetest.Options) { e.Emits, e.Checks = false, true }
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(checks).own()
		p.typ.Put("before")
		res := p.subscribe("ann", origin+"a")
		p.typ.Put("1")
		time.Sleep(time.Minute)
		again := p.subscribe("ann", origin+"b", from(res.Cursor))
		time.Sleep(time.Minute)
		p.stop()
		next := f.process(checks)
		for _, id := range []string{"before", "1", "2"} { // its upstream is the same
			next.typ.Put(id)
		}
		next.own()
		time.Sleep(time.Minute)
		f.r.wants("from now", "a", "1", "2")
		f.r.wants("from a cursor", "b", "1", "2")
		if again.Truncated {
			t.Error("the cursor of a subscribe is not known")
		}
		next.hooks("the next process", "restored ann", "restored ann")
	})
}

// AUTH-3, SRV-3: hooks run for the principal of the subscription, whoever has it taken up.
func TestHooksRunForThePrincipal(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		asked := func(ctx context.Context, sub eventtype.Subscription) error {
			if hook.Principal(ctx) != sub.Principal {
				t.Errorf("OnSubscribe of %s runs for %q", sub.Principal, hook.Principal(ctx))
			}
			return nil
		}
		a := f.process().own()
		a.author.set(func(h *author) { h.accepts = asked })
		a.subscribe("ann", origin+"a")
		a.giveAway()
		b := f.process()
		b.author.set(func(h *author) { h.accepts = asked })
		b.own()
		b.hooks("taken up", "restored ann")
	})
}

// REP-7, REP-11: what is subscribed at a process that loses its shard at this moment is delivered by the next owner,
// which hears of it although it has read its records before.
func TestREP11TheShardIsLostMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		old := f.process().own()
		old.lose()
		f.process().own()
		old.subscribe("ann", origin+"a", func(q *subscriber.Request, _ *wire.SubscribeParams) {
			q.Reply = func(func()) bool { // it is live by now
				old.ownership.end()
				return false
			}
		})
		old.emit("1")
		time.Sleep(while)
		f.r.wants("at the next owner", "a", "1")
	})
}

// REP-9, REP-11: a process that becomes the owner between its write of a record and its start of the subscription repeats
// nothing that another owner has delivered in between.
func TestREP11OwnedMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		other := f.process().own()
		var p *process
		p = f.process(func(o *subscriber.Options, _ *eventtypetest.Options) {
			o.Admitted = func(ctx context.Context, _ error) {
				page, err := f.db.Subscriptions(ctx, "", 1)
				if err != nil {
					t.Fatal(err)
				}
				other.Changed(page[0].ID, engine.Shard{Topic: "e"})
				other.emit("1")
				time.Sleep(while)
				other.giveAway()
				p.own()
			}
		})
		p.subscribe("ann", origin+"a")
		p.emit("2")
		time.Sleep(while)
		f.r.wants("once", "a", "1", "2")
	})
}
