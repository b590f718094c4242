package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// TestSubscriptions runs the test suite for [store.SubscriptionStore]; open returns an empty store.
func TestSubscriptions(t *testing.T, open func(t *testing.T) store.SubscriptionStore) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, store.SubscriptionStore)
	}{
		{"SUB-11 records are returned unchanged", testRecord},
		{"compare and swap", testCompareAndSwap},
		{"a refresh never undoes deliveries", testRefreshKeepsProgress},
		{"trap 6 generations fence late answers", testGenerations},
		{"REP-10 a new generation is stored as open", testOpen},
		{"paging", testPaging},
		{"SUB-8 counts", testCounts},
		{"REP-10 marks of logs", testMarks},
		{"VER-3 verifications", testVerifications},
		{"VER-3 unused verifications are swept", testSweep},
		{"one of many swappers wins", testConcurrentSwap},
		{"cancelled contexts change nothing", testSubscriptionContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func testRecord(t *testing.T, s store.SubscriptionStore) {
	want := check.Put(t, s, check.Subscription("sub_1"))
	if want.Revision == 0 {
		t.Error("revision 0 means that there is no record")
	}
	check.Equal(t, check.Get(t, s, "sub_1"), want)
	bare := check.Put(t, s, store.Subscription{ID: "sub_2", Generation: 1, Arguments: json.RawMessage(`{}`), Secrets: []store.Secret{{Key: []byte("k")}}, Progress: store.Progress{Open: true}})
	check.Equal(t, check.Get(t, s, "sub_2"), bare)
	if _, ok, err := s.Subscription(t.Context(), "sub_3"); ok || err != nil {
		t.Errorf("unknown id: found %v, error %v", ok, err)
	}
}

func testCompareAndSwap(t *testing.T, s store.SubscriptionStore) {
	sub := check.Subscription("sub_1")
	sub.Revision = 3
	if _, err := s.PutSubscription(t.Context(), sub); !errors.Is(err, store.ErrConflict) {
		t.Errorf("put of a revision without a record: %v", err)
	}
	sub.Revision = 0
	first := check.Put(t, s, sub)
	if _, err := s.PutSubscription(t.Context(), sub); !errors.Is(err, store.ErrConflict) {
		t.Errorf("put of a new record over an old one: %v", err)
	}
	second := first
	second.ExpiresAt = check.At(99)
	second = check.Put(t, s, second)
	if second.Revision == first.Revision {
		t.Error("the revision did not change")
	}
	if _, err := s.PutSubscription(t.Context(), first); !errors.Is(err, store.ErrConflict) {
		t.Errorf("put of an old revision: %v", err)
	}
	check.Equal(t, check.Get(t, s, "sub_1"), second)
}

func testRefreshKeepsProgress(t *testing.T, s store.SubscriptionStore) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	progress := store.Progress{Epoch: 5, Base: 100}
	health := store.Health{LastDeliveryAt: check.At(50)}
	report := check.Report(51)
	if err := s.SaveProgress(t.Context(), []store.Update{{ID: sub.ID, Generation: sub.Generation, Progress: progress, Health: health, Report: report}}); err != nil {
		t.Fatal(err)
	}
	sub.RefreshedAt, sub.Truncated, sub.NotBefore, sub.PausedAt = check.At(60), false, check.At(61), check.At(62)
	delete(sub.Requests, store.RequestSend)
	sub = check.Put(t, s, sub) // carries the old progress
	sub.Progress, sub.Health, sub.Report = progress, health, report
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	sub.Generation++
	sub.Progress, sub.Health, sub.Report = store.Progress{Epoch: 6, Base: 1, Open: true}, store.Health{}, nil
	sub = check.Put(t, s, sub)
	check.Equal(t, check.Get(t, s, sub.ID), sub)
}

func testGenerations(t *testing.T, s store.SubscriptionStore) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	other := sub.Generation + 1
	if err := s.SaveProgress(t.Context(), []store.Update{
		{ID: sub.ID, Generation: other, Progress: store.Progress{Base: 1000}},
		{ID: "sub_unknown", Generation: 1},
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSubscription(t.Context(), sub.ID, other); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	if err := s.DeleteSubscription(t.Context(), sub.ID, sub.Generation); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Subscription(t.Context(), sub.ID); ok || err != nil {
		t.Errorf("after deletion: found %v, error %v", ok, err)
	}
	if err := s.DeleteSubscription(t.Context(), sub.ID, sub.Generation); err != nil {
		t.Errorf("deleting twice: %v", err)
	}
}

func testOpen(t *testing.T, s store.SubscriptionStore) {
	sub := check.Subscription("sub_1")
	save := func(u store.Update) {
		t.Helper()
		if err := s.SaveProgress(t.Context(), []store.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	sub.Progress, sub.Health, sub.Report = store.Progress{Epoch: 1, Base: 7}, store.Health{}, nil
	sub = check.Put(t, s, sub)
	sub.Progress.Open = true // always stored so
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	closed := store.Update{ID: sub.ID, Generation: sub.Generation, Progress: store.Progress{Epoch: 1, Base: 9}}
	save(closed)
	sub = check.Put(t, s, sub) // a refresh does not set Open
	sub.Progress = closed.Progress
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	sub.Progress = store.Progress{Epoch: 1, Base: 12, Open: true}
	save(store.Update{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress})
	check.Equal(t, check.Get(t, s, sub.ID), sub)
	save(closed)
	sub.Generation++
	sub.Progress = store.Progress{Epoch: 1, Base: 3}
	sub = check.Put(t, s, sub)
	sub.Progress.Open = true
	save(closed) // a late update of the previous generation
	check.Equal(t, check.Get(t, s, sub.ID), sub)
}

func testPaging(t *testing.T, s store.SubscriptionStore) {
	for i := range 7 {
		check.Put(t, s, check.Subscription(fmt.Sprintf("sub_%d", i)))
	}
	var ids []string
	for after := ""; ; {
		page, err := s.Subscriptions(t.Context(), after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, sub := range page {
			ids = append(ids, sub.ID)
		}
		after = page[len(page)-1].ID
	}
	check.Equal(t, ids, []string{"sub_0", "sub_1", "sub_2", "sub_3", "sub_4", "sub_5", "sub_6"})
}

func testCounts(t *testing.T, s store.SubscriptionStore) {
	for i := range 3 {
		check.Put(t, s, check.Subscription(fmt.Sprintf("sub_%d", i)))
	}
	bob := check.Subscription("sub_bob")
	bob.Principal = "bob"
	check.Put(t, s, bob)
	for principal, want := range map[string]int{"alice": 3, "bob": 1, "carol": 0} {
		own, all, err := s.CountSubscriptions(t.Context(), principal)
		if err != nil || own != want || all != 4 {
			t.Errorf("%s: %d of %d, error %v; want %d of 4", principal, own, all, err, want)
		}
	}
}

func testMarks(t *testing.T, s store.SubscriptionStore) {
	sub := check.Put(t, s, check.Subscription("sub_1"))
	for _, to := range []store.Position{5, 9, 7} { // out of order: the larger position wins
		if err := s.SaveMark(t.Context(), sub.Event, to); err != nil {
			t.Fatal(err)
		}
	}
	for log, want := range map[string]store.Position{sub.Event: 9, "other log": 0} {
		if mark, err := s.Mark(t.Context(), log); mark != want || err != nil {
			t.Errorf("the mark of %s is %d, want %d, error %v", log, mark, want, err)
		}
	}
	check.Equal(t, check.Get(t, s, sub.ID), sub) // a mark does not change subscriptions
}

func testVerifications(t *testing.T, s store.SubscriptionStore) {
	ctx := t.Context()
	want := store.Verification{Principal: "alice", URL: "https://receiver.example/a", Method: "challenge", At: check.At(1), Until: check.At(2)}
	if err := s.PutVerification(ctx, want); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"bob", want.URL}, {"alice", want.URL + "/"}} {
		if _, ok, err := s.Verification(ctx, pair[0], pair[1]); ok || err != nil {
			t.Errorf("%v is verified by another's record: %v, %v", pair, ok, err)
		}
	}
	want.Method, want.Until = "stored", time.Time{}
	if err := s.PutVerification(ctx, want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.Verification(ctx, want.Principal, want.URL)
	if err != nil || !ok {
		t.Fatalf("found %v, error %v", ok, err)
	}
	check.Equal(t, got, want)
	if err := s.DeleteVerification(ctx, want.Principal, want.URL); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Verification(ctx, want.Principal, want.URL); ok || err != nil {
		t.Errorf("after deletion: found %v, error %v", ok, err)
	}
}

func testConcurrentSwap(t *testing.T, s store.SubscriptionStore) {
	base := check.Put(t, s, check.Subscription("sub_1"))
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			switch _, err := s.PutSubscription(t.Context(), base); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d swaps of one revision succeeded", won.Load())
	}
}

func testSubscriptionContext(t *testing.T, s store.SubscriptionStore) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.PutSubscription(ctx, check.Subscription("sub_1")); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if err := s.PutVerification(ctx, store.Verification{Principal: "alice", URL: "u"}); !errors.Is(err, context.Canceled) {
		t.Errorf("verification: %v", err)
	}
	if _, ok, err := s.Subscription(t.Context(), "sub_1"); ok || err != nil {
		t.Errorf("a cancelled put was stored: %v, %v", ok, err)
	}
	if _, ok, err := s.Verification(t.Context(), "alice", "u"); ok || err != nil {
		t.Errorf("a cancelled verification was stored: %v, %v", ok, err)
	}
}

// TestReceived runs the test suite for [clientstore.ReceivedStore]. The function open returns an empty store and the
// cursor store that it saves cursors to.
func TestReceived(t *testing.T, open func(t *testing.T) (clientstore.ReceivedStore, clientstore.CursorStore)) {
	t.Run("CLI-5 bodies wait in order until they are taken", func(t *testing.T) {
		r, cursors := open(t)
		ctx := t.Context()
		var bodies []json.RawMessage
		for i := range 5 {
			body := json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
			bodies = append(bodies, body)
			fresh, err := r.PutReceived(ctx, "k", clientstore.Received{EventID: fmt.Sprint("e", i), Body: body})
			if err != nil || !fresh {
				t.Fatalf("event %d: fresh %v, error %v", i, fresh, err)
			}
		}
		if fresh, err := r.PutReceived(ctx, "k", clientstore.Received{EventID: "e2", Body: bodies[0]}); fresh || err != nil {
			t.Errorf("a repeated event: fresh %v, error %v", fresh, err)
		}
		if fresh, err := r.PutReceived(ctx, "other", clientstore.Received{EventID: "e2", Body: bodies[0]}); !fresh || err != nil {
			t.Errorf("the same id under another key: fresh %v, error %v", fresh, err)
		}
		all, err := r.Received(ctx, "k", 0, 100)
		if err != nil || len(all) != 5 {
			t.Fatalf("%d bodies, error %v", len(all), err)
		}
		for i, e := range all {
			check.Equal(t, string(e.Body), string(bodies[i]))
			if i > 0 && e.Sequence <= all[i-1].Sequence {
				t.Error("sequences do not ascend")
			}
		}
		page, err := r.Received(ctx, "k", all[1].Sequence, 2)
		if err != nil {
			t.Fatal(err)
		}
		check.Equal(t, page, all[2:4])
		saved := clientstore.Saved{Cursor: "c3", EventIDs: []string{"e0", "e1", "e2"}}
		if err := r.TakeReceived(ctx, "k", all[2].Sequence, saved); err != nil {
			t.Fatal(err)
		}
		rest, err := r.Received(ctx, "k", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		check.Equal(t, rest, all[3:])
		got, ok, err := cursors.Load(ctx, "k")
		if err != nil || !ok {
			t.Fatalf("cursor: found %v, error %v", ok, err)
		}
		check.Equal(t, got, saved)
	})
	t.Run("CLI-6 a null cursor is not persisted", func(t *testing.T) {
		r, cursors := open(t)
		if _, err := r.PutReceived(t.Context(), "k", clientstore.Received{EventID: "e", Body: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := r.TakeReceived(t.Context(), "k", 1<<62, clientstore.Saved{}); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := cursors.Load(t.Context(), "k"); ok || err != nil {
			t.Errorf("found %v, error %v", ok, err)
		}
	})
}
