package durable

import (
	"context"
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A host adapts the server to [subscriber.Host].
type host struct {
	*access.Gate
	part.Memory
	s *Service
}

func (h host) Type(event string) (eventtype.Type, bool) {
	et := h.s.core.Types.Named(event)
	return et, et != nil
}

func (h host) Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error {
	return h.s.core.Members.Join(ctx, sub, a)
}

func (h host) Leave(sub eventtype.Subscription, a eventtype.Arguments) {
	h.s.core.Members.Leave(sub, a)
}

func (h host) Release(sub eventtype.Subscription, a eventtype.Arguments) {
	h.s.core.Members.Release(sub, a)
}

// A clusterHost adapts the server to [cluster.Host].
type clusterHost struct{ host }

func (h clusterHost) EventTypes() (all []eventtype.Type) {
	for _, et := range h.s.core.Types.All() {
		all = append(all, et)
	}
	return all
}

func (h clusterHost) Refuses(d eventtype.Definition, e *store.Entry) error {
	return h.s.core.Types.Rejects(d, e)
}

func (h clusterHost) Obeyer(l *orders.Log) orders.Host {
	return &operate.Obeyer{Admin: h.s.Operators, Log: l}
}

func (h clusterHost) Sequenced(done engine.Sequenced) { h.s.core.Sequenced(done) }

func (h clusterHost) Report() json.RawMessage { return h.s.Operators.Report() }

// An operateHost adapts the server to [operate.Host].
type operateHost struct {
	*access.Gate
	core *part.Core
}

func (h operateHost) EventTypes() []part.EventType { return h.core.Types.All() }

func (h operateHost) EventType(name string) part.EventType { return h.core.Types.Named(name) }

func (h operateHost) Streams() (all []operate.Stream) {
	for _, st := range h.core.Streams.All() {
		all = append(all, st)
	}
	return all
}

func (h operateHost) Stream(number uint64) operate.Stream {
	if st := h.core.Streams.Stream(number); st != nil {
		return st
	}
	return nil
}

func (h operateHost) Pollers() (all []operate.Connection) {
	for _, l := range h.core.Leases.All() {
		all = append(all, l)
	}
	return all
}

func (h operateHost) Poller(subscription string) operate.Connection {
	if l := h.core.Leases.Of(subscription); l != nil {
		return l
	}
	return nil
}

func (h operateHost) Deciding() { h.core.Leases.Deciding() }

func (h operateHost) ListChanged() { h.core.Types.ListChanged() }
