package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Prepared is an occurrence that was validated but not emitted. An outbox emits it within a transaction of the
// author, as EmitPgx of a postgres.Store or of a pgoutbox.Outbox does (REP-20). It never changes.
type Prepared struct {
	out store.Outgoing
}

// Outgoing implements [store.Prepared].
func (p *Prepared) Outgoing() store.Outgoing { return p.out }

// EventID is the occurrence's: the author's, or the one that was generated.
func (p *Prepared) EventID() string { return p.out.Entry.EventID }

// Prepare validates an occurrence of the event type that e emits, as Emit does, and emits nothing: an outbox that
// takes occurrences in transactions of the author emits what it returns, see [Options.Outbox]. E is a
// pointer to an [Emitter] or to the emitter of a generated package; it follows from the arguments, and a wrapper
// around an emitter, whose Emit would not be called, does not compile. It returns the errors of Emit, except those
// of the log. See REP-20.
func Prepare[P any, T AnyEmitter, E interface {
	*T
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}](ctx context.Context, e E, p P, o ...events.EmitOption) (*Prepared, error) {
	if e == nil {
		return nil, errNoEmitter
	}
	return Emitter[P](*e).et.prepared(ctx, &p, o)
}

// errNoEmitter refuses the nil that stands beside an error of registering.
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

// NewEmitOnly makes a server that serves nothing: event types are registered with it as with [New], and
// what their emitters emit reaches the subscribers of the servers on the same store. It is for
// processes without an MCP server, such as workers (REP-21). Its store has to be one that processes
// share. Of the options, those that bound payloads and logs count. A check cannot be registered, and
// [RegisterBoth] only emits.
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
