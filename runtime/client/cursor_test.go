package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// numbered streams the events after the given cursor, cN being the position after eN.
func numbered(last int) func(st *fakeStream) (any, *jsonrpc.Error) {
	return func(st *fakeStream) (any, *jsonrpc.Error) {
		from := 0
		if st.p.Cursor != nil {
			fmt.Sscanf(*st.p.Cursor, "c%d", &from)
		}
		st.active(fmt.Sprint("c", from))
		for i := from + 1; i <= last; i++ {
			st.event(fmt.Sprint("e", i), fmt.Sprint("c", i))
		}
		return hold(st)
	}
}

func saved(t *testing.T, cs clientstore.CursorStore, key string) string {
	t.Helper()
	v, ok, err := cs.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "none"
	}
	return v.Cursor
}

// CLI-6: a cursor is committed when the application asks for the next item or acknowledges, never
// before; after a crash only what was not committed repeats.
func TestCLI6Commit(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		cs := clientmemory.NewCursors()
		f := newFake(c.legacy)
		f.stream = numbered(4)
		cl := connect(t, f, c, Options{Cursors: cs})
		s := subscribe(t, cl, WithCursorKey("k"))
		synctest.Wait()
		if all := cl.Subscriptions(); len(all) != 1 || all[0].CursorKey != "k" {
			t.Errorf("%+v", all)
		}
		if got := saved(t, cs, "k"); got != "none" {
			t.Errorf("before the application asked: %s", got)
		}
		r := read(t, s)
		r.want("e1")
		if got := saved(t, cs, "k"); got != "c0" {
			t.Errorf("while e1 is in hand: %s", got)
		}
		r.want("e2")
		if got := saved(t, cs, "k"); got != "c1" {
			t.Errorf("while e2 is in hand: %s", got)
		}
		if err := s.Subscription().Ack(); err != nil {
			t.Fatal(err)
		}
		if got := saved(t, cs, "k"); got != "c2" {
			t.Errorf("after Ack: %s", got)
		}
		r.want("e3")
		r.stop() // left with break, as a crash would leave it
		s.Close()
		if got := saved(t, cs, "k"); got != "c2" {
			t.Errorf("e3 was not committed: %s", got)
		}
		r = read(t, subscribe(t, cl, WithCursorKey("k")))
		r.want("e3", "e4")
	})
}

// CLI-6: who ends a subscription before its first item continues where it began.
func TestCLI6NothingRead(t *testing.T) {
	for _, mode := range []string{"poll", "push"} {
		t.Run(mode, func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c carrier) {
				f := newFake(c.legacy)
				f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1e6), nil }
				f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
					st.active("c0")
					return hold(st)
				}
				s := subscribe(t, connect(t, f, c, Options{Mode: mode}))
				if cursor := s.Subscription().Cursor(); cursor != "c0" {
					t.Errorf("cursor %q", cursor)
				}
				s.Close()
				read(t, s).want("end")
			})
		})
	}
	t.Run("webhook", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			_, cl := hooked(t, c, Options{})
			if cursor := subscribe(t, cl).Subscription().Cursor(); cursor != "c0" {
				t.Errorf("cursor %q", cursor)
			}
		})
	})
}

// CLI-6: in a poll's batch the position is known only at its end; the eventIds committed beside the
// cursor keep the rest from repeating.
func TestCLI6Batch(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		cs := clientmemory.NewCursors()
		f := newFake(c.legacy)
		var from []string
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			from = append(from, cursorOf(p))
			switch cursorOf(p) {
			case "null":
				return polled("c0", false, 0), nil
			case "c0":
				return polled("c3", false, 0, "e1", "e2", "e3"), nil
			}
			return polled("c4", false, 1e6, "e4"), nil
		}
		cl := connect(t, f, c, Options{Cursors: cs, Mode: "poll"})
		s := subscribe(t, cl)
		r := read(t, s)
		r.want("e1", "e2")
		if s.Subscription().Cursor() != "c0" {
			t.Errorf("cursor %q within the batch", s.Subscription().Cursor())
		}
		s.Close()
		synctest.Wait()
		from = nil
		s = subscribe(t, cl)
		r = read(t, s)
		r.want("e2", "e3")
		time.Sleep(time.Minute) // the next batch is there with its cursor, before e4 is taken
		r.want("e4")
		if s.Subscription().Cursor() != "c4" {
			t.Errorf("cursor %q after the batch", s.Subscription().Cursor())
		}
		s.Close()
		synctest.Wait()
		if !slices.Equal(from, []string{"c0", "c3"}) {
			t.Errorf("polled from %v", from)
		}
	})
}

// CLI-6, CUR-4: quiet times advance what is saved, but not past an item that is still in hand.
func TestCLI6Quiet(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		cs := clientmemory.NewCursors()
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			st.event("e1", "c1")
			for i := 0; st.ctx.Err() == nil; i++ {
				time.Sleep(15 * time.Second)
				st.heartbeat(fmt.Sprint("h", i))
			}
			return nil, nil
		}
		cl := connect(t, f, c, Options{Cursors: cs})
		s := subscribe(t, cl, WithCursorKey("k"))
		r := read(t, s)
		r.want("e1")
		time.Sleep(50 * time.Second)
		if got := saved(t, cs, "k"); got != "c0" {
			t.Errorf("e1 is in hand: %s", got)
		}
		go r.word()
		synctest.Wait()
		if got := saved(t, cs, "k"); got != "h2" {
			t.Errorf("the application waits: %s", got)
		}
		time.Sleep(15 * time.Second)
		if got := saved(t, cs, "k"); got != "h3" {
			t.Errorf("a heartbeat later: %s", got)
		}
		s.Close()
		synctest.Wait()
	})
}

