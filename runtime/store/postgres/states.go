package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// States implements [engine.Shared].
func (s *Store) States(ctx context.Context, prefix, after string, limit int) ([]engine.State, error) {
	return collect(ctx, s, func(r pgx.CollectableRow) (x engine.State, err error) {
		var value []byte
		var revision int64
		err = r.Scan(&x.Key, &value, &revision)
		x.Value, x.Revision = value, uint64(revision)
		return x, err
	}, `SELECT key, value, revision FROM @.states WHERE key > $2 AND key >= $1 AND starts_with(key, $1) ORDER BY key LIMIT $3`,
		prefix, after, int64(max(limit, 0)))
}

// PutState implements [engine.Shared].
func (s *Store) PutState(ctx context.Context, x engine.State) (uint64, error) {
	sql := `UPDATE @.states SET value = $2, revision = revision + 1 WHERE key = $1 AND revision = $3`
	if x.Revision == 0 {
		sql = `INSERT INTO @.states (key, value, revision) VALUES ($1, $2, $3::bigint + 1) ON CONFLICT DO NOTHING`
	}
	changed, err := s.execChange(ctx, sql, x.Key, scalar.Bytes(x.Value), int64(x.Revision))
	if err == nil && !changed {
		err = store.ErrConflict
	}
	if err != nil {
		return 0, fmt.Errorf("store state %q: %w", x.Key, err)
	}
	return x.Revision + 1, nil
}

// DeleteState implements [engine.Shared].
func (s *Store) DeleteState(ctx context.Context, key string, revision uint64) error {
	changed, err := s.execChange(ctx, `DELETE FROM @.states WHERE key = $1 AND revision = $2`, key, int64(revision))
	if err == nil && !changed {
		err = store.ErrConflict
	}
	return err
}

// History implements [engine.Shared].
func (s *Store) History(ctx context.Context, event string) ([]engine.SchemaVersion, error) {
	return collect(ctx, s, func(r pgx.CollectableRow) (v engine.SchemaVersion, err error) {
		var input, payload []byte
		var floor int64
		err = r.Scan(&v.Fingerprint, &input, &payload, &floor)
		v.InputSchema, v.PayloadSchema, v.Floor = input, payload, store.Position(floor)
		return v, err
	}, `SELECT fingerprint, input, payload, floor FROM @.schemas WHERE event = $1 ORDER BY ordinal`, event)
}

// AddSchema implements [engine.Shared].
func (s *Store) AddSchema(ctx context.Context, event string, v engine.SchemaVersion, known int) error {
	added, err := s.execChange(ctx, `INSERT INTO @.schemas (event, ordinal, fingerprint, input, payload, floor) SELECT $1::text, $2::integer, $3, $4, $5, $6
		WHERE $2::integer = (SELECT count(*) FROM @.schemas WHERE event = $1::text) ON CONFLICT DO NOTHING`,
		event, int32(known), v.Fingerprint, scalar.Bytes(v.InputSchema), scalar.Bytes(v.PayloadSchema), int64(v.Floor))
	if err == nil && !added {
		err = store.ErrConflict
	}
	return err
}
