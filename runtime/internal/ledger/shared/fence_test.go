package shared_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// REP-7: each write of an owner checks the hold in its commit. Another process claims the shard right before it.
func TestClaimBeforeCommit(t *testing.T) {
	sub := store.Subscription{ID: "sub_1", Principal: "ann", URL: "https://receiver.example/", Event: "e", Generation: 1, Arguments: json.RawMessage(`{}`)}
	for name, write := range map[string]func(ctx context.Context, o domain.Owned) error{
		"PutSubscription": func(ctx context.Context, o domain.Owned) error {
			_, err := o.PutSubscription(ctx, sub)
			return err
		},
		"DeleteSubscription": func(ctx context.Context, o domain.Owned) error { return o.DeleteSubscription(ctx, sub.ID, 1) },
		"SaveProgress": func(ctx context.Context, o domain.Owned) error {
			return o.SaveProgress(ctx, []store.Update{{ID: sub.ID, Generation: 1}})
		},
		"SaveMark":                func(ctx context.Context, o domain.Owned) error { return o.SaveMark(ctx, "e", 1) },
		"SaveMark of another log": func(ctx context.Context, o domain.Owned) error { return o.SaveMark(ctx, "f", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), memory.NewDB()
			var before func()
			a := on(t, faults.Wrap(db.Open(), faults.Plan{Before: func(c faults.Call) faults.Fault {
				if f := before; c.Commit != nil && f != nil {
					before = nil
					f()
				}
				return faults.None
			}}), true)
			b := on(t, db.Open(), true)
			var err error
			sub.Revision = 0
			if sub.Revision, err = a.PutSubscription(ctx, sub); err != nil {
				t.Fatal(err)
			}
			claim := func(s domain.Shared, of uint64) uint64 {
				l, err := s.Join(ctx, "r", time.Minute, nil)
				if err != nil {
					t.Fatal(err)
				}
				won, err := s.Claim(ctx, l.Fence, []domain.Hold{{Shard: domain.Shard{Topic: "e"}, Fence: of}})
				if len(won) != 1 || err != nil {
					t.Fatalf("won %v, %v", won, err)
				}
				return l.Fence
			}
			fence := claim(a, 0)
			before = func() {
				if err := b.Leave(ctx, fence); err != nil {
					t.Error(err)
				}
				claim(b, fence)
			}
			err = write(ctx, a.Owned(domain.Hold{Shard: domain.Shard{Topic: "e"}, Fence: fence}))
			if !errors.Is(err, domain.ErrFenced) || before != nil {
				t.Errorf("got %v", err)
			}
			if now, ok, err := b.Subscription(ctx, sub.ID); !ok || err != nil || now.Revision != sub.Revision || !now.Progress.Open {
				t.Errorf("the record is %+v, %t, %v", now, ok, err)
			}
		})
	}
}
