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
	// healthTimeout is the maximum duration of Healthy and Ready.
	healthTimeout = 5 * time.Second
	// maxTailAge is how old the last read of a log's tail can be before Ready queries the store.
	maxTailAge = 5 * time.Second
)

// Healthy returns nil unless this process must be replaced. It returns an error if it cannot acquire the server's locks
// before ctx ends, or within 5 s. It ignores Shutdown and problems that a restart would not fix, such as an unreachable
// store. Package transport serves it as a liveness probe.
func (s *Server) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := s.checkLocks(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Ready returns nil if this process can serve requests. Otherwise, it returns an error: the process is shutting down or
// not healthy, the store is unreachable or the last writes to it failed, the process has not seen recent appends of
// other processes, or webhook subscriptions are still being restored after startup. Ready returns within 5 s. Package
// transport serves it as a readiness probe.
func (s *Server) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if s.isClosed() {
		return fmt.Errorf("server: shutting down: %w", events.ErrClosed)
	}
	if err := s.checkLocks(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	types := s.eventTypes()
	if err := s.pingStore(ctx, types); err != nil {
		return fmt.Errorf("server: the store cannot be reached: %w", err)
	}
	if err := s.writes.persistentFailure(); err != nil {
		return fmt.Errorf("server: the store does not take writes: %w", err)
	}
	for _, et := range types {
		if et.topic == nil {
			continue
		}
		if err := et.topic.Caught(ctx, maxTailAge); err != nil {
			return fmt.Errorf("server: %s has not caught up with other processes' appends: %w", et.name, err)
		}
	}
	if err := s.parts.Ready(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// pingStore pings the store, or queries its logs if the store is not a [store.Pinger].
func (s *Server) pingStore(ctx context.Context, types []*eventType) error {
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

// A lockCheck checks the server's locks. It runs one check at a time, so blocked checks do not accumulate goroutines.
type lockCheck struct {
	mu   sync.Mutex
	seen chan struct{} // closed when the running check ends; nil without one
}

// checkLocks acquires and releases each lock that requests use.
func (s *Server) checkLocks(ctx context.Context) error {
	v := &s.lockCheck
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
	for _, et := range s.eventTypes() {
		et.current()
		if et.topic != nil {
			et.topic.Head()
		}
	}
	s.leases.All()
	s.streams.All()
	s.parts.Touch()
}
