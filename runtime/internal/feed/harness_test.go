package feed

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A service is an upstream whose cursors are how many items it had, with the event type that finds them.
type service struct {
	t     *testing.T
	typ   *topic.Type
	emits *topic.Topic
	feeds *Feeds
	check *Check
	calls sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	items   []Item
	kept    int // items before it are gone
	page    int
	fail    error
	asked   []string
	delay   time.Duration // of each call
	hanging int           // calls
}

const interval = time.Minute

// asking runs f in a bubble with a service.
func asking(t *testing.T, f func(t *testing.T, s *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		input, err := validate.Compile([]byte(`{"type":"object"}`))
		if err != nil {
			t.Fatal(err)
		}
		anything := func(raw json.RawMessage) (any, error) { v := new(map[string]any); return v, json.Unmarshal(raw, v) }
		s := &service{t: t, page: 2, feeds: new(Feeds), typ: &topic.Type{Name: "e", NameHash: 7, NameJSON: []byte(`"e"`), MaxArguments: 1 << 10, Input: input,
			DecodeArguments: anything, DecodePayload: anything, Encodable: func(json.RawMessage, *validate.Members) error { return nil }}}
		s.emits, err = topic.Open(s.typ, topic.Options{Slots: 64, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
			return memory.NewLog(store.LogOptions{Appended: appended}), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.feeds.Init(s, Bounds{})
		s.check = &Check{Ask: s.ask, Interval: interval, Shared: true}
		s.feeds.Adopt(s.check)()
		f(t, s)
		s.set(func() { s.closed = true })
		s.calls.Wait()
		if n := s.feeds.Len(); n != 0 {
			t.Errorf("%d feeds are left", n)
		}
	})
}

func (s *service) Topic() *topic.Topic { return s.emits }
func (s *service) Log() *fault.Log     { return &fault.Log{Logger: slog.New(slog.DiscardHandler)} }

func (s *service) Begin() (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.calls.Add(1)
	return s.calls.Done, true
}

func (s *service) ask(ctx context.Context, _ any, cursor string) (p Page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delay > 0 {
		s.hanging++
		delay := time.After(s.delay)
		s.mu.Unlock()
		select {
		case <-delay:
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.mu.Lock()
		if s.hanging--; err != nil {
			return p, err
		}
	}
	s.asked = append(s.asked, cursor)
	if s.fail != nil {
		return p, s.fail
	}
	from := len(s.items)
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil {
			return p, err
		}
	}
	if p.Truncated = from < s.kept; p.Truncated {
		from = s.kept
	}
	to := min(from+s.page, len(s.items))
	p.Items, p.Cursor, p.HasMore = slices.Clone(s.items[from:to]), strconv.Itoa(to), to < len(s.items)
	return p, nil
}

// happen adds items to the upstream.
func (s *service) happen(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.items = append(s.items, Item{ID: id, Time: time.Now(), Data: json.RawMessage(`{}`)})
	}
}

// set changes the upstream.
func (s *service) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// questions returns how often the check was asked, and forgets it.
func (s *service) questions() int {
	synctest.Wait() // one may be under way
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.asked)
	s.asked = nil
	return n
}

func (s *service) args() *topic.Arguments {
	s.t.Helper()
	a, err := s.typ.Parse(json.RawMessage(`{}`))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// A stream is a subscription.
type stream struct {
	t *testing.T
	*Source
	wake topic.Wake
	gaps int
	// failed are the failures that it was told of.
	failed []error
}

// open begins a subscription at a cursor, "" for now.
func (s *service) open(cursor string, wantTruncated bool) *stream {
	s.t.Helper()
	return s.openAt(Start{Replay: replay(cursor)}, wantTruncated)
}

func replay(cursor string) (w topic.Replay) {
	if cursor != "" {
		w.Cursor = &cursor
	}
	return w
}

func (s *service) openAt(at Start, wantTruncated bool) *stream {
	s.t.Helper()
	st := &stream{t: s.t, wake: topic.NewWake()}
	_, at.Head = s.emits.Bounds()
	src, truncated, err := Open(s.t.Context(), Seat{Feeds: s.feeds, ID: "sub", Principal: "ann", Bell: st.wake}, s.check, s.args(), at)
	if err != nil || truncated != wantTruncated {
		s.t.Fatalf("truncated %v, %v", truncated, err)
	}
	st.Source = src
	return st
}

// read pulls as a stream does, for so long at most, and returns the ids, joined.
func (st *stream) read(within time.Duration) string {
	st.t.Helper()
	var ids []string
	over := time.After(within)
	for {
		p, err := st.Next(st.t.Context(), nil, topic.Batch(topic.PullBatch))
		if err != nil {
			st.t.Fatal(err)
		}
		for _, o := range p.Out {
			ids = append(ids, o.Entry().EventID)
		}
		if p.Gap {
			st.gaps++
		}
		st.failed = append(st.failed, p.Failed...)
		if p.More || len(p.Out) > 0 || p.Gap || len(p.Failed) > 0 || !st.Park() {
			continue
		}
		select {
		case <-st.wake:
		case <-over:
			st.Unpark()
			return strings.Join(ids, " ")
		}
		st.Unpark()
	}
}

// cursor is the one that the stream would tell.
func (st *stream) cursor() (text string) {
	st.t.Helper()
	if err := json.Unmarshal(st.Cursor(), &text); err != nil {
		st.t.Fatal(err)
	}
	return text
}
