package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A process follows the control log, and records the orders that it executes.
type process struct {
	*Log
	store *memcluster.Store

	mu    sync.Mutex
	notes []string
	do    func(o Order) error // nil does nothing more
	ready func()              // called by Prepare and Recall; nil does nothing
	types []string            // EventTypes
	fails map[string]error    // errors of the others' calls, by name
}

func (p *process) note(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, a...))
}

func (p *process) took() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.notes
	p.notes = nil
	return found
}

func (p *process) failing(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fails[name]
}

func (p *process) Do(_ context.Context, o Order) error {
	p.mu.Lock()
	do := p.do
	p.mu.Unlock()
	p.note("do %s %s%s", o.Kind, o.Principal, o.Of())
	if do != nil {
		return do(o)
	}
	return nil
}

func (p *process) isReady() {
	if p.ready != nil {
		p.ready()
	}
}

func (p *process) Prepare(o Order) {
	p.isReady()
	if o.Kind == Revoke {
		p.note("prepare %s", o.Principal)
	}
}

func (p *process) Changed(id string, of engine.Shard) { p.note("changed %s of %v", id, of) }

func (p *process) Recall(_ context.Context, event string) error {
	p.isReady()
	p.note("recall %s", event)
	return p.failing("recall")
}

func (p *process) EventTypes() []string { return p.types }

func (p *process) Compare(context.Context) error {
	p.note("compare")
	return p.failing("compare")
}

func (p *process) RecheckAll(context.Context) { p.note("recheck all") }

// join adds a process, which follows unless it only emits.
func join(t *testing.T, c *memcluster.Cluster, emitOnly bool, change ...func(*process)) *process {
	t.Helper()
	p := &process{store: c.Open()}
	for _, f := range change {
		f(p)
	}
	o := Options{Store: p.store, Now: time.Now, Refresh: func(context.Context) {}, Report: &fault.Log{Logger: slog.New(slog.DiscardHandler)}}
	p.Log = New(o)
	if !emitOnly {
		if err := p.Follow(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(p.Shutdown)
	return p
}

// did waits until all goroutines are idle and checks what the process has done since.
func (p *process) did(t *testing.T, what string, want ...string) {
	t.Helper()
	time.Sleep(3 * time.Second)
	if got := p.took(); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// must fails the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// REP-11, REP-13: an action done by the process itself is repeated by the others, and a requested one by all.
func TestREP13TellAndAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b, quiet := join(t, c, false), join(t, c, false), join(t, c, true)
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		must(t, a.Ask(t.Context(), To(operator.Target{ID: "s1"}, Gap, nil)))
		must(t, quiet.Tell(t.Context(), To(operator.Target{ID: "s2"}, Terminate, events.Forbidden("over"))))
		a.did(t, "who told", "do gap s1", "do terminate s2")
		b.did(t, "the other", "prepare ann", "do revoke ann", "do gap s1", "do terminate s2")
		if !a.Heard() || a.LastLook().IsZero() || quiet.Heard() || !quiet.LastLook().IsZero() {
			t.Error("who follows has heard, and who does not has not")
		}
	})
}

// REP-11: a changed record is announced while an order calls the author's hooks, and later orders wait.
func TestREP11ChangesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		goOn := make(chan struct{})
		b := join(t, c, false, func(p *process) {
			p.do = func(o Order) error {
				if o.Kind == Recheck {
					<-goOn
					return errors.New("it fails")
				}
				return nil
			}
		})
		a := join(t, c, false)
		must(t, a.Tell(t.Context(), Order{Kind: Recheck, Principal: "ann"}))
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "bob"}))
		must(t, a.Ask(t.Context(), Order{Kind: Changed, Target: &operator.Target{ID: "s", Event: "e"}, Shard: 3}))
		time.Sleep(3 * time.Second)
		changed := fmt.Sprintf("changed s of %v", engine.Shard{Topic: "e", Number: 3})
		if got := slices.Sorted(slices.Values(b.took())); !slices.Equal(got, []string{changed, "do recheck ann", "prepare bob"}) {
			t.Errorf("while it waits: %q", got)
		}
		close(goOn)
		b.did(t, "afterwards", "do revoke bob")
		a.did(t, "who told", changed)
	})
}

