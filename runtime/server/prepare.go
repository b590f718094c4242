package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Prepared is a validated occurrence that has not been emitted. An outbox emits it within a transaction of the
// author, as EmitPgx of a postgres.Store or of a pgoutbox.Outbox does (REP-20). It is immutable.
type Prepared struct {
	out store.Outgoing
}

// Outgoing implements [store.Prepared].
func (p *Prepared) Outgoing() store.Outgoing { return p.out }

// EventID returns the occurrence's eventId, which the author set or Prepare generated.
func (p *Prepared) EventID() string { return p.out.Entry.EventID }

// Prepare validates an occurrence as e.Emit does, but does not emit it. Pass the result to an outbox, which emits
// it within a transaction of the author; see [Options.Outbox]. E is inferred: a pointer to an [Emitter] or to the
// emitter of a generated package. A wrapper around an emitter does not compile, because its Emit would not be
// called. Prepare returns the errors of Emit, except errors of the log. See REP-20.
func Prepare[P any, T AnyEmitter, E interface {
	*T
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}](ctx context.Context, e E, p P, o ...events.EmitOption) (*Prepared, error) {
	if e == nil {
		return nil, errNoEmitter
	}
	return Emitter[P](*e).et.prepared(ctx, &p, o)
}

// errNoEmitter is returned for the nil emitter that a failed registration returns.
var errNoEmitter = errors.New("server: the emitter is nil")

// prepared validates a payload for a transaction. p is a pointer to the payload.
func (et *eventType) prepared(ctx context.Context, p any, opts []events.EmitOption) (*Prepared, error) {
	fail := func(err error) (*Prepared, error) { return nil, fmt.Errorf("preparing %s: %w", et.name, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	o, err := et.occurrence(ctx, p, opts)
	if err != nil {
		return fail(err)
	}
	out := store.Outgoing{Log: et.name, Entry: o.entry, Once: !o.generated}
	if out.Once {
		out.Above = et.topic.Floor()
	}
	return &Prepared{out}, nil
}

// NewEmitOnly returns a server that only emits, for processes without an MCP server, such as workers.
// Event types are registered as with [New], and their events reach the subscribers of the servers on the same
// store, which must be a shared store. Only the options that bound payloads and logs apply. Registering a check
// fails, and [RegisterBoth] only emits (REP-21).
func NewEmitOnly(o Options) (*Server, error) {
	if _, ok := o.Store.(engine.Shared); !ok {
		return nil, errors.New("server.NewEmitOnly: Options.Store is not shared between processes (engine.Shared): no other process would see the events")
	}
	if o.Webhook != nil {
		return nil, errors.New("server.NewEmitOnly: Options.Webhook is set, but an emit-only process delivers nothing")
	}
	if o.Outbox != nil {
		return nil, errors.New("server.NewEmitOnly: Options.Outbox is set, but an emit-only process does not relay an outbox")
	}
	o.emitOnly = true
	s, err := start(nil, o)
	if err != nil {
		return nil, fmt.Errorf("server.NewEmitOnly: %w", err)
	}
	return s, nil
}
