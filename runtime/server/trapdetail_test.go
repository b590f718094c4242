package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// parked is a reader with its bell.
type parked struct {
	topic.Reader
	rung bool
}

// Ring implements [topic.Bell].
func (r *parked) Ring() { r.rung = true }

// parkedAt is a reader of the type "e" that waits at a position; ok is what park said.
func parkedAt(t *testing.T, s *Server, arguments string, ahead store.Position) (r *parked, ok bool) {
	t.Helper()
	et := s.types["e"]
	a, err := eventtype.Parse(et.current(), []byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	_, head := et.topic.Bounds()
	r = &parked{}
	r.Reader = et.topic.Reader(a.Arguments, fmt.Sprint("sub_", arguments), r, head+ahead)
	t.Cleanup(r.Close)
	return r, r.Park()
}

// Trap 15: a reader that has read an entry before the append tells of it stays parked: it is not woken
// for what it has. Topic.handleAppended carries it.
func TestTrap15ReadBeforeTold(t *testing.T) {
	s := newServer(t, Options{})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	r, ok := parkedAt(t, s, `{}`, 1) // as if the log had shown it the entry that comes
	if !ok {
		t.Fatal("it does not park")
	}
	emit(t, e, incident{ID: "x1"})
	if h := e.et.topic.Holding(); r.rung || h.Parked != 1 || r.Passed() != 1 {
		t.Errorf("woken for what it has read: %+v, passed %d", h, r.Passed())
	}
	emit(t, e, incident{ID: "x2"})
	if h := e.et.topic.Holding(); !r.rung || h.Parked != 0 || r.Passed() != 1 {
		t.Errorf("not woken for the next one: %+v, passed %d", h, r.Passed())
	}
	if at := r.Unpark(); at != 1 {
		t.Errorf("it jumps to %d", at)
	}
}

// Trap 15: an occurrence with more values than are looked up one by one wakes whom it concerns and
// nobody else. index.wakeMatching carries it, and bucket.meets.
func TestTrap15ManyValues(t *testing.T) {
	s := newServer(t, Options{})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	there, _ := parkedAt(t, s, `{"tag":"t70"}`, 0)
	notThere, _ := parkedAt(t, s, `{"tag":"other"}`, 0)
	both, _ := parkedAt(t, s, `{"tag":"t1","severity":"P1"}`, 0)
	notBoth, _ := parkedAt(t, s, `{"tag":"t1","severity":"P2"}`, 0)
	i := incident{ID: "x1", Severity: "P1"}
	for n := range topic.MaxComposites + 10 {
		i.Tags = append(i.Tags, fmt.Sprint("t", n))
	}
	emit(t, e, i)
	if !there.rung || !both.rung {
		t.Error("one that it concerns is not woken")
	}
	if notThere.rung || notBoth.rung {
		t.Error("one that it does not concern is woken")
	}
}

// Trap 9: the ids of all modes are made of the canonical arguments, also where what the caller wrote is
// shorter and kept in their place. arguments.canonical carries it, with subscription,
// eventtype.Identify, subscriber.Subscriptions.parseArguments and Server.unsubscribe, which call it.
func TestTrap9ShorterThanCanonical(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		const short, long = `{"minLevel":1e9}`, `{"minLevel":1000000000}`
		subscribed := func(arguments string) string {
			return w.subscribe("alice", params(plain, secretA, `,"arguments":`+arguments)).ID
		}
		if a, b := subscribed(short), subscribed(long); a != b || len(w.live().Holding().Live) != 1 {
			t.Errorf("subscribe: %s and %s", a, b)
		}
		_, rerr := call(w.Server, "alice", wire.MethodUnsubscribe, `{"name":"e","arguments":`+short+`,"delivery":{"url":"`+plain+`"}}`)
		if rerr != nil {
			t.Errorf("unsubscribe: %v", rerr)
		}
		for _, a := range []string{short, long} {
			pollAs(t, w.Server, "alice", `{"name":"e","arguments":`+a+`}`)
		}
		if n := len(w.leases.All()); n != 1 {
			t.Errorf("poll: %d leases", n)
		}
		x, y := streamAs(t, w.Server, "alice", `{"name":"e","arguments":`+short+`}`), streamAs(t, w.Server, "alice", `{"name":"e","arguments":`+long+`}`)
		if x.st.Subscription().ID != y.st.Subscription().ID {
			t.Errorf("stream: %s and %s", x.st.Subscription().ID, y.st.Subscription().ID)
		}
	})
}

// Trap 10: a caller that has gone is told nothing more, also when the stream's own time is over at the
// same moment. run.loop carries it: it asks for the caller's end before it looks at anything else.
func TestTrap10GoneAndExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		register(t, s, "e", Hooks[filterArgs, incident]{})
		r := streamRequest("ann", `{"name":"e"}`)
		r.Expires = time.Now().Add(time.Minute)
		st, err := s.inside().Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := &recorder{id: "8", gate: func(int, []frame.Frame) error {
			cancel()
			time.Sleep(2 * time.Minute)
			return nil
		}}
		final, err := st.Run(ctx, c)
		if final != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s %v", final, err)
		}
		if _, err := st.Run(t.Context(), c); err == nil {
			t.Error("a stream runs twice")
		}
		wantStrings(t, "written", c.shorts(), "active")
	})
}

// Trap 10, AUTH-4: a token that expires ends the stream without terminated. run.checkState carries
// it.
func TestTrap10ExpiryIsNoTermination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		register(t, s, "e", Hooks[filterArgs, incident]{})
		r := streamRequest("ann", `{"name":"e"}`)
		r.Expires = time.Now().Add(time.Second)
		st, err := opened(s.inside().Open(t.Context(), r))
		if err != nil {
			t.Fatal(err)
		}
		l := runStream(st)
		defer l.cancel()
		time.Sleep(2 * time.Second)
		<-l.done
		wantStrings(t, "written", l.shorts(), "active")
		if l.final == nil || l.err != nil {
			t.Errorf("%s %v", l.final, l.err)
		}
	})
}
