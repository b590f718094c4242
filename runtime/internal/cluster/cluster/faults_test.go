package cluster

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A backlogged store has an outbox whose oldest occurrence has waited for that many nanoseconds, if it can be read.
type backlogged struct {
	*memcluster.Store
	waits  atomic.Int64
	hidden atomic.Bool
}

func (b *backlogged) Sequence(ctx context.Context, h engine.ShardFence, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (engine.Sequenced, error) {
	if b.hidden.Load() {
		return engine.Sequenced{}, errors.New("no such table")
	}
	done, err := b.Store.Sequence(ctx, h, limit, check)
	done.Oldest = time.Duration(b.waits.Load())
	return done, err
}

// K10: a fault of a process in the cluster is logged once a minute while it lasts.
func TestREP6IllsAreSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		st := &backlogged{Store: c.Open()}
		a := join(t, st, nil)
		a.register("e", "string")
		settle(10 * time.Second)
		said := func(what string, words string, want int) {
			t.Helper()
			if got := strings.Count(a.log(), words); got != want {
				t.Errorf("%s: %q was said %d times, want %d", what, words, got, want)
			}
		}
		const noLease, deaf, waits = "no lease", "does not receive orders", "wait in the outbox"
		said("all is well", "level=WARN", 0)
		failing(st.Store, "") // everything
		settle(3*time.Minute + 30*time.Second)
		text := a.log()
		for _, words := range []string{noLease, deaf} {
			if n := strings.Count(text, words); n < 3 || n > 4 {
				t.Errorf("cut off: %q was said %d times in three minutes", words, n)
			}
		}
		st.Inject(memcluster.Faults{})
		settle(time.Minute)
		a.log()
		settle(5 * time.Minute)
		said("it is over", noLease, 0)

		// The owner of the outbox knows how long occurrences have waited.
		st.waits.Store(int64(2 * time.Minute))
		settle(2*time.Minute + 30*time.Second)
		if a.OutboxAge() != 2*time.Minute {
			t.Errorf("it has waited for %v", a.OutboxAge())
		}
		if n := strings.Count(a.log(), waits); n < 2 || n > 3 {
			t.Errorf("%q was said %d times", waits, n)
		}
		st.waits.Store(0)
		settle(time.Minute)
		a.log()
		settle(time.Minute)
		said("the outbox is empty", waits, 0)

		// It also knows how long they may have waited if the outbox cannot be read.
		st.hidden.Store(true)
		settle(2*time.Minute + 30*time.Second)
		if age := a.OutboxAge(); age < 2*time.Minute || age > 3*time.Minute {
			t.Errorf("an outbox that cannot be looked at: %v", age)
		}
		if n := strings.Count(a.log(), waits); n != 2 {
			t.Errorf("%q was said %d times", waits, n)
		}
		st.hidden.Store(false)
		settle(5 * time.Second)
		if age := a.OutboxAge(); age != 0 {
			t.Errorf("it can be looked at again: %v", age)
		}
	})
}
