package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// dueSQL computes the position up to which each log can be trimmed. It checks the age of only the $1 oldest entries
	// per log, because a step does not delete more.
	dueSQL = `SELECT l.id, l.kept, b.up_to FROM @.logs l, LATERAL (SELECT greatest(
			CASE WHEN l.max_count > 0 THEN l.head - l.max_count ELSE 0 END,
			CASE WHEN l.max_age > 0 THEN coalesce((SELECT e.position - 1 FROM (
					SELECT position, appended FROM @.entries WHERE log = l.id AND position > l.kept ORDER BY position LIMIT $1) e
				WHERE e.appended >= clock_timestamp() - (l.max_age / 1000.0) * interval '1 microsecond' ORDER BY e.position LIMIT 1),
				least(l.head, l.kept + $1)) ELSE 0 END) AS up_to) b
		WHERE b.up_to > l.kept ORDER BY l.id`
	// deleteSQL deletes entries that have exceeded their retention. Up to position $2, there are only dead rows that
	// have not yet been vacuumed.
	deleteSQL = `DELETE FROM @.entries WHERE log = $1 AND position > $2 AND position <= (SELECT kept FROM @.logs WHERE id = $1)`
)

// Retain implements [engine.Shared]. A log's limits are those of the latest OpenLog call in any replica.
func (s *Store) Retain(ctx context.Context, h engine.ShardFence, limit int) (more bool, err error) {
	if err := s.write(ctx, func(b *pgx.Batch) { s.queueFenceCheck(b, &h) }); err != nil {
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
			s.queueFenceCheck(b, &h)
			// Update the bound first: locking this row serializes the deletion with appends that look up an id.
			b.Queue(s.qualify(`WITH m AS (SELECT least($2, kept + $3) AS up_to, kept FROM @.logs WHERE id = $1 FOR UPDATE)
				UPDATE @.logs l SET kept = greatest(l.kept, m.up_to), kept_proof = CASE WHEN m.up_to <= l.kept THEN l.kept_proof
					ELSE coalesce((SELECT @.proof(event_id, timestamp, data) FROM @.entries WHERE log = $1 AND position = m.up_to), 0) END
				FROM m WHERE l.id = $1 RETURNING l.kept - m.kept, l.kept >= $2`),
				d.ID, d.UpTo, int64(limit)).QueryRow(func(row pgx.Row) error { return row.Scan(&removed, &done) })
			b.Queue(s.qualify(deleteSQL), d.ID, d.Kept)
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
