package server

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// newParts starts the parts of the server.
func (s *Server) newParts(ctx context.Context) (part.Service, error) {
	o := &s.options
	given, err := o.takeParts()
	if err != nil {
		return nil, err
	}
	core := &part.Core{
		Types: typesOf{s}, Memory: &s.memoryUsage, Access: s.access, Members: &s.members, Leases: &s.leases, Streams: s.streams,
		Store: o.Store, Outbox: o.Outbox, EmitOnly: o.emitOnly, Reauthorize: o.Reauthorize, Dialect: s.dialectFor,
		Admitted: s.writes.recordResult, Saved: s.newProgressRecorder(), Sequenced: s.countSequenced, Closing: s.closing,
		Log: &s.log, Logger: o.Logger, Telemetry: o.Telemetry,
	}
	if len(given) == 0 {
		return part.Alone{Core: core}, nil
	}
	service, err := given[0].Value().Start(ctx, core, given)
	if err != nil {
		releaseParts(given)
	}
	return service, err
}

// takeParts reserves the parts for a server. It returns an error if one is missing, used by another server, or of
// another kind than its option.
func (o *Options) takeParts() (given []Part, err error) {
	_, shared := o.Store.(engine.Shared)
	switch {
	case shared && o.Replicas == nil:
		return nil, fmt.Errorf("the store (%T) is shared by processes: set Options.Replicas to replicas.New(replicas.Options{})", o.Store)
	case !shared && o.Replicas != nil:
		return nil, fmt.Errorf("the store (%T) belongs to one process: remove Options.Replicas, or use a shared store such as package postgres", o.Store)
	}
	kinds := []part.Kind{part.Webhooks, part.Replicas, part.Operators}
	for i, p := range []Part{o.Webhooks, o.Replicas, o.Operators} {
		if p == nil {
			continue
		}
		switch v := p.Value(); {
		case v.Kind != kinds[i]:
			err = fmt.Errorf("the part in Options.%s is for Options.%s", kinds[i], v.Kind)
		case !v.Take():
			err = fmt.Errorf("the part in Options.%s belongs to another server: call New of its package for each server", v.Kind)
		}
		if err != nil {
			releaseParts(given)
			return nil, err
		}
		given = append(given, p)
	}
	return given, nil
}

func releaseParts(parts []Part) {
	for _, p := range parts {
		p.Value().Release()
	}
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

func (t typesOf) Rejects(d eventtype.Definition, e *store.Entry) error {
	if n := len(e.Data) + len(e.Meta); d.Webhooks() && n > wire.MaxPayload {
		return tooLarge(n)
	}
	return d.(*definition).checkData(e.Data)
}

func (t typesOf) ListChanged() { t.s.notifyListChanged() }
