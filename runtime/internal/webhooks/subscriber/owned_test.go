package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A heldOwnership notes whether it was fenced.
type heldOwnership struct{ fenced int }

func (t *heldOwnership) ShardFence() engine.ShardFence {
	return engine.ShardFence{Shard: engine.Shard{Topic: "e", Number: 1}, Fence: 7}
}
func (t *heldOwnership) Context() context.Context  { return context.Background() }
func (t *heldOwnership) Draining() <-chan struct{} { return nil }
func (t *heldOwnership) Valid() bool               { return t.fenced == 0 }
func (t *heldOwnership) Fenced()                   { t.fenced++ }

// failingOwned is what an owner writes with, and all fails.
type failingOwned struct {
	engine.Owned
	err error
}

func (s failingOwned) PutSubscription(context.Context, store.Subscription) (uint64, error) {
	return 0, s.err
}

// storedOne has one record.
type storedOne struct {
	engine.Shared
	r       store.Subscription
	there   bool
	readErr error
	admit   func(*storedOne, store.Subscription) (uint64, error)
}

func (s *storedOne) Subscription(context.Context, string) (store.Subscription, bool, error) {
	return s.r, s.there, s.readErr
}

func (s *storedOne) Admit(_ context.Context, r store.Subscription, _ engine.Quota) (uint64, error) {
	return s.admit(s, r)
}

// REP-7 (M11): whoever meets a fence stops owning its shard at once, at a lapse; another failure of the
// store costs nothing.
func TestREP7AFenceEndsThePart(t *testing.T) {
	for _, err := range []error{fmt.Errorf("writing: %w", engine.ErrFenced), errors.New("the store is away")} {
		fenced := errors.Is(err, engine.ErrFenced)
		for what, write := range map[string]func(p *ownedShard){
			"a write": func(p *ownedShard) {
				if p.checkFenced(err) != fenced {
					t.Errorf("%v: lost tells %v", err, !fenced)
				}
			},
			"a lapse": func(p *ownedShard) {
				r := store.Subscription{ID: "s", Event: "e", Generation: 3, ExpiresAt: time.Now().Add(-time.Second)}
				p.owned = failingOwned{err: err}
				if deleted, got := p.deleteLapsed(context.Background(), &r); deleted || got == nil || errors.Is(got, errShardClosed) != fenced {
					t.Errorf("a lapse that fails with %v is %v, %v", err, deleted, got)
				}
			},
		} {
			ownership := &heldOwnership{}
			w := &Subscriptions{}
			w.o.Log = &fault.Log{Logger: slog.New(slog.DiscardHandler)}
			p := &ownedShard{w: w, ownership: ownership, whole: true}
			write(p)
			if (ownership.fenced > 0) != fenced {
				t.Errorf("%s that fails with %q: fenced %d times", what, err, ownership.fenced)
			}
		}
	}
}

// REP-12, ERR-2 (M12): where the answer to an admission is lost, the store is asked what has become of it.
func TestREP12LostAnswerToAnAdmission(t *testing.T) {
	away := errors.New("connection lost")
	for name, c := range map[string]struct {
		admit   func(*storedOne, store.Subscription) (uint64, error)
		readErr error
		want    error
	}{
		"stored": {admit: func(s *storedOne, r store.Subscription) (uint64, error) {
			s.r, s.there = r, true
			s.r.Revision = 9
			return 0, away
		}},
		"not stored": {admit: func(*storedOne, store.Subscription) (uint64, error) { return 0, away }, want: away},
		"another one's": {admit: func(s *storedOne, r store.Subscription) (uint64, error) {
			s.r, s.there = r, true
			s.r.Generation++
			return 0, away
		}, want: away},
		"nobody can tell": {admit: func(s *storedOne, r store.Subscription) (uint64, error) {
			s.r, s.there = r, true
			return 0, away
		}, readErr: away, want: away},
		"conflict": {admit: func(s *storedOne, r store.Subscription) (uint64, error) {
			s.r, s.there = r, true
			return 0, store.ErrConflict
		}, want: store.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			s := &storedOne{admit: c.admit, readErr: c.readErr}
			w := &Subscriptions{store: s}
			r := store.Subscription{ID: "s", Generation: 3}
			err := w.storeWithQuota(context.Background(), &r)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err == nil && r.Revision != 9 {
				t.Errorf("revision %d", r.Revision)
			}
		})
	}
}

// SRV-8: a record that was read before a request was stored, or after it was performed, begins nothing.
func TestSRV8PerformOfAnOlderRecord(t *testing.T) {
	h := &Live{requests: map[store.RequestKind]*knownRequest{store.RequestGap: {Request: store.Request{Number: 2}}}}
	for number, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		q := store.Request{Number: number}
		if got := h.isNewRequest(store.RequestGap, &q); got != want {
			t.Errorf("%d is new: %v", number, got)
		}
		if q.Done.Number = number; h.isNewRequest(store.RequestEnd, &q) {
			t.Errorf("%d is new although it was performed", number)
		}
	}
}

// SUB-5, SUB-6 (M16): at its very end a subscription is over, as the engine has it.
func TestSUB5Lapsed(t *testing.T) {
	now := time.Now()
	for ends, want := range map[time.Duration]bool{-time.Hour: true, -1: true, 0: true, 1: false, time.Hour: false} {
		if got := Lapsed(&store.Subscription{ExpiresAt: now.Add(ends)}, now); got != want {
			t.Errorf("ends in %v: lapsed is %v", ends, got)
		}
	}
	if Lapsed(&store.Subscription{}, now) {
		t.Error("one without an end has lapsed")
	}
}
