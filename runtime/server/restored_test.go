package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// A lifetime is a server over a store, from its start to an orderly end.
type lifetime struct {
	*Server
	t       *testing.T
	e, both *Emitter[incident] // both is of a type that a check finds too, which finds nothing
	r       *receiver
}

func oneLife(t *testing.T, st store.Store, f func(w lifetime)) {
	t.Helper()
	r, o := newReceiver(t)
	o.Store, o.Logger = st, slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), o.withParts())
	if err != nil {
		t.Fatal(err)
	}
	w := lifetime{Server: s, t: t, e: register(t, s, "e", Hooks[filterArgs, incident]{}), r: r}
	w.both, err = RegisterBoth(s, incidentType("both"), func(context.Context, filterArgs, string) (events.Page[incident], error) {
		return events.Page[incident]{Cursor: "u"}, nil
	}, Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	f(w)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(s.Shutdown(ctx), st.Close()); err != nil {
		t.Fatal(err)
	}
}

func (w lifetime) emit(name string, n int) {
	w.t.Helper()
	for i := range n {
		emit(w.t, w.e, incident{ID: fmt.Sprint(name, i+1)})
		emit(w.t, w.both, incident{ID: fmt.Sprint(name, i+1)})
	}
}

// held are the cursors of a client that has read up to the tenth event: of an answer to a poll, of one to a
// poll of both sources, of an event of a stream, of the wait tool and of a webhook's body.
type held struct{ poll, both, frame, wait, hook string }

func (w lifetime) subscribe(url, cursor string) (s subscribed) {
	w.t.Helper()
	raw, rerr := call(w.Server, "ann", wire.MethodSubscribe, params(url, secretA, fmt.Sprintf(`,"cursor":%q`, cursor)))
	if rerr != nil || json.Unmarshal(raw, &s) != nil {
		w.t.Fatalf("%s %+v", raw, rerr)
	}
	return s
}

func (w lifetime) frames(name, cursor string, want string) []written {
	w.t.Helper()
	l := stream(w.t, w.Server, fmt.Sprintf(`{"name":%q,"cursor":%q}`, name, cursor))
	waitUntil(w.t, name+" streams "+want, func() bool { return slices.Contains(l.ids(), want) })
	l.cancel()
	<-l.done
	return l.frames()
}

// read reads five events by all means.
func (w lifetime) read() (h held) {
	w.t.Helper()
	start, both := pollFrom(w.t, w.Server, nil, ""), poll(w.t, w.Server, `{"name":"both"}`)
	wait := mustWait(w.t, w.Server, WaitTool, waitArgs("", 0, 0, "e")).Cursor
	w.emit("y", 5)
	h.poll = *pollFrom(w.t, w.Server, start.Cursor, "").Cursor
	h.both = *poll(w.t, w.Server, fmt.Sprintf(`{"name":"both","cursor":%q}`, *both.Cursor)).Cursor
	h.wait = mustWait(w.t, w.Server, WaitTool, waitArgs(wait, 0, 0, "e")).Cursor
	for _, f := range w.frames("e", *start.Cursor, "y5") {
		h.frame = *f.params.Cursor
	}
	id := w.subscribe(plain, *start.Cursor).ID
	waitUntil(w.t, "all is settled", func() bool {
		i, err := w.Admin().Get(w.t.Context(), id)
		if err != nil || i.Cursor == nil {
			return false
		}
		h.hook = *i.Cursor
		c, err := wire.ParseCursor(h.hook)
		return err == nil && c.Position == 10
	})
	return h
}

