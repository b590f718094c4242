package sqlite

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const putSchedule = "INSERT INTO schedules (id, owner, next_run, record) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, next_run = excluded.next_run, record = excluded.record"

// PutSchedule implements [engine.Schedules].
func (s *Store) PutSchedule(ctx context.Context, v engine.Schedule) error {
	_, err := s.execChange(ctx, putSchedule, v.ID, v.Owner, scalar.Nanos(v.NextRun), append([]byte{}, v.Record...))
	return err
}

// DeleteSchedule implements [engine.Schedules].
func (s *Store) DeleteSchedule(ctx context.Context, id string) error {
	return s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "DELETE FROM queued WHERE schedule = ?", id); err != nil {
			return err
		}
		_, err := w.exec(ctx, "DELETE FROM schedules WHERE id = ?", id)
		return err
	}, nil)
}

// Schedules implements [engine.Schedules].
func (s *Store) Schedules(ctx context.Context, after string, limit int) ([]engine.Schedule, error) {
	return collect(ctx, s, func(row scanner) (v engine.Schedule, err error) {
		var next int64
		var record []byte
		err = row.Scan(&v.ID, &v.Owner, &next, &record)
		v.NextRun, v.Record = scalar.Time(next), record
		return v, err
	}, "SELECT id, owner, next_run, record FROM schedules WHERE id > ? ORDER BY id LIMIT ?", after, max(limit, 0))
}

// Intake implements [engine.Schedules].
func (s *Store) Intake(ctx context.Context, in engine.Intake) (dropped map[string]int, err error) {
	err = s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		dropped = map[string]int{} // a retry starts over
		grown := map[string]bool{}
		for _, q := range in.Items {
			grown[q.Schedule] = true
			_, err := w.exec(ctx, "INSERT INTO queued (schedule, body) SELECT id, ? FROM schedules WHERE id = ?", append([]byte{}, q.Body...), q.Schedule)
			if err != nil {
				return err
			}
		}
		for id := range grown {
			if in.Limit <= 0 {
				break
			}
			n, err := w.exec(ctx, "DELETE FROM queued WHERE schedule = ?1 AND sequence <= (SELECT sequence FROM queued WHERE schedule = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)", id, in.Limit)
			if err != nil {
				return err
			}
			if n > 0 {
				dropped[id] = int(n)
			}
		}
		if in.Source == "" {
			return nil
		}
		_, err := w.exec(ctx, "INSERT OR REPLACE INTO intakes (source, cursor) VALUES (?, ?)", in.Source, in.Cursor)
		return err
	}, nil)
	return dropped, err
}

// IntakeCursor implements [engine.Schedules].
func (s *Store) IntakeCursor(ctx context.Context, source string) (cursor string, ok bool, err error) {
	ok, err = s.queryRow(ctx, "SELECT cursor FROM intakes WHERE source = ?", []any{source}, &cursor)
	return cursor, ok, err
}

// ForgetIntake implements [engine.Schedules].
func (s *Store) ForgetIntake(ctx context.Context, source string) error {
	_, err := s.execChange(ctx, "DELETE FROM intakes WHERE source = ?", source)
	return err
}

// Queue implements [engine.Schedules].
func (s *Store) Queue(ctx context.Context, id string, after uint64, limit int) ([]engine.Queued, error) {
	return collect(ctx, s, func(row scanner) (engine.Queued, error) {
		var sequence int64
		var body []byte
		err := row.Scan(&sequence, &body)
		return engine.Queued{Schedule: id, Sequence: uint64(sequence), Body: body}, err
	}, "SELECT sequence, body FROM queued WHERE schedule = ? AND sequence > ? ORDER BY sequence LIMIT ?", id, int64(after), max(limit, 0))
}

// CountQueued implements [engine.Schedules].
func (s *Store) CountQueued(ctx context.Context, id string) (n int, err error) {
	_, err = s.queryRow(ctx, "SELECT COUNT(*) FROM queued WHERE schedule = ?", []any{id}, &n)
	return n, err
}

// Settle implements [engine.Schedules].
func (s *Store) Settle(ctx context.Context, v engine.Schedule, upTo uint64) error {
	return s.writer.submit(ctx, func(ctx context.Context, w *session) error {
		if _, err := w.exec(ctx, "DELETE FROM queued WHERE schedule = ? AND sequence <= ?", v.ID, int64(upTo)); err != nil {
			return err
		}
		_, err := w.exec(ctx, "UPDATE schedules SET owner = ?, next_run = ?, record = ? WHERE id = ?", v.Owner, scalar.Nanos(v.NextRun), append([]byte{}, v.Record...), v.ID)
		return err
	}, nil)
}
