package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// MaxShards bounds the shards of an event type.
const MaxShards = 4096

// A topicRecord is the value of topic: the number of shards of an event type.
type topicRecord struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"`
}

// Bytes implements [store.Value].
func (t *topicRecord) Bytes() []byte { return encode(t) }

// An Order is an operator's latest order of one kind about an event type. Each process compares its Number with that of
// the order that it has carried out last.
type Order struct {
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	// Error is what to raise, for [Ledger.RaiseError].
	Error *wire.ErrorObject `json:"error,omitempty"`
}

// Bytes implements [store.Value].
func (o *Order) Bytes() []byte { return encode(o) }

// A closing is the value of closed.
type closing struct {
	Error wire.ErrorObject `json:"error"`
}

// Bytes implements [store.Value].
func (c *closing) Bytes() []byte { return encode(c) }

// A Topic is the state of an event type in the store.
type Topic struct {
	// Shards is the number of shards, 0 if no process has registered the type with webhooks.
	Shards int
	// Closed is the error with which the type was terminated, nil if it is open.
	Closed *wire.ErrorObject
	// Gap, Raised and Recheck are the latest orders. Their Number is 0 before the first one.
	Gap, Raised, Recheck Order
}

// Topic returns the state of an event type.
func (l *Ledger) Topic(ctx context.Context, topic string) (t Topic, err error) {
	var keys []string
	for _, family := range [...]string{familyTopic, familyClosed, familyGap, familyRaise, familyRecheck} {
		keys = append(keys, topicKey(family, topic))
	}
	found, err := l.e.Get(ctx, store.Latest, keys...)
	if err != nil {
		return Topic{}, err
	}
	shards, err := decode[topicRecord](found[0])
	if err != nil {
		return Topic{}, err
	}
	if shards != nil {
		t.Shards = shards.Shards
	}
	closed, err := decode[closing](found[1])
	if err != nil {
		return Topic{}, err
	}
	if closed != nil {
		t.Closed = &closed.Error
	}
	for i, to := range [...]*Order{&t.Gap, &t.Raised, &t.Recheck} {
		o, err := decode[Order](found[2+i])
		if err != nil {
			return Topic{}, err
		}
		if o != nil {
			*to = *o
		}
	}
	return t, nil
}

// Establish gives an event type n shards, unless it has shards already, and returns how many it has (REP-6).
func (l *Ledger) Establish(ctx context.Context, topic string, n int) (shards int, err error) {
	if n < 1 || n > MaxShards {
		return 0, fmt.Errorf("ledger: %d shards for %s; use 1 to %d", n, topic, MaxShards)
	}
	if err := checkName("the event type", topic); err != nil {
		return 0, err
	}
	key := topicKey(familyTopic, topic)
	_, err = l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		t, err := decode[topicRecord](r.of(key))
		if err != nil {
			return nil, err
		}
		if t != nil {
			shards = t.Shards
			return nil, nil
		}
		shards = n
		return &store.Commit{Writes: []store.Write{r.write(key, &topicRecord{topic, n})}, Tell: []string{key}}, nil
	})
	if err != nil {
		return 0, fmt.Errorf("establishing the shards of %s: %w", topic, err)
	}
	return shards, nil
}

// RaiseGap orders a gap for all subscriptions to an event type (HOOK-7). It returns when the order is stored.
func (l *Ledger) RaiseGap(ctx context.Context, topic string) (Order, error) {
	return l.order(ctx, familyGap, topic, nil)
}

// RaiseError orders an error for all that is connected to an event type.
func (l *Ledger) RaiseError(ctx context.Context, topic string, e wire.ErrorObject) (Order, error) {
	return l.order(ctx, familyRaise, topic, &e)
}

// Recheck orders that the hooks judge all subscriptions to an event type again (AUTH-2, LIST-4).
func (l *Ledger) Recheck(ctx context.Context, topic string) (Order, error) {
	return l.order(ctx, familyRecheck, topic, nil)
}

