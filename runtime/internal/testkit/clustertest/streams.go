package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// streamTests contains the tests of streams and polls and of orders from other processes that affect them.
var streamTests = []test{
	{name: "REP-2: all streams get the events of all processes, in one order, once", run: func(f *fleet) { streamsOfAll(f) }},
	{name: "REP-2: streams of a type without replay do so as well", run: func(f *fleet) { f.typ.Info.NoReplay = true; streamsOfAll(f) }},
	{name: "CUR-2: without a cursor, each process begins after what the others have acknowledged", run: fromNow},
	{name: "REP-14: a client that moves between processes misses nothing and gets nothing twice", run: continueAnywhere},
	{name: "REP-13: an order at one process affects the streams of all, once each", run: ordersReachAll},
	{name: "REP-13: a terminated type stays closed everywhere until an operator or its next registration opens it", run: staysClosed},
	{name: "REP-13: a target by id may live in another process", run: targetsElsewhere},
	{name: "REP-13: if an order cannot be sent to other processes, the caller gets an error", run: othersCannotBeTold},
	{name: "REP-13, REP-21: a process that only emits can also give orders", run: ordersOfAWorker},
}

// A writtenFrame is a frame that a stream has written.
type writtenFrame struct {
	method string
	params struct {
		EventID   string  `json:"eventId"`
		Cursor    *string `json:"cursor"`
		Truncated bool    `json:"truncated"`
	}
}

// A stream is a running stream.
type stream struct {
	done   chan struct{} // closed when the stream has ended
	cancel context.CancelFunc
	mu     sync.Mutex
	got    []writtenFrame
}

// Write implements [port.Carrier].
func (s *stream) Write(frames []frame.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range frames {
		g := writtenFrame{method: f.Method()}
		if err := json.Unmarshal(f.Params(), &g.params); err != nil {
			return err
		}
		s.got = append(s.got, g)
	}
	return nil
}

func (s *stream) frames() []writtenFrame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *stream) ids() (ids []string) {
	for _, f := range s.frames() {
		if f.method == wire.NotificationEvent {
			ids = append(ids, f.params.EventID)
		}
	}
	return ids
}

func (s *stream) end() {
	s.cancel()
	<-s.done
}

