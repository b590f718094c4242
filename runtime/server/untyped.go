package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
)

// Generated code registers and emits through package serverimpl.
func init() {
	untyped.RegisterEmitter = registration((*Server).registerEmitter)
	untyped.RegisterBoth = registration((*Server).registerBoth)
	untyped.RegisterCheck = registration(func(s *Server, t *events.Info, h *untypedHooks, c feed.Ask, o []TypeOption) (*eventType, error) {
		return nil, s.registerCheck(t, h, c, o)
	})
	untyped.Emit = func(ctx context.Context, emitter, p any, o []events.EmitOption) error {
		return emitter.(*Emitter[any]).et.emit(ctx, p, o)
	}
}

func registration(register func(*Server, *events.Info, *untypedHooks, feed.Ask, []TypeOption) (*eventType, error)) untyped.Registration {
	return func(s any, t *events.Info, hooks, ask, options any) (any, error) {
		h := hooks.(*untypedHooks)
		if published.Of(t).Private != nil && h.PerPrincipal == nil && !s.(*Server).options.emitOnly {
			return nil, fmt.Errorf("registering event %q: its payload has the private members %s, but the hook PerPrincipal is nil: set it to decide who sees them",
				t.Name, strings.Join(published.Of(t).Private.Names(), ", "))
		}
		et, err := register(s.(*Server), t, h, ask.(feed.Ask), options.([]TypeOption))
		if et == nil || err != nil {
			return nil, err
		}
		return newEmitter[any](et), nil
	}
}

// untypedHooks is [Hooks] with its types erased.
type untypedHooks = hook.Untyped[Subscription]

func erase[PA, PP any](h *PointerHooks[PA, PP]) *untypedHooks {
	return hook.Erase(h.Match, h.Transform, h.PerPrincipal, h.OnSubscribe, h.OnUnsubscribe, h.Authorize)
}

func (s *Server) registerEmitter(t *events.Info, h *untypedHooks, c feed.Ask, o []TypeOption) (*eventType, error) {
	d, err := s.newDefinition(t, h, c, true, o)
	if err != nil {
		return nil, err
	}
	return s.register(d)
}

func (s *Server) registerBoth(t *events.Info, h *untypedHooks, c feed.Ask, o []TypeOption) (*eventType, error) {
	if c == nil {
		return nil, errNoCheck(t.Name)
	}
	return s.registerEmitter(t, h, c, o)
}

func (s *Server) registerCheck(t *events.Info, h *untypedHooks, c feed.Ask, o []TypeOption) error {
	if c == nil {
		return errNoCheck(t.Name)
	}
	if s.options.emitOnly {
		return fmt.Errorf("registering event %q: a check cannot run in an emit-only process", t.Name)
	}
	d, err := s.newDefinition(t, h, c, false, o)
	if err != nil {
		return err
	}
	_, err = s.register(d)
	return err
}

func errNoCheck(event string) error {
	return fmt.Errorf("registering event %q: the check is nil", event)
}
