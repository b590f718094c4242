package mcpe

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// errUnregistered is returned while the types of the queued events may still be registered.
var errUnregistered = errors.New("mcpe: an event type is not registered")

// registrationTime is how long after the start queues wait for the registration of their event types. The hooks of a
// type can run only afterwards.
const registrationTime = time.Minute

// errWithdrawn is the cancellation cause of a handler run whose events the client may no longer receive.
var errWithdrawn = errors.New("mcpe: the client may no longer receive the event")

// isRefusal reports whether err means that a principal may not receive a type, because of Revoke, an operator or a hook.
// Types that are removed, hidden or changed can become available again, so their errors are not refusals.
func isRefusal(err error) bool {
	var known *events.Error
	if !errors.As(err, &known) {
		return false
	}
	switch known.Kind {
	case wire.NotFound, wire.InvalidParams, wire.Unsupported, wire.Internal, wire.UpstreamError:
		return false
	}
	return true
}

// receives reports whether the subscription can receive events of the type. The caller holds a.mu.
func (s *subscription) receives(event string) bool {
	return typeMatches(&s.filter, event) && !slices.Contains(s.withdrawn, event)
}

// withdraw takes a type from the subscriptions that a watch serves. It drops their undelivered events of the type,
// stops the handlers that run for them, and ends the subscriptions that receive no other type (MCPE-AUTH-1). The caller
// holds w.changing.
func (a *Adapter) withdraw(w *watch, event string, receivesOther func(*subscription) bool) {
	isWithdrawn := func(e mcpewire.Event) bool { return e.Type == event }
	a.mu.Lock()
	var changed, ended []*subscription
	a.subsOfLocked(w.principal, func(s *subscription) {
		if s.status == wire.MCPEExpired || !s.receives(event) {
			return
		}
		s.withdrawn = append(s.withdrawn, event)
		s.early = slices.DeleteFunc(s.early, isWithdrawn)
		if slices.ContainsFunc(s.handling.running, isWithdrawn) {
			s.handling.stop(errWithdrawn)
		}
		if receivesOther(s) {
			changed = append(changed, s)
		} else {
			ended = append(ended, s)
		}
	})
	a.mu.Unlock()
	for _, s := range ended {
		a.expire(s)
	}
	for _, s := range changed {
		a.mu.Lock()
		row := s.row()
		a.mu.Unlock()
		a.saveOrLog("storing a subscription", s, rowsOf(row), nil)
	}
}

// withdrawFollowed withdraws a type whose follower has ended or must end. A subscription ends if the watch has no
// follower left that it needs. The caller holds w.changing.
func (a *Adapter) withdrawFollowed(w *watch, event string) {
	if f := w.followers[event]; f != nil {
		a.unfollow(w, f)
	}
	a.withdraw(w, event, func(s *subscription) bool {
		for name := range w.followers {
			if s.receives(name) {
				return true
			}
		}
		return w.again != nil // a type cannot be followed at the moment
	})
}

// withdrawStored withdraws a type that the hooks refuse to restored subscriptions. Other types may be registered later,
// so it ends only the subscriptions whose filter names nothing else. The caller holds w.changing.
func (a *Adapter) withdrawStored(w *watch, event string) {
	a.withdraw(w, event, func(s *subscription) bool {
		others := func(pattern string) bool { return !slices.Contains(s.withdrawn, pattern) }
		return len(s.filter.EventTypes) == 0 || slices.ContainsFunc(s.filter.EventTypes, others)
	})
}

// refusedTypes returns the types of the events that the client may not receive at the moment. It calls the hooks, and
// withdraws the types that they refuse. It returns an error if a hook fails, and errUnregistered if a type may still be
// registered.
func (a *Adapter) refusedTypes(ctx context.Context, s *subscription, batch []mcpewire.Event) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	principal := s.owner.principal
	refused := map[string]bool{}
	for i := range batch {
		event := batch[i].Type
		if _, asked := refused[event]; asked {
			continue
		}
		err := a.es.MayFollow(ctx, principal, event, a.arguments(principal, event))
		var known *events.Error
		switch {
		case err == nil:
		case !errors.As(err, &known), known.Kind == wire.Internal, known.Kind == wire.UpstreamError:
			return nil, err
		case known.Kind == wire.NotFound && time.Since(a.started) < registrationTime:
			return nil, errUnregistered
		case isRefusal(err):
			w := a.watchOf(principal)
			w.changing.Lock()
			a.withdrawFollowed(w, event)
			w.changing.Unlock()
		}
		refused[event] = err != nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, event := range s.withdrawn {
		refused[event] = true
	}
	return refused, nil
}

// withoutTypes returns queued events, as stored and decoded, without those of refused types.
func withoutTypes(queue []engine.Queued, batch []mcpewire.Event, refused map[string]bool) (keptQueue []engine.Queued, kept []mcpewire.Event) {
	for i := range batch {
		if !refused[batch[i].Type] {
			keptQueue, kept = append(keptQueue, queue[i]), append(kept, batch[i])
		}
	}
	return keptQueue, kept
}

// countPending returns the number of events in a queue that are not of a withdrawn type.
func (a *Adapter) countPending(ctx context.Context, o *owner, key string, withdrawn []string) (n int, err error) {
	if len(withdrawn) == 0 {
		return a.storeOf(o).CountQueued(ctx, key)
	}
	for after := uint64(0); ; {
		queue, err := a.storeOf(o).Queue(ctx, key, after, 500)
		if err != nil || len(queue) == 0 {
			return n, err
		}
		for _, q := range queue {
			var e struct {
				Type string `json:"type"`
			}
			_ = json.Unmarshal(q.Body, &e) // written by this package
			if !slices.Contains(withdrawn, e.Type) {
				n++
			}
			after = q.Sequence
		}
	}
}
