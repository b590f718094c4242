package sqlite_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// CON-4, SRV-4: a record of any kind that somebody edited is detected and does not prevent reading the others.
func TestDamagedRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	o := sqlite.Options{Key: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler)}
	ctx := t.Context()
	s := open(t, path, o)
	for _, id := range []string{"a", "b", "c"} {
		_, err := s.PutSubscription(ctx, store.Subscription{ID: id, Event: "e", Generation: 1, Arguments: []byte(`{}`), Secrets: []store.Secret{{Key: []byte("0123456789abcdef")}}})
		err = errors.Join(err, s.Save(ctx, id, clientstore.Saved{Cursor: "at-" + id, EventIDs: []string{"x"}}), s.PutCallback(ctx, id, clientstore.Callback{URL: id}),
			s.PutSchedule(ctx, engine.Schedule{ID: id, Owner: "o", Record: []byte(id)}),
			s.PutDeadLetter(ctx, clientstore.DeadLetter{Key: "k", Event: "e", EventID: id, Data: []byte(`{"n":1}`), Error: "failed", Due: true}, 10))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for table, set := range map[string]string{"subscriptions": "secrets = zeroblob(60) WHERE id = 'b'", "cursors": "event_ids = '[\"x' WHERE key = 'b'",
		"callbacks": "record = '{\"URL' WHERE key = 'b'", "schedules": "record = x'00' WHERE id = 'b'", "dead_letters": "record = '{\"tries' WHERE event_id = 'b'"} {
		exec1(t, path, "UPDATE "+table+" SET "+set)
	}
	s = open(t, path, o)
	listed, err := s.ListSubscriptions(ctx, "", 10, false)
	if err != nil || len(listed) != 3 || listed[0].Unreadable != "" || listed[1].Unreadable == "" || listed[2].Unreadable != "" {
		t.Errorf("subscriptions: %+v, %v", listed, err)
	}
	if subs, err := s.Subscriptions(ctx, "", 10); err != nil || len(subs) != 2 {
		t.Errorf("readable subscriptions: %+v, %v", subs, err)
	}
	for _, id := range []string{"a", "b", "c"} {
		saved, _, err := s.Load(ctx, id)
		if damaged := errors.Is(err, sqlite.ErrCorrupt) && strings.Contains(err.Error(), `cursor "b"`); damaged != (id == "b") || !damaged && saved.Cursor != "at-"+id {
			t.Errorf("cursor %s: %+v, %v", id, saved, err)
		}
		cb, _, err := s.Callback(ctx, id)
		if damaged := errors.Is(err, sqlite.ErrCorrupt) && strings.Contains(err.Error(), `callback "b"`); damaged != (id == "b") || !damaged && cb.URL != id {
			t.Errorf("callback %s: %+v, %v", id, cb, err)
		}
	}
	if schedules, err := s.Schedules(ctx, "", 10); err != nil || len(schedules) != 3 || string(schedules[2].Record) != "c" {
		t.Errorf("schedules: %+v, %v", schedules, err)
	}
	all, err1 := s.DeadLetters(ctx, 0, 10)
	due, err2 := s.DueDeadLetters(ctx, "k", 0, 10)
	if err := errors.Join(err1, err2); err != nil || len(all) != 3 || fmt.Sprint(all) != fmt.Sprint(due) {
		t.Fatalf("dead letters: %+v and %+v, %v", all, due, err)
	}
	if d := all[1]; d.Key != "k" || d.EventID != "b" || string(d.Data) != `{"n":1}` || !strings.Contains(d.Error, "is damaged") || all[2].Error != "failed" {
		t.Errorf("dead letters: %+v", all)
	}
	if found, err := s.DeleteDeadLetter(ctx, all[1].Sequence); !found || err != nil {
		t.Errorf("deleting the damaged one: %v, %v", found, err)
	}
}
