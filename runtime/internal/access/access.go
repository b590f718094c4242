// Package access decides whether a principal may receive events of a type. A [Gate] is the only caller of the author's
// hooks Visible and Authorize, and the only reader of whether this process knows the recent requests of operators. Each
// path to a client asks the gate: [Gate.Admit] before a subscription begins, [Gate.Refused] while it is live, and
// [Gate.Current] or [Gate.Await] before each write of occurrences. The package makes no compatibility promise.
package access

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
)

// A Gate decides for one server. Its methods may be called concurrently.
type Gate struct {
	// Visible and Authorize are the hooks of the server's options. A nil hook allows everything.
	Visible   func(ctx context.Context, principal, event string) bool
	Authorize func(ctx context.Context, principal, event string, arguments json.RawMessage) error
	// OfType returns the Authorize hook of the arguments' event type, or nil. The hook receives the typed arguments.
	// Without event types that have hooks, OfType may be nil.
	OfType func(a eventtype.Arguments) func(ctx context.Context, principal string, arguments any) error
	// Heard reports whether this process has read the recent requests of operators.
	Heard func() bool
	Log   *fault.Log
}

// IsVisible reports whether the Visible hook allows the principal to see the event type (LIST-4).
func (g *Gate) IsVisible(ctx context.Context, principal, event string) (ok bool, err error) {
	if g.Visible == nil {
		return true, nil
	}
	err = hook.Place{Hook: "Visible"}.Run(func() error { ok = g.Visible(ctx, principal, event); return nil })
	return ok, err
}

// IsHidden reports whether the Visible hook hides the event type from the principal. It logs an error of the hook, which
// hides nothing.
func (g *Gate) IsHidden(ctx context.Context, principal, event string) bool {
	ok, err := g.IsVisible(ctx, principal, event)
	if err != nil {
		g.Log.Internal(ctx, "asking Visible again", err)
	}
	return err == nil && !ok
}

// Admit calls both Authorize hooks for a new subscription and returns their error (AUTH-1).
func (g *Gate) Admit(ctx context.Context, principal string, a eventtype.Arguments) error {
	event := a.Def.Kernel().Name
	if f := g.Authorize; f != nil {
		err := hook.Place{Hook: "Authorize"}.Run(func() error { return f(ctx, principal, event, a.Canonical()) })
		if err != nil {
			return fault.AsForbidden(ctx, err)
		}
	}
	if f := g.ofType(a); f != nil {
		err := hook.Place{Hook: "Authorize", Event: event}.Run(func() error { return f(ctx, principal, a.Typed()) })
		if err != nil {
			return fault.AsForbidden(ctx, err)
		}
	}
	return nil
}

func (g *Gate) ofType(a eventtype.Arguments) func(ctx context.Context, principal string, arguments any) error {
	if g.OfType == nil {
		return nil
	}
	return g.OfType(a)
}

// Refused calls all hooks for a live subscription. It returns the error that ends the subscription, or nil if the
// principal may still get its events. A failing hook or a canceled context does not end the subscription (AUTH-2,
// LIST-4).
func (g *Gate) Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error {
	ctx = hook.WithPrincipal(ctx, principal)
	ok, err := g.IsVisible(ctx, principal, a.Def.Kernel().Name)
	if err == nil && !ok {
		return fault.NotFound("event")
	}
	if err == nil {
		err = g.Admit(ctx, principal, a)
	}
	var e *events.Error
	if errors.As(err, &e) && e.Kind != wire.Internal && e.Kind != wire.UpstreamError {
		return e
	}
	if err != nil {
		g.Log.Internal(ctx, "asking Authorize again", err)
	}
	return nil
}

// Asks reports whether there are hooks to call for a subscription with the arguments.
func (g *Gate) Asks(a eventtype.Arguments) bool {
	return g.Visible != nil || g.Authorize != nil || g.ofType(a) != nil
}

// Current reports whether occurrences may be written now. It returns false while requests of operators wait to be read,
// because one of them might have ended the subscription (REP-11).
func (g *Gate) Current() bool { return g.Heard() }

const (
	// checkCurrent is the interval between calls of Current, and maxUnread the maximum wait.
	checkCurrent = 10 * time.Millisecond
	maxUnread    = 5 * time.Second
)

// Await waits until Current returns true. It returns an error if that takes too long.
func (g *Gate) Await(ctx context.Context) error {
	for end := time.Now().Add(maxUnread); !g.Current(); {
		if time.Now().After(end) {
			return fault.Typed(errUnread)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(checkCurrent):
		}
	}
	return nil
}

var errUnread = errors.New("the requests of operators in other processes cannot be read")
