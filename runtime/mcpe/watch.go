package mcpe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// modeName is the mode of MCPE subscriptions in hooks.
const modeName = wire.MCPEName

// retryFollow is the time between attempts to follow a type.
const retryFollow = 30 * time.Second

// A watch follows the event types that match a principal's subscriptions. The watch for the empty principal serves all
// sessions without a principal, because they may see the same types.
type watch struct {
	principal string
	changing  sync.Mutex // held while followers are opened and closed
	followers map[string]*follower
	again     *time.Timer // guarded by changing
}

// A follower reads one event type for a watch.
type follower struct {
	port.Follower
	info   events.Info
	source string
	saving bool // the cursor is stored with the queues; guarded by taking
	taking sync.Mutex
	limit  *rate.Limiter
	done   chan struct{}
}

func (a *Adapter) watchOf(principal string) *watch {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.watches[principal]
	if w == nil {
		w = &watch{principal: principal, followers: map[string]*follower{}}
		a.watches[principal] = w
	}
	return w
}

// subsOfLocked calls f for each subscription that is served by the watch for principal. The caller holds a.mu.
func (a *Adapter) subsOfLocked(principal string, f func(*subscription)) {
	if principal != "" {
		if o := a.owners["p "+principal]; o != nil {
			for _, s := range o.subs {
				f(s)
			}
		}
		return
	}
	for _, o := range a.owners {
		if o.principal == "" {
			for _, s := range o.subs {
				f(s)
			}
		}
	}
}

// hasSubscribers reports whether a subscription of the principal needs a follower of the type, and whether such a
// subscription has a queue. A paused subscription with a queue needs a follower, because a revocation ends the follower
// and must also drop the queue (MCPE-AUTH-1).
func (a *Adapter) hasSubscribers(principal, event string) (wanted, queued bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subsOfLocked(principal, func(s *subscription) {
		holds := s.status == wire.MCPEActive || s.status == wire.MCPEPaused && len(s.jobs) > 0
		if !holds || queued || !s.receives(event) && (s.trying == nil || !typeMatches(s.trying, event)) {
			return
		}
		wanted = true
		queued = len(s.jobs) > 0
	})
	return wanted, queued && principal != ""
}

// visibleTypes returns the event types that a principal may see through MCPE.
func (a *Adapter) visibleTypes(ctx context.Context, principal string) ([]events.Info, error) {
	all, err := a.es.Types(ctx, principal)
	if err != nil {
		return nil, err
	}
	shown := all[:0:0]
	for _, info := range all {
		if info.MCPE == nil || !info.MCPE.Disabled {
			shown = append(shown, info)
		}
	}
	return shown, nil
}

func (a *Adapter) arguments(principal, event string) json.RawMessage {
	if a.o.Arguments == nil {
		return nil
	}
	return a.o.Arguments(principal, event)
}

// reconcile opens the followers that a principal's subscriptions need and closes all others. required lists the types
// that a new subscription specifies. reconcile returns an error if the principal may not follow one of the required
// types. It skips all other types that the principal may not follow.
func (a *Adapter) reconcile(ctx context.Context, principal string, required []string) error {
	w := a.watchOf(principal)
	w.changing.Lock()
	defer w.changing.Unlock()
	infos, err := a.visibleTypes(ctx, principal)
	if err != nil {
		return err
	}
	shown := map[string]bool{}
	var refused error
	var lost []string
	failed := false
	for _, info := range infos {
		shown[info.Name] = true
		wanted, queued := a.hasSubscribers(principal, info.Name)
		f := w.followers[info.Name]
		switch {
		case !wanted && f != nil:
			a.unfollow(w, f)
		case wanted && f == nil && a.ctx.Err() == nil:
			stored, err := a.follow(ctx, w, info, queued)
			if stored && isRefusal(err) {
				lost = append(lost, info.Name)
			}
			var known *events.Error
			if err == nil {
				break
			}
			if refused == nil && slices.Contains(required, info.Name) {
				refused = err
			}
			if !errors.As(err, &known) {
				failed = true
				a.o.Logger.Warn("mcpe: an event type cannot be followed now", "event", info.Name, "error", err)
			}
		case wanted && queued:
			f.keepCursor(a)
		}
	}
	for name, f := range w.followers {
		if !shown[name] {
			a.unfollow(w, f)
		}
	}
	for _, name := range lost {
		a.withdrawStored(w, name)
		a.forgetCursor(w, name)
	}
	if failed && w.again == nil && a.ctx.Err() == nil {
		w.again = time.AfterFunc(retryFollow, func() {
			w.changing.Lock()
			w.again = nil
			w.changing.Unlock()
			a.runInBackground(func() { a.reconcile(a.ctx, principal, nil) })
		})
		context.AfterFunc(a.ctx, func() {
			w.changing.Lock()
			defer w.changing.Unlock()
			if w.again != nil {
				w.again.Stop()
			}
		})
	}
	return refused
}

