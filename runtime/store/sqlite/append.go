package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Append implements [store.EventLog]. Appends that wait together are committed together.
func (l *Log) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	done, err := l.appendGroup(ctx, nil, engine.Append{Entry: e})
	if err != nil {
		return 0, err
	}
	return done[0].Position, nil
}

// AppendOnce implements [store.EventLog]. It looks for the id in the transaction that appends, so
// that it finds the members of its own group, and is answered after its COMMIT.
func (l *Log) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	done, err := l.appendGroup(ctx, nil, engine.Append{Entry: e, Once: true, Above: above})
	if err != nil {
		return 0, false, err
	}
	return done[0].Position, done[0].Fresh, done[0].Err
}

// appendGroup appends entries in order, all of them or none. If may is not nil, the transaction calls it first and
// appends nothing after an error.
func (l *Log) appendGroup(ctx context.Context, may func(*session) error, group ...engine.Append) ([]engine.Appended, error) {
	a := appending{log: l, may: may, group: make([]member, len(group)), done: make([]engine.Appended, len(group))}
	for i, m := range group {
		a.group[i] = member{m, audience(m.Entry.Targets)}
	}
	if err := l.s.writer.doRows(ctx, len(group), a.apply, a.committed); err != nil {
		return nil, err
	}
	return a.done, nil
}

// An appending is one call of appendGroup.
type appending struct {
	log   *Log
	may   func(*session) error
	group []member

	// Results of the latest transaction.
	now   time.Time
	done  []engine.Appended
	fresh []store.Entry
}

// A member is an entry of an appending.
type member struct {
	engine.Append
	audience []byte
}

// apply is the append step. It may run again in another transaction.
func (a *appending) apply(ctx context.Context, w *session) error {
	if a.may != nil {
		if err := a.may(w); err != nil {
			return err
		}
	}
	a.now, a.fresh = time.Now(), nil
	// What an earlier, failed transaction of the group assigned is void: the file is the truth.
	var head store.Position
	if err := w.row(ctx, "SELECT head FROM logs WHERE id = ?", []any{a.log.id}, &head); err != nil {
		return err
	}
	if told := a.log.told(); head < told {
		return fmt.Errorf("%w: the file was restored to an older state while it was open: %s has %d entries of %d; restart the process (docs/deployment.md)",
			ErrCorrupt, a.log.name, head, told)
	}
	for i := range a.group {
		m := &a.group[i]
		stands, err := a.log.find(ctx, w, m, head)
		switch {
		case err != nil:
			return err
		case stands != nil:
			a.done[i] = engine.Appended{Position: stands.Position, Err: store.Repeats(stands.Position, stands.Data, m.Entry.Data)}
			continue
		}
		head++
		m.Entry.Position = head
		if err := a.log.insert(ctx, w, m, a.now); err != nil {
			return err
		}
		a.done[i] = engine.Appended{Position: head, Fresh: true}
		a.fresh = append(a.fresh, m.Entry)
	}
	if len(a.fresh) == 0 {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE logs SET head = ?, oldest = ? WHERE id = ?", int64(head), int64(a.log.evicted(head)+1), a.log.id)
	return err
}

// insert writes the row of an entry.
func (l *Log) insert(ctx context.Context, w *session, m *member, now time.Time) error {
	r, err := newRow(&m.Entry, now.UnixNano())
	if err != nil {
		return err
	}
	var meta any
	if r.meta != nil {
		meta = r.meta
	}
	_, err = w.exec(ctx, "INSERT INTO entries (log, "+entryColumns+", audience) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		l.id, r.position, r.appended, r.id, r.timestamp, r.data, meta, r.targets, r.cursor, r.checksum(l.name), m.audience)
	return err
}

// told is the last position that readers may have.
func (l *Log) told() store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// find returns the last retained entry that m would repeat, or nil (OCC-5).
func (l *Log) find(ctx context.Context, w *session, m *member, head store.Position) (*store.Entry, error) {
	if !m.Once {
		return nil, nil
	}
	after := max(m.Above, l.evicted(head))
	if after >= head {
		return nil, nil
	}
	st, err := w.stmt(ctx, "SELECT "+entryColumns+` FROM entries WHERE log = ? AND event_id = ? AND audience = ? AND position > ?
		ORDER BY position DESC LIMIT 1`)
	if err != nil {
		return nil, err
	}
	e, err := l.scanEntry(st.QueryRowContext(ctx, l.id, m.Entry.EventID, m.audience, int64(after)))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case e.EventID != m.Entry.EventID || store.Audience(e.Targets) != store.Audience(m.Entry.Targets):
		return nil, fmt.Errorf("%w: the id index of %s does not match entry %d", ErrCorrupt, l.name, e.Position)
	}
	return &e, nil
}

func (a *appending) committed() {
	if len(a.fresh) > 0 {
		a.log.visible(a.fresh, a.now)
	}
}

// evicted is the last position that retention does not cover in a log with that head, which may be
// ahead of what is committed.
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

// audience is what the index has of an entry's targets: nothing for everybody, else a hash of the
// set, which may be large.
func audience(targets []string) []byte {
	if targets == nil {
		return []byte{}
	}
	sum := sha256.Sum256([]byte(store.Audience(targets)))
	return sum[:]
}
