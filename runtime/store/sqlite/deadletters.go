package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// PutDeadLetter implements [clientstore.DeadLetterStore].
func (s *Store) PutDeadLetter(ctx context.Context, d clientstore.DeadLetter, limit int) error {
	data, meta := []byte(d.Data), []byte(d.Meta)
	sequence := d.Sequence
	d.Sequence, d.Data, d.Meta = 0, nil, nil
	record, err := json.Marshal(d)
	if err != nil {
		return err
	}
	full := false
	err = s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		full = false
		const set = "due = ?, record = ?, data = coalesce(?, x''), meta = coalesce(?, x'')"
		n, err := w.exec(ctx, "UPDATE dead_letters SET "+set+" WHERE sequence = ? OR ? = 0 AND ? <> '' AND key = ? AND event_id = ?",
			d.Due, string(record), data, meta, int64(sequence), int64(sequence), d.EventID, d.Key, d.EventID)
		if err != nil || n > 0 || sequence != 0 {
			return err
		}
		n, err = w.exec(ctx, `INSERT INTO dead_letters (key, event_id, due, record, data, meta)
			SELECT ?, ?, ?, ?, coalesce(?, x''), coalesce(?, x'') WHERE (SELECT count(*) FROM dead_letters WHERE key = ?) < ?`,
			d.Key, d.EventID, d.Due, string(record), data, meta, d.Key, limit)
		full = n == 0
		return err
	}, nil)
	if err == nil && full {
		return clientstore.ErrDeadLettersFull
	}
	return err
}

// DeadLetters implements [clientstore.DeadLetterStore].
func (s *Store) DeadLetters(ctx context.Context, after uint64, limit int) ([]clientstore.DeadLetter, error) {
	return s.deadLetters(ctx, "sequence > ? ORDER BY sequence LIMIT ?", int64(min(after, 1<<63-1)), max(limit, 0))
}

// DueDeadLetters implements [clientstore.DeadLetterStore].
func (s *Store) DueDeadLetters(ctx context.Context, key string, after uint64, limit int) ([]clientstore.DeadLetter, error) {
	return s.deadLetters(ctx, "key = ? AND due = 1 AND sequence > ? ORDER BY sequence LIMIT ?", key, int64(min(after, 1<<63-1)), max(limit, 0))
}

func (s *Store) deadLetters(ctx context.Context, where string, args ...any) ([]clientstore.DeadLetter, error) {
	return collect(ctx, s, func(row scanner) (d clientstore.DeadLetter, err error) {
		var sequence int64
		var due bool
		var key, id, record string
		var data, meta []byte
		if err := row.Scan(&sequence, &key, &id, &due, &record, &data, &meta); err != nil {
			return d, err
		}
		if err := json.Unmarshal([]byte(record), &d); err != nil { // the other columns are enough to retry or delete it
			d = clientstore.DeadLetter{Key: key, EventID: id, Error: fmt.Sprintf("the record of the dead letter is damaged: %v", err)}
		}
		d.Sequence, d.Due = uint64(sequence), due
		if len(data) > 0 {
			d.Data = data
		}
		if len(meta) > 0 {
			d.Meta = meta
		}
		return d, nil
	}, "SELECT sequence, key, event_id, due, record, data, meta FROM dead_letters WHERE "+where, args...)
}

// RetryDeadLetter implements [clientstore.DeadLetterStore].
func (s *Store) RetryDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	return s.changeDeadLetter(ctx, "UPDATE dead_letters SET due = 1 WHERE sequence = ?", sequence)
}

// DeleteDeadLetter implements [clientstore.DeadLetterStore].
func (s *Store) DeleteDeadLetter(ctx context.Context, sequence uint64) (found bool, err error) {
	return s.changeDeadLetter(ctx, "DELETE FROM dead_letters WHERE sequence = ?", sequence)
}

func (s *Store) changeDeadLetter(ctx context.Context, change string, sequence uint64) (found bool, err error) {
	n, err := s.execChange(ctx, change, int64(min(sequence, 1<<63-1)))
	return n > 0, err
}