// told fails unless each of the cursors is answered with truncated and with all that was emitted since the
// restore, by every mode and mixed.
func (w lifetime) told(h held, want ...string) {
	w.t.Helper()
	all := func(what string, truncated bool, ids []string) {
		w.t.Helper()
		for _, id := range want {
			if !truncated || !slices.Contains(ids, id) {
				w.t.Errorf("%s: truncated %v, wanted is %s: %v", what, truncated, id, ids)
				return
			}
		}
	}
	last := want[len(want)-1]
	for what, cursor := range map[string]string{"poll": h.poll, "frame": h.frame, "hook": h.hook} {
		r := pollFrom(w.t, w.Server, &cursor, "")
		all("poll from "+what, *r.Truncated, r.ids())
		frames := w.frames("e", cursor, last)
		var ids []string
		for _, f := range frames[1:] {
			ids = append(ids, f.params.EventID)
		}
		all("stream from "+what, frames[0].params.Truncated, ids)
		if fresh := pollFrom(w.t, w.Server, r.Cursor, ""); *fresh.Truncated || len(fresh.Events) > 0 {
			w.t.Errorf("the fresh cursor: truncated %v, %v", *fresh.Truncated, fresh.ids())
		}
		if what != "hook" {
			continue
		}
		url := fmt.Sprint(plain, "/", what, time.Now().UnixNano())
		s := w.subscribe(url, cursor)
		waitUntil(w.t, "webhook from "+what, func() bool {
			got := w.r.to(url)
			return !slices.ContainsFunc(want, func(id string) bool { return !slices.Contains(got, id) })
		})
		all("webhook from "+what, s.Truncated, w.r.to(url))
		if again := w.subscribe(url, cursor); !again.Truncated {
			w.t.Errorf("a refresh with the cursor of %s is not truncated", what)
		}
		if again := w.subscribe(url, *s.Cursor); again.Truncated {
			w.t.Errorf("a refresh with its own cursor is truncated")
		}
	}
	r := poll(w.t, w.Server, fmt.Sprintf(`{"name":"both","cursor":%q}`, h.both))
	all("both sources", *r.Truncated, r.ids())
	frames := w.frames("both", h.both, last)
	if !frames[0].params.Truncated {
		w.t.Error("a stream of both sources is not truncated")
	}
	waited := mustWait(w.t, w.Server, WaitTool, waitArgs(h.wait, 0, 0, "e"))
	all("the wait tool", waited.Truncated, waited.ids())
	// An adapter's follower, as MCPE keeps the cursor of one.
	f, err := w.inside().Follow(w.t.Context(), port.FollowRequest{Event: "e", Mode: wire.ModePush, Cursor: &h.poll})
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	found, err := f.Next(w.t.Context())
	var ids []string
	for _, o := range found.Occurrences {
		ids = append(ids, o.ID)
	}
	all("an adapter", found.Gap, ids)
	if err != nil {
		w.t.Error(err)
	}
}

// A world to put backups back in: how its store is opened, copied and put back.
type restorable struct {
	open            func() store.Store
	backup, restore func()
}

// testRestored has a backup at position 5, a client that reads up to 10, and the backup put back: the head
// passes what the client has read, or does not.
func testRestored(t *testing.T, fresh func(t *testing.T) restorable) {
	for name, n := range map[string]int{"the head has not passed the cursor": 3, "the head is at the cursor": 5, "the head has passed it": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fresh(t)
			var h held
			oneLife(t, w.open(), func(l lifetime) { l.emit("x", 5) })
			w.backup()
			oneLife(t, w.open(), func(l lifetime) { h = l.read() })
			w.restore()
			var want []string
			for i := range n {
				want = append(want, fmt.Sprint("z", i+1))
			}
			oneLife(t, w.open(), func(l lifetime) {
				l.emit("z", n)
				l.told(h, want...)
			})
			oneLife(t, w.open(), func(l lifetime) { l.told(h, want...) }) // with nothing in memory
		})
	}
}

// CUR-8: a copy of a SQLite file that is put back.
func TestCUR8RestoredFile(t *testing.T) {
	testRestored(t, func(t *testing.T) restorable {
		path := filepath.Join(t.TempDir(), "e.db")
		var old []byte
		return restorable{func() store.Store {
			db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return db
		}, func() { // the file is closed, so that nothing is in a -wal
			var err error
			if old, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := os.WriteFile(path, old, 0o600); err != nil {
				t.Fatal(err)
			}
		}}
	})
}

