package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

var clientTests = []test{
	{"CLI-5, CLI-6, CON-4: the ledger is a store of clients", testClientStore},
	{"CLI-5, CLI-6, CON-4: so it is if answers are lost", testClientAnswers},
	{"CLI-5, CON-4: of two processes that put the same at once one is fresh", testClientWriters},
	{"CLI-5, CON-4: a process that puts at any call of another one competes with it", testPutMeetsPut},
	{"CLI-5: a body that is put while others are taken is not lost", testPutMeetsTake},
	{"CLI-5: bodies that were taken do not come back if their deletion fails", testTakenStays},
	{"CLI-5, CON-4: the store refuses values that are larger than it can hold", testClientBounds},
	{"S5: the secrets of callbacks are sealed like those of subscriptions", testCallbackKeys},
	{"A record of a client that cannot be read does not hold up others", testClientDamage},
}

// clientStores runs the suites of the stores of clients.
func clientStores(t *testing.T, open func(t *testing.T) *ledger.Client) {
	storetest.TestCursors(t, func(t *testing.T) clientstore.CursorStore { return open(t) })
	storetest.TestCallbacks(t, func(t *testing.T) clientstore.CallbackStore { return open(t) })
	storetest.TestDeadLetters(t, func(t *testing.T) clientstore.DeadLetterStore { return open(t) })
	storetest.TestReceived(t, func(t *testing.T) (clientstore.ReceivedStore, clientstore.CursorStore) {
		c := open(t)
		return c, c
	})
}

func testClientStore(t *testing.T, c Config) {
	clientStores(t, func(t *testing.T) *ledger.Client {
		started := false
		p := c.world(t).faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
			if started && c.Op != "Get" && c.Op != "Scan" && c.Op != "Commit" {
				t.Errorf("the client needs more than records: %s", c.Op)
			}
			return faults.None
		}})
		started = true
		return p.Client()
	})
}

// unanswered starts processes whose every second commit has a fault.
func unanswered(t *testing.T, c Config, f func(t *testing.T, start func(t *testing.T) *process)) {
	for _, fault := range []faults.Fault{faults.Lost, faults.Unanswered, faults.Late, faults.Again} {
		t.Run(fmt.Sprint("fault ", fault), func(t *testing.T) {
			f(t, func(t *testing.T) *process {
				var commits atomic.Int64
				p := c.world(t).faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
					if c.Commit != nil && commits.Add(1)%2 == 1 {
						return fault
					}
					return faults.None
				}})
				t.Cleanup(func() {
					if n := p.faults.Deliver(context.WithoutCancel(t.Context())); n > 0 {
						t.Errorf("%d copies were applied that came late", n)
					}
				})
				return p
			})
		})
	}
}

func testClientAnswers(t *testing.T, c Config) {
	unanswered(t, c, func(t *testing.T, start func(t *testing.T) *process) {
		clientStores(t, func(t *testing.T) *ledger.Client { return start(t).Client() })
	})
}

func letter(key, id string) clientstore.DeadLetter {
	return clientstore.DeadLetter{Key: key, Event: "note.added", EventID: id, Data: []byte(`{"n":1}`), Error: "no", Tries: 1}
}

