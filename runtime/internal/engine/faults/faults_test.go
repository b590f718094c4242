package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Without faults, an engine keeps all promises. So it does if its logs lag.
func TestEngine(t *testing.T) {
	for name, lag := range map[string]time.Duration{"plain": 0, "lag": 3 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, enginetest.Config{
				Fresh: func(*testing.T) func() engine.Engine {
					db := memory.NewDB()
					return func() engine.Engine {
						e := faults.Wrap(db.Open(), faults.Plan{})
						e.Lag(lag)
						return e
					}
				},
				Durable: true,
			})
		})
	}
}

// Entries of other processes come after the lag, or when the process looks; without notifications only then.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		a := newAccount(t)
		var got []string
		mine, err := a.OpenLog(ctx, "log", store.LogOptions{Appended: func(entries []store.Entry) {
			for _, e := range entries {
				got = append(got, e.EventID)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		others, err := a.other.OpenLog(ctx, "log", store.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		add := func(l engine.Log, id string) {
			t.Helper()
			if _, err := l.Append(ctx, engine.Append{Entry: store.Entry{EventID: id}}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(after time.Duration, ids ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			b, err := mine.Read(ctx, 0, 100)
			oldest, head, err2 := mine.Bounds(ctx)
			if !slices.Equal(got, ids) || len(b.Entries) != len(ids) || b.Head != store.Position(len(ids)) || head != b.Head || oldest != 1 || err != nil || err2 != nil {
				t.Errorf("Appended got %v, want %v; Read has %d entries up to %d, Bounds are %d, %d; %v, %v", got, ids, len(b.Entries), b.Head, oldest, head, err, err2)
			}
		}
		add(others, "1")
		want(0, "1")
		a.Lag(time.Second)
		add(others, "2")
		began := time.Now()
		add(others, "3")
		want(999*time.Millisecond, "1")
		if seen := mine.Seen(); !seen.Equal(began) {
			t.Errorf("seen %v after the first entry arrived", seen.Sub(began))
		}
		want(time.Millisecond, "1", "2", "3")
		if seen := mine.Seen(); !seen.Equal(time.Now()) {
			t.Errorf("seen %v ago", time.Since(seen))
		}
		add(others, "4")
		add(mine, "5")
		want(0, "1", "2", "3", "4", "5")
		a.Lag(-1)
		add(others, "6")
		want(time.Hour, "1", "2", "3", "4", "5")
		if seen := mine.Seen(); time.Since(seen) < time.Hour {
			t.Errorf("seen %v ago", time.Since(seen))
		}
		if head, err := mine.CatchUp(ctx, 6); head != 6 || err != nil {
			t.Errorf("CatchUp = %d, %v", head, err)
		}
		want(0, "1", "2", "3", "4", "5", "6")
		add(others, "7")
		a.Lag(0)
		want(0, "1", "2", "3", "4", "5", "6", "7")
		a.Lag(-1, "another log")
		add(others, "8")
		want(0, "1", "2", "3", "4", "5", "6", "7", "8")
		a.Lag(-1, "log")
		add(others, "9")
		want(0, "1", "2", "3", "4", "5", "6", "7", "8")
		a.Lag(0)
		want(0, "1", "2", "3", "4", "5", "6", "7", "8", "9")
	})
}

// An account is a process with faults, and another one that looks at the store.
type account struct {
	*faults.Engine
	fault faults.Fault // of each call
	other engine.Engine
	errs  []error // of each call
}

func newAccount(t *testing.T) *account {
	t.Helper()
	db := memory.NewDB()
	a := &account{other: db.Open()}
	a.Engine = faults.Wrap(db.Open(), faults.Plan{
		Before: func(faults.Call) faults.Fault { return a.fault },
		After:  func(_ faults.Call, err error) { a.errs = append(a.errs, err) },
	})
	for _, e := range []engine.Engine{a, a.other} {
		if _, err := e.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// commit creates the record of a key under the fault.
func (a *account) commit(f faults.Fault, key string) error {
	a.fault = f
	_, err := a.Commit(context.Background(), &store.Commit{Call: 1, Writes: []store.Write{{Key: key, Value: store.Bytes("v")}}})
	a.fault = faults.None
	return err
}

func (a *account) has(t *testing.T, key string) bool {
	t.Helper()
	found, err := a.other.Get(t.Context(), store.Latest, key)
	if err != nil {
		t.Fatal(err)
	}
	return found[0].Value != nil
}

func TestCommitFaults(t *testing.T) {
	for _, tc := range []struct {
		name            string
		fault           faults.Fault
		err             error
		applied, copied bool
	}{
		{"none", faults.None, nil, true, false},
		{"unsent", faults.Unsent, faults.ErrUnsent, false, false},
		{"lost", faults.Lost, store.ErrUncertain, false, false},
		{"unanswered", faults.Unanswered, store.ErrUncertain, true, false},
		{"late", faults.Late, store.ErrUncertain, false, true},
		{"again", faults.Again, nil, true, true},
		{"crash before", faults.CrashBefore, faults.ErrCrashed, false, false},
		{"crash after", faults.CrashAfter, faults.ErrCrashed, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAccount(t)
			if err := a.commit(tc.fault, "k"); !errors.Is(err, tc.err) || a.errs[len(a.errs)-1] != err {
				t.Errorf("got %v, want %v; After got %v", err, tc.err, a.errs)
			}
			if got := a.has(t, "k"); got != tc.applied {
				t.Errorf("applied: %v, want %v", got, tc.applied)
			}
			accepted := a.Deliver(t.Context())
			if want := tc.copied && !tc.applied; (accepted == 1) != want || a.has(t, "k") != (tc.applied || tc.copied) {
				t.Errorf("%d delayed commits accepted, want %v", accepted, want)
			}
			if n := a.Deliver(t.Context()); n != 0 {
				t.Errorf("%d commits arrive a second time", n)
			}
		})
	}
}

// A delayed commit is the one that was sent, whatever its caller has made of it since.
func TestLateIsACopy(t *testing.T) {
	a := newAccount(t)
	a.fault = faults.Late
	c := &store.Commit{Call: 1, Writes: []store.Write{{Key: "sent", Value: store.Bytes("v")}}}
	if _, err := a.Commit(t.Context(), c); !errors.Is(err, store.ErrUncertain) {
		t.Fatal(err)
	}
	c.Writes[0].Key = "changed"
	a.Crash()
	if n := a.Deliver(t.Context()); n != 1 || !a.has(t, "sent") || a.has(t, "changed") {
		t.Errorf("%d accepted, after a crash", n)
	}
}

// Reads have no effect that could be uncertain; Late and Again are about commits.
func TestReadFaults(t *testing.T) {
	a := newAccount(t)
	if err := a.commit(faults.None, "k"); err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[faults.Fault]error{
		faults.None: nil, faults.Unsent: faults.ErrUnsent, faults.Lost: faults.ErrNoAnswer, faults.Unanswered: faults.ErrNoAnswer,
		faults.Late: faults.ErrNoAnswer, faults.Again: nil,
	} {
		a.fault = fault
		found, err := a.Get(t.Context(), store.Latest, "k")
		if !errors.Is(err, want) || (len(found) == 1) != (want == nil) || errors.Is(err, store.ErrUncertain) {
			t.Errorf("fault %d: %v, %v; want %v", fault, found, err, want)
		}
	}
}

// Lost answers of a log, and calls of each method.
func TestLogFaults(t *testing.T) {
	a := newAccount(t)
	var ops []string
	var appended int
	inner := memory.NewDB().Open()
	e := faults.Wrap(inner, faults.Plan{Before: func(c faults.Call) faults.Fault {
		if c.N != len(ops) {
			t.Errorf("call %d has the number %d", len(ops), c.N)
		}
		ops = append(ops, c.Op)
		return a.fault
	}})
	ctx := t.Context()
	e.Enter(ctx)
	l, err := e.OpenLog(ctx, "log", store.LogOptions{Appended: func(es []store.Entry) { appended += len(es) }})
	if err != nil {
		t.Fatal(err)
	}
	add := func(f faults.Fault, id string, want error) {
		t.Helper()
		a.fault = f
		if _, err := l.Append(ctx, engine.Append{Entry: store.Entry{EventID: id}, Once: true}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
		a.fault = faults.None
	}
	add(faults.None, "a", nil)
	add(faults.Lost, "lost", store.ErrUncertain)
	add(faults.Unanswered, "b", store.ErrUncertain)
	if b, err := l.Read(ctx, 0, 10); err != nil || len(b.Entries) != 2 || b.Entries[1].EventID != "b" || appended != 2 {
		t.Errorf("%+v, %v; Appended got %d", b, err, appended)
	}
	_, head, err := l.Bounds(ctx)
	caught, err2 := l.CatchUp(ctx, 2)
	proof, err3 := l.Proof(ctx, 1)
	if head != 2 || caught != 2 || proof == 0 || errors.Join(err, err2, err3) != nil || l.Epoch() == 0 || l.Seen().IsZero() {
		t.Error(head, caught, proof, err, err2, err3)
	}
	e.Scan(ctx, "", "", 1)
	e.Changes(ctx, "", 0)
	e.Clock(ctx)
	e.Ping(ctx)
	add(faults.CrashAfter, "c", faults.ErrCrashed)
	if appended != 2 {
		t.Error("a crashed process got an entry")
	}
	_, err = l.Read(ctx, 0, 1)
	if _, err2 := e.Get(ctx, store.Latest, "k"); !errors.Is(err, faults.ErrCrashed) || !errors.Is(err2, faults.ErrCrashed) {
		t.Errorf("after the crash: %v, %v", err, err2)
	}
	want := []string{"Enter", "OpenLog log", "Append log", "Append log", "Append log", "Read log", "Bounds log", "CatchUp log", "Proof log",
		"Scan", "Changes", "Clock", "Ping", "Append log"}
	if !slices.Equal(ops, want) || e.Calls() != len(want)+2 {
		t.Errorf("calls %v, %d in all", ops, e.Calls())
	}
	if err := e.Close(); err != nil {
		t.Errorf("Close after a crash: %v", err)
	}
	if err := inner.Ping(ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the engine inside: %v", err)
	}
}

// A process that crashes during a call gets no answer, and one whose plan crashes it makes no call.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t)
		c, err := a.Changes(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, a.Crash)
		if _, err := a.Changes(t.Context(), c.Next, time.Minute); !errors.Is(err, faults.ErrCrashed) {
			t.Errorf("a wait during a crash: %v", err)
		}
		db := memory.NewDB()
		var e *faults.Engine
		e = faults.Wrap(db.Open(), faults.Plan{Before: func(faults.Call) faults.Fault {
			e.Crash()
			return faults.None
		}})
		if err := e.NewLife(t.Context()); !errors.Is(err, faults.ErrCrashed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t)
		want := func(d time.Duration) {
			t.Helper()
			now, err := a.Clock(t.Context())
			if got := time.Until(now); err != nil || got != d {
				t.Errorf("the clock is %v ahead, %v; want %v", got, err, d)
			}
		}
		want(0)
		a.Skew(time.Minute)
		want(time.Minute)
		a.Skew(-2 * time.Minute)
		want(time.Minute) // it does not go back
		time.Sleep(90 * time.Second)
		want(-30 * time.Second)
		time.Sleep(time.Minute)
		want(-time.Minute)
	})
}

// The faults of a seed are the same in each run, and there are all kinds of them.
func TestRandom(t *testing.T) {
	faultsOf := func(seed uint64, commit *store.Commit) (all []faults.Fault) {
		f := faults.Random(seed, 0.5)
		for n := range 200 {
			all = append(all, f(faults.Call{N: n, Commit: commit}))
		}
		return all
	}
	for _, commit := range []*store.Commit{nil, {}} {
		one := faultsOf(1, commit)
		if !slices.Equal(one, faultsOf(1, commit)) || slices.Equal(one, faultsOf(2, commit)) {
			t.Error("faults do not depend on the seed alone")
		}
		kinds := map[faults.Fault]int{}
		for _, f := range one {
			kinds[f]++
		}
		want := []faults.Fault{faults.None, faults.Unsent, faults.Lost, faults.Unanswered}
		if commit != nil {
			want = append(want, faults.Late, faults.Again)
		}
		for _, f := range want {
			if kinds[f] < 5 {
				t.Errorf("fault %d occurs %d times in 200 calls", f, kinds[f])
			}
		}
		if len(kinds) != len(want) || kinds[faults.None] < 60 || kinds[faults.None] > 140 {
			t.Errorf("kinds %v", kinds)
		}
	}
}

// A caller that settles uncertain commits by Record.Call counts exactly, whatever is lost or late. It is the example of
// how a plan can act at each call.
func TestSettle(t *testing.T) {
	for seed := range uint64(20) {
		db := memory.NewDB()
		var e *faults.Engine
		random := faults.Random(seed, 0.4)
		e = faults.Wrap(db.Open(), faults.Plan{Before: func(c faults.Call) faults.Fault {
			if c.N%3 == 0 {
				e.Deliver(t.Context())
			}
			return random(c)
		}})
		ctx := t.Context()
		for _, err := e.Enter(ctx); err != nil; {
			_, err = e.Enter(ctx)
		}
		const rounds = 25
		for round := range uint64(rounds) {
			increment(t, e, round+1)
		}
		e.Deliver(ctx)
		plain := db.Open()
		found, err := plain.Get(ctx, store.Latest, "counter")
		if err != nil || string(found[0].Value.Bytes()) != fmt.Sprint(rounds) {
			t.Errorf("seed %d: %s, %v; want %d", seed, found[0].Value, err, rounds)
		}
	}
}

// increment adds 1 to the counter, under a call.
func increment(t *testing.T, e engine.Engine, call uint64) {
	t.Helper()
	sent := map[uint64]bool{} // calls that may be applied
	for next := call << 32; ; next++ {
		found, err := e.Get(t.Context(), store.Latest, "counter")
		if err != nil {
			continue
		}
		r := found[0]
		if sent[r.Call] {
			return
		}
		n := 0
		if r.Value != nil {
			fmt.Sscan(string(r.Value.Bytes()), &n)
		}
		_, err = e.Commit(t.Context(), &store.Commit{Call: next, Writes: []store.Write{{Key: "counter", On: r.Revision, Value: store.Bytes(fmt.Sprint(n + 1))}}})
		switch {
		case err == nil:
			return
		case errors.Is(err, store.ErrUncertain):
			sent[next] = true
		case !errors.Is(err, store.ErrConflict) && !errors.Is(err, faults.ErrUnsent):
			t.Fatal(err)
		}
	}
}
