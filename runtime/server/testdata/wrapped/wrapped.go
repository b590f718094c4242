// Package wrapped gives emitters, and wrappers around them, to what takes emitters. Each line with the word refused
// must not compile, and every other one must.
package wrapped

import (
	"context"
	"log/slog"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

type payload = tickets.TicketCreatedPayload

// logged has its emitter in a field.
type logged struct {
	emitter *ticketsserver.TicketCreatedEmitter
}

func (l *logged) Emit(ctx context.Context, p payload, o ...events.EmitOption) error {
	slog.InfoContext(ctx, "emitting", "title", p.Title)
	return l.emitter.Emit(ctx, p, o...)
}

// embedded has all methods of the emitter that it embeds, and an Emit of its own.
type embedded struct {
	*ticketsserver.TicketCreatedEmitter
}

func (l *embedded) Emit(ctx context.Context, p payload, o ...events.EmitOption) error {
	slog.InfoContext(ctx, "emitting", "title", p.Title)
	return l.TicketCreatedEmitter.Emit(ctx, p, o...)
}

func all(ctx context.Context, a *mcpc.Adapter, to mcpc.Session, p payload,
	generated *ticketsserver.TicketCreatedEmitter, typed *server.Emitter[payload], l *logged, e *embedded, i ingress.Emitter[payload]) {
	_ = ingress.To(generated, events.Info{}, ingress.From{})
	_ = ingress.To(typed, events.Info{}, ingress.From{})
	_ = ingress.To(l, events.Info{}, ingress.From{})
	_ = ingress.To(e, events.Info{}, ingress.From{})
	_ = ingress.To(i, events.Info{}, ingress.From{})

	_, _ = server.Prepare(ctx, generated, p)
	_, _ = server.Prepare(ctx, typed, p)
	_, _ = server.Prepare(ctx, l.emitter, p)
	_, _ = server.Prepare(ctx, l, p)                     // refused
	_, _ = server.Prepare(ctx, e, p)                     // refused
	_, _ = server.Prepare(ctx, i, p)                     // refused
	_, _ = server.Prepare(ctx, generated, events.Info{}) // refused

	_ = mcpc.SendEvent(ctx, a, to, generated, p)
	_ = mcpc.SendEvent(ctx, a, to, typed, p)
	_ = mcpc.SendEvent(ctx, a, to, l, p)                     // refused
	_ = mcpc.SendEvent(ctx, a, to, e, p)                     // refused
	_ = mcpc.SendEvent(ctx, a, to, i, p)                     // refused
	_ = mcpc.SendEvent(ctx, a, to, generated, events.Info{}) // refused
}
