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
	// healthTime bounds Healthy and Ready in addition to their context.
	healthTime = 5 * time.Second
	// tailFresh is the age of the last tail of the log after which Ready queries the store.
	tailFresh = 5 * time.Second
)

// Healthy returns nil while this process works. It returns an error if the process must be replaced because it
// cannot acquire its own locks within ctx, at most 5 s. It ignores Shutdown and problems that a new process would
// share, such as an unreachable store. Package transport serves it as a liveness probe.
func (s *Server) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	if err := s.alive(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Ready returns nil if this process can serve requests. Otherwise it returns the reason: the process is shutting
// down or not healthy, the store is unreachable or failed the last writes, the process has not seen recent appends
// of other processes, or webhook subscriptions are still being restored after its start. It takes at most 5 s.
// Package transport serves it as a readiness probe.
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

// reach pings the store, or queries its logs if the store is not a [store.Pinger].
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

// vitals runs one check of the server's locks at a time, so that a check that hangs does not pile up goroutines.
type vitals struct {
	mu   sync.Mutex
	seen chan struct{} // closed when the running check ends; nil without one
}

// alive acquires every lock that requests need, one after the other.
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
