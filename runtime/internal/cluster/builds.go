package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/history"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// builds tracks which schemas other processes serve, and so which subscriptions no process can serve any more
// (REP-16).
type builds struct {
	host    Host
	store   engine.Shared
	log     *fault.Log
	after   time.Duration
	started time.Time

	mu        sync.Mutex
	seen      map[schemaOf]time.Time // when another process was last seen with it
	histories map[string][]engine.SchemaVersion
	// key: event, older and newer fingerprint; value: the feature that changed incompatibly, "" for none
	verdicts map[[3]string]string
}

// A schemaOf is an event type with the fingerprint of its schemas.
type schemaOf struct{ event, fingerprint string }

func (b *builds) init(o *Options, st engine.Shared) {
	b.host, b.store, b.log, b.after, b.started = o.Host, st, o.Log, cmp.Or(o.Lease, defaultLease), time.Now()
	b.seen, b.histories, b.verdicts = map[schemaOf]time.Time{}, map[string][]engine.SchemaVersion{}, map[[3]string]string{}
}

// looked records the schemas that the other processes serve.
func (b *builds) looked(c engine.Cluster, own uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, r := range c.Replicas {
		if r.Fence == own {
			continue
		}
		for event, fingerprint := range r.Types {
			b.seen[schemaOf{event, fingerprint}] = now
		}
	}
}

// obsolete returns the error that ends a subscription which was accepted under schemas with the given fingerprint. It
// returns nil unless these are older than this build's, have changed incompatibly since, and were absent from all
// processes for as long as a restart may take.
func (b *builds) obsolete(event, schema string) *events.Error {
	et, ok := b.host.Type(event)
	if !ok || schema == "" {
		return nil
	}
	d := et.Current()
	if d == nil || d.Fingerprint() == schema {
		return nil
	}
	known, feature, err := b.judge(event, schema, d)
	if err != nil {
		b.log.Internal(context.Background(), "reading the history of schemas of "+event, err)
		return nil
	}
	if feature == "" || b.present(event, known) {
		return nil
	}
	return fault.SchemaChanged(feature)
}

// historyTime bounds a read of an event type's history.
const historyTime = 30 * time.Second

// judge returns the schemas from the older version up to d's, without d's, and the feature that has changed
// incompatibly between them. The feature is "" for none, or if d is not newer.
func (b *builds) judge(event, older string, d eventtype.Definition) (between []engine.SchemaVersion, feature string, err error) {
	newer := d.Fingerprint()
	place := func(known []engine.SchemaVersion, of string) int {
		return slices.IndexFunc(known, func(v engine.SchemaVersion) bool { return v.Fingerprint == of })
	}
	b.mu.Lock()
	known := b.histories[event]
	feature, judged := b.verdicts[[3]string{event, older, newer}]
	b.mu.Unlock()
	if place(known, older) < 0 || place(known, newer) < 0 {
		if judged {
			return nil, "", nil // the history does not contain it
		}
		ctx, cancel := context.WithTimeout(context.Background(), historyTime)
		defer cancel()
		if known, err = b.store.History(ctx, event); err != nil {
			return nil, "", err
		}
	}
	from, to := place(known, older), place(known, newer)
	if !judged && from >= 0 && from < to {
		if changes := history.Changes(known[from], b.host.Descriptor(d)); len(changes) > 0 {
			feature = changes[0].Feature
		}
	}
	b.mu.Lock()
	b.histories[event] = known
	b.verdicts[[3]string{event, older, newer}] = feature
	b.mu.Unlock()
	if from < 0 || from >= to {
		return nil, "", nil
	}
	return known[from:to], feature, nil
}

// present reports whether a process may still serve one of the schemas.
func (b *builds) present(event string, schemas []engine.SchemaVersion) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.started) < b.after {
		return true // not known yet
	}
	return slices.ContainsFunc(schemas, func(v engine.SchemaVersion) bool {
		seen, ok := b.seen[schemaOf{event, v.Fingerprint}]
		return ok && now.Sub(seen) < b.after
	})
}
