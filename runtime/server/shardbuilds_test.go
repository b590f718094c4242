package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
)

var narrowInput = strings.Replace(filterSchema, `,"tag":{"type":"string"}`, ``, 1)

// REP-16: an additive build beside the older one, handovers in both directions, the older one restarted beside
// it, and a rollback end nothing and lose nothing.
func TestREP16WebhooksOverAdditiveBuilds(t *testing.T) {
	sail(t, 1, func(f *fleet) { f.payload, f.options.replica().Lease = oldPayload, 3*time.Second }, func(t *testing.T, f *fleet) {
		var sent []string
		for i := range 6 {
			f.members[0].subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
		}
		send := func() {
			for _, m := range f.afloat() {
				id := fmt.Sprintf("i%03d", len(sent))
				emit(t, m.emitter, incident{ID: id, Level: 100})
				sent = append(sent, id)
			}
		}
		for _, payload := range []string{additivePayload, oldPayload, additivePayload, oldPayload} {
			f.payload = payload
			f.join()
			f.settled()
			send()
			time.Sleep(f.options.replica().Lease + time.Second/2) // long enough for an ending
			f.leave(f.afloat()[0])
			send()
		}
		for i := range 6 {
			url := fmt.Sprint(plain, i)
			waitUntil(t, "all", func() bool { return len(f.r.to(url)) >= len(sent) })
			if !covers(f.r.to(url), sent) {
				t.Errorf("%s got %v", url, f.r.to(url))
			}
		}
	})
}

// REP-16, EVOL-2: subscriptions of before an incompatible change go on while a process of the older build is
// there, also when that is restarted beside the newer one, and end when none has been there for the time of
// a lease; those of the newer build stay.
func TestREP16EndingsWaitForTheLastOlderBuild(t *testing.T) {
	const grace = 8 * time.Second // a restart takes its time
	sail(t, 1, func(f *fleet) { f.payload, f.options.replica().Lease = oldPayload, grace }, func(t *testing.T, f *fleet) {
		for i := range 6 {
			f.members[0].subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
		}
		f.payload = narrowPayload
		newer := f.join()
		f.settled()
		fresh := newer.subscribe(t, "bob", params(plain, secretA, ""))
		f.payload = oldPayload
		f.leave(f.members[0])
		older := f.join()
		f.settled()
		time.Sleep(grace + time.Second)
		emit(t, older.emitter, incident{ID: "1", Level: 100})
		for i := range 6 {
			url := fmt.Sprint(plain, i)
			waitUntil(t, "the delivery", func() bool { return len(f.r.to(url)) > 0 })
			wantStrings(t, url, f.r.to(url), "1")
		}
		f.leave(older)
		left := time.Now()
		for i := range 6 {
			url := fmt.Sprint(plain, i)
			waitUntil(t, "the end", func() bool { return len(f.r.to(url)) > 1 })
			if got := f.r.to(url)[1]; !strings.HasPrefix(got, "terminated") || !strings.Contains(got, `"reason":"schema_changed"`) {
				t.Errorf("%s: %s", url, got)
			}
		}
		if d := time.Since(left); d < grace/2 {
			t.Errorf("they ended %v after the last older build left", d)
		}
		f.owner(fresh.ID)
		if _, all, err := newer.store.CountSubscriptions(t.Context(), "ann"); err != nil || all != 1 {
			t.Errorf("%d records, %v", all, err)
		}
	})
}

// REP-16: an owner that cannot read a record's arguments leaves it to others and loses nothing of what they
// deliver later.
func TestREP16UnreadableArgumentsAreLeftToOthers(t *testing.T) {
	sail(t, 1, func(f *fleet) { f.options.replica().Lease = time.Hour }, func(t *testing.T, f *fleet) {
		s := f.members[0].subscribe(t, "ann", params(plain, secretA, `,"arguments":{"tag":"x"}`))
		var sent []string
		send := func(m *sailor) {
			id := fmt.Sprint("i", len(sent))
			emit(t, m.emitter, incident{ID: id, Level: 1, Tags: []string{"x"}})
			sent = append(sent, id)
		}
		send(f.members[0])
		waitUntil(t, "the first", func() bool { return len(f.r.to(plain)) == 1 })
		f.input = narrowInput
		newer := f.join()
		f.settled()
		f.leave(f.members[0])
		f.settled()
		send(newer)
		time.Sleep(2 * time.Second) // marks go on
		if newer.live().Get(s.ID) != nil {
			t.Fatal("it is live at a build that cannot read it")
		}
		f.input = ""
		older := f.join()
		f.settled()
		f.leave(newer)
		f.settled()
		send(older)
		waitUntil(t, "all", func() bool { return len(f.r.to(plain)) >= len(sent) })
		wantStrings(t, "delivered", f.r.to(plain), sent...)
	})
}