// sourceOf returns the name of the stored cursor for a type.
func (w *watch) sourceOf(event string) string { return w.principal + "\x00" + event }

// follow starts a follower that reads a type from the queues' stored cursor or, without one, from the current position.
// stored reports whether there was a stored cursor. The caller holds w.changing.
func (a *Adapter) follow(ctx context.Context, w *watch, info events.Info, queued bool) (stored bool, err error) {
	f := &follower{info: info, source: w.sourceOf(info.Name), limit: a.o.PublishRate.limiter(), done: make(chan struct{})}
	r := port.FollowRequest{Event: info.Name, Principal: w.principal, Mode: modeName, Arguments: a.arguments(w.principal, info.Name)}
	a.mu.Lock()
	head := a.heads[info.Name]
	a.mu.Unlock()
	if head != "" {
		r.Cursor = &head
	}
	if queued {
		cursor, ok, err := a.durable.IntakeCursor(ctx, f.source)
		if err != nil {
			return false, fmt.Errorf("reading how far %s was read: %w", info.Name, err)
		}
		if ok && cursor != "" {
			stored, r.Cursor = true, &cursor
		}
	}
	if f.Follower, err = a.es.Follow(ctx, r); err != nil {
		return stored, err
	}
	w.followers[info.Name] = f
	if queued {
		f.keepCursor(a)
	}
	a.runInBackground(func() {
		defer close(f.done)
		a.runFollower(w, f)
	})
	return stored, nil
}

// keepCursor stores the current cursor and makes the follower store all later cursors. Therefore, queues receive all
// later events even after a restart.
func (f *follower) keepCursor(a *Adapter) {
	f.taking.Lock()
	defer f.taking.Unlock()
	if f.saving {
		return
	}
	f.saving = true
	if cursor := f.Passed(); cursor != "" {
		ctx, cancel := context.WithTimeout(a.ctx, storeTimeout)
		defer cancel()
		if _, err := a.durable.Intake(ctx, engine.Intake{Source: f.source, Cursor: cursor}); err != nil {
			a.o.Logger.Error("mcpe: storing how far an event type was read failed", "event", f.info.Name, "error", err)
		}
	}
}

// unfollow closes a follower and deletes its stored cursor. The caller holds w.changing.
func (a *Adapter) unfollow(w *watch, f *follower) {
	if w.followers[f.info.Name] == f {
		delete(w.followers, f.info.Name)
	}
	f.Close()
	a.forgetCursor(w, f.info.Name)
}

// forgetCursor deletes the stored cursor of a type.
func (a *Adapter) forgetCursor(w *watch, event string) {
	if a.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, storeTimeout)
	defer cancel()
	if err := a.durable.ForgetIntake(ctx, w.sourceOf(event)); err != nil {
		a.o.Logger.Error("mcpe: forgetting how far an event type was read failed", "event", event, "error", err)
	}
}

// runFollower processes a follower's occurrences until the follower ends.
func (a *Adapter) runFollower(w *watch, f *follower) {
	defer f.Close()
	for {
		found, err := f.Next(a.ctx)
		if err != nil {
			if a.ctx.Err() == nil && !errors.Is(err, events.ErrClosed) {
				a.runInBackground(func() { a.handleEnd(w, f, err) })
			}
			return
		}
		if found.Gap {
			a.tell.drop(droppedGap, 1)
			a.o.Logger.Warn("mcpe: occurrences were lost before they were read", "event", f.info.Name)
		}
		a.dispatch(w, f, found)
	}
}

