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

// A package of a thousand event types makes a thousand of each generic function, and of each closure
// in it. So those with type parameters only hand on to what is here, which is compiled once.

// functions are the author's part of a definition with its Go types erased. The hooks are nil where
// there is none; payloads are *P, arguments *A.
type functions struct {
	argumentsType, payloadType reflect.Type // A and P

	match         func(ctx context.Context, p, a any) bool
	transform     func(ctx context.Context, p, a any) error
	onSubscribe   func(ctx context.Context, sub Subscription, a any) error
	onUnsubscribe func(ctx context.Context, sub Subscription, a any)
	authorize     func(ctx context.Context, principal string, a any) error
}

// erase takes hooks that get their arguments and payloads as pointers: all pointers have one shape to the
// compiler, which makes this function once for all event types.
func erase[PA, PP any](h HooksOf[PA, PP]) functions {
	var a PA
	var p PP
	f := functions{argumentsType: reflect.TypeOf(a).Elem(), payloadType: reflect.TypeOf(p).Elem()}
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
func (f *functions) decodeArguments(raw json.RawMessage) (any, error) {
	a := reflect.New(f.argumentsType).Interface()
	return a, events.Decode(raw, a)
}

// decodePayload returns a fresh *P.
func (f *functions) decodePayload(raw json.RawMessage) (any, error) {
	p := reflect.New(f.payloadType).Interface()
	return p, events.Decode(raw, p)
}

// A checkFunc is a [Check] whose arguments are *A.
type checkFunc func(ctx context.Context, a any, cursor string) (feed.Page, error)

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

// An UntypedEmitter is an [Emitter] before generated code has converted a pointer to it into one of the
// Emitter of a payload. It is for nothing else.
type UntypedEmitter struct {
	et *eventType
}

func (s *Server) registerEmitter(t *events.Info, f functions, c checkFunc, o []TypeOption) (*UntypedEmitter, error) {
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

func (s *Server) registerUntyped(schemas *events.Schemas, t *events.Info, f functions, o []TypeOption) (*UntypedEmitter, error) {
	info := schemas.Describe(t)
	return s.registerEmitter(&info, f, nil, o)
}

func (s *Server) registerBoth(t *events.Info, f functions, c checkFunc, o []TypeOption) (*UntypedEmitter, error) {
	if c == nil {
		return nil, errNoCheck(t.Name)
	}
	return s.registerEmitter(t, f, c, o)
}

func (s *Server) registerCheck(t *events.Info, f functions, c checkFunc, o []TypeOption) error {
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
