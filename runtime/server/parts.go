package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/durable"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// newParts returns the parts of the server.
func (s *Server) newParts(ctx context.Context) (part.Service, error) {
	o := &s.options
	parts := durable.Options{Name: o.Replica.Name, Lease: o.Replica.Lease}
	if s.mcp != nil && o.Webhook != nil {
		w, err := o.Webhook.withDefaults(o.Store)
		if err != nil {
			return nil, err
		}
		parts.Webhooks = w.part()
	}
	core := &part.Core{
		Types: typesOf{s}, Memory: &s.memoryUsage, Access: s.access, Members: &s.members, Leases: &s.leases, Streams: s.streams,
		Store: o.Store, Outbox: o.Outbox, EmitOnly: o.emitOnly, Reauthorize: o.Reauthorize, Dialect: s.dialectFor,
		Admitted: s.writes.recordResult, Saved: s.newProgressRecorder(), Sequenced: s.metrics.countSequenced, Closing: s.closing,
		Log: &s.log, Logger: o.Logger, Meter: o.meter(), Given: o.Meter, Tracer: o.Tracer,
	}
	return durable.New(ctx, core, parts)
}

// typesOf implements [part.Types].
type typesOf struct{ s *Server }

func (t typesOf) All() (all []part.EventType) {
	for _, et := range t.s.eventTypes() {
		all = append(all, et)
	}
	return all
}

func (t typesOf) Named(name string) part.EventType {
	if et := t.s.eventType(name); et != nil {
		return et
	}
	return nil
}

func (t typesOf) Descriptor(d eventtype.Definition) wire.Descriptor {
	return d.(*definition).descriptor()
}

func (t typesOf) Rejects(d eventtype.Definition, e *store.Entry) error {
	if n := len(e.Data) + len(e.Meta); d.Webhooks() && n > wire.MaxPayload {
		return tooLarge(n)
	}
	_, err := d.(*definition).checkData(e.Data)
	return err
}

func (t typesOf) ListChanged() { t.s.notifyListChanged() }
