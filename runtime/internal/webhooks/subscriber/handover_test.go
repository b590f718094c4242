package subscriber_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// REP-9, SRV-8: processes that hand the shard over in order deliver nothing twice, while an operator pauses the
// subscription, and begins and ends replays, at any moment. Each gap that the operator reports is signaled.
func TestREP9HandedOverInOrder(t *testing.T) {
	rounds := 10
	if sampletest.Whole() {
		rounds = 500
	}
	for range rounds {
		bubble(t, handOver)
		if t.Failed() {
			return
		}
	}
}

func handOver(t *testing.T, f *deployment) {
	var mu sync.Mutex
	accepted := map[string]int{}
	f.r.on(func(d *received) int {
		time.Sleep(rand.N(100 * time.Millisecond))
		if rand.N(30) == 0 {
			return http.StatusServiceUnavailable
		}
		mu.Lock()
		defer mu.Unlock()
		accepted[d.what]++
		return http.StatusNoContent
	})
	slow := func(p *process) *process {
		p.inject([]string{""}, func() error {
			time.Sleep(rand.N(30 * time.Millisecond))
			return nil
		})
		return p
	}
	owner, other := slow(f.process()).own(), slow(f.process())
	res := owner.subscribe("ann", origin+"a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	emitted := 0
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for ; ctx.Err() == nil; emitted++ {
			other.typ.Emit(eventtypetest.Incident{ID: fmt.Sprint(emitted)})
			time.Sleep(rand.N(60 * time.Millisecond))
		}
	})
	time.Sleep(while) // a replay of nothing cannot be ended
	tasks.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(rand.N(time.Second))
			if rand.N(2) == 0 {
				replayPaused(t, other, res.ID, *res.Cursor)
				continue
			}
			time.Sleep(while) // until the owner knows that the pause is over
			asked := time.Now()
			ask(t, other, res.ID, store.RequestGap, store.Request{})
			if !slices.ContainsFunc(f.r.to("a"), func(d *received) bool { return d.what == wire.EnvelopeGap && d.at.After(asked) }) {
				t.Errorf("the gap of %v is done, but was not signaled", asked)
			}
		}
	})
	for range 6 {
		time.Sleep(rand.N(4 * time.Second))
		next := slow(f.process())
		owner.stop()
		owner = next.own()
	}
	cancel()
	tasks.Wait()
	time.Sleep(10 * time.Minute)
	mu.Lock()
	defer mu.Unlock()
	delete(accepted, wire.EnvelopeGap)
	for id, n := range accepted {
		if n > 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if len(accepted) != emitted {
		t.Errorf("%d were accepted of %d", len(accepted), emitted)
	}
}

// replayPaused pauses a subscription, begins and ends a replay half of the time, and continues it.
func replayPaused(t *testing.T, p *process, id, cursor string) {
	if err := p.SetPaused(t.Context(), id, true); err != nil {
		t.Error(err)
	}
	time.Sleep(while + rand.N(3*time.Second)) // the attempts in flight at the beginning of a replay do not count
	if rand.N(2) == 0 {
		ask(t, p, id, store.RequestReplay, store.Request{Cursor: cursor})
		time.Sleep(rand.N(200 * time.Millisecond))
		ask(t, p, id, store.RequestReplay, store.Request{Ends: true})
	}
	if err := p.SetPaused(t.Context(), id, false); err != nil {
		t.Error(err)
	}
}

// ask has a request performed, and waits until it is.
func ask(t *testing.T, p *process, id string, kind store.RequestKind, q store.Request) {
	ctx := actor.WithKey(t.Context(), fmt.Sprint(time.Now().UnixNano())) // ask again for the same
	err := errPending
	for errors.Is(err, errPending) {
		err = p.perform(ctx, id, kind, q)
	}
	if err != nil {
		t.Errorf("%s: %v", kind, err)
	}
}
