package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// A wire connects a store to its database. While it is mute, it holds back the database's answers; cutting it ends
// every connection. After killAfter, it ends all connections for good when that many messages have passed.
type wire struct {
	listener net.Listener
	target   string
	mute     atomic.Bool
	swallow  atomic.Int64 // held-back bytes of answers

	left   atomic.Int64 // messages to the database that may pass, if it is limited
	killed atomic.Pointer[context.CancelFunc]

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func newWire(t *testing.T, dsn string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, target: u.Host}
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		l.Close()
		w.cut()
		w.wg.Wait()
	})
	return w, as(t, dsn, func(u *url.URL, q url.Values) { u.Host = l.Addr().String() })
}

func (w *wire) accept() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", w.target)
		if err != nil {
			c.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, c, up)
		w.mu.Unlock()
		w.wg.Go(func() { w.forward(up, c); up.Close() })
		w.wg.Go(func() {
			defer c.Close()
			b := make([]byte, 32<<10)
			for {
				n, err := up.Read(b)
				if err != nil {
					return
				}
				if w.mute.Load() {
					w.swallow.Add(int64(n))
				} else if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		})
	}
}

// forward copies the messages of a client to the database. A message has a type, except the first one, and a length
// that includes itself.
func (w *wire) forward(up io.Writer, c io.Reader) {
	for header := 4; ; header = 5 {
		b := make([]byte, header)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		b = append(b, make([]byte, binary.BigEndian.Uint32(b[header-4:])-4)...)
		if _, err := io.ReadFull(c, b[header:]); err != nil {
			return
		}
		if dead := w.killed.Load(); dead != nil && w.left.Add(-1) < 0 {
			w.listener.Close()
			w.cut()
			(*dead)()
			return
		}
		if _, err := up.Write(b); err != nil {
			return
		}
	}
}

// killAfter ends all connections, calls dead and refuses new connections after the given number of messages.
func (w *wire) killAfter(messages int, dead context.CancelFunc) {
	w.left.Store(int64(messages))
	w.killed.Store(&dead)
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// told records the entries that a log delivers.
type told struct {
	mu  sync.Mutex
	ids []string
}

func (w *told) options() store.LogOptions {
	return store.LogOptions{Appended: func(entries []store.Entry) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range entries {
			w.ids = append(w.ids, e.EventID)
		}
	}}
}

func (w *told) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.ids)
}

// warm waits until the only connection of s knows the statement of an append, so that the next append is a single
// message, and nothing else uses the connection.
func warm(t *testing.T, s *postgres.Store, l engine.Log) {
	t.Helper()
	if _, _, err := l.AppendOnce(t.Context(), entry("e1"), 0); err != nil {
		t.Fatal(err)
	}
	enginetest.WaitUntil(t, "notifications are sent", s.Idle)
}

// REP-22: connections are cut after the commit, while the answer is on its way. The error says that the append may
// have succeeded, the same id finds it, and it is delivered once.
func TestREP22LostAnswer(t *testing.T) {
	schema := pgtest.Schema(t)
	w, dsn := newWire(t, pgtest.URL(t))
	direct := open(t, schema, postgres.Options{})
	s, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema, Pooled: true, Poll: time.Hour, Connections: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var seen told
	l, watch := openLog(t, s, seen.options()), openLog(t, direct, store.LogOptions{})
	if _, err := l.Append(t.Context(), entry("e1")); err != nil {
		t.Fatal(err)
	}
	for i, once := range []bool{false, true} {
		id := fmt.Sprint("e", i+2)
		want := store.Position(i + 2)
		warm(t, s, l)
		w.mute.Store(true)
		failed := make(chan error, 1)
		go func() {
			var err error
			if once {
				_, _, err = l.AppendOnce(context.Background(), entry(id), 0)
			} else {
				_, err = l.Append(context.Background(), entry(id))
			}
			failed <- err
		}()
		if head, err := watch.CatchUp(t.Context(), want); err != nil || head < want {
			enginetest.WaitUntil(t, "the commit", func() bool {
				head, err := watch.CatchUp(t.Context(), want)
				return err == nil && head >= want
			})
		}
		w.cut()
		w.mute.Store(false)
		if err := <-failed; !errors.Is(err, store.ErrUncertain) {
			t.Fatalf("a lost answer is %v", err)
		}
		p, fresh, err := l.AppendOnce(t.Context(), entry(id), 0)
		if err != nil || fresh || p != want {
			t.Fatalf("again under its id: %d, fresh %v, %v", p, fresh, err)
		}
	}
	if _, err := l.Append(t.Context(), entry("e4")); err != nil {
		t.Fatal(err)
	}
	if seen.all() != "[e1 e2 e3 e4]" {
		t.Errorf("told of %s", seen.all())
	}
}

