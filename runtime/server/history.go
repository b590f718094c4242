package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/evolve"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// recordSchemas finds d's schemas in the history that a shared store keeps of the type, or adds them
// to it. Builds may run side by side and be rolled back: schemas that the history has, the latest or
// not, change nothing; those that it does not have are judged by the latest. What the log holds of
// payloads that they may refuse is not replayed to subscribers of this build (REP-16).
func (s *Server) recordSchemas(ctx context.Context, d *definition, t *topic.Topic) error {
	shared, ok := s.options.Store.(store.Shared)
	if !ok {
		return nil
	}
	for {
		known, err := shared.History(ctx, d.info.Name)
		if err != nil {
			return fmt.Errorf("reading its history of schemas: %w", err)
		}
		d.changed = ""
		if i := slices.IndexFunc(known, func(v store.SchemaVersion) bool { return v.Fingerprint == d.fingerprint() }); i >= 0 {
			return raiseFloor(ctx, t, known[i].Floor)
		}
		v, err := d.next(ctx, known, t)
		if err != nil {
			return err
		}
		err = shared.AddSchema(ctx, d.info.Name, v, len(known))
		switch {
		case err == nil:
			return raiseFloor(ctx, t, v.Floor)
		case !errors.Is(err, store.ErrConflict):
			return fmt.Errorf("adding to its history of schemas: %w", err)
		} // another replica was first: judge by what stands
	}
}

// raiseFloor raises the topic's floor as far as there are entries: a new epoch may have fewer than when
// the floor was found (REP-19).
func raiseFloor(ctx context.Context, t *topic.Topic, floor store.Position) error {
	if t == nil || floor == 0 {
		return nil
	}
	head, err := t.Latest(ctx)
	if err == nil {
		t.Raise(min(floor, head))
	}
	return err
}

// next is d's entry in a history that does not have it.
func (d *definition) next(ctx context.Context, known []store.SchemaVersion, t *topic.Topic) (store.SchemaVersion, error) {
	v := store.SchemaVersion{Fingerprint: d.fingerprint(), InputSchema: d.info.InputSchema, PayloadSchema: d.info.PayloadSchema}
	if len(known) == 0 {
		return v, nil
	}
	last := known[len(known)-1]
	v.Floor = last.Floor
	before := wire.Descriptor{Name: d.info.Name, InputSchema: last.InputSchema, PayloadSchema: last.PayloadSchema}
	payload := false
	for _, c := range evolve.Compare(before, d.descriptor) {
		if d.changed == "" {
			d.changed = c.Feature
		}
		payload = payload || c.Feature == fault.FeaturePayload
	}
	if payload && t != nil {
		head, err := t.Latest(ctx)
		if err != nil {
			return v, err
		}
		v.Floor = head
	}
	return v, nil
}

// fingerprint identifies the definition's schemas (EVOL-4).
func (d *definition) fingerprint() string {
	text, _ := d.descriptor.Meta[wire.MetaFingerprint].(string)
	return text
}
