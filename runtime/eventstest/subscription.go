package eventstest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Subscription is a subscription with methods that wait for events in a test. Call its methods from the test's
// goroutine.
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

// Subscribe creates a subscription with a generated Subscribe function or a wrapper of [client.Subscribe]. The
// subscription ends when the test ends. If the server refuses the subscription, it fails the test. To test a refusal,
// call the function directly.
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

// Next returns the next event. It fails the test if no event arrives within the given time, or if a gap, an error or
// the end of the subscription precedes it.
func (s *Subscription[A, P]) Next(within time.Duration) *events.Event[A, P] {
	s.t.Helper()
	it, ok := s.take(within)
	switch {
	case !ok:
		s.t.Fatalf("%s: no event within %v%s", s.event, within, s.explainSilence())
	case it.err != nil:
		s.t.Fatalf("%s: got the error %v, want an event", s.event, it.err)
	}
	return it.event
}

// Err returns the next error, which is a [client.GapError], another error between events, or the final error. It fails
// the test if no error arrives within the given time, or if an event precedes it.
func (s *Subscription[A, P]) Err(within time.Duration) error {
	s.t.Helper()
	it, ok := s.take(within)
	switch {
	case !ok:
		s.t.Fatalf("%s: no error within %v%s", s.event, within, s.explainSilence())
	case it.err == nil:
		s.t.Fatalf("%s: got the event %s %s, want an error", s.event, it.event.ID, it.event.Raw)
	}
	return it.err
}

// None waits for the given time. It fails the test if an event or an error arrives. An ended subscription yields
// neither.
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

// Close closes the subscription before the end of the test.
func (s *Subscription[A, P]) Close() {
	s.stop()
	_ = s.inner.Close() // always nil
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

// explainSilence returns a possible reason for the absence of events.
func (s *Subscription[A, P]) explainSilence() string {
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
