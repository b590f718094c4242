package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// TestDeadLetters runs the test suite for [clientstore.DeadLetterStore]; open returns an empty store.
func TestDeadLetters(t *testing.T, open func(t *testing.T) clientstore.DeadLetterStore) {
	letter := func(key, id string) clientstore.DeadLetter {
		return clientstore.DeadLetter{Key: key, Event: "note.added", EventID: id, Timestamp: events.NewTime(check.At(1).UTC()),
			Data: json.RawMessage("{ \"a\" : \"<\xff\" }"), Meta: json.RawMessage(`{"m": 1}`), Error: "no", Tries: 5,
			First: check.At(2).UTC(), Last: check.At(3).UTC()}
	}
	put := func(t *testing.T, s clientstore.DeadLetterStore, d clientstore.DeadLetter) {
		t.Helper()
		if err := s.PutDeadLetter(t.Context(), d, 100); err != nil {
			t.Fatal(err)
		}
	}
	all := func(t *testing.T, s clientstore.DeadLetterStore) []clientstore.DeadLetter {
		t.Helper()
		return check.Must(s.DeadLetters(t.Context(), 0, 100))(t)
	}
	t.Run("CON-4 letters are stored unchanged, in order", func(t *testing.T) {
		s := open(t)
		a, b, unread := letter("k", "a"), letter("other", "b"), clientstore.DeadLetter{Key: "k", Event: "note.added", Data: json.RawMessage("["), Error: "no JSON"}
		for _, d := range []clientstore.DeadLetter{a, b, unread, unread} {
			put(t, s, d)
		}
		got := all(t, s)
		if len(got) != 4 {
			t.Fatalf("%d letters, want 4: those without an id are all kept", len(got))
		}
		for i, want := range []clientstore.DeadLetter{a, b, unread, unread} {
			if want.Sequence = got[i].Sequence; i > 0 && got[i].Sequence <= got[i-1].Sequence {
				t.Errorf("sequence %d after %d", got[i].Sequence, got[i-1].Sequence)
			}
			if !reflect.DeepEqual(got[i], want) {
				t.Errorf("got  %+v\nwant %+v", got[i], want)
			}
		}
		page := check.Must(s.DeadLetters(t.Context(), got[0].Sequence, 2))(t)
		if len(page) != 2 || page[0].Sequence != got[1].Sequence {
			t.Errorf("a page of 2 after the first: %+v", page)
		}
	})
	t.Run("CON-4 the same event is one letter, and its sequence stays", func(t *testing.T) {
		s := open(t)
		put(t, s, letter("k", "a"))
		first := all(t, s)[0]
		again := letter("k", "a")
		again.Error, again.Tries = "still no", 9
		put(t, s, again)
		put(t, s, letter("k2", "a")) // of another subscription
		got := all(t, s)
		if len(got) != 2 || got[0].Sequence != first.Sequence || got[0].Error != "still no" || got[0].Tries != 9 {
			t.Fatalf("%+v", got)
		}
	})
	t.Run("CON-4 a full subscription refuses new letters and keeps the others", func(t *testing.T) {
		s := open(t)
		for _, id := range []string{"a", "b"} {
			put(t, s, letter("k", id))
		}
		if err := s.PutDeadLetter(t.Context(), letter("k", "c"), 2); !errors.Is(err, clientstore.ErrDeadLettersFull) {
			t.Errorf("a third letter of 2: %v", err)
		}
		for _, d := range []clientstore.DeadLetter{letter("k", "b"), letter("k2", "c")} {
			if err := s.PutDeadLetter(t.Context(), d, 2); err != nil {
				t.Errorf("%s %s: %v", d.Key, d.EventID, err)
			}
		}
		if got := all(t, s); len(got) != 3 {
			t.Errorf("%d letters, want 3", len(got))
		}
	})
	t.Run("CON-4 letters become due, are put back and are deleted", func(t *testing.T) {
		s := open(t)
		ctx := t.Context()
		for _, id := range []string{"a", "b", "c"} {
			put(t, s, letter("k", id))
		}
		got := all(t, s)
		if due := check.Must(s.DueDeadLetters(ctx, "k", 0, 10))(t); len(due) != 0 {
			t.Fatalf("due: %+v", due)
		}
		for _, d := range got[:2] {
			if !check.Must(s.RetryDeadLetter(ctx, d.Sequence))(t) {
				t.Fatal("not found")
			}
		}
		due := check.Must(s.DueDeadLetters(ctx, "k", 0, 10))(t)
		if len(due) != 2 || !due[0].Due || due[1].EventID != "b" {
			t.Fatalf("due: %+v", due)
		}
		if other := check.Must(s.DueDeadLetters(ctx, "other", 0, 10))(t); len(other) != 0 {
			t.Fatalf("keys are mixed: %+v", other)
		}
		if rest := check.Must(s.DueDeadLetters(ctx, "k", due[0].Sequence, 10))(t); len(rest) != 1 || rest[0].EventID != "b" {
			t.Fatalf("due after the first: %+v", rest)
		}
		failed := due[0]
		failed.Due, failed.Tries = false, 10
		put(t, s, failed)
		if !check.Must(s.DeleteDeadLetter(ctx, due[1].Sequence))(t) {
			t.Fatal("not found")
		}
		for _, f := range []func(context.Context, uint64) (bool, error){s.DeleteDeadLetter, s.RetryDeadLetter} {
			if check.Must(f(ctx, due[1].Sequence))(t) {
				t.Error("found a deleted letter")
			}
		}
		put(t, s, due[1]) // it was dropped meanwhile
		put(t, s, letter("k", "d"))
		after := all(t, s)
		if len(after) != 3 || after[0].Tries != 10 || after[0].Due || after[2].EventID != "d" || after[2].Sequence <= got[2].Sequence {
			t.Fatalf("%+v", after)
		}
	})
	t.Run("CON-4 a sequence is never used again", func(t *testing.T) {
		s := open(t)
		put(t, s, letter("k", "a"))
		old := all(t, s)[0].Sequence
		check.Must(s.DeleteDeadLetter(t.Context(), old))(t)
		put(t, s, letter("k", "b"))
		if now := all(t, s)[0].Sequence; now <= old {
			t.Errorf("sequence %d after %d", now, old)
		}
	})
	t.Run("A cancelled context changes nothing", func(t *testing.T) {
		s := open(t)
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.PutDeadLetter(dead, letter("k", "a"), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("put: %v", err)
		}
		if got := all(t, s); len(got) != 0 {
			t.Error("put despite the cancelled context")
		}
	})
	t.Run("Concurrent puts keep to the bound", func(t *testing.T) {
		s := open(t)
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 5 {
					err := s.PutDeadLetter(t.Context(), letter("k", fmt.Sprint(w, "-", i)), 10)
					if err != nil && !errors.Is(err, clientstore.ErrDeadLettersFull) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := all(t, s); len(got) != 10 {
			t.Errorf("%d letters of 10", len(got))
		}
	})
}
