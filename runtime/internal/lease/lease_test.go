package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bed is the host of members and leases. It notes what hooks hear.
type bed struct {
	Leases
	t       *testing.T
	members Members

	mu      sync.Mutex
	deaf    bool
	slow    time.Duration // of both hooks
	refuse  error
	bound   int
	charged map[string]int
	heard   []string
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, bound: 1 << 20, charged: map[string]int{}}
	b.members.Host, b.Members = b, &b.members
	return b
}

func (b *bed) Hears(eventtype.Arguments) bool { return !b.deaf }

func (b *bed) hear(line string) {
	time.Sleep(b.slow)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, line)
}

func (b *bed) Subscribed(ctx context.Context, _ eventtype.Subscription, _ eventtype.Arguments) error {
	b.hear("on")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.refuse
}

func (b *bed) Unsubscribed(eventtype.Subscription, eventtype.Arguments) { b.hear("off") }

func (b *bed) Refused(context.Context, string, eventtype.Arguments) *events.Error { return nil }

func (b *bed) Take(principal string, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.charged[principal]+n > b.bound {
		return events.ErrResourceExhausted
	}
	b.charged[principal] += n
	return nil
}

func (b *bed) Give(principal string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.charged[principal] -= n; b.charged[principal] == 0 {
		delete(b.charged, principal)
	}
}

// want waits until nothing moves, and fails unless the hooks have heard that, in all.
func (b *bed) want(what string, heard ...string) {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.heard, heard) {
		b.t.Errorf("%s: hooks heard %q, want %q", what, b.heard, heard)
	}
}

// empty fails unless nothing is kept.
func (b *bed) empty() {
	b.t.Helper()
	synctest.Wait()
	if len(b.All()) != 0 || len(b.members.Holding()) != 0 || len(b.charged) != 0 {
		b.t.Errorf("%d leases, holders %v, charges %v", len(b.All()), b.members.Holding(), b.charged)
	}
}

// subscription is one of a principal to an event type.
func subscription(t *testing.T, et *eventtypetest.Type, principal string) (eventtype.Subscription, eventtype.Arguments) {
	t.Helper()
	a, err := et.Arguments(`{}`)
	if err != nil {
		t.Fatal(err)
	}
	return eventtype.Identify(wire.ModePoll, principal, "", a), a
}

// inBubble runs f with an event type and a subscription of ann's to it.
func inBubble(t *testing.T, f func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		et := eventtypetest.New(t, "e", eventtypetest.Options{Emits: true})
		sub, a := subscription(t, et, "ann")
		b := newBed(t)
		f(b, et, sub, a)
		b.empty()
	})
}

// SRV-3: the first holder and the last one are told, those between are not; who is refused is none.
func TestSRV3FirstAndLast(t *testing.T) {
	inBubble(t, func(b *bed, _ *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		m, ctx := &b.members, b.t.Context()
		for range 3 {
			if err := m.Join(ctx, sub, a); err != nil {
				b.t.Fatal(err)
			}
		}
		m.Leave(sub, a)
		m.Leave(sub, a)
		b.want("with one holder", "on")
		m.Leave(sub, a)
		b.want("without", "on", "off")
		m.Leave(sub, a) // of whom nobody knows
		if err := m.Join(ctx, sub, a); err != nil {
			b.t.Fatal(err)
		}
		m.Release(sub, a)
		b.want("released", "on", "off", "on")
		b.refuse = events.ErrForbidden
		if err := m.Join(ctx, sub, a); !errors.Is(err, events.ErrForbidden) {
			b.t.Errorf("refused: %v", err)
		}
		b.want("refused", "on", "off", "on", "on")
	})
}