// If a caller's context ends during the commit, the error says that the result is uncertain; if the append has not
// begun, it does not happen.
func TestREP22ContextEnds(t *testing.T) {
	schema := pgtest.Schema(t)
	w, dsn := newWire(t, pgtest.URL(t))
	direct := open(t, schema, postgres.Options{})
	s, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema, Pooled: true, Poll: time.Hour, Connections: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := openLog(t, s, store.LogOptions{})
	if _, err := l.Append(t.Context(), entry("e1")); err != nil {
		t.Fatal(err)
	}
	warm(t, s, l)
	w.mute.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := l.Append(ctx, entry("under way")); first <- err }()
	watch := openLog(t, direct, store.LogOptions{})
	enginetest.WaitUntil(t, "the commit", func() bool {
		head, err := watch.CatchUp(t.Context(), 2)
		return err == nil && head == 2
	})
	go func() { _, err := l.Append(ctx, entry("waits")); second <- err }()
	time.Sleep(20 * time.Millisecond) // so that it waits; both withdrawn and refused are correct
	cancel()
	if err := <-first; !errors.Is(err, store.ErrUncertain) || !errors.Is(err, context.Canceled) {
		t.Errorf("under way: %v", err)
	}
	if err := <-second; errors.Is(err, store.ErrUncertain) || !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: %v", err)
	}
	w.cut()
	w.mute.Store(false)
	if p, fresh, err := l.AppendOnce(t.Context(), entry("under way"), 0); p != 2 || fresh || err != nil {
		t.Errorf("it is at %d, fresh %v, %v", p, fresh, err)
	}
	if p, fresh, err := l.AppendOnce(t.Context(), entry("waits"), 0); p != 3 || !fresh || err != nil {
		t.Errorf("what waited is at %d, fresh %v, %v", p, fresh, err)
	}
}