// handleEnd removes a follower that the server has ended, and calls reconcile. If the type was changed, a new follower
// replaces the old one. If the principal may no longer receive the type, handleEnd withdraws it.
func (a *Adapter) handleEnd(w *watch, f *follower, reason error) {
	w.changing.Lock()
	ours := w.followers[f.info.Name] == f
	switch {
	case ours && isRefusal(reason):
		a.withdrawFollowed(w, f.info.Name)
	case ours:
		a.unfollow(w, f)
	}
	w.changing.Unlock()
	if ours {
		_ = a.reconcile(a.ctx, w.principal, nil)
	}
}

// dispatch passes occurrences to the matching subscriptions.
func (a *Adapter) dispatch(w *watch, f *follower, found port.Followed) {
	f.taking.Lock()
	defer f.taking.Unlock()
	var kept, passing engine.Intake
	into := &kept
	if w.principal == "" {
		into = &passing
	}
	for i := range found.Occurrences {
		// Decode and encode without holding a.mu, which dispatchEvent holds for one occurrence at a time.
		e := newEvent(&found.Occurrences[i], f.info.MCPE)
		schedules := a.dispatchEvent(w, f, &e)
		if len(schedules) == 0 {
			continue
		}
		body := encode(&e)
		for _, key := range schedules {
			into.Items = append(into.Items, engine.Queued{Schedule: key, Body: body})
		}
	}
	if f.saving && found.Cursor != "" {
		kept.Source, kept.Cursor = f.source, found.Cursor
	}
	a.intake(a.durable, f, kept)
	a.intake(a.passing, f, passing)
}

// dispatchEvent passes an event to the matching subscriptions. It returns the keys of the queues that the event must be
// added to.
func (a *Adapter) dispatchEvent(w *watch, f *follower, e *mcpewire.Event) (schedules []string) {
	inRate := f.limit.Allow()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subsOfLocked(w.principal, func(s *subscription) {
		if s.status != wire.MCPEActive || !s.receives(e.Type) || !matches(&s.filter, e) {
			return
		}
		if s.plan.has(wire.MCPERealtime) {
			if inRate {
				a.sendRealtimeLocked(s, e)
				a.handleLocked(s, handlerCall{events: []mcpewire.Event{*e}})
			} else {
				a.tell.drop(droppedRate, 1)
			}
		}
		for _, j := range s.jobs {
			if !j.done {
				schedules = append(schedules, j.key)
			}
		}
	})
	return schedules
}

// intake queues events. It retries until the store accepts them. Until then, later events remain in the log.
func (a *Adapter) intake(st engine.Schedules, f *follower, in engine.Intake) {
	if len(in.Items) == 0 && in.Source == "" {
		return
	}
	in.Limit = a.o.MaxQueue
	for wait := retryDelivery; ; wait = min(2*wait, time.Minute) {
		ctx, cancel := context.WithTimeout(a.ctx, storeTimeout)
		dropped, err := st.Intake(ctx, in)
		cancel()
		if err == nil {
			for key, n := range dropped {
				a.tell.drop(droppedQueue, n)
				a.o.Logger.Warn("mcpe: a queue was full", "queue", key, "dropped", n)
			}
			return
		}
		if a.ctx.Err() != nil {
			return
		}
		a.o.Logger.Error("mcpe: queueing events failed", "event", f.info.Name, "error", err)
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// typesChanged handles the addition, change and removal of types. The goroutine that registers the type calls it, so it
// only records the end of a new type's log and leaves the rest to another goroutine.
func (a *Adapter) typesChanged() {
	infos, err := a.es.Types(a.ctx, "")
	if err != nil {
		infos = nil // the hook fails without a principal; watches list types for their principals
	}
	a.mu.Lock()
	ready := len(a.stops) > 0
	for _, info := range infos {
		if !a.known[info.Name] {
			a.known[info.Name] = true
			if head := a.es.Head(info.Name); head != "" && ready {
				a.heads[info.Name] = head
			}
		}
	}
	principals := slices.Collect(maps.Keys(a.watches))
	a.mu.Unlock()
	if !ready {
		return
	}
	a.runInBackground(func() {
		for _, p := range principals {
			_ = a.reconcile(a.ctx, p, nil)
		}
		a.mu.Lock()
		clear(a.heads)
		a.mu.Unlock()
		a.refreshTools()
	})
}