// REP-16, EVOL-1: subscriptions of a type that only some builds know go on there, are no orphans while one of
// them is there, and end when none has been for a time.
func TestREP16Orphans(t *testing.T) {
	sail(t, 1, nil, func(t *testing.T, f *fleet) {
		s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
		f.payload = "none"
		other := f.join()
		if _, err := Register(other.Server, incidentType("f"), Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if f.members[0].live().Settled("e") != cluster.Shards || other.live().Settled("e") != 0 {
			t.Fatal("a process that does not know the type owns shards of it")
		}
		emit(t, f.members[0].emitter, incident{ID: "1"})
		waitUntil(t, "the delivery", func() bool { return len(f.r.to(plain)) == 1 })
		if err := f.members[0].Remove("e"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		wantStrings(t, "soon after", f.r.to(plain), "1")
		if _, ok, err := other.store.Subscription(t.Context(), s.ID); !ok || err != nil {
			t.Fatal("it ended at once", err)
		}
		waitUntil(t, "the end", func() bool { return len(f.r.to(plain)) == 2 })
		if got := f.r.last().short(); !strings.HasPrefix(got, "terminated -32011 NotFound") {
			t.Error(got)
		}
		// It comes back: its shards go to who serves it.
		f.payload = ""
		f.members[0].emitter = f.register(f.members[0].Server, "")
		waitUntil(t, "it is owned again", func() bool { return f.members[0].live().Settled("e") == cluster.Shards })
	})
}

// REP-10, REP-6: processes come, leave and crash while all emit and subscriptions come and go at any: each
// gets everything from when it was made, whoever delivers.
func TestREP10NothingIsMissed(t *testing.T) {
	sail(t, 3, func(f *fleet) { f.options.replica().Lease = 2 * time.Second }, func(t *testing.T, f *fleet) {
		type made struct {
			url  string
			from int // index of the first emit that began after the answer
			to   int // index after the last emit that had ended before the unsubscribe; -1 while it lives
		}
		var mu sync.Mutex
		var sent []string
		var subs []*made
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(30 * time.Millisecond):
				}
				id := fmt.Sprintf("i%05d", i)
				mu.Lock()
				sent = append(sent, id)
				mu.Unlock()
				for {
					all := f.afloat()
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
					err := all[rand.IntN(len(all))].emitter.Emit(ctx, incident{ID: id, Level: 100}, events.WithID(id))
					cancel()
					if err == nil {
						break
					}
				}
			}
		})
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
				url := fmt.Sprint(plain, i)
				all := f.afloat()
				m := all[rand.IntN(len(all))]
				p := params(url, secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i%7))
				if _, rerr := call(m.Server, "ann", "events/subscribe", p); rerr != nil {
					continue // it was ended meanwhile
				}
				mu.Lock()
				subs = append(subs, &made{url, len(sent) + 1, -1})
				mu.Unlock()
			}
		})
		for range 3 {
			time.Sleep(700 * time.Millisecond)
			f.join()
			time.Sleep(700 * time.Millisecond)
			f.sink(f.afloat()[0])
			time.Sleep(700 * time.Millisecond)
			f.join()
			f.leave(f.afloat()[0])
		}
		close(stop)
		wg.Wait()
		for _, s := range subs {
			want := sent[min(s.from, len(sent)):]
			missing := func() (m []string) {
				got := map[string]bool{}
				for _, id := range f.r.to(s.url) {
					got[id] = true
				}
				for _, id := range want {
					if !got[id] {
						m = append(m, id)
					}
				}
				return m
			}
			end := time.Now().Add(time.Minute)
			for len(missing()) > 0 && time.Now().Before(end) {
				time.Sleep(20 * time.Millisecond)
			}
			if m := missing(); len(m) > 0 {
				t.Errorf("%s missed %d of %d: %v", s.url, len(m), len(want), m[:min(5, len(m))])
			}
		}
		t.Logf("%d subscriptions, %d occurrences, %d deliveries", len(subs), len(sent), len(f.r.all()))
	})
}
