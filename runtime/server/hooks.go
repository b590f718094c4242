package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
)

// A Subscription identifies one subscription to hooks and to [Server.Subscriptions].
type Subscription struct {
	// ID is derived from principal, event, arguments, mode and callback URL, so that a reconnected
	// stream and a later poll have the same; it is what events.To takes. See SRV-2.
	ID string
	// Principal is the subscriber, "" for nobody.
	Principal string
	// Event is the event type's name.
	Event string
	// Mode is "poll", "push" or "webhook".
	Mode string
	// Restored tells OnSubscribe of a webhook subscription that was accepted before: by an earlier
	// process on the store or by another one, from which this one takes it over. See SUB-11, REP-17.
	Restored bool
}

// Hooks are the author's part of an event type with arguments A and payload P: see [PointerHooks] for its fields.
type Hooks[A, P any] = PointerHooks[*A, *P]

// PointerHooks are [Hooks] by the pointers PA and PP to arguments and payload. Each hook may be nil. Pointers share one
// shape to the compiler, so that a package of a thousand event types does not compile what handles hooks a thousand
// times.
//
// They run concurrently, under a context that ends with the request or subscription that they
// serve. A panic is logged and becomes an internal error of that request or stream (ERR-4).
type PointerHooks[PA, PP any] struct {
	// Match reports, after the x-match rules, whether the occurrence is for these arguments. It is
	// called for each subscription, so it may call PrincipalOf. It must not change p or a, which are
	// shared.
	Match func(ctx context.Context, p PP, a PA) bool
	// Transform changes the payload for these arguments. It gets a fresh copy for each distinct
	// set of arguments. Its result goes to all subscriptions with equal arguments, of every principal:
	// so its context has no values, PrincipalOf is "", and it may depend only on the payload and the
	// arguments. The context ends with the request or subscription that came first; the next
	// one then asks again. The result is validated and measured again (OCC-4).
	Transform func(ctx context.Context, p PP, a PA) error
	// OnSubscribe is called once for each new subscription, before its first delivery; an error
	// refuses it. See SRV-3.
	OnSubscribe func(ctx context.Context, sub Subscription, a PA) error
	// OnUnsubscribe is called once for each subscription that OnSubscribe accepted, when it ends
	// or its poll lease lapses. Where several processes share a store, the process that delivers
	// calls it, and not when another process takes over. See SRV-3, POLL-8.
	OnUnsubscribe func(ctx context.Context, sub Subscription, a PA)
	// Authorize decides after Options.Authorize whether the principal may subscribe; its errors
	// are treated as those of Options.Authorize (AUTH-1).
	Authorize func(ctx context.Context, principal string, a PA) error
}

// A Check asks an upstream for the occurrences after cursor. An empty cursor asks where "now" is:
// the page's Cursor counts, its Items are not delivered (CUR-2). Items must come in the same order
// whenever the same cursor is asked. An *events.Error is shown to the caller, any other error is
// logged and reported as UpstreamError (PUSH-5).
//
// # Callers write the cursor
//
// The runtime checks that a cursor belongs to the event type, the arguments and the principal of the request, but a caller can
// put any text into its own cursor: cursors are not signed. A check that passes the cursor on, as the URL of a request
// or into SQL, validates it first. It answers a text that it has not made with a page that is Truncated and has the Cursor of
// "now":
//
//	seen, err := strconv.ParseUint(cursor, 10, 64)
//	if err != nil || seen > last {
//		return events.Page[P]{Cursor: strconv.FormatUint(last, 10), Truncated: true}, nil
//	}
type Check[A, P any] func(ctx context.Context, args A, cursor string) (events.Page[P], error)

// Register adds an event type whose occurrences the author emits. Registering a name again
// changes the type in place: live subscriptions go on when the change is additive and end
// otherwise (EVOL-2, EVOL-3, LIST-5).
func Register[A, P any](s *Server, t events.Type[A, P], h Hooks[A, P], o ...TypeOption) (*Emitter[P], error) {
	et, err := s.registerEmitter(&t.Info, erase(&h), nil, o)
	return newEmitter[P](et), err
}

// RegisterCheck adds an event type whose occurrences a check finds upstream. Registering a name
// again is as in [Register]. See SRV-1.
func RegisterCheck[A, P any](s *Server, t events.Type[A, P], c Check[A, P], h Hooks[A, P], o ...TypeOption) error {
	return s.registerCheck(&t.Info, erase(&h), feed.Erase(c), o)
}

// RegisterBoth adds an event type that has a check and an emitter; an occurrence that comes both
// ways under one eventId is delivered once. See SRV-1.
func RegisterBoth[A, P any](s *Server, t events.Type[A, P], c Check[A, P], h Hooks[A, P], o ...TypeOption) (*Emitter[P], error) {
	et, err := s.registerBoth(&t.Info, erase(&h), feed.Erase(c), o)
	return newEmitter[P](et), err
}

// An Emitter emits occurrences of one event type. It is safe for concurrent use and stays valid
// when its type is registered again.
type Emitter[P any] struct {
	et *eventType
}

func newEmitter[P any](et *eventType) *Emitter[P] {
	if et == nil {
		return nil
	}
	return &Emitter[P]{et}
}

// AnyEmitter is the constraint of what registering an event type returns: an [Emitter] or the emitter of a
// generated package. No type of a program's own satisfies it. Code that only emits takes an interface with Emit
// instead, such as ingress.Emitter. A wrapper around an emitter satisfies that too.
type AnyEmitter interface {
	~struct{ et *eventType }
}

// Emit appends an occurrence for all subscribers, or with events.To for some of them. It returns after validation
// and append and never waits for a subscriber. Errors: events.ErrInvalidPayload, events.ErrTooLarge,
// events.ErrClosed, an eventId or _meta that cannot go on the wire, or the log's. If the log's answer is lost,
// Emit asks again until ctx ends, and then returns an *events.UncertainError (REP-22).
func (e *Emitter[P]) Emit(ctx context.Context, p P, o ...events.EmitOption) error {
	return e.et.emit(ctx, &p, o)
}
