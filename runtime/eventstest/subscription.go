package eventstest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Subscription is what a test expects events from. Its methods are called from the test's goroutine.
type Subscription[A, P any] struct {
	t     testing.TB
	inner *client.Subscription
	event string
	items chan item[A, P]
	stop  context.CancelFunc
	done  chan struct{}
}

type item[A, P any] struct {
	event *events.Event[A, P]
	err   error
}

// Subscribe subscribes by a generated Subscribe function, or by one around [client.Subscribe], until the test ends. It
// fails the test when the server refuses; a test of a refusal calls the function itself.
func Subscribe[A, P any, S interface {
	Events() iter.Seq2[*events.Event[A, P], error]
	Subscription() *client.Subscription
}](t testing.TB, c *Client, subscribe func(context.Context, *client.Client, A, ...client.SubscribeOption) (S, error), args A, o ...client.SubscribeOption) *Subscription[A, P] {
	t.Helper()
	sub, err := subscribe(t.Context(), c.Client, args, o...)
	if err != nil {
		t.Fatalf("subscribing: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Subscription[A, P]{t: t, inner: sub.Subscription(), event: sub.Subscription().Status().Event,
		items: make(chan item[A, P]), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for ev, err := range sub.Events() {
			select {
			case s.items <- item[A, P]{ev, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(s.Close)
	return s
}

// Next returns the next event. It fails the test when none comes within that time, and when something else comes first:
// a gap, an error, the end.
func (s *Subscription[A, P]) Next(within time.Duration) *events.Event[A, P] {
	s.t.Helper()
	it, ok := s.take(within)
	switch {
	case !ok:
		s.t.Fatalf("%s: no event within %v%s", s.event, within, s.status())
	case it.err != nil:
		s.t.Fatalf("%s: got the error %v, want an event", s.event, it.err)
	}
	return it.event
}

// Err returns the error that comes next: a [client.GapError], another one between events, or the one that ends the
// subscription. It fails the test when none comes within that time, and when an event comes first.
func (s *Subscription[A, P]) Err(within time.Duration) error {
	s.t.Helper()
	it, ok := s.take(within)
	switch {
	case !ok:
		s.t.Fatalf("%s: no error within %v%s", s.event, within, s.status())
	case it.err == nil:
		s.t.Fatalf("%s: got the event %s %s, want an error", s.event, it.event.ID, it.event.Raw)
	}
	return it.err
}

// None waits for that time, and fails the test when something comes, an event or an error. A subscription that has
// ended has none.
func (s *Subscription[A, P]) None(within time.Duration) {
	s.t.Helper()
	it, ok := s.take(within)
	switch {
	case !ok:
	case it.err != nil:
		s.t.Fatalf("%s: got the error %v, want nothing", s.event, it.err)
	default:
		s.t.Fatalf("%s: got the event %s %s, want nothing", s.event, it.event.ID, it.event.Raw)
	}
}

// Close ends the subscription, before the test does.
func (s *Subscription[A, P]) Close() {
	s.stop()
	_ = s.inner.Close() // is always nil
	<-s.done
}

func (s *Subscription[A, P]) take(within time.Duration) (item[A, P], bool) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case it := <-s.items:
		return it, true
	case <-timer.C:
		return item[A, P]{}, false
	}
}

// status is what may explain why nothing comes.
func (s *Subscription[A, P]) status() string {
	select {
	case <-s.done:
		return ": the subscription has ended"
	default:
	}
	if err := s.inner.Status().LastError; err != nil {
		return ": " + err.Error()
	}
	return ""
}