// REP-11: a process that is not notified of the orders of others reads them all the same, in time for its deliveries to
// go on.
func TestREP11WithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		b.store.Inject(memcluster.Faults{Deaf: true})
		for range 3 {
			told := time.Now()
			must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
			time.Sleep(time.Millisecond)
			b.RecallLater("e")
			if synctest.Wait(); b.LastLook().After(told) {
				t.Error("it was woken for another reason, and takes this for a look")
			}
			time.Sleep(2 * maxLookAge)
			if got := b.took(); !slices.Equal(got, []string{"recall e", "prepare ann", "do revoke ann"}) || !b.Heard() {
				t.Errorf("it did %q, and has heard: %v", got, b.Heard())
			}
			time.Sleep(time.Minute + maxLookAge/2) // not when it looks
			if !b.Heard() {
				t.Error("it has not heard that there is nothing new")
			}
		}
	})
}

// REP-11: a process has not heard while orders wait to be read, so its deliveries do not go on before the last of them.
func TestREP11OrdersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const orders, takes = 10 * controlChunk, 10 * time.Millisecond
		c := memcluster.New()
		b := join(t, c, false, func(p *process) { p.ready = func() { time.Sleep(takes) } })
		log, err := c.Open().OpenLog(t.Context(), engine.ControlLog, store.LogOptions{})
		must(t, err)
		for i := range orders {
			_, err := log.Append(t.Context(), store.Entry{EventID: fmt.Sprint(i), Timestamp: events.NewTime(time.Now()), Data: []byte(`{"kind":"revoke"}`)})
			must(t, err)
		}
		began := time.Now()
		for time.Since(began) < orders*takes {
			if time.Sleep(takes); b.Heard() && time.Since(began) > MaxUnheard && time.Since(began) < orders*takes {
				t.Fatalf("it has heard after %v, when the last of %d orders is read after %v", time.Since(began), orders, orders*takes)
			}
		}
		time.Sleep(time.Second)
		if !b.Heard() || time.Since(b.LastLook()) > time.Second {
			t.Errorf("when all are read: last look at %v, heard: %v", b.LastLook(), b.Heard())
		}
	})
}

// Unknown kinds of orders are ignored, and unreadable orders are logged.
func TestUnreadableOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		b := join(t, c, false)
		log, err := c.Open().OpenLog(t.Context(), engine.ControlLog, store.LogOptions{})
		must(t, err)
		for i, data := range []string{`[]`, `{"kind":"subscription"}`, `{"kind":"later","x":1}`, `{"kind":"terminate"}`} {
			_, err := log.Append(t.Context(), store.Entry{EventID: fmt.Sprint(i), Timestamp: events.NewTime(time.Now()), Data: []byte(data)})
			must(t, err)
		}
		b.did(t, "the others", "do later ", "do terminate ")
	})
}

// REP-22: an order whose answer was lost is sent again and executed once; an order that cannot be sent is an error.
func TestREP22ToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		lost := 3
		a.store.Inject(memcluster.Faults{Lost: func(op string) bool {
			lost--
			return strings.HasPrefix(op, "Append") && lost >= 0
		}})
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		b.did(t, "once", "prepare ann", "do revoke ann")
		refused := errors.New("it does not get through")
		a.store.Inject(memcluster.Faults{Fail: func(op string) error {
			if strings.HasPrefix(op, "Append") {
				return refused
			}
			return nil
		}})
		if err := a.Tell(t.Context(), Order{Kind: Revoke}); !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		a.store.Inject(memcluster.Faults{Lost: func(op string) bool { return strings.HasPrefix(op, "Append") }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Tell(ctx, Order{Kind: Revoke}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUncertain) {
			t.Errorf("got %v", err)
		}
		time.AfterFunc(time.Second, a.Shutdown)
		if err := a.Tell(t.Context(), Order{Kind: Revoke}); !errors.Is(err, events.ErrClosed) {
			t.Errorf("at the end: %v", err)
		}
	})
}

