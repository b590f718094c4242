package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Retain implements [engine.Shared]. What a log keeps is what its last opening said, in whichever
// replica.
func (s *Store) Retain(ctx context.Context, h engine.Hold, limit int) (more bool, err error) {
	if err := s.write(ctx, func(b *pgx.Batch) { s.held(b, h) }); err != nil {
		return false, err
	}
	type due struct{ ID, UpTo int64 }
	all, err := collect(ctx, s, pgx.RowToStructByName[due], `SELECT l.id, b.up_to FROM @.logs l, LATERAL (SELECT greatest(
			CASE WHEN l.max_count > 0 THEN l.head - l.max_count ELSE 0 END,
			CASE WHEN l.max_age > 0 THEN coalesce((SELECT e.position - 1 FROM @.entries e WHERE e.log = l.id AND e.position > l.kept
				AND e.appended >= clock_timestamp() - (l.max_age / 1000.0) * interval '1 microsecond' ORDER BY e.position LIMIT 1), l.head) ELSE 0 END) AS up_to) b
		WHERE b.up_to > l.kept ORDER BY l.id`)
	if err != nil {
		return false, err
	}
	for _, d := range all {
		if limit <= 0 {
			return true, nil
		}
		var removed int64
		done := false
		err := s.write(ctx, func(b *pgx.Batch) {
			s.held(b, h)
			// The bound moves first: an append that looks for an id takes its turn by this row.
			b.Queue(s.in(`WITH m AS (SELECT least($2, kept + $3) AS up_to, kept FROM @.logs WHERE id = $1 FOR UPDATE)
				UPDATE @.logs l SET kept = greatest(l.kept, m.up_to), kept_proof = CASE WHEN m.up_to <= l.kept THEN l.kept_proof
					ELSE coalesce((SELECT @.proof(event_id, timestamp, data) FROM @.entries WHERE log = $1 AND position = m.up_to), 0) END
				FROM m WHERE l.id = $1 RETURNING l.kept - m.kept, l.kept >= $2`),
				d.ID, d.UpTo, int64(limit)).QueryRow(func(row pgx.Row) error { return row.Scan(&removed, &done) })
			b.Queue(s.in(`DELETE FROM @.entries WHERE log = $1 AND position <= (SELECT kept FROM @.logs WHERE id = $1)`), d.ID)
		})
		if err != nil {
			return false, err
		}
		limit -= int(removed)
		if !done {
			return true, nil
		}
	}
	return false, nil
}
