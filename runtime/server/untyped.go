package server

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
)

// A package of a thousand event types makes a thousand of each generic function and method, of each closure
// in them, and of the method table of each generic type. So those with type parameters only hand on to what
// is here, which is compiled once, and generated code calls what is here itself.

// UntypedHooks are [Hooks] with their types erased, for generated code. The hooks are nil where there is none;
// payloads are *P, arguments *A.
type UntypedHooks struct {
	argumentsType, payloadType reflect.Type // A and P

	match         func(ctx context.Context, p, a any) bool
	transform     func(ctx context.Context, p, a any) error
	onSubscribe   func(ctx context.Context, sub Subscription, a any) error
	onUnsubscribe func(ctx context.Context, sub Subscription, a any)
	authorize     func(ctx context.Context, principal string, a any) error
}

// NewUntypedHooks erases the types of hooks, for generated code. Hooks get their arguments and payloads as
// pointers, which have one shape to the compiler, so that it makes this function once for all event types.
//
//go:noinline
func NewUntypedHooks[PA, PP any](h *HooksOf[PA, PP]) *UntypedHooks {
	var a PA
	var p PP
	f := &UntypedHooks{argumentsType: reflect.TypeOf(a).Elem(), payloadType: reflect.TypeOf(p).Elem()}
	if match := h.Match; match != nil {
		f.match = func(ctx context.Context, p, a any) bool { return match(ctx, p.(PP), a.(PA)) }
	}
	if transform := h.Transform; transform != nil {
		f.transform = func(ctx context.Context, p, a any) error { return transform(ctx, p.(PP), a.(PA)) }
	}
	if onSubscribe := h.OnSubscribe; onSubscribe != nil {
		f.onSubscribe = func(ctx context.Context, sub Subscription, a any) error { return onSubscribe(ctx, sub, a.(PA)) }
	}
	if onUnsubscribe := h.OnUnsubscribe; onUnsubscribe != nil {
		f.onUnsubscribe = func(ctx context.Context, sub Subscription, a any) { onUnsubscribe(ctx, sub, a.(PA)) }
	}
	if authorize := h.Authorize; authorize != nil {
		f.authorize = func(ctx context.Context, principal string, a any) error { return authorize(ctx, principal, a.(PA)) }
	}
	return f
}

// decodeArguments returns a fresh *A.
func (f *UntypedHooks) decodeArguments(raw json.RawMessage) (any, error) {
	a := reflect.New(f.argumentsType).Interface()
	return a, events.Decode(raw, a)
}

// decodePayload returns a fresh *P.
func (f *UntypedHooks) decodePayload(raw json.RawMessage) (any, error) {
	p := reflect.New(f.payloadType).Interface()
	return p, events.Decode(raw, p)
}

// A checkFunc is a [Check] whose arguments are *A.
type checkFunc func(ctx context.Context, a any, cursor string) (feed.Page, error)

// An UntypedCheck is a [Check] with its types erased, for generated code. Its function is nil where the author
// gave none, which registering it refuses.
type UntypedCheck struct{ ask checkFunc }

// NewUntypedCheck makes a check of a method of c, for generated code: method is Checker.CheckX, c may be nil.
func NewUntypedCheck[C, A, P any](c C, method func(c C, ctx context.Context, args A, cursor string) (events.Page[P], error)) *UntypedCheck {
	if any(c) == nil {
		return &UntypedCheck{}
	}
	return &UntypedCheck{eraseCheck(func(ctx context.Context, args A, cursor string) (events.Page[P], error) {
		return method(c, ctx, args, cursor)
	})}
}

// eraseCheck returns nil for nil.
//
//go:noinline
func eraseCheck[A, P any](c Check[A, P]) checkFunc {
	if c == nil {
		return nil
	}
	return func(ctx context.Context, a any, cursor string) (feed.Page, error) {
		page, err := c(ctx, *a.(*A), cursor)
		if err != nil {
			return feed.Page{}, err
		}
		p := feed.Page{Items: make([]feed.Item, len(page.Items)), Cursor: page.Cursor, HasMore: page.HasMore, Truncated: page.Truncated, NextPoll: page.NextPoll}
		for i := range page.Items {
			it := &page.Items[i]
			p.Items[i] = encodeItem(it.ID, it.Timestamp, it.TimestampText, &it.Data)
		}
		return p, nil
	}
}

func encodeItem(id string, at time.Time, text string, p any) feed.Item {
	data, err := events.Encode(p)
	return feed.Item{ID: id, Time: at, Text: text, Data: data, Err: err}
}

// An UntypedEmitter is an [Emitter] with its type erased: what generated emitters are made of.
type UntypedEmitter struct {
	et *eventType
}

// untyped returns what e is made of: an [Emitter] and each generated emitter are types of their own, with
// UntypedEmitter as their underlying type.
func untyped(e any) (*UntypedEmitter, error) {
	v, t := reflect.ValueOf(e), reflect.TypeFor[*UntypedEmitter]()
	if !v.IsValid() || !v.CanConvert(t) || v.IsNil() {
		return nil, fmt.Errorf("server: a %T is no emitter that registering an event type returned", e)
	}
	return v.Convert(t).Interface().(*UntypedEmitter), nil
}

// Emit is the Emit of an [Emitter]: p points to the payload.
func (e *UntypedEmitter) Emit(ctx context.Context, p any, o []events.EmitOption) error {
	return e.et.emit(ctx, p, o)
}

// RegisterUntyped registers an event type of a generated package, which describes it under its name: it is
// [Register] for a type without a check, which is nil then, [RegisterBoth] or [RegisterCheck], of which the
// emitter is nil. It has no type parameters, so that a generated function is little more than a call.
func RegisterUntyped(s *Server, described *events.Schemas, name string, c *UntypedCheck, h *UntypedHooks, o []TypeOption) (*UntypedEmitter, error) {
	info := described.Describe(name)
	switch {
	case c == nil:
		return s.registerEmitter(&info, h, nil, o)
	case info.Source == events.SourceCheck:
		return nil, s.registerCheck(&info, h, c.ask, o)
	}
	return s.registerBoth(&info, h, c.ask, o)
}

func (s *Server) registerEmitter(t *events.Info, f *UntypedHooks, c checkFunc, o []TypeOption) (*UntypedEmitter, error) {
	d, err := newDefinition(s.options, t, f, c, true, o)
	if err != nil {
		return nil, err
	}
	et, err := s.register(d)
	if err != nil {
		return nil, err
	}
	return &UntypedEmitter{et}, nil
}

func (s *Server) registerBoth(t *events.Info, f *UntypedHooks, c checkFunc, o []TypeOption) (*UntypedEmitter, error) {
	if c == nil {
		return nil, errNoCheck(t.Name)
	}
	return s.registerEmitter(t, f, c, o)
}

func (s *Server) registerCheck(t *events.Info, f *UntypedHooks, c checkFunc, o []TypeOption) error {
	if c == nil {
		return errNoCheck(t.Name)
	}
	if s.options.emitOnly {
		return fmt.Errorf("registering event %q: nobody asks its check in a process that only emits", t.Name)
	}
	d, err := newDefinition(s.options, t, f, c, false, o)
	if err != nil {
		return err
	}
	_, err = s.register(d)
	return err
}

func errNoCheck(event string) error {
	return fmt.Errorf("registering event %q: no check given; it must not be nil", event)
}
