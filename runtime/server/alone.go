package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/solo"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// alone is a server whose process is the only one to serve its store: it owns everything from the start (package
// solo).
type alone struct {
	server *Server
	ctx    context.Context // ends with the server
	stop   context.CancelFunc
	stored *solo.Records // nil without webhook delivery
}

func newAlone(s *Server) *alone {
	a := &alone{server: s}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

func (a *alone) records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error) {
	kept, ok := a.server.options.Store.(store.SubscriptionStore)
	if !ok {
		return nil, nil, errors.New("webhooks: Options.Store keeps no subscriptions (store.SubscriptionStore)")
	}
	var err error
	if a.stored, err = solo.Open(ctx, kept); err != nil {
		return nil, nil, fmt.Errorf("webhooks: reading the stored subscriptions: %w", err)
	}
	return a.stored, solo.Cluster(func(id string, of engine.Shard) { a.server.webhooks.Changed(id, of) }), nil
}

// join ends the subscriptions later that are stored for event types that nobody has registered by then (EVOL-1).
func (a *alone) join() error {
	if a.stored == nil {
		return nil
	}
	if stored := a.stored.Events(); len(stored) > 0 {
		timer := time.AfterFunc(a.server.options.Replica.orphans(), func() { a.endOrphans(stored) })
		context.AfterFunc(a.ctx, func() { timer.Stop() })
	}
	return nil
}

func (a *alone) endOrphans(stored []string) {
	for _, event := range stored {
		a.server.webhooks.EndOrphans(solo.NewTenure(a.ctx, event))
	}
}

func (a *alone) hurry() {}

func (a *alone) serve(et *eventType, restored func()) error {
	return a.server.webhooks.Serve(context.Background(), solo.NewTenure(a.ctx, et.name), et, restored)
}

func (a *alone) shutdown(context.Context) error {
	a.stop()
	return nil
}

func (a *alone) observe(*metrics, metric.Observer) {}

func (a *alone) now() time.Time { return time.Now() }

func (a *alone) refresh(context.Context) {}

// Tell has nobody to tell.
func (a *alone) Tell(context.Context, orders.Order) error { return nil }

// Ask finds nobody: what does not live here lives nowhere, or waits to be taken up.
func (a *alone) Ask(_ context.Context, o orders.Order) error { return fault.NotFound("subscription") }

// CloseType has nothing to store: a termination lasts as long as the process, in the event type.
func (a *alone) CloseType(context.Context, string, *events.Error) error { return nil }

func (a *alone) ClosedType(context.Context, string) (*events.Error, error) { return nil, nil }

func (a *alone) recallLater(string) {}
