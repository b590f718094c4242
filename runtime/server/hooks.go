package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
)

// A Subscription identifies one subscription to hooks and to [Server.Subscriptions].
type Subscription struct {
	// ID identifies the subscription across reconnected streams and later polls. It is derived from the principal,
	// event, arguments, mode and callback URL; events.To takes it. See SRV-2.
	ID string
	// Principal is the subscriber's principal, or "".
	Principal string
	// Event is the event type's name.
	Event string
	// Mode is "poll", "push" or "webhook".
	Mode string
	// Restored is true if OnSubscribe is called for a webhook subscription that another process accepted. That was
	// an earlier process on the store, or a replica from which this process takes over. See SUB-11, REP-17.
	Restored bool
}

// Hooks holds the author's functions for an event type with arguments A and payload P. [PointerHooks] documents the
// fields.
type Hooks[A, P any] = PointerHooks[*A, *P]

// PointerHooks is the form of [Hooks] whose type parameters are the pointers to arguments and payload. Each hook
// may be nil. All pointers have one GC shape, so a package with a thousand event types does not compile the code
// around hooks a thousand times.
//
// Hooks run concurrently, with a context that ends with the request or subscription that they serve. The server
// logs a panic and turns it into an internal error of that request or stream (ERR-4).
type PointerHooks[PA, PP any] struct {
	// Match reports whether the occurrence matches these arguments. It runs after the x-match rules, once for each
	// subscription, so it may call PrincipalOf. It must not change p or a, which are shared.
	Match func(ctx context.Context, p PP, a PA) bool
	// Transform changes the payload for these arguments. It gets a fresh copy for each distinct set of arguments.
	// Its result goes to all subscriptions with equal arguments, whatever their principal, so it may depend only on
	// the payload and the arguments: its context has no values, and PrincipalOf returns "". The context ends with
	// the first request or subscription that needs the result; the next one calls it with its own context. The
	// server validates and measures the result (OCC-4).
	Transform func(ctx context.Context, p PP, a PA) error
	// PerPrincipal returns the payload that the principal may see, or nil to withhold the occurrence. It runs after
	// Transform, for each subscription and each read, and gets a copy that it may change and return. The server
	// validates and measures the result. If PerPrincipal fails or panics, the server withholds the occurrence from
	// this subscription and logs the error. Subscriptions do not share results; each one costs a call, an encoding
	// and a validation. See OCC-6.
	PerPrincipal func(ctx context.Context, principal string, p PP, a PA) (PP, error)
	// OnSubscribe is called once for each new subscription, before its first delivery. An error refuses the
	// subscription. See SRV-3.
	OnSubscribe func(ctx context.Context, sub Subscription, a PA) error
	// OnUnsubscribe is called once for each subscription that OnSubscribe accepted, when it ends or its poll lease
	// lapses. On a shared store, the delivering process calls it; a takeover by another process does not. See SRV-3,
	// POLL-8.
	OnUnsubscribe func(ctx context.Context, sub Subscription, a PA)
	// Authorize decides, after Options.Authorize, whether the principal may subscribe. The server treats its errors
	// like errors of Options.Authorize (AUTH-1).
	Authorize func(ctx context.Context, principal string, a PA) error
}

// A Check fetches the occurrences after cursor from an upstream. With an empty cursor it returns the cursor of
// "now": the server uses the page's Cursor and ignores its Items (CUR-2). A check must return items in the same
// order each time it is called with the same cursor. The caller sees an *events.Error; any other error is logged
// and reported as UpstreamError (PUSH-5).
//
// # Callers write the cursor
//
// The runtime checks that a cursor belongs to the event type, the arguments and the principal of the request, but a
// caller can put any text into its own cursor: cursors are not signed. A check that passes the cursor on, in a
// request URL or into SQL, must validate it first. For a cursor that it did not issue, it returns a page that is
// Truncated and has the Cursor of "now":
//
//	seen, err := strconv.ParseUint(cursor, 10, 64)
//	if err != nil || seen > last {
//		return events.Page[P]{Cursor: strconv.FormatUint(last, 10), Truncated: true}, nil
//	}
type Check[A, P any] func(ctx context.Context, args A, cursor string) (events.Page[P], error)

// Register adds an event type whose occurrences the author emits. Registering an existing name changes the type in
// place: live subscriptions continue if the change is additive and end otherwise (EVOL-2, EVOL-3, LIST-5).
func Register[A, P any](s *Server, t events.Type[A, P], h Hooks[A, P], o ...TypeOption) (*Emitter[P], error) {
	et, err := s.registerEmitter(&t.Info, erase(&h), nil, o)
	return newEmitter[P](et), err
}

// RegisterCheck adds an event type whose occurrences a check finds upstream. An existing name is handled as in
// [Register]. See SRV-1.
func RegisterCheck[A, P any](s *Server, t events.Type[A, P], c Check[A, P], h Hooks[A, P], o ...TypeOption) error {
	return s.registerCheck(&t.Info, erase(&h), feed.Erase(c), o)
}

// RegisterBoth adds an event type that has a check and an emitter. An occurrence that arrives from both under one
// eventId is delivered once. See SRV-1.
func RegisterBoth[A, P any](s *Server, t events.Type[A, P], c Check[A, P], h Hooks[A, P], o ...TypeOption) (*Emitter[P], error) {
	et, err := s.registerBoth(&t.Info, erase(&h), feed.Erase(c), o)
	return newEmitter[P](et), err
}

// An Emitter emits occurrences of one event type. It is safe for concurrent use and remains valid when its type is
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

// AnyEmitter is the constraint that an [Emitter] and the emitters of generated packages satisfy. Types defined
// elsewhere cannot satisfy it. Code that only emits takes an interface with an Emit method instead, such as
// ingress.Emitter, which wrappers can implement.
type AnyEmitter interface {
	~struct{ et *eventType }
}

// Emit appends an occurrence for all subscribers, or for some of them with events.To. It returns after validation
// and append and never waits for a subscriber. Its errors are events.ErrInvalidPayload, events.ErrTooLarge,
// events.ErrClosed, an error for an eventId or _meta that cannot go on the wire, or an error of the log. If the
// answer of the log is lost, Emit retries until ctx ends, and then returns an *events.UncertainError (REP-22).
func (e *Emitter[P]) Emit(ctx context.Context, p P, o ...events.EmitOption) error {
	return e.et.emit(ctx, &p, o)
}