// REP-5: acknowledged entries exist after the database was killed, and the store continues by itself.
func TestREP5DatabaseKilled(t *testing.T) {
	t.Parallel()
	pgtest.URL(t) // skips the test without a database
	c, err := pgtest.Start(pgtest.Durable)
	if err != nil {
		t.Skip("only a remote PostgreSQL:", err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	s, err := postgres.Open(t.Context(), c.URL(), quiet(postgres.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var seen told
	l := openLog(t, s, seen.options())
	var mu sync.Mutex
	acked := map[string]store.Position{}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d-%d", w, n)
				for { // as Emit does: retry under the same id until the result is known
					p, _, err := l.AppendOnce(context.Background(), entry(id), 0)
					if err == nil {
						mu.Lock()
						acked[id] = p
						mu.Unlock()
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acked)
	}
	for range 2 {
		n := count()
		enginetest.WaitUntil(t, "some appends", func() bool { return count() > n+20 })
		if err := c.Crash(); err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		n = count()
		enginetest.WaitUntil(t, "some appends after it came back", func() bool { return count() > n+20 })
	}
	close(stop)
	wg.Wait()
	again, err := postgres.Open(t.Context(), c.URL(), quiet(postgres.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	b, err := openLog(t, again, store.LogOptions{}).Read(t.Context(), 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	stands := map[string]store.Position{}
	for _, e := range b.Entries {
		if _, twice := stands[e.EventID]; twice {
			t.Errorf("%s stands twice", e.EventID)
		}
		stands[e.EventID] = e.Position
	}
	for id, p := range acked {
		if stands[id] != p {
			t.Errorf("%s was acknowledged at %d and stands at %d", id, p, stands[id])
		}
	}
	enginetest.WaitUntil(t, "everything is told", func() bool {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return len(seen.ids) >= len(b.Entries)
	})
	for i, e := range b.Entries {
		if seen.ids[i] != e.EventID {
			t.Fatalf("told of %s at %d", seen.ids[i], e.Position)
		}
	}
}

// REP-19: Open refuses a standby. After its promotion, logs begin new epochs and leases end, unless it was declared
// synchronous.
func TestREP19Failover(t *testing.T) {
	t.Parallel()
	pgtest.URL(t)
	primary, err := pgtest.Start(append([]string{"wal_level=replica"}, pgtest.Fast...))
	if err != nil {
		t.Skip("only a remote PostgreSQL:", err)
	}
	defer primary.Stop()
	standby, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Stop()
	isRefused(t, standby.URL(), postgres.Options{}, postgres.ErrReadOnly, "standby")

	both := as(t, primary.URL(), func(u *url.URL, q url.Values) {
		u.Host += ",127.0.0.1:" + strconv.Itoa(standby.Port())
		q.Set("target_session_attrs", "read-write")
	})
	type life struct {
		s     *postgres.Store
		l     engine.Log
		lease engine.Lease
		epoch uint64
	}
	begin := func(schema string, synchronous bool) (x life) {
		s, err := postgres.Open(t.Context(), both, quiet(postgres.Options{Schema: schema, SynchronousStandby: synchronous}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		x = life{s: s, l: openLog(t, s, store.LogOptions{})}
		x.epoch = x.l.Epoch()
		if _, err := x.l.Append(t.Context(), entry("before")); err != nil {
			t.Fatal(err)
		}
		if x.lease, err = s.Join(t.Context(), "r", time.Hour, nil, nil); err != nil {
			t.Fatal(err)
		}
		return x
	}
	async, sync := begin("async", false), begin("sync", true)
	mixedSync, mixedAsync := begin("mixed", true), begin("mixed", false)
	// K4: a role that may not read the timeline opens last, and writes.
	sighted := begin("blind", false)
	pgtest.Exec(t, primary.URL(), append([]string{"CREATE ROLE blind_role LOGIN"}, withoutIdentity("blind_role", "blind")...)...)
	blind, err := postgres.Open(t.Context(), as(t, both, func(u *url.URL, _ url.Values) { u.User = url.User("blind_role") }), quiet(postgres.Options{Schema: "blind"}))
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	blindLog := openLog(t, blind, store.LogOptions{})
	if _, err := blindLog.Append(t.Context(), entry("blind")); err != nil {
		t.Fatal(err)
	}
	// The standby has every commit: the test shows what the store concludes from the timeline.
	at := pgtest.Query(t, primary.URL(), `SELECT pg_current_wal_lsn()`)
	enginetest.WaitUntil(t, "the standby has it all", func() bool {
		return pgtest.Query(t, standby.URL(), `SELECT pg_last_wal_replay_lsn() >= '`+at+`'`) == "t"
	})
	if err := primary.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	try := func(l engine.Log) (p store.Position, err error) {
		enginetest.WaitUntil(t, "an answer", func() bool {
			p, err = l.Append(t.Context(), entry("after"))
			return err == nil || errors.Is(err, engine.ErrNewEpoch)
		})
		return p, err
	}
	if _, err := try(async.l); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("an append in the old epoch: %v", err)
	}
	if _, err := async.l.Read(t.Context(), 0, 1); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("a read in the old epoch: %v", err)
	}
	if _, err := async.s.Renew(t.Context(), async.lease.Fence, time.Hour, nil, nil); !errors.Is(err, engine.ErrFenced) {
		t.Errorf("a lease of the old generation: %v", err)
	}
	next, err := async.s.Join(t.Context(), "r", time.Hour, nil, nil)
	if err != nil || next.Fence <= async.lease.Fence+1<<20 {
		t.Errorf("fence %d after %d (%v): it does not contain the generation", next.Fence, async.lease.Fence, err)
	}
	again := openLog(t, async.s, store.LogOptions{})
	if again.Epoch() == async.epoch {
		t.Error("the epoch is what it was")
	}
	if p, err := again.Append(t.Context(), entry("after")); p != 2 || err != nil {
		t.Errorf("the new epoch's log appends at %d, %v", p, err)
	}
	if p, err := try(sync.l); p < 2 || err != nil {
		t.Errorf("with a synchronous standby: %d, %v", p, err)
	}
	if sync.l.Epoch() != sync.epoch {
		t.Error("with a synchronous standby the epoch changed")
	}
	// If only some processes declare it, the declaration has no effect, whichever process is first.
	if _, err := try(mixedSync.l); err != nil {
		t.Errorf("of two, the one that declares a synchronous standby: %v", err)
	}
	if _, err := try(mixedAsync.l); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("of two, the one that does not: %v", err)
	}
	if _, err := try(mixedSync.l); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("of two, the one that declares it, after the other: %v", err)
	}
	if _, err := try(sighted.l); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("a failover after a role that is not told opened last: %v", err)
	}
	if _, err := try(blindLog); !errors.Is(err, engine.ErrNewEpoch) {
		t.Errorf("the role that is not told hears of it by the generation: %v", err)
	}
	if _, err := sync.s.Renew(t.Context(), sync.lease.Fence, time.Hour, nil, nil); err != nil {
		t.Errorf("with a synchronous standby a lease is over: %v", err)
	}
}