// SRV-3: who joins while the last one is about to leave keeps the subscription on, and no hook runs.
func TestSRV3JoinBeforeTheLastHasLeft(t *testing.T) {
	inBubble(t, func(b *bed, _ *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		m := &b.members
		b.join(sub, a)
		one := m.byID[sub.ID]
		one.hooks <- struct{}{} // another hook runs
		go m.Leave(sub, a)
		synctest.Wait()
		go b.join(sub, a)
		synctest.Wait()
		<-one.hooks
		b.want("while there is a holder", "on")
		m.Leave(sub, a)
		b.want("in the end", "on", "off")
	})
}

func (b *bed) join(sub eventtype.Subscription, a eventtype.Arguments) {
	if err := b.members.Join(b.t.Context(), sub, a); err != nil {
		b.t.Error(err)
	}
}

// SRV-3: who joins while OnUnsubscribe runs is a holder anew afterwards, and its own leaving is told. Who does not want
// to wait so long is none.
func TestSRV3JoinWhileTheLastLeaves(t *testing.T) {
	inBubble(t, func(b *bed, _ *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		m := &b.members
		b.join(sub, a)
		b.slow = time.Minute
		go m.Leave(sub, a)
		synctest.Wait()
		go b.join(sub, a)
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := m.Join(ctx, sub, a); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Errorf("who does not wait: %v", err)
		}
		time.Sleep(3 * time.Minute)
		b.want("afterwards", "on", "off", "on")
		m.Leave(sub, a)
		b.want("in the end", "on", "off", "on", "off")
	})
}

// SRV-3: two that leave after each other's turn was decided: the second finds another membership under the
// id, of somebody who came in between, and leaves it alone.
func TestSRV3LateLeaveSparesTheNext(t *testing.T) {
	inBubble(t, func(b *bed, _ *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		m := &b.members
		b.join(sub, a)
		one := m.byID[sub.ID]
		one.hooks <- struct{}{}
		go m.Leave(sub, a)
		synctest.Wait()
		m.mu.Lock()
		delete(m.byID, sub.ID) // as the first of the two does
		m.mu.Unlock()
		one.on = false
		b.join(sub, a)
		<-one.hooks
		synctest.Wait()
		m.Leave(sub, a)
		b.want("hooks", "on", "on", "off")
	})
}

// POLL-8: a lease lasts as long as the poll that asked for most, and what it kept is given back.
func TestPOLL8Lapses(t *testing.T) {
	inBubble(t, func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		for _, d := range []time.Duration{30 * time.Second, 5 * time.Second} {
			if _, err := b.Renew(b.t.Context(), et, sub, a, d); err != nil {
				b.t.Fatal(err)
			}
		}
		if n := b.charged["ann"]; n != overhead+len("ann")+len(`{}`) {
			b.t.Errorf("charged %d bytes", n)
		}
		time.Sleep(29 * time.Second)
		b.want("before", "on")
		if _, err := b.Renew(b.t.Context(), et, sub, a, 10*time.Second); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		b.want("prolonged", "on")
		time.Sleep(time.Second)
		b.want("after", "on", "off")
	})
}

// POLL-8, SRV-3: a lease that ends while its OnSubscribe runs has its OnUnsubscribe all the same, and is gone.
func TestPOLL8EndedWhileBeginning(t *testing.T) {
	inBubble(t, func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		b.slow = time.Second
		go b.Renew(b.t.Context(), et, sub, a, time.Minute)
		synctest.Wait()
		b.Of(sub.ID).Terminate(nil)
		time.Sleep(time.Minute)
		b.want("hooks", "on", "off")
	})
}

// POLL-8: a timer that fires while its lease is ended, with time left, does not wait once more: nothing
// of an ended lease is kept.
func TestPOLL8EndedStaysEnded(t *testing.T) {
	inBubble(t, func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		if _, err := b.Renew(b.t.Context(), et, sub, a, time.Minute); err != nil {
			b.t.Fatal(err)
		}
		l := b.Of(sub.ID)
		b.EndType(eventtypetest.New(b.t, "other", eventtypetest.Options{}))
		b.want("another type ends", "on")
		b.EndType(et)
		b.removeExpired(l) // as a timer does that had fired when it was to be stopped
		if l.timer.Stop() {
			b.t.Error("the timer of an ended lease runs")
		}
		b.want("in the end", "on", "off")
	})
}