func testClientWriters(t *testing.T, c Config) {
	w := c.world(t)
	clients := []*ledger.Client{w.process(t).Client(), w.process(t).Client()}
	const n = 20
	var fresh, full atomic.Int32
	var wg sync.WaitGroup
	for i := range 2 * n {
		wg.Go(func() {
			is, err := clients[i%2].PutReceived(t.Context(), "k", clientstore.Received{EventID: fmt.Sprint("e", i/2), Body: []byte("{}")})
			if err != nil {
				t.Error(err)
			}
			if is {
				fresh.Add(1)
			}
			switch err := clients[i%2].PutDeadLetter(t.Context(), letter("k", fmt.Sprint("e", i/2)), n/2); {
			case errors.Is(err, clientstore.ErrDeadLettersFull):
				full.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	bodies := ok(clients[0].Received(t.Context(), "k", 0, 2*n))(t)
	letters := ok(clients[1].DeadLetters(t.Context(), 0, 2*n))(t)
	if fresh.Load() != n || len(bodies) != n || full.Load() != n || len(letters) != n/2 {
		t.Errorf("%d were fresh of %d bodies; there are %d letters, %d were refused", fresh.Load(), len(bodies), len(letters), full.Load())
	}
}

func testPutMeetsPut(t *testing.T, c Config) {
	during(t, func(t *testing.T, before func(func()) (faults.Plan, func(), func())) {
		w := c.world(t)
		fresh := 0
		put := func(c *ledger.Client) {
			t.Helper()
			if ok(c.PutReceived(t.Context(), "k", clientstore.Received{EventID: "a", Body: []byte("{}")}))(t) {
				fresh++
			}
			must(t, c.PutDeadLetter(t.Context(), letter("k", "a"), 1))
		}
		other := w.process(t).Client()
		plan, arm, finish := before(func() { put(other) })
		client := w.faulty(t, plan).Client()
		arm()
		put(client)
		finish()
		bodies, letters := ok(other.Received(t.Context(), "k", 0, 9))(t), ok(other.DeadLetters(t.Context(), 0, 9))(t)
		if fresh != 1 || len(bodies) != 1 || len(letters) != 1 {
			t.Errorf("%d were fresh, there are %d bodies and %d letters", fresh, len(bodies), len(letters))
		}
	})
}

func testPutMeetsTake(t *testing.T, c Config) {
	put := func(t *testing.T, c *ledger.Client, id string) bool {
		t.Helper()
		return ok(c.PutReceived(t.Context(), "k", clientstore.Received{EventID: id, Body: []byte(id)}))(t)
	}
	for _, taker := range []string{"take", "put"} {
		t.Run(taker+" is interrupted", func(t *testing.T) {
			during(t, func(t *testing.T, before func(func()) (faults.Plan, func(), func())) {
				w := c.world(t)
				other := w.process(t).Client()
				for _, id := range []string{"a", "b", "c"} {
					put(t, other, id)
				}
				fresh := false
				putAgain := func(c *ledger.Client) { fresh = put(t, c, "a") }
				take := func(c *ledger.Client) {
					must(t, c.TakeReceived(t.Context(), "k", 2, clientstore.Saved{Cursor: "2"}))
				}
				first, second := take, putAgain
				if taker == "put" {
					first, second = putAgain, take
				}
				plan, arm, finish := before(func() { second(other) })
				client := w.faulty(t, plan).Client()
				arm()
				first(client)
				finish()
				var got string
				for _, b := range ok(other.Received(t.Context(), "k", 0, 10))(t) {
					got += b.EventID
				}
				if want := map[bool]string{false: "c", true: "ca"}[fresh]; got != want {
					t.Errorf("fresh %v, left are %q", fresh, got)
				}
				if again := put(t, client, "a"); again == fresh {
					t.Errorf("put again it is fresh: %v, before: %v", again, fresh)
				}
			})
		})
	}
}

func testTakenStays(t *testing.T, c Config) {
	ctx := t.Context()
	commits := 0
	client := c.world(t).faulty(t, faults.Plan{Before: func(c faults.Call) faults.Fault {
		if c.Commit != nil && commits > 0 {
			if commits++; commits == 3 { // the deletion after the cursor
				return faults.Unsent
			}
		}
		return faults.None
	}}).Client()
	for _, id := range []string{"a", "b"} {
		ok(client.PutReceived(ctx, "k", clientstore.Received{EventID: id, Body: []byte(id)}))(t)
	}
	commits = 1
	must(t, client.TakeReceived(ctx, "k", 1, clientstore.Saved{Cursor: "1"}))
	must(t, client.Delete(ctx, "k"))
	if got := ok(client.Received(ctx, "k", 0, 9))(t); commits != 4 || len(got) != 1 || got[0].EventID != "b" {
		t.Errorf("after %d commits there are %+v", commits-1, got)
	}
	if !ok(client.PutReceived(ctx, "k", clientstore.Received{EventID: "a", Body: []byte("a")}))(t) {
		t.Error("an event that was taken cannot be put again")
	}
}

func testClientBounds(t *testing.T, c Config) {
	ctx := t.Context()
	client := c.world(t).process(t).Client()
	odd := bytes.Repeat([]byte("\xff"), wire.MaxBody)
	for _, size := range []int{wire.MaxBody, store.MaxValue} {
		want := map[int]error{store.MaxValue: ledger.ErrTooLarge}[size]
		body := bytes.Repeat(odd, 2)[:size]
		_, err := client.PutReceived(ctx, "k", clientstore.Received{EventID: string(odd[:wire.MaxEventID]), Body: body})
		is(t, err, want)
		d := letter("k", "e")
		d.Data = body
		is(t, client.PutDeadLetter(ctx, d, 1), want)
		is(t, client.Save(ctx, "k", clientstore.Saved{Cursor: string(body)}), want)
		is(t, client.TakeReceived(ctx, "none", 1, clientstore.Saved{Cursor: "c", EventIDs: []string{string(body)}}), want)
		is(t, client.PutCallback(ctx, "k", clientstore.Callback{EventIDs: []string{string(body)}}), want)
	}
	if got := ok(client.Received(ctx, "k", 0, 9))(t); len(got) != 1 || !bytes.Equal(got[0].Body, odd) || got[0].EventID != string(odd[:wire.MaxEventID]) {
		t.Errorf("%d bodies", len(got))
	}
	if got := ok(client.DeadLetters(ctx, 0, 9))(t); len(got) != 1 || !bytes.Equal(got[0].Data, odd) {
		t.Errorf("%d letters", len(got))
	}
	is(t, client.Save(ctx, "k", clientstore.Saved{Cursor: "c", EventIDs: make([]string, store.MaxValue)}), ledger.ErrTooLarge)
	is(t, client.PutCallback(ctx, "k", clientstore.Callback{URL: "\xff"}), ledger.ErrName)
	d := letter("k", "f")
	d.Last = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := client.PutDeadLetter(ctx, d, 9); err == nil {
		t.Error("a time that cannot be encoded is taken")
	}
	for _, limit := range []int{0, -1} {
		if n := len(ok(client.Received(ctx, "k", 0, limit))(t)) + len(ok(client.DeadLetters(ctx, 0, limit))(t)) + len(ok(client.DueDeadLetters(ctx, "k", 0, limit))(t)); n > 0 {
			t.Errorf("limit %d: %d", limit, n)
		}
	}
}

func testCallbackKeys(t *testing.T, c Config) {
	w := c.world(t)
	want := clientstore.Callback{URL: "u", Secrets: []store.Secret{{Key: []byte("a secret of at least 24 bytes")}}}
	open := func(p *process, key string, wantErr error) {
		t.Helper()
		got, found, err := p.Client().Callback(t.Context(), key)
		is(t, err, wantErr)
		if wantErr == nil && (!found || len(got.Secrets) != 1 || !bytes.Equal(got.Secrets[0].Key, want.Secrets[0].Key)) {
			t.Errorf("%v, %+v", found, got)
		}
	}
	plain := w.process(t)
	must(t, plain.Client().PutCallback(t.Context(), "k", want))
	one := w.keyed(t, oneKey)
	open(one, "k", nil)
	must(t, one.Client().PutCallback(t.Context(), "l", want))
	for _, r := range ok(w.raw.Scan(t.Context(), "cb/", "", 9))(t) {
		if bytes.Contains(r.Value.Bytes(), []byte(`"secrets"`)) {
			t.Errorf("plain text: %s", r.Value.Bytes())
		}
	}
	must(t, plain.Client().PutCallback(t.Context(), "plain", want)) // opened before the store had a key
	open(one, "plain", sealed.ErrForm)
	both := w.keyed(t, anotherKey, oneKey)
	if left := ok(both.Reseal(t.Context()))(t); left != 1 {
		t.Errorf("%d are left", left)
	}
	another := w.keyed(t, anotherKey)
	open(another, "k", nil)
	open(another, "l", nil)
	open(one, "l", sealed.ErrKey)
}

func testClientDamage(t *testing.T, c Config) {
	ctx := t.Context()
	w := c.world(t)
	client := w.process(t).Client()
	for _, id := range []string{"a", "b"} {
		must(t, client.PutDeadLetter(ctx, letter("k", id), 9))
		ok(client.PutReceived(ctx, "k", clientstore.Received{EventID: id, Body: []byte(id)}))(t)
	}
	must(t, client.Save(ctx, "k", clientstore.Saved{Cursor: "1"}))
	w.damage(t, w.keys(t, "dl/letter/")[0])
	w.damage(t, w.keys(t, "rcv/")[0])
	w.damage(t, w.keys(t, "cur/")[0])
	if got := ok(client.DeadLetters(ctx, 0, 9))(t); len(got) != 1 || got[0].EventID != "b" {
		t.Errorf("%+v", got)
	}
	if !ok(client.DeleteDeadLetter(ctx, 1))(t) {
		t.Error("a damaged letter cannot be deleted")
	}
	must(t, client.PutDeadLetter(ctx, letter("k", "a"), 2))
	_, _, err := client.Load(ctx, "k")
	is(t, err, ledger.ErrDamaged)
	is(t, client.Save(ctx, "k", clientstore.Saved{Cursor: "2"}), ledger.ErrDamaged)
	must(t, client.Delete(ctx, "k"))
	_, err = client.Received(ctx, "k", 0, 9)
	is(t, err, ledger.ErrDamaged)
	if got := ok(client.Received(ctx, "k", 1, 9))(t); len(got) != 1 || got[0].EventID != "b" {
		t.Errorf("%+v", got)
	}
	must(t, client.TakeReceived(ctx, "k", 1, clientstore.Saved{Cursor: "2"}))
	if got := ok(client.Received(ctx, "k", 0, 9))(t); len(got) != 1 || got[0].EventID != "b" {
		t.Errorf("%+v", got)
	}
}
