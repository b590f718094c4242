package outbox

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// maxReason is the maximum length in bytes of the stored reason for rejecting a row.
const maxReason = 1024

// reject moves rows to the table rejected, preserving their order.
func (t *Table) reject(ctx context.Context, db DB, rows []Row) error {
	ids, reasons := make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		ids[i], reasons[i] = r.id, sanitizeReason(r.fault.Error())
	}
	_, err := db.Write(ctx, t.qualify(`WITH d AS (DELETE FROM @.outbox WHERE id = ANY ($1) RETURNING *)
		INSERT INTO @.rejected (at, reason, `+columns+`) SELECT clock_timestamp(), u.reason, `+columns+`
			FROM d JOIN unnest($1::bigint[], $2::text[]) AS u (row, reason) ON u.row = d.id ORDER BY d.id`), ids, reasons)
	if err != nil {
		return err
	}
	r := rows[0]
	t.Logger.Error("mcp events: an event emitted in a transaction is invalid and was rejected",
		"rows", len(rows), "log", r.Log, "eventId", r.Entry.EventID, "error", reasons[0])
	return nil
}

// sanitizeReason truncates a reason to maxReason bytes and removes bytes that PostgreSQL does not accept.
func sanitizeReason(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// Rejected returns up to limit rejected rows with ids greater than after; see [engine.Outbox].
func (t *Table) Rejected(ctx context.Context, db DB, after int64, limit int) (found []operator.Rejected, err error) {
	err = db.Read(ctx, func(rows pgx.Rows) (err error) {
		found, err = pgx.AppendRows([]operator.Rejected(nil), rows, func(row pgx.CollectableRow) (r operator.Rejected, err error) {
			var id []byte
			err = row.Scan(&r.ID, &r.At, &r.Reason, &r.Log, &id, &r.Bytes)
			r.EventID = strings.ToValidUTF8(string(id), "\uFFFD")
			return r, err
		})
		return err
	}, t.qualify(`SELECT id, at, reason, left(log, 256), substring(event_id FROM 1 FOR 256), octet_length(data)::bigint + coalesce(octet_length(meta), 0)
		FROM @.rejected WHERE id > $1 ORDER BY id LIMIT $2`), after, int64(max(limit, 0)))
	return found, err
}

// PutBack moves a rejected row back to the outbox and reports whether the row existed; see [engine.Outbox].
func (t *Table) PutBack(ctx context.Context, db DB, id int64) (found bool, err error) {
	n, err := db.Write(ctx, t.qualify(`WITH r AS (DELETE FROM @.rejected WHERE id = $1 RETURNING *)
		INSERT INTO @.outbox (`+columns+`) SELECT `+columns+` FROM r`), id)
	return n > 0, err
}

// Drop deletes a rejected row and reports whether the row existed; see [engine.Outbox].
func (t *Table) Drop(ctx context.Context, db DB, id int64) (found bool, err error) {
	n, err := db.Write(ctx, t.qualify(`DELETE FROM @.rejected WHERE id = $1`), id)
	return n > 0, err
}