// POLL-8: polls of one subscription that come while OnSubscribe runs wait for its answer. Where the first of them goes
// away meanwhile, the next one asks again.
func TestPOLL8Overlap(t *testing.T) {
	inBubble(t, func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		b.slow, b.refuse = time.Second, events.ErrForbidden
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if _, err := b.Renew(b.t.Context(), et, sub, a, time.Minute); !errors.Is(err, events.ErrForbidden) {
					b.t.Errorf("refused: %v", err)
				}
			})
		}
		group.Wait()
		b.want("asked once for all", "on")
		b.empty()

		b.refuse = nil
		ctx, cancel := context.WithCancel(b.t.Context())
		group.Go(func() {
			if _, err := b.Renew(ctx, et, sub, a, time.Minute); !errors.Is(err, context.Canceled) {
				b.t.Errorf("who went away: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			short, cancel := context.WithTimeout(b.t.Context(), time.Millisecond)
			defer cancel()
			if _, err := b.Renew(short, et, sub, a, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
				b.t.Errorf("who did not wait: %v", err)
			}
		})
		group.Go(func() {
			if _, err := b.Renew(b.t.Context(), et, sub, a, time.Minute); err != nil {
				b.t.Errorf("the next one: %v", err)
			}
		})
		cancel()
		group.Wait()
		b.want("asked again", "on", "on", "on")
		time.Sleep(2 * time.Minute)
	})
}

// CAP-5: a lease beyond the principal's bound is refused, but to nobody in particular of whom no hook wants to hear.
func TestCAP5Leases(t *testing.T) {
	inBubble(t, func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		b.bound = overhead
		nobody, _ := subscription(b.t, et, "")
		for _, s := range []eventtype.Subscription{sub, nobody} {
			if _, err := b.Renew(b.t.Context(), et, s, a, time.Minute); !errors.Is(err, events.ErrResourceExhausted) {
				b.t.Errorf("%q: %v", s.Principal, err)
			}
		}
		b.deaf = true
		if _, err := b.Renew(b.t.Context(), et, nobody, a, time.Minute); err != nil {
			b.t.Error(err)
		}
	})
}

// What operators see of a poller: how far behind its last poll left it, of a type that has a log.
func TestInfo(t *testing.T) {
	inBubble(t, func(b *bed, et *eventtypetest.Type, sub eventtype.Subscription, a eventtype.Arguments) {
		began := time.Now()
		if _, err := b.Renew(b.t.Context(), et, sub, a, time.Minute); err != nil {
			b.t.Fatal(err)
		}
		l := b.Of(sub.ID)
		if i := l.Info(); l.Type() != et || l.Subscription() != sub || i.Subscription != sub.ID || i.Principal != "ann" || i.Event != "e" || i.Mode != wire.ModePoll || !i.Since.Equal(began) {
			b.t.Errorf("%+v", i)
		}
		if l.Behind() != nil {
			b.t.Error("it is known how far behind a poller is that has not read")
		}
		for _, id := range strings.Fields("a b c") {
			et.Emit(eventtypetest.Incident{ID: id})
		}
		b.Reached(sub.ID, 1)
		b.Reached("sub_unknown", 1)
		if n := l.Behind(); n == nil || *n != 2 {
			b.t.Errorf("behind by %v", n)
		}
		b.Close()
		b.want("closed", "on", "off")
		if _, err := b.Renew(b.t.Context(), et, sub, a, time.Minute); err == nil {
			b.t.Error("a lease is taken after Close")
		}
		if b.Of(sub.ID) != nil {
			b.t.Error("an ended lease is found")
		}
	})
}