// REP-22: a process does not execute an order of its own, even if the answer to Tell was lost or the epoch has changed.
func TestREP22OwnOrders(t *testing.T) {
	for name, after := range map[string]func(t *testing.T, c *memcluster.Cluster){
		"a lost answer": func(*testing.T, *memcluster.Cluster) {},
		"a new epoch":   func(t *testing.T, c *memcluster.Cluster) { must(t, c.BeginEpoch(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memcluster.New()
				a, b := join(t, c, false), join(t, c, false)
				a.store.Inject(memcluster.Faults{Deaf: true, Lost: func(op string) bool { return strings.HasPrefix(op, "Append") }})
				ctx, cancel := context.WithTimeout(t.Context(), maxLookAge/2)
				defer cancel()
				if err := a.Tell(ctx, Order{Kind: Revoke, Principal: "ann"}); !errors.Is(err, store.ErrUncertain) {
					t.Errorf("got %v", err)
				}
				after(t, c)
				time.Sleep(3 * time.Second)
				if got := a.took(); slices.Contains(got, "do revoke ann") {
					t.Errorf("who told did %q", got)
				}
				if got := b.took(); !slices.Contains(got, "do revoke ann") {
					t.Errorf("the other did %q", got)
				}
			})
		})
	}
}

// REP-13: a termination stays in the store until it is withdrawn, also against concurrent changes.
func TestREP13ClosedTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		a, b := join(t, c, false), join(t, c, false)
		is := func(want string) {
			t.Helper()
			for _, p := range []*process{a, b} {
				c, err := p.ClosedType(t.Context(), "e")
				must(t, err)
				if want == "" && c != nil || want != "" && (c == nil || !strings.Contains(string(c.Err.Data), want)) {
					t.Errorf("%v, want %q", c, want)
				}
			}
		}
		is("")
		must(t, a.CloseType(t.Context(), "e", &eventtype.Closing{Err: events.Forbidden("one")}))
		must(t, a.CloseType(t.Context(), "ee", &eventtype.Closing{Err: events.Forbidden("no prefix counts")}))
		is("one")
		must(t, b.CloseType(t.Context(), "e", &eventtype.Closing{Err: events.Forbidden("two")}))
		is("two")
		must(t, a.CloseType(t.Context(), "e", nil))
		must(t, a.CloseType(t.Context(), "e", nil))
		is("")
		b.mu.Lock()
		b.fails = map[string]error{"recall": errors.New("not yet")}
		b.mu.Unlock()
		b.RecallLater("e")
		time.Sleep(5 * time.Second)
		if got := b.took(); len(got) < 2 || got[0] != "recall e" {
			t.Errorf("while it fails: %q", got)
		}
		b.mu.Lock()
		b.fails = nil
		b.mu.Unlock()
		time.Sleep(5 * time.Second)
		b.took()
		b.did(t, "once it was read")
	})
}

