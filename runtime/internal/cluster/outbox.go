package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// sequencing is the duty of who owns the outbox.
func (c *Many) sequencing() shard.Duty {
	c.o.Host.Sequenced(engine.Sequenced{}) // the counter is there from the start, so that the first one is an increase
	j := judge{host: c.o.Host, store: c.store, schemas: map[string]*validate.Schema{}}
	return shard.Sequencing(c.o.Outbox, j.judge, func(done engine.Sequenced) {
		c.oldest.Store(int64(done.Oldest))
		c.o.Host.Sequenced(done)
	}, c.o.Logger)
}

// A judge holds what comes by an outbox to what Emit takes: any role that may insert there wrote it (REP-20).
// It is for one goroutine.
type judge struct {
	host    Host
	store   engine.Shared
	schemas map[string]*validate.Schema // by fingerprint; nil for one that does not compile
}

// judge is the check of [engine.Outbox].
func (j *judge) judge(ctx context.Context, o store.Outgoing) (fault, err error) {
	if err := wire.CheckEventName(o.Log); err != nil {
		return err, nil
	}
	if err := topic.Sound(&o.Entry); err != nil {
		return err, nil
	}
	et, ok := j.host.Type(o.Log)
	if !ok {
		return nil, nil // others serve it
	}
	d := et.Current()
	if d == nil {
		return nil, nil
	}
	if fault = j.host.Refuses(d, &o.Entry); fault == nil || errors.Is(fault, events.ErrTooLarge) {
		return fault, nil
	}
	fits, err := j.elsewhere(ctx, o.Log, d, o.Entry.Data)
	if err != nil || fits {
		return nil, err
	}
	return fault, nil
}

// elsewhere tells that the payload is valid under schemas that another build has of the type (REP-16).
func (j *judge) elsewhere(ctx context.Context, event string, d eventtype.Definition, data []byte) (bool, error) {
	value, err := validate.Decode(data)
	if err != nil {
		return false, nil
	}
	known, err := j.store.History(ctx, event)
	if err != nil {
		return false, fmt.Errorf("reading the history of schemas of %s: %w", event, err)
	}
	for _, v := range known {
		schema, ok := j.schemas[v.Fingerprint]
		if !ok {
			if schema, err = validate.Compile(v.PayloadSchema); err != nil {
				schema = nil
			}
			j.schemas[v.Fingerprint] = schema
		}
		if v.Fingerprint != d.Fingerprint() && schema != nil && schema.ValidateValue(value) == nil {
			return true, nil
		}
	}
	return false, nil
}
