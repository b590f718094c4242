package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// twoAlone opens one new store of the single server twice, as two processes do. Each looks at logs only on request,
// and gets no republished messages.
func twoAlone(t *testing.T) (a, b *jetstream.Store) {
	t.Helper()
	o := jetstream.Options{Namespace: space(), Single: true, Poll: time.Hour}
	a, b = open(t, alone.ClientURL(), o), open(t, alone.ClientURL(), o)
	a.Deafen()
	b.Deafen()
	return a, b
}

// passes makes another process take over the shard of h.
func passes(t *testing.T, to *jetstream.Store, h engine.ShardFence) engine.ShardFence {
	t.Helper()
	if err := to.Leave(t.Context(), h.Fence); err != nil {
		t.Fatal(err)
	}
	lease := check.Must(to.Join(t.Context(), "heir", time.Minute, nil, nil))(t)
	if won := check.Must(to.Claim(t.Context(), lease.Fence, []engine.ShardFence{h}))(t); len(won) != 1 {
		t.Fatal("the shard cannot be claimed")
	}
	h.Fence = lease.Fence
	return h
}

// An owner that pauses between its reads and its writes writes nothing after another process has claimed the shard
// (JS-22, REP-7).
func TestLateWrites(t *testing.T) {
	ctx := t.Context()
	for name, write := range map[string]func(o engine.Owned, sub store.Subscription) error{
		"SaveProgress": func(o engine.Owned, sub store.Subscription) error {
			sub.Progress.Base = 90
			return o.SaveProgress(ctx, []store.Update{{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress}})
		},
		"SaveAttempts": func(o engine.Owned, sub store.Subscription) error {
			return o.SaveAttempts(ctx, []store.Update{{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress}},
				[][]operator.Attempt{{{EventID: "e", At: check.At(1)}}})
		},
		"SaveMark": func(o engine.Owned, _ store.Subscription) error { return o.SaveMark(ctx, "log", 90) },
		"PutSubscription": func(o engine.Owned, sub store.Subscription) error {
			sub.Truncated = !sub.Truncated
			_, err := o.PutSubscription(ctx, sub)
			return err
		},
		"DeleteSubscription": func(o engine.Owned, sub store.Subscription) error {
			return o.DeleteSubscription(ctx, sub.ID, sub.Generation)
		},
		"Subscriptions": func(o engine.Owned, _ store.Subscription) error {
			_, err := o.Subscriptions(ctx, "", 9)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := twoAlone(t)
			sub := check.Put(t, b, inShard("sub_1", 0))
			h := owns(t, a, 0)
			if err := a.Owned(h).SaveMark(ctx, "log", 8); err != nil {
				t.Fatal(err)
			}
			stands, goes := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			a.Between(func() {
				if once.CompareAndSwap(false, true) {
					close(stands)
					<-goes
				}
			})
			written := make(chan error, 1)
			go func() { written <- write(a.Owned(h), sub) }()
			select {
			case <-stands:
			case err := <-written:
				t.Fatalf("it has not stood still: %v", err)
			}
			heir := b.Owned(passes(t, b, h))
			close(goes)
			if err := <-written; !errors.Is(err, engine.ErrFenced) {
				t.Errorf("the late write: %v", err)
			}
			check.Equal(t, check.Must(heir.Subscriptions(ctx, "", 9))(t), []store.Subscription{sub})
			if mark, err := heir.Mark(ctx, "log"); mark != 8 || err != nil {
				t.Errorf("Mark = %d, %v", mark, err)
			}
			if made, err := b.Attempts(ctx, sub.ID, 9); len(made) != 0 || err != nil {
				t.Errorf("attempts %v, %v", made, err)
			}
		})
	}
}

