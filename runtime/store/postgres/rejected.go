package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// outboxRow are the columns of what waits and of what was put aside.
	outboxRow = "log, event_id, timestamp, data, meta, targets, once, above"
	// maxReason bounds what is kept of why a row was put aside, in bytes.
	maxReason = 1024
)

// reject puts rows aside, in one step under the hold.
func (s *Store) reject(ctx context.Context, h engine.Hold, rows []outboxEntry) error {
	ids, reasons := make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		ids[i], reasons[i] = r.id, plain(r.fault.Error())
	}
	err := s.write(ctx, func(b *pgx.Batch) {
		s.held(b, h)
		b.Queue(s.in(`WITH d AS (DELETE FROM @.outbox WHERE id = ANY ($1) RETURNING *)
			INSERT INTO @.rejected (at, reason, `+outboxRow+`) SELECT clock_timestamp(), u.reason, `+outboxRow+`
				FROM d JOIN unnest($1::bigint[], $2::text[]) AS u (row, reason) ON u.row = d.id ORDER BY d.id`), ids, reasons)
	})
	if err != nil {
		return err
	}
	r := rows[0]
	s.options.Logger.Error("mcp events: what a transaction emitted is no occurrence and was put aside",
		"rows", len(rows), "log", r.Log, "eventId", r.Entry.EventID, "error", reasons[0])
	return nil
}

// plain is text that PostgreSQL takes, within the bound of a reason.
func plain(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// Rejected implements [engine.Outbox].
func (s *Store) Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error) {
	return collect(ctx, s, func(row pgx.CollectableRow) (r operator.Rejected, err error) {
		var id []byte
		err = row.Scan(&r.ID, &r.At, &r.Reason, &r.Log, &id, &r.Bytes)
		r.EventID = strings.ToValidUTF8(string(id), "\uFFFD")
		return r, err
	}, `SELECT id, at, reason, left(log, 256), substring(event_id FROM 1 FOR 256), octet_length(data)::bigint + coalesce(octet_length(meta), 0)
		FROM @.rejected WHERE id > $1 ORDER BY id LIMIT $2`, after, int64(max(limit, 0)))
}

// PutBack implements [engine.Outbox].
func (s *Store) PutBack(ctx context.Context, id int64) (bool, error) {
	return s.takeRejected(ctx, `WITH r AS (DELETE FROM @.rejected WHERE id = $1 RETURNING *),
		i AS (INSERT INTO @.outbox (`+outboxRow+`) SELECT `+outboxRow+` FROM r RETURNING 1) SELECT count(*) FROM i`, id)
}

// Drop implements [engine.Outbox].
func (s *Store) Drop(ctx context.Context, id int64) (bool, error) {
	return s.takeRejected(ctx, `WITH r AS (DELETE FROM @.rejected WHERE id = $1 RETURNING 1) SELECT count(*) FROM r`, id)
}

func (s *Store) takeRejected(ctx context.Context, sql string, id int64) (found bool, err error) {
	err = s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.in(sql), id).QueryRow(func(row pgx.Row) error {
			var n int64
			err := row.Scan(&n)
			found = n > 0
			return err
		})
	})
	return found, err
}
