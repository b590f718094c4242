package clustertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// checkTests contains the tests of types with a check, which finds occurrences upstream.
var checkTests = []test{
	{name: "REP-9, CUR-1: subscriptions to a check have one owner per feed, and continue after a handover and a crash", run: checksGoOn},
	{name: "REP-14: a type with both sources delivers both copies, everywhere", run: bothCopies},
}

// An upstream is a list of items. A cursor is the number of items before it.
type upstream struct {
	mu    sync.Mutex
	items []events.Item[incident]
}

func (u *upstream) put(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.items = append(u.items, events.Item[incident]{ID: id, Timestamp: time.Now(), Data: incident{ID: id}})
}

func (u *upstream) check(_ context.Context, _ filter, cursor string) (events.Page[incident], error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.items)
	if cursor != "" {
		var err error
		if n, err = strconv.Atoi(cursor); err != nil || n > len(u.items) {
			return events.Page[incident]{Cursor: strconv.Itoa(len(u.items)), Truncated: true}, nil
		}
	}
	return events.Page[incident]{Items: slices.Clone(u.items[n:]), Cursor: strconv.Itoa(len(u.items))}, nil
}

// checksGoOn tests that the new owner continues at the old owner's position after a handover. After a crash, it may
// repeat deliveries.
func checksGoOn(f *fleet) {
	u := &upstream{}
	f.lease = 2 * time.Second
	f.register = func(s *server.Server) (*server.Emitter[incident], error) {
		return nil, server.RegisterCheck(s, f.typ, u.check, f.hooks, server.WithNextPoll(20*time.Millisecond))
	}
	f.start(2)
	const subs = 6
	var ids []string
	for i := range subs {
		ids = append(ids, f.members[i%2].subscribe("ann", params(hook(i), secretA, "")).ID)
	}
	for _, id := range ids {
		if f.owner(id) != f.owner(ids[0]) {
			f.Fatal("one feed has two owners")
		}
	}
	f.waitForOrders() // until the owner has restored all of them
	var sent []string
	put := func() {
		id := fmt.Sprintf("m%02d", len(sent))
		sent = append(sent, id)
		u.put(id)
	}
	got := func() bool {
		for i := range subs {
			if !sameSet(f.r.requestsTo(hook(i)), sent) {
				return false
			}
		}
		return true
	}
	put()
	f.soon("the first", got)
	for range 2 {
		f.join()
		f.waitSettled()
		f.leave(f.owner(ids[0]))
		put()
		f.waitSettled()
		put()
		f.soon("after the handover", got)
	}
	for i := range subs {
		f.equal("without a crash", slices.Sorted(slices.Values(f.r.requestsTo(hook(i)))), sent...) // pending deliveries may go out together
	}
	f.join()
	f.waitSettled()
	f.disconnect(f.owner(ids[0]))
	put()
	f.wait("after the crash", got)
}

// bothCopies tests that both copies of an event arrive with the same eventId, regardless of the emitting process. No
// process suppresses a copy because of its in-memory state.
func bothCopies(f *fleet) {
	u := &upstream{}
	f.options.NextPoll = 20 * time.Millisecond
	f.register = func(s *server.Server) (*server.Emitter[incident], error) {
		return server.RegisterBoth(s, f.typ, u.check, f.hooks)
	}
	f.start(2)
	var streams []*stream
	for _, m := range f.members {
		streams = append(streams, m.stream("", `{"name":"e"}`))
	}
	begin := f.members[1].poll(nil, "").Cursor
	f.members[0].emit(incident{ID: "x"})
	u.put("x")
	for _, s := range streams {
		f.soon("both copies", func() bool { return len(s.ids()) == 2 })
		f.equal("stream", s.ids(), "x", "x")
	}
	f.soon("both copies in a poll", func() bool {
		p := f.members[1].poll(begin, "")
		return slices.Equal(p.ids(), []string{"x", "x"})
	})
}
