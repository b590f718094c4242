package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A buildTracker tracks the schemas that other processes serve, to find subscriptions that no process can serve any
// longer (REP-16).
type buildTracker struct {
	host    Host
	store   engine.Shared
	log     *fault.Log
	after   time.Duration
	started time.Time

	mu        sync.Mutex
	seen      map[schemaKey]time.Time // when another process was last seen with it
	histories map[string][]engine.SchemaVersion
	verdicts  map[[3]string]verdict // by event, older and newer fingerprint
}

// A verdict is the first incompatible change between two versions of an event type: its feature and its text. The zero
// value means that nothing has changed incompatibly.
type verdict struct{ feature, change string }

// A schemaKey consists of an event type and the fingerprint of its schemas.
type schemaKey struct{ event, fingerprint string }

func (b *buildTracker) init(o *Options, st engine.Shared) {
	b.host, b.store, b.log, b.after, b.started = o.Host, st, o.Log, cmp.Or(o.Lease, defaultLease), time.Now()
	b.seen, b.histories, b.verdicts = map[schemaKey]time.Time{}, map[string][]engine.SchemaVersion{}, map[[3]string]verdict{}
}

// recordSchemas records the schemas that the other processes serve.
func (b *buildTracker) recordSchemas(c engine.Cluster, own uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, r := range c.Replicas {
		if r.Fence == own {
			continue
		}
		for event, fingerprint := range r.Types {
			b.seen[schemaKey{event, fingerprint}] = now
		}
	}
}

// obsoleteError returns the error that ends a subscription that was accepted under the schemas with the given
// fingerprint. The subscription only ends if the schemas are older than this build's and have changed incompatibly
// since then. In addition, no process has served the schemas for as long as a restart can take. Otherwise the error is
// nil.
func (b *buildTracker) obsoleteError(event, schema string) *events.Error {
	et, ok := b.host.Type(event)
	if !ok || schema == "" {
		return nil
	}
	d := et.Current()
	if d == nil || d.Fingerprint() == schema {
		return nil
	}
	known, found, err := b.findChange(event, schema, d.Fingerprint())
	if err != nil {
		b.log.Internal(context.Background(), "reading the history of schemas of "+event, err)
		return nil
	}
	if found.feature == "" || b.isServed(event, known) {
		return nil
	}
	return fault.SchemaChanged(found.feature)
}

// Conflicts implements [Processes].
func (c *Many) Conflicts(of engine.Cluster) (found []operator.SchemaConflict, err error) {
	serving := map[string]map[string][]string{} // names of replicas, by event type and fingerprint
	for _, r := range of.Replicas {
		for event, fingerprint := range r.Types {
			if serving[event] == nil {
				serving[event] = map[string][]string{}
			}
			serving[event][fingerprint] = append(serving[event][fingerprint], r.Name)
		}
	}
	for _, event := range slices.Sorted(maps.Keys(serving)) {
		by := serving[event]
		for _, older := range slices.Sorted(maps.Keys(by)) {
			for _, newer := range slices.Sorted(maps.Keys(by)) {
				if older == newer {
					continue
				}
				_, v, err := c.builds.findChange(event, older, newer)
				if err != nil {
					return nil, fmt.Errorf("reading the history of schemas of %s: %w", event, err)
				}
				if v.feature != "" {
					found = append(found, operator.SchemaConflict{Event: event, Change: v.change, Older: by[older], Newer: by[newer]})
				}
			}
		}
	}
	return found, nil
}

// historyTime is the timeout for reading an event type's history.
const historyTime = 30 * time.Second

// findChange returns the schemas from the older version (inclusive) to the newer version (exclusive), and the verdict on
// the two. The versions are fingerprints. The verdict is zero if newer does not follow older in the history.
func (b *buildTracker) findChange(event, older, newer string) (between []engine.SchemaVersion, v verdict, err error) {
	place := func(known []engine.SchemaVersion, of string) int {
		return slices.IndexFunc(known, func(v engine.SchemaVersion) bool { return v.Fingerprint == of })
	}
	b.mu.Lock()
	known := b.histories[event]
	v, judged := b.verdicts[[3]string{event, older, newer}]
	b.mu.Unlock()
	if place(known, older) < 0 || place(known, newer) < 0 {
		if judged {
			return nil, v, nil // the history does not contain it
		}
		ctx, cancel := context.WithTimeout(context.Background(), historyTime)
		defer cancel()
		if known, err = b.store.History(ctx, event); err != nil {
			return nil, v, err
		}
	}
	from, to := place(known, older), place(known, newer)
	if !judged && from >= 0 && from < to {
		features, first := evolve.Features(descriptorOf(&known[from]), descriptorOf(&known[to]))
		if v.change = first; len(features) > 0 {
			v.feature = features[0]
		}
	}
	b.mu.Lock()
	b.histories[event] = known
	b.verdicts[[3]string{event, older, newer}] = v
	b.mu.Unlock()
	if from < 0 || from >= to {
		return nil, verdict{}, nil
	}
	return known[from:to], v, nil
}

func descriptorOf(v *engine.SchemaVersion) wire.Descriptor {
	return wire.Descriptor{InputSchema: v.InputSchema, PayloadSchema: v.PayloadSchema}
}

// isServed reports whether a process might still serve one of the schemas.
func (b *buildTracker) isServed(event string, schemas []engine.SchemaVersion) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.started) < b.after {
		return true // not known yet
	}
	return slices.ContainsFunc(schemas, func(v engine.SchemaVersion) bool {
		seen, ok := b.seen[schemaKey{event, v.Fingerprint}]
		return ok && now.Sub(seen) < b.after
	})
}