// stream opens a stream and waits until it is active.
func (m *member) stream(principal, params string) *stream {
	m.f.Helper()
	st, err := port.Of(m.Server).Open(context.Background(), port.Request{Method: wire.MethodStream, Params: json.RawMessage(params),
		ID: json.RawMessage("8"), Principal: principal, Stateless: true, CanStream: true})
	if err != nil {
		m.f.Fatalf("stream at %s: %v", m.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		_, _ = st.Run(ctx, s) // the frames show how it ends
	}()
	m.f.Cleanup(s.end)
	m.f.soon("active", func() bool { return len(s.frames()) > 0 })
	return s
}

// A pollResult is the result of a poll.
type pollResult struct {
	Events []struct {
		EventID string `json:"eventId"`
	} `json:"events"`
	Cursor    *string `json:"cursor"`
	Truncated bool    `json:"truncated"`
}

func (p *pollResult) ids() (ids []string) {
	for _, e := range p.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// poll polls from the cursor, or from now if it is nil. more contains additional members with a leading comma.
func (m *member) poll(cursor *string, more string) (p pollResult) {
	m.f.Helper()
	at, err := json.Marshal(cursor)
	if err != nil {
		m.f.Fatal(err)
	}
	raw, rerr := m.call("", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%s%s}`, at, more))
	if rerr != nil {
		m.f.Fatalf("poll at %s: %d %s %s", m.name, rerr.Code, rerr.Message, rerr.Data)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		m.f.Fatal(err)
	}
	return p
}

func streamsOfAll(f *fleet) {
	f.start(3)
	var streams []*stream
	for _, m := range f.members {
		streams = append(streams, m.stream("", `{"name":"e","arguments":{"severity":"P1"}}`))
	}
	const each = 20
	var wg sync.WaitGroup
	for i, m := range f.members {
		wg.Go(func() {
			for n := range each {
				m.emit(incident{ID: fmt.Sprintf("m%d-%d", i, n), Severity: "P1"})
				m.emit(incident{ID: fmt.Sprintf("no%d-%d", i, n), Severity: "P2"})
			}
		})
	}
	wg.Wait()
	all := each * len(f.members)
	for _, s := range streams {
		f.soon("all occurrences", func() bool { return len(s.ids()) >= all })
	}
	want := streams[0].ids()
	if set := slices.Compact(slices.Sorted(slices.Values(want))); len(set) != all {
		f.Fatalf("%d distinct occurrences, want %d", len(set), all)
	}
	for i, s := range streams {
		f.equal(fmt.Sprintf("stream at %s", f.members[i].name), s.ids(), want...)
	}
}

// continueAnywhere tests that no poll or stream reports a truncation while other processes emit.
func continueAnywhere(f *fleet) {
	f.start(3)
	begin := f.members[0].poll(nil, "").Cursor
	const total = 150
	var want []string
	for n := range total {
		want = append(want, fmt.Sprintf("i%03d", n))
	}
	var wg sync.WaitGroup
	for i, m := range f.members {
		wg.Go(func() {
			for n := i; n < total; n += len(f.members) {
				m.emit(incident{ID: want[n]})
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	anyOf := func() *member { return f.members[rand.IntN(len(f.members))] }
	var poller, streamer []string
	wg.Go(func() {
		cursor := begin
		for end := time.Now().Add(time.Minute); len(poller) < total && time.Now().Before(end); {
			r := anyOf().poll(cursor, `,"maxEvents":7,"timeoutMs":50`)
			if r.Truncated {
				f.Error("the poll was truncated")
			}
			cursor, poller = r.Cursor, append(poller, r.ids()...)
		}
	})
	wg.Go(func() {
		cursor := *begin
		for end := time.Now().Add(time.Minute); len(streamer) < total && time.Now().Before(end); {
			s := anyOf().stream("", fmt.Sprintf(`{"name":"e","cursor":%q}`, cursor))
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			s.end()
			for _, x := range s.frames() {
				if x.params.Truncated {
					f.Error("the stream was truncated")
				}
				if x.params.Cursor != nil {
					cursor = *x.params.Cursor
				}
			}
			streamer = append(streamer, s.ids()...)
		}
	})
	wg.Wait()
	f.equal("poller", slices.Sorted(slices.Values(poller)), want...)
	f.equal("stream", slices.Sorted(slices.Values(streamer)), want...)
}

func ordersReachAll(f *fleet) {
	var denied, hidden atomic.Bool
	f.options.Authorize = func(_ context.Context, principal, _ string, _ json.RawMessage) error {
		if principal == "ann" && denied.Load() {
			return events.Forbidden("no")
		}
		return nil
	}
	f.options.Visible = func(_ context.Context, principal, _ string) bool { return principal != "ann" || !hidden.Load() }
	f.start(3)
	a := f.members[0]
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) error
		want string // the last frame of the streams of "ann"
		all  bool   // the streams of "bob" as well
	}{
		{"revoke", func(ctx context.Context) error { return a.Revoke(ctx, "ann", "e") }, wire.NotificationTerminated, false},
		{"recheck", func(ctx context.Context) error {
			denied.Store(true)
			return a.Reauthorize(ctx, "ann")
		}, wire.NotificationTerminated, false},
		{"visibility", func(ctx context.Context) error {
			hidden.Store(true)
			return a.RefreshVisibility(ctx)
		}, wire.NotificationTerminated, false},
		{"error", func(ctx context.Context) error {
			n, err := a.Admin().RaiseError(ctx, operator.Target{Event: "e"}, events.Upstream("slow"))
			if n != 2 {
				f.Errorf("%d streams at this process", n)
			}
			return err
		}, wire.NotificationError, true},
		{"gap", func(ctx context.Context) error {
			_, err := a.Admin().RaiseGap(ctx, operator.Target{Event: "e"})
			return err
		}, wire.NotificationActive, true},
		{"terminate", func(ctx context.Context) error {
			_, err := a.Admin().Terminate(ctx, operator.Target{Event: "e"}, events.Forbidden("closed"))
			return err
		}, wire.NotificationTerminated, true},
	} {
		denied.Store(false)
		hidden.Store(false)
		var anns, bobs []*stream
		for _, m := range f.members {
			anns, bobs = append(anns, m.stream("ann", `{"name":"e"}`)), append(bobs, m.stream("bob", `{"name":"e"}`))
		}
		if err := c.do(f.Context()); err != nil {
			f.Fatalf("%s: %v", c.name, err)
		}
		for _, s := range anns {
			f.soon("the signal", func() bool { return len(s.frames()) >= 2 })
		}
		time.Sleep(200 * time.Millisecond) // a second frame would have arrived by now
		for i, s := range anns {
			got := s.frames()
			if len(got) != 2 || got[1].method != c.want {
				f.Errorf("%s: ann's stream at %s: %+v", c.name, f.members[i].name, got)
			}
			if c.want == wire.NotificationActive && (!got[1].params.Truncated || *got[1].params.Cursor == *got[0].params.Cursor) {
				f.Errorf("%s: %+v", c.name, got)
			}
			if c.want == wire.NotificationTerminated {
				<-s.done
			}
		}
		for i, s := range bobs {
			if got := s.frames(); len(got) == 2 != c.all {
				f.Errorf("%s: bob's stream at %s: %+v", c.name, f.members[i].name, got)
			}
		}
		for _, s := range append(anns, bobs...) {
			s.end()
		}
	}
}

// staysClosed tests that a terminated event type remains closed after its terminating process has crashed, and in a
// process that starts later.
func staysClosed(f *fleet) {
	f.start(2)
	refuses := func(m *member) bool {
		_, rerr := m.call("", wire.MethodPoll, `{"name":"e"}`)
		return rerr != nil && rerr.Code == -32012 && string(rerr.Data) == `{"reason":"closed"}`
	}
	a, b := f.members[0], f.members[1]
	if _, err := a.Admin().Terminate(operator.WithActor(f.Context(), "ann"), operator.Target{Event: "e"}, events.Forbidden("closed")); err != nil {
		f.Fatal(err)
	}
	if !refuses(a) {
		f.Fatal("the type is open at the terminating process")
	}
	f.disconnect(a)
	f.soon("closed at the other process", func() bool { return refuses(b) })
	c := f.join()
	if !refuses(c) {
		f.Fatal("the type is open in a process that starts later")
	}
	for _, m := range []*member{b, c} {
		if t := m.Admin().EventTypes(context.Background())[0].Terminated; t == nil || t.By != "ann" || t.At.IsZero() {
			f.Errorf("%s shows the termination %+v", m.name, t)
		}
	}
	if err := c.Admin().Reopen(f.Context(), "e"); err != nil {
		f.Fatal(err)
	}
	if refuses(c) || c.Admin().EventTypes(context.Background())[0].Terminated != nil {
		f.Fatal("the type stays closed at the process that opens it")
	}
	f.soon("opened at the other process", func() bool { return !refuses(b) })
	if err := c.Admin().Reopen(f.Context(), "no"); !errors.Is(err, events.ErrNotFound) {
		f.Errorf("opening an unknown type: %v", err)
	}
	if _, err := c.Admin().Terminate(f.Context(), operator.Target{Event: "e"}, events.Forbidden("closed")); err != nil {
		f.Fatal(err)
	}
	f.soon("closed again", func() bool { return refuses(b) })
	if _, err := server.Register(c.Server, f.typ, f.hooks); err != nil {
		f.Fatal(err)
	}
	if refuses(c) {
		f.Fatal("a new registration does not open the type")
	}
	f.soon("open at the other process", func() bool { return !refuses(b) })
	if refuses(f.join()) {
		f.Fatal("the type is closed in a process that starts after that")
	}
}

func targetsElsewhere(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	s := b.stream("ann", `{"name":"e"}`)
	id := b.Subscriptions()[0].ID
	if _, err := a.Admin().RaiseError(f.Context(), operator.Target{ID: id}, events.Upstream("slow")); err != nil {
		f.Fatal(err)
	}
	f.soon("the error", func() bool { return len(s.frames()) == 2 })
	if _, err := a.Admin().RaiseGap(f.Context(), operator.Target{ID: id}); err != nil {
		f.Fatal(err)
	}
	f.soon("the gap", func() bool { return len(s.frames()) == 3 })
	if got := s.frames(); !got[2].params.Truncated || *got[2].params.Cursor == *got[0].params.Cursor {
		f.Errorf("active: %+v", got)
	}
	if _, err := a.Admin().Terminate(f.Context(), operator.Target{ID: id}, nil); err != nil {
		f.Fatal(err)
	}
	<-s.done
	if _, err := a.Admin().RaiseError(f.Context(), operator.Target{Event: "unknown"}, events.Upstream("slow")); !errors.Is(err, events.ErrNotFound) {
		f.Errorf("an unknown type: %v", err)
	}
}

// othersCannotBeTold tests that an order takes effect in its own process even if the others cannot be notified.
func othersCannotBeTold(f *fleet) {
	f.start(1)
	m := f.members[0]
	s := m.stream("ann", `{"name":"e"}`)
	f.disconnect(m)
	if err := m.Revoke(f.Context(), "ann"); !errors.Is(err, store.ErrClosed) {
		f.Errorf("Revoke: %v", err)
	}
	<-s.done
	if _, err := m.Admin().RevokePrincipal(f.Context(), "ann"); !errors.Is(err, store.ErrClosed) {
		f.Errorf("RevokePrincipal: %v", err)
	}
	if _, err := m.Admin().Terminate(f.Context(), operator.Target{Event: "e"}, nil); !errors.Is(err, store.ErrClosed) {
		f.Errorf("Terminate: %v", err)
	}
}

func ordersOfAWorker(f *fleet) {
	f.start(1)
	s := f.members[0].stream("ann", `{"name":"e"}`)
	worker, err := server.NewEmitOnly(server.Options{Store: f.Open(), Replicas: replicas.New(replicas.Options{}), Logger: f.options.Logger})
	if err != nil {
		f.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := worker.Revoke(f.Context(), "ann"); err != nil {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	<-s.done
	if err := worker.Shutdown(f.Context()); err != nil {
		f.Error(err)
	}
}
