package jetstream

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// maxStateKey is the maximum size in bytes of a state's key, which is part of the subject.
const maxStateKey = 1024

// A storedState is the encoding of a state in the stream.
type storedState struct {
	Key, Value []byte
}

func stateAt(key string) string { return "k." + hex.EncodeToString([]byte(key)) }

// States implements [engine.Shared].
func (s *Store) States(ctx context.Context, prefix, after string, limit int) (states []engine.State, err error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, _, err := s.state.scan(ctx, "k.>", s.proofSubject("k."), 1, 0)
	if err != nil {
		return nil, s.wrapClosed(err)
	}
	latest := map[string]record{}
	for _, r := range found {
		latest[r.subject] = r
	}
	for _, r := range latest {
		if !r.exists() {
			continue
		}
		var x storedState
		if err := json.Unmarshal(r.body, &x); err != nil {
			return nil, fmt.Errorf("%w: state %s: %w", ErrCorrupt, r.subject, err)
		}
		if key := string(x.Key); key > after && strings.HasPrefix(key, prefix) {
			states = append(states, engine.State{Key: key, Value: x.Value, Revision: r.sequence})
		}
	}
	slices.SortFunc(states, func(a, b engine.State) int { return cmp.Compare(a.Key, b.Key) })
	return states[:min(len(states), max(limit, 0))], nil
}

// PutState implements [engine.Shared].
func (s *Store) PutState(ctx context.Context, x engine.State) (revision uint64, err error) {
	if x.Key == "" || len(x.Key) > maxStateKey {
		return 0, fmt.Errorf("store state: the key must have 1 to %d bytes, but has %d", maxStateKey, len(x.Key))
	}
	body, err := json.Marshal(storedState{[]byte(x.Key), x.Value})
	if err != nil {
		return 0, err
	}
	err = s.withLock(ctx, "state "+x.Key, func(ctx context.Context) error {
		revision, err = s.swap(ctx, x.Key, x.Revision, func(r record) write { return put(r, body) })
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("store state %q: %w", x.Key, err)
	}
	return revision, nil
}

// DeleteState implements [engine.Shared].
func (s *Store) DeleteState(ctx context.Context, key string, revision uint64) error {
	return s.withLock(ctx, "state "+key, func(ctx context.Context) error {
		_, err := s.swap(ctx, key, revision, remove)
		return err
	})
}

func (s *Store) swap(ctx context.Context, key string, revision uint64, w func(record) write) (uint64, error) {
	subject := stateAt(key)
	return s.state.change(ctx, []string{subject}, func(r *reading) ([]write, error) {
		x := r.of(subject)
		if x.exists() && x.sequence != revision || !x.exists() && revision != 0 {
			return nil, store.ErrConflict
		}
		return []write{w(x)}, nil
	})
}

// A storedSchema is the encoding of a SchemaVersion in the stream.
type storedSchema struct {
	Event, Fingerprint string
	Input, Payload     []byte
	Floor              uint64
}

func schemaAt(event string, ordinal int) string {
	return "y." + logToken(event) + "." + strconv.Itoa(ordinal)
}

// History implements [engine.Shared].
func (s *Store) History(ctx context.Context, event string) ([]engine.SchemaVersion, error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at := "y." + logToken(event) + "."
	found, _, err := s.state.scan(ctx, at+">", s.proofSubject(at), 1, 0)
	if err != nil {
		return nil, s.wrapClosed(err)
	}
	var history []engine.SchemaVersion
	for _, r := range found { // entries never change: each is found once, in order
		var x storedSchema
		if err := json.Unmarshal(r.body, &x); err != nil || r.subject != schemaAt(event, len(history)) {
			return nil, fmt.Errorf("%w: schema %s after %d others: %w", ErrCorrupt, r.subject, len(history), err)
		}
		history = append(history, engine.SchemaVersion{Fingerprint: x.Fingerprint, InputSchema: x.Input, PayloadSchema: x.Payload, Floor: store.Position(x.Floor)})
	}
	return history, nil
}

// AddSchema implements [engine.Shared].
func (s *Store) AddSchema(ctx context.Context, event string, v engine.SchemaVersion, known int) error {
	body, err := json.Marshal(storedSchema{event, v.Fingerprint, v.InputSchema, v.PayloadSchema, uint64(v.Floor)})
	if err != nil {
		return err
	}
	subject, before := schemaAt(event, known), schemaAt(event, known-1)
	return s.withLock(ctx, "schema "+event, func(ctx context.Context) error {
		_, err := s.state.change(ctx, []string{subject, before}, func(r *reading) ([]write, error) {
			last, is := r.of(before), r.of(subject)
			if is.exists() || known > 0 && !last.exists() {
				return nil, store.ErrConflict
			}
			return []write{put(is, body)}, nil
		})
		return err
	})
}

// Retain implements [engine.Shared]. It only checks the fence, because the nats-servers delete entries that exceed a
// log's limits.
func (s *Store) Retain(ctx context.Context, h engine.ShardFence, limit int) (more bool, err error) {
	subject := holdSubject(h.Shard)
	r, err := s.readProven(ctx, subject)
	if err != nil {
		return false, err
	}
	is, err := holdOf(r.of(subject))
	if err == nil && (is.Fence != h.Fence || h.Fence == 0 || h.Shard.Topic != engine.RetentionTopic) {
		err = fmt.Errorf("%v is not held by %d: %w", h.Shard, h.Fence, engine.ErrFenced)
	}
	return false, err
}
