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

// A Replica configures a server on a store that several processes share, such as
// PostgreSQL. The zero value is ready to use.
type Replica struct {
	// Name identifies the process in logs; default the host name and the process id.
	Name string
	// Lease is the time until other replicas take over a dead process's work; default 10 s, at least 1 s. See REP-6.
	Lease time.Duration
}

// processes creates the server's view of the processes that share its store.
func (s *Server) processes(ctx context.Context) (cluster.Processes, error) {
	r := s.options.Replica
	return cluster.New(ctx, cluster.Options{Host: replicated{webhookHost{s}}, Store: s.options.Store, Outbox: s.options.Outbox, EmitOnly: s.options.emitOnly,
		Name: r.Name, Lease: r.Lease, Log: &s.log, Logger: s.options.Logger})
}

// A replicated adapts the server to [cluster.Host].
type replicated struct{ webhookHost }

func (h replicated) EventTypes() (all []eventtype.Type) {
	for _, et := range h.s.all() {
		all = append(all, et)
	}
	return all
}

func (h replicated) Descriptor(d eventtype.Definition) wire.Descriptor {
	return d.(*definition).descriptor()
}

func (h replicated) Refuses(d eventtype.Definition, e *store.Entry) error {
	if n := len(e.Data) + len(e.Meta); d.Webhooks() && n > wire.MaxPayload {
		return tooLarge(n)
	}
	_, err := d.(*definition).encodable(e.Data)
	return err
}

func (h replicated) Obeyer(l *orders.Log) orders.Host {
	return &operate.Obeyer{Admin: h.s.admin, Log: l}
}

func (h replicated) Sequenced(done engine.Sequenced) { h.s.metrics.sequenced(done) }
