package server

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/history"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// restore resumes the stored webhook subscriptions to a newly registered type. It ends them if the type's schemas
// changed incompatibly while no server was running (SUB-11, EVOL-2).
func (s *Server) restore(et *eventType, d *definition, m *history.Recollection) error {
	return s.parts.Restore(context.Background(), et, func() { s.saveSchemas(d, m) })
}

// loadHistory compares d with the stored schemas of the type and records an incompatible change in d, the log and the
// audit log. No other goroutine may access d until loadHistory returns.
func (s *Server) loadHistory(d *definition, t *topic.Topic) (*history.Recollection, error) {
	m, err := s.history.Recall(context.Background(), d.descriptor(), t)
	d.changed = m.Changed
	if err != nil || m.Changed == "" {
		return m, err
	}
	s.options.Logger.Warn("mcp events: "+d.info.Name+": "+m.Outcome, "event", d.info.Name)
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	if err := s.parts.Note(ctx, d.info.Name, m.Outcome); err != nil {
		s.log.Internal(ctx, "recording an incompatible registration of "+d.info.Name, err)
	}
	return m, nil
}

// saveSchemas saves the schemas of d to the store.
func (s *Server) saveSchemas(d *definition, m *history.Recollection) {
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	if err := m.Commit(ctx); err != nil {
		s.log.Internal(ctx, "saving the schemas of "+d.info.Name, err)
	}
}

// Name implements [eventtype.Type].
func (et *eventType) Name() string { return et.name }

func (et *eventType) Current() eventtype.Definition {
	if d := et.current(); d != nil {
		return d
	}
	return nil
}

func (et *eventType) Feeds() *feed.Feeds { return &et.feeds }

// Kernel implements [eventtype.Definition].
func (d *definition) Kernel() *topic.Type { return &d.Type }

func (d *definition) Check() *feed.Check { return d.check }

func (d *definition) Webhooks() bool { return d.hooked }

func (d *definition) Changed() string { return d.changed }

// Fingerprint identifies the definition's schemas. See EVOL-4.
func (d *definition) Fingerprint() string {
	text, _ := d.meta[wire.MetaFingerprint].(string)
	return text
}