// REP-13: a termination or its withdrawal that meets another one takes effect after it.
func TestREP13ClosedAtOnce(t *testing.T) {
	one, two := &eventtype.Closing{Err: events.Forbidden("one")}, &eventtype.Closing{Err: events.Forbidden("two")}
	for _, tt := range []struct {
		name                string
		before, meets, does *eventtype.Closing // nil is open
	}{
		{"two terminations", nil, one, two},
		{"a termination of a closed type", one, nil, two},
		{"a withdrawal that meets a termination", one, two, nil},
		{"two withdrawals", one, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memcluster.New()
				a, b := join(t, c, false), join(t, c, false)
				must(t, a.CloseType(t.Context(), "e", tt.before))
				var met bool
				a.store.Inject(memcluster.Faults{Fail: func(op string) error {
					if (op == "PutState" || op == "DeleteState") && !met {
						met = true
						return b.CloseType(t.Context(), "e", tt.meets)
					}
					return nil
				}})
				must(t, a.CloseType(t.Context(), "e", tt.does))
				got, err := b.ClosedType(t.Context(), "e")
				must(t, err)
				if !met || (got == nil) != (tt.does == nil) || got != nil && string(got.Err.Data) != string(tt.does.Err.Data) {
					t.Errorf("in the end %+v, want %+v", got, tt.does)
				}
			})
		})
	}
}

// REP-13: after reopening the log because of a new epoch, a process makes up for orders that it may have missed, and
// continues.
func TestREP13Missed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		b := join(t, c, false, func(p *process) {
			p.types = []string{"e", "f"}
			p.fails = map[string]error{"compare": errors.New("no")}
		})
		a := join(t, c, false)
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
		b.did(t, "before", "prepare ann", "do revoke ann")
		must(t, c.BeginEpoch(0))
		time.Sleep(3 * time.Second)
		got := b.took()
		for _, want := range []string{"recall e", "recall f", "compare", "recheck all"} {
			if !slices.Contains(got, want) {
				t.Errorf("it did %q without %q", got, want)
			}
		}
		must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "bob"}))
		b.did(t, "in the new epoch", "prepare bob", "do revoke bob")
		log, err := b.EventLog(t.Context())
		must(t, err)
		if _, head, err := log.Bounds(t.Context()); err != nil || head == 0 {
			t.Errorf("head %d, %v", head, err)
		}
	})
}

// REP-13: a process that could not read the control log for longer than orders are retained makes up for missed
// revocations and terminations: it reads the permanent states and the records, and rechecks everything that is live
// with the hooks.
func TestREP13AwayForLongerThanOrdersAreKept(t *testing.T) {
	for name, since := range map[string]bool{"an order since": true, "none since": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memcluster.New()
				a, b := join(t, c, false), join(t, c, false, func(p *process) {
					p.types = []string{"e"}
					p.ready = func() {
						if p.Heard() {
							t.Error("it has heard before it makes up for everything")
						}
					}
				})
				away := errors.New("cut off")
				b.store.Inject(memcluster.Faults{Fail: func(op string) error {
					if strings.HasPrefix(op, "Owned") {
						return nil
					}
					return away
				}})
				must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "ann"}))
				time.Sleep(engine.ControlAge + time.Minute)
				want := []string{"compare", "recall e", "recheck all"}
				if since {
					must(t, a.Tell(t.Context(), Order{Kind: Revoke, Principal: "bob"}))
					want = []string{"compare", "do revoke bob", "prepare bob", "recall e", "recheck all"}
				}
				b.did(t, "while it is away")
				b.store.Inject(memcluster.Faults{})
				time.Sleep(3 * time.Second)
				if got := slices.Sorted(slices.Values(b.took())); !slices.Equal(got, want) {
					t.Errorf("when it is back: %q, want %q", got, want)
				}
				if !b.Heard() {
					t.Error("it has heard of nothing since")
				}
			})
		})
	}
}

// REP-11: a look at the log is recent if both clocks say so.
func TestREP11RecentByBothClocks(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		at, wall time.Duration // ago
		recent   bool
	}{
		"both":                      {time.Second, time.Second, true},
		"neither":                   {3 * time.Second, 3 * time.Second, false},
		"a machine that slept":      {time.Second, time.Hour, false},
		"a clock that was set back": {3 * time.Second, -time.Hour, false},
	} {
		k := look{now.Add(-c.at), now.Round(0).Add(-c.wall)}
		if got := k.isRecent(now); got != c.recent {
			t.Errorf("%s: recent is %v", name, got)
		}
	}
}