// CUR-8: a dump that is put back on the same server, where system and timeline are as before.
func TestCUR8RestoredDatabase(t *testing.T) {
	testRestored(t, func(t *testing.T) restorable {
		schema := pgtest.Schema(t)
		var restore func()
		return restorable{func() store.Store { return openShared(t, schema, postgres.Options{}) },
			func() { restore = pgtest.Backup(t, pgtest.URL(t), schema) }, func() { restore() }}
	})
}

// CUR-8: cursors without a proof, which are given out while the store does not answer, go on, at the head, in the log
// and at the last evicted entry, and come back proven.
func TestCUR8CursorsWithoutProof(t *testing.T) {
	s := newServer(t, Options{Operators: operators.New()})
	e := register(t, s, "e", Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxCount: 2}))
	for i := range 4 {
		emit(t, e, incident{ID: fmt.Sprint(i)})
	}
	now, err := wire.ParseCursor(*pollFrom(t, s, nil, "").Cursor)
	if err != nil || now.Proof == 0 {
		t.Fatalf("%+v, %v", now, err)
	}
	for p, want := range map[uint64]string{2: "2 3", 3: "3", 4: ""} {
		c := wire.Cursor{Kind: wire.LogCursor, Name: now.Name, Epoch: now.Epoch, Position: p}
		text := c.String()
		r := pollFrom(t, s, &text, "")
		fresh, err := wire.ParseCursor(*r.Cursor)
		if *r.Truncated || strings.Join(r.ids(), " ") != want || fresh != now || err != nil {
			t.Errorf("from %d: truncated %v, %v, %+v", p, *r.Truncated, r.ids(), fresh)
		}
	}
}

// CUR-8: polls ask the store for a proof when a cursor is first used behind what is in memory, and never again:
// not at the head, not page by page.
func TestCUR8ProofsAreCheap(t *testing.T) {
	st := &countedStore{Store: openShared(t, pgtest.Schema(t), postgres.Options{})}
	s := newServer(t, Options{Operators: operators.New(), Store: st})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	start := pollFrom(t, s, nil, "").Cursor
	for i := range 200 {
		emit(t, e, incident{ID: fmt.Sprint(i)})
	}
	read := func(s *Server) {
		at := start
		for range 25 {
			r := pollFrom(t, s, at, `,"maxEvents":10`)
			if at = r.Cursor; *r.Truncated {
				t.Fatal("truncated")
			}
		}
	}
	began := st.asked.Load()
	read(s)
	if n := st.asked.Load() - began; n != 0 {
		t.Errorf("the store was asked for %d proofs of what was emitted here", n)
	}
	old := pollFrom(t, s, start, `,"maxEvents":7`).Cursor
	again := newServer(t, Options{Operators: operators.New(), Store: st}) // which has nothing in memory of it
	register(t, again, "e", Hooks[filterArgs, incident]{})
	began = st.asked.Load()
	for range 10 {
		pollFrom(t, again, old, `,"maxEvents":1`)
	}
	read(again)
	if n := st.asked.Load() - began; n != 1 {
		t.Errorf("the store was asked for %d proofs, one was needed", n)
	}
}

// A countedStore counts how often its logs are asked for a proof.
type countedStore struct {
	store.Store
	asked atomic.Int64
}

type countedLog struct {
	store.EventLog
	of *countedStore
}

func (s *countedStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return countedLog{l, s}, err
}

func (l countedLog) Proof(ctx context.Context, p store.Position) (uint32, error) {
	l.of.asked.Add(1)
	return l.EventLog.Proof(ctx, p)
}