// An admission that read the count before another one took the last place is refused (REP-12).
func TestLateAdmission(t *testing.T) {
	a, b := twoAlone(t)
	q := engine.Quota{All: 1}
	first, late := inShard("sub_1", 0), inShard("sub_2", 0)
	first.Principal, late.Principal = "p1", "p2"
	var once atomic.Bool
	a.Between(func() {
		if once.CompareAndSwap(false, true) {
			if _, err := b.Admit(t.Context(), first, q); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := a.Admit(t.Context(), late, q); !errors.Is(err, engine.ErrQuota) {
		t.Errorf("the late admission: %v", err)
	}
	if !once.Load() {
		t.Error("no admission came in between")
	}
}

// If storing progress fails after some batches, it returns an error: each record has the old or the new progress, and
// the owner does not move the mark (JS-26, REP-10).
func TestProgressEndsBetween(t *testing.T) {
	s := single(t)
	const n = 250 // a batch has 200
	var updates []store.Update
	for i := range n {
		sub := check.Put(t, s, inShard(fmt.Sprintf("sub_%03d", i), 0))
		updates = append(updates, store.Update{ID: sub.ID, Generation: sub.Generation, Progress: store.Progress{Epoch: 1, Base: 90}})
	}
	owner := s.Owned(owns(t, s, 0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var steps atomic.Int32
	s.Between(func() {
		if steps.Add(1) == 2 {
			cancel()
		}
	})
	if err := owner.SaveProgress(ctx, updates); err == nil {
		t.Fatal("it has not ended in between")
	}
	s.Between(func() {})
	stored := 0
	for _, sub := range check.Must(owner.Subscriptions(t.Context(), "", n))(t) {
		switch p := sub.Progress; {
		case p.Base == 90 && !p.Open:
			stored++
		case p.Base == 90 || !p.Open:
			t.Errorf("%s is stored as %+v", sub.ID, p)
		}
	}
	if stored == 0 || stored == n {
		t.Errorf("%d of %d updates are stored", stored, n)
	}
}

// A process that has not heard of a log's new epoch cannot append under the old one (JS-12).
func TestLateAppend(t *testing.T) {
	a, b := twoAlone(t)
	late := check.OpenLog(t, b, "log", bounded)
	check.Add(t, late, 10)
	l := check.OpenLog(t, a, "log", bounded)
	putBack(t, alone.ClientURL(), strings.ToUpper(a.Namespace())+"_L_log", 4)
	if _, err := l.(engine.Log).CatchUp(t.Context(), 99); !errors.Is(err, engine.ErrNewEpoch) {
		t.Fatalf("CatchUp: %v", err)
	}
	now := check.OpenLog(t, a, "log", bounded)
	if p, err := late.Append(t.Context(), check.Entry("late")); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("Append = %d, %v", p, err)
	}
	check.Once(t, now, check.Entry("x"), 0, 5, true)
}

// A message that cannot be sent is reported as unsent, and is not sent later (JS-34).
func TestUnsent(t *testing.T) {
	x := start(options(t.TempDir()))
	s := open(t, x.ClientURL(), jetstream.Options{Namespace: "unsent", Single: true})
	l := check.OpenLog(t, s, "log", bounded)
	stop(x)
	eventually(t, "the connection has ended", func() bool { return !s.Connected() })
	if _, err := l.Append(t.Context(), check.Entry("x")); err == nil || errors.Is(err, store.ErrUncertain) {
		t.Errorf("Append: %v", err)
	}
}

// The servers' stamps decide when a lease ends, not the time of a process (JS-19, JS-33).
func TestLeaseByStamps(t *testing.T) {
	a, b := twoAlone(t)
	lease := check.Must(a.Join(t.Context(), "r", time.Minute, nil, nil))(t)
	if ahead := b.Hear(time.Now().Add(time.Hour)); ahead < 59*time.Minute {
		t.Fatalf("%v ahead", ahead)
	}
	if c := check.Must(b.Cluster(t.Context()))(t); len(c.Replicas) != 1 {
		t.Errorf("%+v", c.Replicas)
	}
	if _, err := a.Renew(t.Context(), lease.Fence, time.Minute, nil, nil); err != nil {
		t.Error(err)
	}
}
