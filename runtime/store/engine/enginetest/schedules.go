package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// TestSchedules runs the test suite for [engine.Schedules]; open returns an empty store. See MCPE-DEL-6.
func TestSchedules(t *testing.T, open func(t *testing.T) engine.Schedules) {
	t.Run("MCPE-DEL-6: schedules come back as they were put", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		next := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
		for _, v := range []engine.Schedule{{ID: "b", Owner: "ann"}, {ID: "a", Owner: "bob", NextRun: next, Record: json.RawMessage(`{"n":1}`)}, {ID: "b", Owner: "ann", Record: json.RawMessage(`{"n":2}`)}} {
			if err := s.PutSchedule(ctx, v); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.Schedules(ctx, "", 10)
		if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "b" {
			t.Fatalf("Schedules = %+v, %v", all, err)
		}
		if a, b := all[0], all[1]; !a.NextRun.Equal(next) || a.Owner != "bob" || string(a.Record) != `{"n":1}` || !b.NextRun.IsZero() || string(b.Record) != `{"n":2}` {
			t.Fatalf("Schedules = %+v", all)
		}
		if page, err := s.Schedules(ctx, "a", 1); err != nil || len(page) != 1 || page[0].ID != "b" {
			t.Fatalf("second page = %+v, %v", page, err)
		}
		if err := s.DeleteSchedule(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteSchedule(ctx, "a"); err != nil {
			t.Fatalf("second deletion: %v", err)
		}
		if all, err := s.Schedules(ctx, "", 10); err != nil || len(all) != 1 {
			t.Fatalf("Schedules = %+v, %v", all, err)
		}
	})
	t.Run("MCPE-DEL-6: queues and the source's cursor change atomically", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		putSchedules(t, s, "a", "b")
		if _, ok, err := s.IntakeCursor(ctx, "src"); ok || err != nil {
			t.Fatalf("cursor before any intake: %v, %v", ok, err)
		}
		dropped, err := s.Intake(ctx, engine.Intake{Source: "src", Cursor: "7", Items: queueItems("a:1", "b:1", "gone:1", "a:2")})
		if err != nil || len(dropped) != 0 {
			t.Fatalf("Intake = %v, %v", dropped, err)
		}
		if c, ok, err := s.IntakeCursor(ctx, "src"); c != "7" || !ok || err != nil {
			t.Fatalf("cursor = %q, %v, %v", c, ok, err)
		}
		wantQueue(t, s, "a", "1 2")
		wantQueue(t, s, "b", "1")
		wantQueue(t, s, "gone", "")
		q, err := s.Queue(ctx, "a", 0, 1)
		if err != nil || len(q) != 1 {
			t.Fatalf("Queue = %v, %v", q, err)
		}
		if rest, err := s.Queue(ctx, "a", q[0].Sequence, 10); err != nil || len(rest) != 1 || string(rest[0].Body) != "2" {
			t.Fatalf("the rest = %v, %v", rest, err)
		}
		if err := s.ForgetIntake(ctx, "src"); err != nil {
			t.Fatal(err)
		}
		if _, ok, _ := s.IntakeCursor(ctx, "src"); ok {
			t.Fatal("the cursor is not forgotten")
		}
	})
	t.Run("MCPE-DEL-2: beyond the bound the oldest are dropped and counted", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		putSchedules(t, s, "a", "b")
		dropped, err := s.Intake(ctx, engine.Intake{Items: queueItems("a:1", "a:2", "b:1", "a:3", "a:4"), Limit: 3})
		if err != nil || len(dropped) != 1 || dropped["a"] != 1 {
			t.Fatalf("Intake = %v, %v", dropped, err)
		}
		dropped, err = s.Intake(ctx, engine.Intake{Items: queueItems("a:5", "a:6"), Limit: 3})
		if err != nil || dropped["a"] != 2 {
			t.Fatalf("Intake = %v, %v", dropped, err)
		}
		wantQueue(t, s, "a", "4 5 6")
		wantQueue(t, s, "b", "1")
	})
	t.Run("MCPE-DEL-2: settled occurrences are deleted, later ones stay", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		putSchedules(t, s, "a")
		if _, err := s.Intake(ctx, engine.Intake{Items: queueItems("a:1", "a:2", "a:3")}); err != nil {
			t.Fatal(err)
		}
		q, _ := s.Queue(ctx, "a", 0, 2)
		if err := s.Settle(ctx, engine.Schedule{ID: "a", Owner: "x", Record: json.RawMessage(`{}`)}, q[1].Sequence); err != nil {
			t.Fatal(err)
		}
		wantQueue(t, s, "a", "3")
		if all, _ := s.Schedules(ctx, "", 10); len(all) != 1 || all[0].Owner != "x" {
			t.Fatalf("Schedules = %+v", all)
		}
		if err := s.DeleteSchedule(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(ctx, engine.Schedule{ID: "a"}, 99); err != nil {
			t.Fatal(err)
		}
		if all, _ := s.Schedules(ctx, "", 10); len(all) != 0 {
			t.Fatalf("a deleted schedule came back: %+v", all)
		}
		putSchedules(t, s, "a")
		wantQueue(t, s, "a", "")
	})
	t.Run("concurrent intakes lose nothing", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		putSchedules(t, s, "a")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 10 {
					if _, err := s.Intake(ctx, engine.Intake{Source: fmt.Sprint(i), Cursor: fmt.Sprint(j), Items: queueItems("a:1")}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		q, err := s.Queue(ctx, "a", 0, 1000)
		if err != nil || len(q) != 80 || !slices.IsSortedFunc(q, func(a, b engine.Queued) int { return int(a.Sequence) - int(b.Sequence) }) {
			t.Fatalf("%d queued, %v", len(q), err)
		}
	})
	t.Run("a context that has ended", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s.PutSchedule(ctx, engine.Schedule{ID: "a"}) == nil {
			t.Error("PutSchedule succeeds")
		}
		if _, err := s.Intake(ctx, engine.Intake{}); err == nil {
			t.Error("Intake succeeds")
		}
		if _, err := s.Queue(ctx, "a", 0, 1); err == nil {
			t.Error("Queue succeeds")
		}
	})
}

func putSchedules(t *testing.T, s engine.Schedules, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := s.PutSchedule(t.Context(), engine.Schedule{ID: id, Record: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

// queueItems parses strings of the form "schedule:number" into queue items.
func queueItems(texts ...string) []engine.Queued {
	var all []engine.Queued
	for _, text := range texts {
		n := len(text) - 1
		all = append(all, engine.Queued{Schedule: text[:n-1], Body: json.RawMessage(text[n:])})
	}
	return all
}

func wantQueue(t *testing.T, s engine.Schedules, id, want string) {
	t.Helper()
	q, err := s.Queue(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for i, e := range q {
		if i > 0 {
			got += " "
		}
		got += string(e.Body)
		if e.Schedule != id {
			t.Fatalf("an item of %s in the queue of %s", e.Schedule, id)
		}
	}
	if got != want {
		t.Fatalf("queue of %s is %q, want %q", id, got, want)
	}
	if n, err := s.CountQueued(t.Context(), id); err != nil || n != len(q) {
		t.Fatalf("CountQueued = %d, %v; want %d", n, err, len(q))
	}
}
