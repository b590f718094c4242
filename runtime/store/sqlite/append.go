package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Append implements [store.EventLog]. Appends that wait together are committed together.
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	a := appending{log: l, entry: e}
	err := a.do(ctx)
	return a.entry.Position, err
}

// AppendOnce implements [store.EventLog]. It looks for the id in the transaction that appends, so that it sees the
// other appends of its group, and returns after the COMMIT.
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	a := appending{log: l, entry: e, once: true, above: above}
	if err := a.do(ctx); err != nil {
		return 0, false, err
	}
	if a.stands == nil {
		return a.entry.Position, true, nil
	}
	return a.stands.Position, false, store.Repeats(a.stands.Position, a.stands.Data, e.Data)
}

// An appending is one call of Append or AppendOnce.
type appending struct {
	log   *Log
	entry store.Entry
	once  bool
	above store.Position

	audience []byte
	now      time.Time
	stands   *store.Entry // the existing entry
}

func (a *appending) do(ctx context.Context) error {
	a.audience = audience(a.entry.Targets)
	above := a.above
	err := a.log.s.writer.do(ctx, a.apply, a.committed)
	if errors.Is(err, ErrCorrupt) && a.above > above {
		err = a.log.s.writer.do(ctx, a.apply, a.committed)
	}
	if err != nil {
		a.entry.Position = 0
	}
	return err
}

// apply is the append step. It may run again in another transaction.
func (a *appending) apply(ctx context.Context, w *session) error {
	a.now, a.stands = time.Now(), nil
	// Positions that an earlier, failed transaction of the group assigned are void: the file decides.
	var head int64
	if err := w.row(ctx, "SELECT head FROM logs WHERE id = ?", []any{a.log.id}, &head); err != nil {
		return err
	}
	if told := a.log.told(); store.Position(head) < told {
		return fmt.Errorf("%w: the file was restored to an older state while it was open: %s has %d entries of %d; restart the process (docs/one-process.md)",
			ErrCorrupt, a.log.name, head, told)
	}
	if a.once {
		if err := a.find(ctx, w, store.Position(head)); err != nil || a.stands != nil {
			return err
		}
	}
	a.entry.Position = store.Position(head) + 1
	r, err := newRow(&a.entry, a.now.UnixNano())
	if err != nil {
		return err
	}
	var meta any
	if r.meta != nil {
		meta = r.meta
	}
	if _, err := w.exec(ctx, "INSERT INTO entries (log, "+entryColumns+", audience) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.log.id, r.position, r.appended, r.id, r.timestamp, r.data, meta, r.targets, r.cursor, r.checksum(a.log.name), a.audience); err != nil {
		return err
	}
	_, err = w.exec(ctx, "UPDATE logs SET head = ?, oldest = ? WHERE id = ?", r.position, int64(a.log.evicted(a.entry.Position)+1), a.log.id)
	return err
}

// told returns the last position that readers may have seen.
func (l *Log) told() store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// find looks for the last retained entry that the new one would repeat (OCC-5). A damaged entry counts as evicted,
// because it cannot be read.
func (a *appending) find(ctx context.Context, w *session, head store.Position) error {
	after := max(a.above, a.log.evicted(head))
	if after >= head {
		return nil
	}
	st, err := w.stmt(ctx, "SELECT "+entryColumns+` FROM entries WHERE log = ? AND event_id = ? AND audience = ? AND position > ?
		ORDER BY position DESC`)
	if err != nil {
		return err
	}
	if err = classify(a.search(ctx, st, after)); errors.Is(err, ErrCorrupt) {
		a.above = a.log.told() // SQLite rejects further writes of this transaction: the next one considers only later entries
	}
	return err
}

// search looks for the last readable entry after a position with the id and the audience, whatever the index says.
func (a *appending) search(ctx context.Context, st *sql.Stmt, after store.Position) error {
	rows, err := st.QueryContext(ctx, a.log.id, a.entry.EventID, a.audience, int64(after))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := a.log.scanEntry(rows)
		switch {
		case errors.Is(err, ErrCorrupt):
		case err != nil:
			return err
		case e.EventID == a.entry.EventID && store.Audience(e.Targets) == store.Audience(a.entry.Targets):
			a.stands = &e
			return nil
		}
	}
	return rows.Err()
}

func (a *appending) committed() {
	if a.stands == nil {
		a.log.visible(a.entry, a.now)
	}
}

// evicted returns the last position that retention does not cover. The given head may be ahead of the committed one.
func (l *Log) evicted(head store.Position) store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retain()
	after := l.oldest - 1
	if n := store.Position(max(l.options.MaxCount, 0)); n > 0 && head > n {
		after = max(after, head-n)
	}
	return after
}

// audience returns the index value of an entry's targets. It is empty without targets, otherwise a hash of the set,
// which may be large.
func audience(targets []string) []byte {
	if targets == nil {
		return []byte{}
	}
	sum := sha256.Sum256([]byte(store.Audience(targets)))
	return sum[:]
}
