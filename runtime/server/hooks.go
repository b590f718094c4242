package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
)

// A Subscription describes a subscription in hooks and in the result of [Server.Subscriptions].
type Subscription struct {
	// ID identifies the subscription across reconnected streams and later polls. It is derived from the principal,
	// event, arguments, mode and callback URL. Pass it to events.To to target the subscription. See SRV-2.
	ID string
	// Principal is the subscriber's principal, or "".
	Principal string
	// Event is the event type's name.
	Event string
	// Mode is "poll", "push" or "webhook".
	Mode string
	// Restored is true if OnSubscribe is called for a webhook subscription that another process accepted. That process
	// is an earlier process on the store, or a replica that this process takes over from. See SUB-11, REP-17.
	Restored bool
}

// Hooks is the set of functions for an event type with arguments A and payload P. [PointerHooks] documents the fields.
type Hooks[A, P any] = PointerHooks[*A, *P]

// PointerHooks is like [Hooks], but its type parameters are pointers to the arguments and the payload. Each hook may be
// nil. All pointer types share one GC shape, so the code that calls hooks is compiled once, not once for each event
// type.
//
// Hooks run concurrently. The context of a hook is canceled when its request or subscription ends. The server logs a
// panic and reports it as an internal error of that request or stream (ERR-4).
type PointerHooks[PA, PP any] struct {
	// Match reports whether an occurrence matches the arguments. It runs after the x-match rules, once for each
	// subscription, so it can call PrincipalOf. It must not modify p or a, which are shared.
	Match func(ctx context.Context, p PP, a PA) bool
	// Transform modifies the payload for the arguments. It receives a fresh copy for each distinct set of arguments.
	// All subscriptions with equal arguments share the result, regardless of their principal, so it must depend only on
	// the payload and the arguments. The context has no values, so PrincipalOf returns "". The context belongs to the
	// first request or subscription that needs the result and is canceled when that ends. The next request or
	// subscription calls Transform again with its own context. The server validates the result and checks its size
	// (OCC-4).
	Transform func(ctx context.Context, p PP, a PA) error
	// PerPrincipal returns the payload that the principal may see, or nil to withhold the occurrence. It runs after
	// Transform, for each subscription and each read. It receives a copy that it can modify and return. The server
	// validates the result and checks its size. If PerPrincipal fails or panics, the server withholds the occurrence
	// from this subscription and logs the error. Subscriptions do not share results, so each subscription requires a
	// call, an encoding and a validation. If PerPrincipal is nil, the server removes members with x-private. See OCC-6,
	// OCC-7.
	PerPrincipal func(ctx context.Context, principal string, p PP, a PA) (PP, error)
	// OnSubscribe is called once for each new subscription, before its first delivery. An error refuses the
	// subscription. See SRV-3.
	OnSubscribe func(ctx context.Context, sub Subscription, a PA) error
	// OnUnsubscribe is called once for each subscription that OnSubscribe accepted, when it ends or its poll lease
	// expires. On a shared store, the delivering process calls it. It is not called when another process takes over the
	// subscription. See SRV-3, POLL-8.
	OnUnsubscribe func(ctx context.Context, sub Subscription, a PA)
	// Authorize decides, after Options.Authorize, whether the principal may subscribe. The server handles its errors
	// like those of Options.Authorize (AUTH-1).
	Authorize func(ctx context.Context, principal string, a PA) error
}

// A Check fetches the occurrences after cursor from an upstream service. If cursor is empty, it returns the cursor for
// "now". In that case, the server uses the page's Cursor and ignores its Items (CUR-2). A check must return items in
// the same order each time it is called with the same cursor. An *events.Error is returned to the caller. Any other
// error is logged and reported as UpstreamError (PUSH-5).
//
// # Callers write the cursor
//
// The runtime checks that a cursor was issued for the event type, the arguments and the principal of the request.
// However, cursors are not signed, so callers can change their text. A check that uses the cursor in a request URL or
// in SQL must validate it first. For a cursor that it did not issue, it returns a page that is Truncated and has the
// Cursor of "now":
//
//	seen, err := strconv.ParseUint(cursor, 10, 64)
//	if err != nil || seen > last {
//		return events.Page[P]{Cursor: strconv.FormatUint(last, 10), Truncated: true}, nil
//	}
type Check[A, P any] func(ctx context.Context, args A, cursor string) (events.Page[P], error)

// Register adds an event type with occurrences that the author emits. Registering an existing name redefines the type
// in place. Live subscriptions continue if the change is additive; otherwise they end (EVOL-2, EVOL-3, LIST-5).
func Register[A, P any](s *Server, t events.Type[A, P], h Hooks[A, P], o ...TypeOption) (*Emitter[P], error) {
	et, err := s.registerEmitter(&t.Info, erase(&h), nil, o)
	return newEmitter[P](et), err
}

// RegisterCheck adds an event type with occurrences that a check finds upstream. An existing name is handled as in
// [Register]. See SRV-1.
func RegisterCheck[A, P any](s *Server, t events.Type[A, P], c Check[A, P], h Hooks[A, P], o ...TypeOption) error {
	return s.registerCheck(&t.Info, erase(&h), feed.Erase(c), o)
}

// RegisterBoth adds an event type that has a check and an emitter. If both produce an occurrence with the same eventId,
// the occurrence is delivered once. See SRV-1.
func RegisterBoth[A, P any](s *Server, t events.Type[A, P], c Check[A, P], h Hooks[A, P], o ...TypeOption) (*Emitter[P], error) {
	et, err := s.registerBoth(&t.Info, erase(&h), feed.Erase(c), o)
	return newEmitter[P](et), err
}

// An Emitter emits occurrences of one event type. It is safe for concurrent use and remains valid after its type is
// redefined.
type Emitter[P any] struct {
	et *eventType
}

func newEmitter[P any](et *eventType) *Emitter[P] {
	if et == nil {
		return nil
	}
	return &Emitter[P]{et}
}

// AnyEmitter is a constraint that is satisfied by [Emitter] and the emitters of generated packages. Types defined
// elsewhere cannot satisfy it. Code that only emits should accept an interface with an Emit method instead, such as
// ingress.Emitter, which wrappers can implement.
type AnyEmitter interface {
	~struct{ et *eventType }
}

// Emit appends an occurrence for all subscribers, or for selected subscribers if events.To is given. It returns once
// the occurrence is validated and appended. It never waits for a subscriber. Emit returns events.ErrInvalidPayload,
// events.ErrTooLarge, events.ErrClosed, an error for an eventId or _meta that cannot be sent, or an error of the log.
// If the result of the append is unknown, Emit retries until ctx ends, and then returns an *events.UncertainError
// (REP-22).
func (e *Emitter[P]) Emit(ctx context.Context, p P, o ...events.EmitOption) error {
	return e.et.emit(ctx, &p, o)
}
