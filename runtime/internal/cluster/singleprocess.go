package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/solo"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// one is the only process that serves its store: it owns everything from the start (package solo).
type one struct {
	o        Options
	ctx      context.Context // ends with the server
	stop     context.CancelFunc
	stored   *solo.Records // nil without webhook delivery
	webhooks *subscriber.Subscriptions
}

func newOne(o Options) *one {
	p := &one{o: o}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

func (p *one) Records(ctx context.Context) (subscriber.Records, *subscriber.Cluster, error) {
	kept, ok := p.o.Store.(store.SubscriptionStore)
	if !ok {
		return nil, nil, errors.New("webhooks: Options.Store does not store subscriptions (store.SubscriptionStore)")
	}
	var err error
	if p.stored, err = solo.Open(ctx, kept); err != nil {
		return nil, nil, fmt.Errorf("webhooks: reading the stored subscriptions: %w", err)
	}
	return p.stored, solo.Cluster(func(id string, of engine.Shard) { p.webhooks.Changed(id, of) }), nil
}

// Join schedules the end of stored subscriptions whose event types are not registered by then (EVOL-1).
func (p *one) Join(w *subscriber.Subscriptions) error {
	p.webhooks = w
	if p.stored == nil {
		return nil
	}
	if stored := p.stored.Events(); len(stored) > 0 {
		timer := time.AfterFunc(orphans, func() { p.endOrphans(stored) })
		context.AfterFunc(p.ctx, func() { timer.Stop() })
	}
	return nil
}

func (p *one) endOrphans(stored []string) {
	for _, event := range stored {
		p.webhooks.EndOrphans(solo.NewOwnership(p.ctx, event))
	}
}

func (p *one) Hurry() {}

func (p *one) Serve(et eventtype.Type, restored func()) error {
	return p.webhooks.Serve(context.Background(), solo.NewOwnership(p.ctx, et.Name()), et, restored)
}

func (p *one) Shutdown(context.Context) error {
	p.stop()
	return nil
}

func (p *one) LastLook() time.Time { return time.Time{} }

func (p *one) Status() (uint64, map[string]int, bool) { return 0, nil, false }

func (p *one) OutboxAge() time.Duration { return 0 }

func (p *one) Now() time.Time { return time.Now() }

func (p *one) Refresh(context.Context) {}

func (p *one) Stamp(context.Context) time.Time { return time.Now() }

// Tell does nothing, because this is the only process.
func (p *one) Tell(context.Context, orders.Order) error { return nil }

// Ask returns NotFound: a subscription that does not live here does not exist or could not be restored.
func (p *one) Ask(context.Context, orders.Order) error { return fault.NotFound("subscription") }

// CloseType stores nothing: the event type remembers a termination until the process ends.
func (p *one) CloseType(context.Context, string, *events.Error) error { return nil }

func (p *one) ClosedType(context.Context, string) (*events.Error, error) { return nil, nil }

func (p *one) RecallLater(string) {}
