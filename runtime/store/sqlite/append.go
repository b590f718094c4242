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

// Append implements [store.EventLog]. Concurrent appends are committed together.
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	a := appendCall{log: l, entry: e}
	err := a.do(ctx)
	return a.entry.Position, err
}

// AppendOnce implements [store.EventLog]. It looks up the id within the appending transaction, so it finds the other
// appends of its group. It returns after the COMMIT.
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	a := appendCall{log: l, entry: e, once: true, above: above}
	if err := a.do(ctx); err != nil {
		return 0, false, err
	}
	if a.stands == nil {
		return a.entry.Position, true, nil
	}
	return a.stands.Position, false, store.Repeats(a.stands.Position, a.stands.Data, e.Data)
}

// An appendCall is a call to Append or AppendOnce.
type appendCall struct {
	log   *Log
	entry store.Entry
	once  bool
	above store.Position

	audience []byte
	now      time.Time
	stands   *store.Entry // the existing entry
}

func (a *appendCall) do(ctx context.Context) error {
	a.audience = audienceHash(a.entry.Targets)
	above := a.above
	err := a.log.s.writer.submit(ctx, a.apply, a.committed)
	if errors.Is(err, ErrCorrupt) && a.above > above {
		err = a.log.s.writer.submit(ctx, a.apply, a.committed)
	}
	if err != nil {
		a.entry.Position = 0
	}
	return err
}

// apply performs the append within a transaction. It can be called again in another transaction.
func (a *appendCall) apply(ctx context.Context, w *session) error {
	a.now, a.stands = time.Now(), nil
	// Read the head from the file, because an earlier transaction of the group may have assigned positions and failed.
	var head int64
	if err := w.queryRow(ctx, "SELECT head FROM logs WHERE id = ?", []any{a.log.id}, &head); err != nil {
		return err
	}
	if told := a.log.visibleHead(); store.Position(head) < told {
		return fmt.Errorf("%w: the file was restored to an older state while it was open: %s has %d entries of %d; restart the process (docs/one-process.md)",
			ErrCorrupt, a.log.name, head, told)
	}
	if a.once {
		if err := a.findExisting(ctx, w, store.Position(head)); err != nil || a.stands != nil {
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
	_, err = w.exec(ctx, "UPDATE logs SET head = ?, oldest = ? WHERE id = ?", r.position, int64(a.log.lastEvicted(a.entry.Position)+1), a.log.id)
	return err
}

// visibleHead returns the last position that is visible to readers.
func (l *Log) visibleHead() store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// findExisting finds the last retained entry that the new entry would repeat (OCC-5). It ignores damaged entries,
// because they cannot be read.
func (a *appendCall) findExisting(ctx context.Context, w *session, head store.Position) error {
	after := max(a.above, a.log.lastEvicted(head))
	if after >= head {
		return nil
	}
	st, err := w.stmt(ctx, "SELECT "+entryColumns+` FROM entries WHERE log = ? AND event_id = ? AND audience = ? AND position > ?
		ORDER BY position DESC`)
	if err != nil {
		return err
	}
	if err = classify(a.searchEntry(ctx, st, after)); errors.Is(err, ErrCorrupt) {
		a.above = a.log.visibleHead() // SQLite rejects further writes of this transaction: the next one considers only later entries
	}
	return err
}

// searchEntry finds the last readable entry after a position with the same id and audience. It compares the entries
// themselves, because the index may be damaged.
func (a *appendCall) searchEntry(ctx context.Context, st *sql.Stmt, after store.Position) error {
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

func (a *appendCall) committed() {
	if a.stands == nil {
		a.log.publish(a.entry, a.now)
	}
}

// lastEvicted returns the position of the last entry that has exceeded its retention. The given head may be ahead of
// the committed head.
func (l *Log) lastEvicted(head store.Position) store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applyRetention()
	after := l.oldest - 1
	if n := store.Position(max(l.options.MaxCount, 0)); n > 0 && head > n {
		after = max(after, head-n)
	}
	return after
}

// audienceHash returns the index value of an entry's targets, a hash of the set. It is empty if targets is nil.
func audienceHash(targets []string) []byte {
	if targets == nil {
		return []byte{}
	}
	sum := sha256.Sum256([]byte(store.Audience(targets)))
	return sum[:]
}