func (l *Ledger) order(ctx context.Context, family, topic string, e *wire.ErrorObject) (o Order, err error) {
	if err := checkName("the event type", topic); err != nil {
		return o, err
	}
	now, err := l.e.Clock(ctx)
	if err != nil {
		return o, err
	}
	key := topicKey(family, topic)
	_, err = l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		last, err := decode[Order](r.of(key))
		if err != nil {
			return nil, err
		}
		next := &Order{Number: 1, At: now, Error: e}
		if last != nil {
			next.Number += last.Number
		}
		o = *next
		return &store.Commit{Writes: []store.Write{r.write(key, next)}, Tell: []string{key}}, nil
	})
	if err != nil {
		return Order{}, fmt.Errorf("storing an order about %s: %w", topic, err)
	}
	return o, nil
}

// Close terminates an event type with an error, until Reopen.
func (l *Ledger) Close(ctx context.Context, topic string, e wire.ErrorObject) error {
	return l.setClosed(ctx, topic, &closing{e})
}

// Reopen opens an event type that was terminated.
func (l *Ledger) Reopen(ctx context.Context, topic string) error { return l.setClosed(ctx, topic, nil) }

func (l *Ledger) setClosed(ctx context.Context, topic string, to *closing) error {
	if err := checkName("the event type", topic); err != nil {
		return err
	}
	key := topicKey(familyClosed, topic)
	_, err := l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		w := store.Write{Key: key, On: r.of(key).Revision}
		switch {
		case to != nil:
			w.Value = to
		case r.of(key).Value == nil:
			return nil, nil
		}
		return &store.Commit{Writes: []store.Write{w}, Tell: []string{key}}, nil
	})
	if err != nil {
		return fmt.Errorf("closing or opening %s: %w", topic, err)
	}
	return nil
}

// A schemaRecord is the value of schema.
type schemaRecord struct {
	SchemaVersion
}

// Bytes implements [store.Value].
func (s *schemaRecord) Bytes() []byte { return encode(s) }

func schemaKey(topic string, ordinal int) string {
	return topicKey(familySchema, topic) + fmt.Sprintf("/%08d", ordinal)
}

// History returns the schemas that an event type has had, the first one first (REP-16).
func (l *Ledger) History(ctx context.Context, topic string) (versions []SchemaVersion, err error) {
	err = l.pages(ctx, topicKey(familySchema, topic)+"/", func(page []store.Record) error {
		for _, r := range page {
			v, err := decode[schemaRecord](r)
			if err != nil {
				return err
			}
			versions = append(versions, v.SchemaVersion)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the schemas of %s: %w", topic, err)
	}
	return versions, nil
}

// AddSchema appends to the history of an event type if it has known entries, and otherwise returns an error that matches
// [store.ErrConflict]: processes that start together judge by the same history.
func (l *Ledger) AddSchema(ctx context.Context, topic string, v SchemaVersion, known int) error {
	if err := checkName("the event type", topic); err != nil {
		return err
	}
	key := schemaKey(topic, known)
	keys := []string{key}
	if known > 0 {
		keys = append(keys, schemaKey(topic, known-1))
	}
	record := &schemaRecord{v}
	record.InputSchema, record.PayloadSchema = slices.Clone(v.InputSchema), slices.Clone(v.PayloadSchema)
	_, err := l.change(ctx, keys, func(r reading) (*store.Commit, error) {
		if r.of(key).Value != nil || known > 0 && r.of(keys[1]).Value == nil {
			return nil, store.ErrConflict
		}
		c := &store.Commit{Writes: []store.Write{r.write(key, record)}, Tell: []string{topicKey(familySchema, topic)}}
		if known > 0 {
			c.Guards = []store.Guard{{Key: keys[1], Revision: r.of(keys[1]).Revision}}
		}
		return c, nil
	})
	if err != nil {
		return fmt.Errorf("storing schema %d of %s: %w", known, topic, err)
	}
	return nil
}
