package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
)

// Subscriptions returns the live subscriptions: open streams, pollers with an unexpired lease, and webhook
// subscriptions. Equal subscriptions are listed once.
func (s *Server) Subscriptions() []Subscription {
	seen := map[string]bool{}
	var subs []Subscription
	add := func(sub eventtype.Subscription) {
		if !seen[sub.ID] {
			seen[sub.ID] = true
			subs = append(subs, Subscription(sub))
		}
	}
	for _, st := range s.streams.All() {
		add(st.Subscription())
	}
	for _, l := range s.leases.All() {
		add(l.Subscription())
	}
	s.parts.Each(add)
	slices.SortFunc(subs, func(a, b Subscription) int {
		if a.Event != b.Event {
			return strings.Compare(a.Event, b.Event)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return subs
}

// Shutdown ends all streams and held polls, and waits until the deliveries in flight finish or ctx ends. Streams end
// with their final result. Polls return the occurrences collected so far. Other pending deliveries are kept for the
// next start. Shutdown is idempotent. After Shutdown, Emit and the Register functions return events.ErrClosed. See
// SRV-6.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.streams.Close()
	done := make(chan struct{})
	var partsErr error
	go func() {
		defer close(done)
		partsErr = s.parts.Shutdown(ctx)
		s.streams.Wait()
		s.running.Wait()
		s.leases.Close()
		s.stopObserving()
	}()
	select {
	case <-done:
		if partsErr != nil {
			return fmt.Errorf("shutting down: %w", partsErr)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shutting down: %w", ctx.Err())
	}
}

func (s *Server) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// addCheckCall makes Shutdown wait for an additional call of a check. It returns false after Shutdown.
func (s *Server) addCheckCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}
