package shared

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	statePrefix = "shared/state/"
	markPrefix  = "shared/mark/"
)

// name returns a name as a segment of a key.
func name(n string) string { return hex.EncodeToString([]byte(n)) }

func (s *Store) get(ctx context.Context, key string) (store.Record, error) {
	found, err := s.e.Get(ctx, store.Latest, key)
	if err != nil {
		return store.Record{}, err
	}
	return found[0], nil
}

// write commits one write until its outcome is known, and returns the new revision.
func (s *Store) write(ctx context.Context, w store.Write) (revision uint64, err error) {
	c := &store.Commit{Call: rand.Uint64()>>1 | 1, Writes: []store.Write{w}}
	for lost := false; ; {
		revisions, err := s.e.Commit(ctx, c)
		if err == nil {
			return revisions[0], nil
		}
		if lost = lost || errors.Is(err, store.ErrUncertain); !lost {
			return 0, err
		}
		r, readErr := s.get(ctx, w.Key)
		switch {
		case readErr != nil:
			return 0, fmt.Errorf("%w: %w", store.ErrUncertain, readErr)
		case r.Call == c.Call:
			return r.Revision, nil
		case errors.Is(err, store.ErrConflict):
			return 0, err
		}
	}
}

// number returns the number of a record, 0 if it does not exist.
func number(r store.Record) (uint64, error) {
	if r.Value == nil {
		return 0, nil
	}
	return strconv.ParseUint(string(r.Value.Bytes()), 10, 64)
}

// setNumber replaces the number of a record by the result of next, and returns it.
func (s *Store) setNumber(ctx context.Context, key string, next func(last uint64) uint64) (uint64, error) {
	for {
		r, err := s.get(ctx, key)
		if err != nil {
			return 0, err
		}
		last, err := number(r)
		if err != nil {
			return 0, err
		}
		n := next(last)
		if n == last && r.Value != nil {
			return n, nil
		}
		_, err = s.write(ctx, store.Write{Key: key, On: r.Revision, Value: store.Bytes(strconv.AppendUint(nil, n, 10))})
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || len(conflict.Keys) != 1 || conflict.Keys[0] != key {
			return n, err
		}
	}
}

// SaveMark implements [store.SubscriptionStore].
func (s *Store) SaveMark(ctx context.Context, log string, to store.Position) error {
	return s.saveMark(ctx, markPrefix+name(log), to)
}

func (s *Store) saveMark(ctx context.Context, key string, to store.Position) error {
	_, err := s.setNumber(ctx, key, func(last uint64) uint64 { return max(last, uint64(to)) })
	return err
}

// Mark implements [store.SubscriptionStore].
func (s *Store) Mark(ctx context.Context, log string) (store.Position, error) {
	return s.mark(ctx, markPrefix+name(log))
}

func (s *Store) mark(ctx context.Context, key string) (store.Position, error) {
	r, err := s.get(ctx, key)
	if err != nil {
		return 0, err
	}
	n, err := number(r)
	return store.Position(n), err
}

// States implements [domain.Shared].
func (s *Store) States(ctx context.Context, prefix, after string, limit int) (states []domain.State, err error) {
	at := ""
	if after != "" {
		at = statePrefix + name(after)
	}
	for len(states) < limit {
		page, err := s.e.Scan(ctx, statePrefix+name(prefix), at, limit-len(states))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			at = r.Key
			key, err := hex.DecodeString(strings.TrimPrefix(r.Key, statePrefix))
			if err != nil {
				return nil, fmt.Errorf("the key %q of a state: %w", r.Key, err)
			}
			states = append(states, domain.State{Key: string(key), Value: bytes.Clone(r.Value.Bytes()), Revision: r.Revision})
		}
	}
	return states, nil
}

// PutState implements [domain.Shared].
func (s *Store) PutState(ctx context.Context, x domain.State) (revision uint64, err error) {
	w := store.Write{Key: statePrefix + name(x.Key), On: x.Revision, Value: store.Bytes(bytes.Clone(x.Value))}
	if x.Revision == 0 {
		r, err := s.get(ctx, w.Key)
		if err != nil {
			return 0, err
		}
		if r.Value != nil {
			return 0, store.ErrConflict
		}
		w.On = r.Revision // of a deletion
	}
	return s.write(ctx, w)
}

// DeleteState implements [domain.Shared].
func (s *Store) DeleteState(ctx context.Context, key string, revision uint64) error {
	if revision == 0 {
		return store.ErrConflict
	}
	_, err := s.write(ctx, store.Write{Key: statePrefix + name(key), On: revision})
	return err
}
