package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/shard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// sequencingDuty returns the duty of the outbox's owner.
func (c *Many) sequencingDuty() shard.Duty {
	c.o.Host.Sequenced(engine.Sequenced{}) // creates the counter, so that the first rejection is visible as an increase
	j := outboxChecker{host: c.o.Host, store: c.store, schemas: map[string]*validate.Schema{}}
	return shard.Sequencing(c.o.Outbox, j.checkOccurrence, func(done engine.Sequenced) {
		c.oldest.Store(int64(done.Oldest))
		c.o.Host.Sequenced(done)
	}, c.o.Logger)
}

// An outboxChecker checks that Emit would accept the occurrences in an outbox. The check is necessary because all roles
// with access to the table can insert occurrences (REP-20). It is not safe for concurrent use.
type outboxChecker struct {
	host    Host
	store   engine.Shared
	schemas map[string]*validate.Schema // by fingerprint; nil if it does not compile
}

// checkOccurrence is the check function for [engine.Outbox].
func (j *outboxChecker) checkOccurrence(ctx context.Context, o store.Outgoing) (fault, err error) {
	if err := wire.CheckEventName(o.Log); err != nil {
		return err, nil
	}
	if err := topic.Sound(&o.Entry); err != nil {
		return err, nil
	}
	et, ok := j.host.Type(o.Log)
	if !ok {
		return nil, nil // another process serves it
	}
	d := et.Current()
	if d == nil {
		return nil, nil
	}
	if fault = j.host.Refuses(d, &o.Entry); fault == nil || errors.Is(fault, events.ErrTooLarge) {
		return fault, nil
	}
	fits, err := j.isValidElsewhere(ctx, o.Log, d, o.Entry.Data)
	if err != nil || fits {
		return nil, err
	}
	return fault, nil
}

// isValidElsewhere reports whether the payload is valid under the type's schemas of another build (REP-16).
func (j *outboxChecker) isValidElsewhere(ctx context.Context, event string, d eventtype.Definition, data []byte) (bool, error) {
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