// CUR-8: a dump is put back under servers. What each told of is over: streams and webhook subscriptions at either
// get all that is emitted then, with a gap, polls are truncated, what an operator revokes at one ends at the other, and
// no fence is given twice.
func TestCUR8RestoredUnderServers(t *testing.T) {
	t.Parallel() // it waits for leases
	schema := pgtest.Schema(t)
	f := newFleet(t, nil, openShared(t, schema, postgres.Options{}), openShared(t, schema, postgres.Options{}))
	dsn := pgtest.URL(t)
	a, b, emitter := f.servers[0], f.servers[1], f.emitters[0]
	s := f.world(t, 0).subscribe("ann", params(plain, secretA, ""))
	waitUntil(t, "the subscription is live", func() bool { return a.live().Get(s.ID) != nil || b.live().Get(s.ID) != nil })
	f.world(t, 0).subscribe("ann", params(plain+"/2", secretA, ""))
	for i := range 5 {
		emit(t, emitter, incident{ID: fmt.Sprint("x", i)})
	}
	waitUntil(t, "delivered", func() bool { return len(f.r.to(plain)) == 5 && len(f.r.to(plain+"/2")) == 5 })
	waitUntil(t, "stored", func() bool { return pgtest.Query(t, dsn, "SELECT min(base) >= 5 FROM "+schema+".subscriptions") == "t" })
	restore := pgtest.Backup(t, dsn, schema)
	var streams []*live
	for _, m := range f.servers {
		streams = append(streams, streamAs(t, m, "bob", `{"name":"e"}`))
	}
	for _, l := range streams {
		waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	}
	for i := range 5 {
		emit(t, emitter, incident{ID: fmt.Sprint("y", i)})
	}
	for _, l := range streams {
		waitUntil(t, "read", func() bool { return len(l.ids()) == 5 })
	}
	waitUntil(t, "delivered", func() bool { return len(f.r.to(plain)) == 10 && len(f.r.to(plain+"/2")) == 10 })
	cursor := pollFrom(t, b, nil, "").Cursor
	// Fences follow the database's clock, in hundredths of a second; those of one moment run ahead of it.
	waitUntil(t, "the clock has passed the last fence", func() bool {
		return pgtest.Query(t, dsn, "SELECT extract(epoch FROM clock_timestamp()) * 100 > last_fence + 1 FROM "+schema+".store") == "t"
	})
	fences := pgtest.Query(t, dsn, "SELECT max(fence) FROM "+schema+".leases")
	restore()
	for i := range 5 { // at the positions of what is lost
		emit(t, f.emitters[1], incident{ID: fmt.Sprint("z", i)})
	}
	for i, l := range streams {
		waitUntil(t, fmt.Sprintf("stream %d gets all", i), func() bool { return strings.HasSuffix(strings.Join(l.ids(), " "), "x0 x1 x2 x3 x4 z0 z1 z2 z3 z4") })
		if !slices.ContainsFunc(l.frames()[1:], func(f written) bool { return f.params.Truncated }) {
			t.Errorf("stream %d was not told of the gap", i)
		}
	}
	for _, url := range []string{plain, plain + "/2"} {
		waitUntil(t, url+" gets all", func() bool {
			got := f.r.to(url)
			return slices.Contains(got, "z0") && slices.Contains(got, "z4")
		})
		waitUntil(t, url+" is told of the gap", func() bool {
			return slices.ContainsFunc(f.r.to(url), func(s string) bool { return strings.HasPrefix(s, "gap") })
		})
	}
	for i, m := range f.servers {
		r := pollFrom(t, m, cursor, "")
		if !*r.Truncated || strings.Join(r.ids(), " ") != "x0 x1 x2 x3 x4 z0 z1 z2 z3 z4" {
			t.Errorf("a poll at %d: truncated %v, %v", i, *r.Truncated, r.ids())
		}
	}
	if err := a.Revoke(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	for i, l := range streams {
		select {
		case <-l.done:
		case <-time.After(time.Minute):
			t.Fatalf("stream %d goes on though it is revoked", i)
		}
	}
	f.settled(t)
	if least := pgtest.Query(t, dsn, "SELECT min(fence) FROM "+schema+".leases"); len(least) < len(fences) || len(least) == len(fences) && least <= fences {
		t.Errorf("a lease has fence %s, and %s was given before", least, fences)
	}
}
