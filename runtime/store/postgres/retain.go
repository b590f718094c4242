package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// dueSQL computes the position up to which each log can be trimmed. It checks the age of at most $1 entries per
	// log, from the oldest on, because a step deletes no more.
	dueSQL = `SELECT l.id, l.kept, b.up_to FROM @.logs l, LATERAL (SELECT greatest(
			CASE WHEN l.max_count > 0 THEN l.head - l.max_count ELSE 0 END,
			CASE WHEN l.max_age > 0 THEN coalesce((SELECT e.position - 1 FROM (
					SELECT position, appended FROM @.entries WHERE log = l.id AND position > l.kept ORDER BY position LIMIT $1) e
				WHERE e.appended >= clock_timestamp() - (l.max_age / 1000.0) * interval '1 microsecond' ORDER BY e.position LIMIT 1),
				least(l.head, l.kept + $1)) ELSE 0 END) AS up_to) b
		WHERE b.up_to > l.kept ORDER BY l.id`
	// deleteSQL deletes entries that retention no longer covers. There are only dead rows up to $2, which a vacuum
	// has not yet removed.
	deleteSQL = `DELETE FROM @.entries WHERE log = $1 AND position > $2 AND position <= (SELECT kept FROM @.logs WHERE id = $1)`
)

// Retain implements [engine.Shared]. The limits of a log are those of its last opening, in any replica.
func (s *Store) Retain(ctx context.Context, h engine.ShardFence, limit int) (more bool, err error) {
	if err := s.write(ctx, func(b *pgx.Batch) { s.held(b, h) }); err != nil {
		return false, err
	}
	type due struct{ ID, Kept, UpTo int64 }
	all, err := collect(ctx, s, pgx.RowToStructByName[due], dueSQL, int64(limit))
	if err != nil {
		return false, err
	}
	for _, d := range all {
		if limit <= 0 {
			break
		}
		var removed int64
		done := false
		err := s.write(ctx, func(b *pgx.Batch) {
			s.held(b, h)
			// The bound moves first: this row serializes with appends that look for an id.
			b.Queue(s.in(`WITH m AS (SELECT least($2, kept + $3) AS up_to, kept FROM @.logs WHERE id = $1 FOR UPDATE)
				UPDATE @.logs l SET kept = greatest(l.kept, m.up_to), kept_proof = CASE WHEN m.up_to <= l.kept THEN l.kept_proof
					ELSE coalesce((SELECT @.proof(event_id, timestamp, data) FROM @.entries WHERE log = $1 AND position = m.up_to), 0) END
				FROM m WHERE l.id = $1 RETURNING l.kept - m.kept, l.kept >= $2`),
				d.ID, d.UpTo, int64(limit)).QueryRow(func(row pgx.Row) error { return row.Scan(&removed, &done) })
			b.Queue(s.in(deleteSQL), d.ID, d.Kept)
		})
		if err != nil {
			return false, err
		}
		limit -= int(removed)
		if !done {
			return true, nil
		}
	}
	return limit <= 0, nil
}