// CLI-6: a null cursor is never persisted; with manual acknowledgement asking does not commit; a
// store that fails is reported between the items and tried again.
func TestCLI6Edges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := &failingCursors{CursorStore: clientmemory.NewCursors()}
		f := newFake(true)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("")
			st.event("e1", "")
			st.event("e2", "")
			return hold(st)
		}
		cl := connect(t, f, carriers[0], Options{Cursors: cs})
		s := subscribe(t, cl, WithCursorKey("null"))
		read(t, s).want("e1", "e2")
		s.Subscription().Ack()
		s.Close()
		if got := saved(t, cs, "null"); got != "none" {
			t.Errorf("a null cursor was saved: %s", got)
		}

		f.stream = numbered(3)
		s = subscribe(t, cl, WithCursorKey("manual"), WithManualAck())
		r := read(t, s)
		r.want("e1", "e2")
		if got := saved(t, cs, "manual"); got != "none" {
			t.Errorf("committed without Ack: %s", got)
		}
		s.Subscription().Ack()
		if got := saved(t, cs, "manual"); got != "c2" {
			t.Errorf("Ack: %s", got)
		}
		r.stop()
		s.Close()

		s = subscribe(t, cl, WithCursorKey("failing"), WithCursor("c0"))
		r = read(t, s)
		r.want("e1")
		cs.err = errors.New("disk full")
		r.want("error")
		var ce *CommitError
		if !errors.As(r.err, &ce) || ce.Key != "failing" || s.Subscription().Ack() == nil {
			t.Error(r.err)
		}
		cs.err = nil
		r.want("e2")
		if got := saved(t, cs, "failing"); got != "c1" {
			t.Errorf("after recovery: %s", got)
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil, WithCursorKey("failing")); !errors.Is(err, ErrKeyInUse) {
			t.Error(err)
		}
		s.Close()
		// What the store holds can be overruled.
		f.forget()
		subscribe(t, cl, WithCursorKey("failing"), FromNow()).Close()
		subscribe(t, cl, WithCursorKey("failing"), WithCursor("c2")).Close()
		subscribe(t, cl, WithCursorKey("failing")).Close()
		if got := f.cursors(); !slices.Equal(got, []string{"null", "c2", "c1"}) {
			t.Errorf("cursors %v", got)
		}
		cs.err = errors.New("unreadable")
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); err == nil || !strings.Contains(err.Error(), "unreadable") {
			t.Error(err)
		}
	})
}

type failingCursors struct {
	clientstore.CursorStore
	err error
}

func (f *failingCursors) Load(ctx context.Context, key string) (clientstore.Saved, bool, error) {
	if f.err != nil {
		return clientstore.Saved{}, false, f.err
	}
	return f.CursorStore.Load(ctx, key)
}

func (f *failingCursors) Save(ctx context.Context, key string, s clientstore.Saved) error {
	if f.err != nil {
		return f.err
	}
	return f.CursorStore.Save(ctx, key, s)
}

// CLI-2: deduplication is bounded, and what an ended leg had not handed over is not taken for known.
func TestCLI2Dedup(t *testing.T) {
	s := newIDSet(3)
	fresh := func(id string) bool { ok, _ := s.add(id); return ok }
	for _, id := range []string{"a", "b", "c"} {
		if !fresh(id) || fresh(id) {
			t.Fatal(id)
		}
	}
	if !fresh("d") || fresh("b") || !fresh("a") || len(s.known) != 3 {
		t.Errorf("%v", s.known)
	}
	s.remove("a")
	s.remove("nobody")
	if !fresh("a") || !fresh("") || !fresh("") || len(s.known) > 3 {
		t.Errorf("%v", s.known)
	}
}

// The eventIds saved beside a cursor are bounded, but never fewer than those after it.
func TestCLI6SavedIDs(t *testing.T) {
	cs := clientmemory.NewCursors()
	l := &ledger{store: cs, key: "k"}
	l.setStart(clientstore.Saved{Cursor: "c0"}, false)
	count := func() int {
		if err := l.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		v, _, _ := cs.Load(t.Context(), "k")
		return len(v.EventIDs)
	}
	hand := func(n int, cursor string) {
		for i := range n {
			it := item{occurrence: &wire.Occurrence{EventID: fmt.Sprint(cursor, i)}}
			if i == n-1 && cursor != "" {
				it.cursor = &cursor
			}
			l.handOut(it)
		}
	}
	hand(100, "")
	hand(900, "")
	if n := count(); n != 1000 {
		t.Errorf("%d of a batch under way", n)
	}
	hand(1, "c1")
	if n := count(); n != minSavedIDs {
		t.Errorf("%d after the batch", n)
	}
}
