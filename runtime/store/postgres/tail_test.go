package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

func entry(id string) store.Entry {
	return store.Entry{EventID: id, Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"n":1}`)}
}

func openLog(t *testing.T, s store.Store, o store.LogOptions) engine.Log {
	t.Helper()
	l, err := s.OpenLog(t.Context(), "log", o)
	if err != nil {
		t.Fatal(err)
	}
	return l.(engine.Log)
}

// TestNotify uses a store that never looks on a timer: it learns of appends only by NOTIFY.
func TestNotify(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := open(t, schema, postgres.Options{}), open(t, schema, postgres.Options{Poll: time.Hour})
	told := make(chan store.Entry, 100)
	openLog(t, b, store.LogOptions{Appended: func(entries []store.Entry) {
		for _, e := range entries {
			told <- e
		}
	}})
	la := openLog(t, a, store.LogOptions{})
	// Listening begins after Open: append until the first is heard.
	var sent store.Position
	for heard := false; !heard; {
		p, err := la.Append(t.Context(), entry("x"))
		if err != nil {
			t.Fatal(err)
		}
		sent = p
		select {
		case <-told:
			heard = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	for p := store.Position(2); p <= sent; p++ {
		if e := <-told; e.Position != p {
			t.Fatalf("told of %d, want %d", e.Position, p)
		}
	}
}

// REP-2: the store listens on a new connection after a cut.
func TestListenAgain(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := open(t, schema, postgres.Options{}), open(t, schema, postgres.Options{Poll: time.Hour})
	told := make(chan store.Entry, 1000)
	openLog(t, b, store.LogOptions{Appended: func(entries []store.Entry) {
		for _, e := range entries {
			told <- e
		}
	}})
	la := openLog(t, a, store.LogOptions{})
	for range 2 {
		pgtest.Exec(t, pgtest.URL(t), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database() AND pid <> pg_backend_pid()`)
		for heard := false; !heard; {
			if _, err := la.Append(t.Context(), entry("x")); err != nil {
				t.Fatal(err)
			}
			select {
			case <-told:
				heard = true
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// K9: frequent appends cause notifications at a bounded rate.
func TestNotificationsAreBounded(t *testing.T) {
	t.Parallel()
	const appends = 600
	schema := pgtest.Schema(t)
	l := openLog(t, open(t, schema, postgres.Options{Pooled: true}), store.LogOptions{})
	conn := connect(t)
	sum := sha256.Sum256([]byte(schema))
	if _, err := conn.Exec(t.Context(), fmt.Sprintf("LISTEN mcpe_%x", sum[:16])); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range appends {
		if _, err := l.Append(t.Context(), entry("x")); err != nil {
			t.Fatal(err)
		}
	}
	most := int(time.Since(began)/(10*time.Millisecond)) + 2
	n := 0
	for heard := true; heard; {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := conn.WaitForNotification(ctx)
		cancel()
		if heard = err == nil; heard {
			n++
		}
	}
	if n == 0 || n > most {
		t.Errorf("%d notifications of %d appends, want 1 to %d", n, appends, most)
	}
}

// REP-3: any number of forged positions cause one query every 100 ms, and none if the answer is known.
func TestREP3QuestionsAreBounded(t *testing.T) {
	schema := pgtest.Schema(t)
	s := open(t, schema, postgres.Options{Poll: time.Hour, Pooled: true})
	l := openLog(t, s, store.LogOptions{})
	if _, err := l.Append(t.Context(), entry("x")); err != nil {
		t.Fatal(err)
	}
	began, before := time.Now(), s.Asked()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 4 {
				if head, err := l.CatchUp(context.Background(), 1<<50); head != 1 || err != nil {
					t.Errorf("%d, %v", head, err)
				}
			}
		})
	}
	wg.Wait()
	if n, most := s.Asked()-before, int64(time.Since(began)/(100*time.Millisecond))+1; n > most {
		t.Errorf("%d questions in %v", n, time.Since(began))
	}
	before = s.Asked()
	for range 100 {
		if _, err := l.CatchUp(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Asked() - before; n != 0 {
		t.Errorf("%d questions about a position that is known", n)
	}
}

// Reads beyond the entries in memory, and pages of any size, are complete.
func TestReadPages(t *testing.T) {
	const n = 2*1024 + 700
	s := open(t, pgtest.Schema(t), postgres.Options{})
	l := openLog(t, s, store.LogOptions{})
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				if _, err := l.Append(context.Background(), entry(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, limit := range []int{1, 7, 513, 5000} {
		for _, after := range []store.Position{0, 1, 600, n - 1025, n - 1024, n - 3} {
			b, err := l.Read(t.Context(), after, limit)
			if err != nil || len(b.Entries) != min(limit, int(n-after)) {
				t.Fatalf("after %d, limit %d: %d entries, %v", after, limit, len(b.Entries), err)
			}
			for i, e := range b.Entries {
				if e.Position != after+store.Position(i)+1 {
					t.Fatalf("after %d entry %d is %d", after, i, e.Position)
				}
			}
		}
	}
}

// K9: frequent notifications cause looks at a bounded rate, and no append is missed.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	a, b := open(t, schema, postgres.Options{}), open(t, schema, postgres.Options{Poll: time.Hour})
	told := make(chan store.Position, 1000)
	openLog(t, b, store.LogOptions{Appended: func(entries []store.Entry) { told <- entries[len(entries)-1].Position }})
	p, err := openLog(t, a, store.LogOptions{}).Append(t.Context(), entry("x"))
	if err != nil {
		t.Fatal(err)
	}
	b.Hear("log")
	for at := store.Position(0); at < p; at = <-told {
	}
	before, began := b.Asked(), time.Now()
	for range 200 {
		b.Hear("log")
		time.Sleep(500 * time.Microsecond) // several notifications within the 5 ms between two looks
	}
	if n, most := b.Asked()-before, int64(time.Since(began)/(5*time.Millisecond))+2; n > most {
		t.Errorf("%d looks within %v, at most %d are", n, time.Since(began), most)
	}
}

// K9: notifications do not cause looks at a log to which the process appends, because its appends read the entries of
// other processes. Once it stops, it looks.
func TestAppendsReplaceLooks(t *testing.T) {
	t.Parallel()
	const pause = 25 * time.Millisecond // without an append, after which it looks
	schema := pgtest.Schema(t)
	quietly := postgres.Options{Pooled: true, Poll: time.Hour} // nothing looks on a timer
	a, b := open(t, schema, postgres.Options{}), open(t, schema, quietly)
	told := make(chan store.Entry, 1000)
	own := openLog(t, b, store.LogOptions{Appended: func(entries []store.Entry) {
		for _, e := range entries {
			told <- e
		}
	}})
	appendTo := func(l store.EventLog, id string) {
		t.Helper()
		if _, err := l.Append(t.Context(), entry(id)); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(own, "first")
	before, most, last := b.Asked(), int64(1), time.Now()
	for range 200 {
		b.Hear("log")
		appendTo(own, "own")
		if time.Since(last) > pause/2 { // the machine was slow
			most++
		}
		last = time.Now()
	}
	if n := b.Asked() - before; n > most {
		t.Errorf("%d looks beside 200 appends, at most %d are", n, most)
	}
	appendTo(openLog(t, a, store.LogOptions{}), "theirs")
	b.Hear("log")
	for e := range told {
		if e.EventID == "theirs" {
			break
		}
	}
}
