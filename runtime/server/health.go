package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// healthTime bounds Healthy and Ready where their context does not.
	healthTime = 5 * time.Second
	// tailFresh is how old the last look at what other processes appended may be before Ready asks.
	tailFresh = 5 * time.Second
)

// Healthy returns nil while this process works. It returns an error when the process has to be replaced, because
// it cannot take its own locks within ctx, at most 5 s. A problem that another process would have too, such as a
// store that cannot be reached, is no error, and neither is Shutdown. Package transport has a handler of it for
// liveness probes.
func (s *Server) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	if err := s.alive(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Ready returns nil when this process should be sent requests, or why not: it is shutting down or not
// healthy, the store cannot be reached or did not take the last writes, it has not seen what other processes have appended, or webhook
// subscriptions wait to be taken up after its start. It takes at most 5 s. Package transport has a
// handler of it for readiness probes.
func (s *Server) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	if s.isClosed() {
		return fmt.Errorf("server: shutting down: %w", events.ErrClosed)
	}
	if err := s.alive(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	types := s.all()
	if err := s.reach(ctx, types); err != nil {
		return fmt.Errorf("server: the store cannot be reached: %w", err)
	}
	if err := s.writes.failing(); err != nil {
		return fmt.Errorf("server: the store does not take writes: %w", err)
	}
	for _, et := range types {
		if et.topic == nil {
			continue
		}
		if err := et.topic.Caught(ctx, tailFresh); err != nil {
			return fmt.Errorf("server: %s has not caught up with other processes' appends: %w", et.name, err)
		}
	}
	if s.webhooks != nil {
		if n := s.webhooks.Restoring(); n > 0 {
			return fmt.Errorf("server: webhook subscriptions of %d event types are still being restored", n)
		}
	}
	return nil
}

// reach asks the store, or its logs where it cannot be asked itself.
func (s *Server) reach(ctx context.Context, types []*eventType) error {
	if p, ok := s.options.Store.(store.Pinger); ok {
		return p.Ping(ctx)
	}
	for _, et := range types {
		if et.topic != nil {
			if err := et.topic.Renew(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// vitals are one look at the server's own state at a time: one that hangs is not joined by others.
type vitals struct {
	mu   sync.Mutex
	seen chan struct{} // closed when the look under way is over; nil without one
}

// alive takes every lock that requests need, one after the other.
func (s *Server) alive(ctx context.Context) error {
	v := &s.vitals
	v.mu.Lock()
	seen := v.seen
	if seen == nil {
		seen = make(chan struct{})
		v.seen = seen
		go func() {
			s.touchAll()
			v.mu.Lock()
			defer v.mu.Unlock()
			v.seen = nil
			close(seen)
		}()
	}
	v.mu.Unlock()
	select {
	case <-seen:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server cannot take its own locks in time: %w", ctx.Err())
	}
}

func (s *Server) touchAll() {
	for _, et := range s.all() {
		et.current()
		if et.topic != nil {
			et.topic.Head()
		}
	}
	s.leases.All()
	s.streams.All()
	if s.webhooks != nil {
		s.webhooks.Get("")
		s.webhooks.Delivering()
	}
}
