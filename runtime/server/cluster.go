package server

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Replica configures one of several processes that share a store, such as PostgreSQL. The zero value is ready to use.
type Replica struct {
	// Name identifies the process in logs. The default consists of the host name and the process id.
	Name string
	// Lease is the time after which other replicas take over the work of a dead process; default 10 s. The minimum is 1
	// s. See REP-6.
	Lease time.Duration
}

// newProcesses connects the server to the processes that share its store.
func (s *Server) newProcesses(ctx context.Context) (cluster.Processes, error) {
	r := s.options.Replica
	return cluster.New(ctx, cluster.Options{Host: clusterHost{webhookHost{s.access, s}}, Store: s.options.Store, Outbox: s.options.Outbox, EmitOnly: s.options.emitOnly,
		Name: r.Name, Lease: r.Lease, Log: &s.log, Logger: s.options.Logger})
}

// A clusterHost adapts the server to [cluster.Host].
type clusterHost struct{ webhookHost }

func (h clusterHost) EventTypes() (all []eventtype.Type) {
	for _, et := range h.s.eventTypes() {
		all = append(all, et)
	}
	return all
}

func (h clusterHost) Descriptor(d eventtype.Definition) wire.Descriptor {
	return d.(*definition).descriptor()
}

func (h clusterHost) Refuses(d eventtype.Definition, e *store.Entry) error {
	if n := len(e.Data) + len(e.Meta); d.Webhooks() && n > wire.MaxPayload {
		return tooLarge(n)
	}
	_, err := d.(*definition).checkData(e.Data)
	return err
}

func (h clusterHost) Obeyer(l *orders.Log) orders.Host {
	return &operate.Obeyer{Admin: h.s.admin, Log: l}
}

func (h clusterHost) Sequenced(done engine.Sequenced) { h.s.metrics.countSequenced(done) }
