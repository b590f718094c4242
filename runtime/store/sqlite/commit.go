package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// movedKeys selects the keys of a JSON object of revisions whose records have other revisions.
const movedKeys = "SELECT x.key FROM json_each(?) x LEFT JOIN records r ON r.key = x.key WHERE ifnull(r.revision, 0) <> x.value"

// Commit implements [store.Records]. Commits and appends that wait together are committed together; a conflict costs
// the others nothing. If ctx ends before the writer has taken the commit, nothing is written; afterwards Commit waits
// for the outcome. So no outcome is uncertain.
func (e *storeEngine) Commit(ctx context.Context, c *store.Commit) ([]uint64, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	x := committing{e: e, life: e.entered.Load(), c: c, values: make([][]byte, len(c.Writes))}
	for i, w := range c.Writes {
		if w.Value == nil {
			continue
		}
		if x.values[i] = w.Value.Bytes(); x.values[i] == nil {
			x.values[i] = []byte{}
		}
		if n := len(x.values[i]); n > store.MaxValue {
			return nil, fmt.Errorf("sqlite: the value of %s has %d bytes, at most %d are stored", w.Key, n, store.MaxValue)
		}
	}
	x.expected = expected(c)
	if err := e.s.writer.doRows(ctx, len(c.Guards)+len(c.Writes), x.apply, x.committed); err != nil {
		return nil, err
	}
	if x.refused != nil {
		return nil, x.refused
	}
	revisions := make([]uint64, len(c.Writes))
	for i := range revisions {
		revisions[i] = x.revision
	}
	return revisions, nil
}

// expected returns a JSON object of the revisions that the commit names.
func expected(c *store.Commit) string {
	b := []byte{'{'}
	add := func(key string, revision uint64) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), key...), `":`...) // a key needs no escapes
		b = strconv.AppendInt(b, int64(revision), 10)
	}
	for _, g := range c.Guards {
		add(g.Key, g.Revision)
	}
	for _, w := range c.Writes {
		add(w.Key, w.On)
	}
	return string(append(b, '}'))
}

// A committing is one call of Commit.
type committing struct {
	e        *storeEngine
	life     uint64 // that the caller has entered
	c        *store.Commit
	values   [][]byte // of the writes, nil for a deletion
	expected string

	// Results of the latest transaction.
	refused  error
	revision uint64
}

// apply makes the writes in the writer's transaction, or sets refused. It may run again in another transaction.
func (x *committing) apply(ctx context.Context, w *session) error {
	if x.refused = x.e.judge(w, x.life); x.refused != nil {
		return nil
	}
	moved, err := collect[string](ctx, w, movedKeys, x.expected)
	if err != nil {
		return err
	}
	if len(moved) > 0 {
		x.refused = &store.ConflictError{Keys: moved}
		return nil
	}
	if err := x.e.join(ctx, w); err != nil {
		return err
	}
	x.revision = newNumber()
	now := time.Now()
	for i := range x.c.Writes {
		if err := x.put(ctx, w, i, now); err != nil {
			return err
		}
	}
	return nil
}

// newNumber returns a random revision, life or epoch, which is not 0. No restored copy of the file can repeat it.
func newNumber() uint64 {
	for {
		if r := rand.Uint64(); r != 0 {
			return r
		}
	}
}

// put makes one of the writes. Its record has the revision that it replaces.
func (x *committing) put(ctx context.Context, w *session, i int, now time.Time) error {
	write := &x.c.Writes[i]
	r := recordRow{key: write.Key, revision: x.revision, call: x.c.Call, value: x.values[i], once: write.Once, gone: millis(write.Until)}
	switch {
	case write.Value == nil:
		return r.bury(ctx, w, now, deleteIfOnce, flag(write.Once))
	case write.On == 0:
		_, err := w.exec(ctx, "INSERT INTO records ("+recordColumns+") VALUES (?, ?, ?, ?, ?, ?, ?)", append([]any{r.key}, r.args()...)...)
		return err
	}
	return r.replace(ctx, w)
}

// replace writes the row over the one with its key.
func (r *recordRow) replace(ctx context.Context, w *session) error {
	_, err := w.exec(ctx, "UPDATE records SET revision = ?, call = ?, value = ?, once = ?, gone = ?, sum = ? WHERE key = ?", append(r.args(), r.key)...)
	return err
}

// Statements that delete rows which need no tombstone.
const (
	deleteIfOnce = "DELETE FROM records WHERE key = ? AND (once OR ?)"
	deleteIfDead = "DELETE FROM records WHERE key = ? AND (once OR value IS NULL)"
)

// bury deletes the record with the row's key: by a statement, or, if that leaves it, by a tombstone with the revision and
// call of r.
func (r *recordRow) bury(ctx context.Context, w *session, now time.Time, statement string, args ...any) error {
	result, err := w.exec(ctx, statement, append([]any{r.key}, args...)...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	r.value, r.once, r.gone = nil, false, now.Add(store.TombstoneAge).UnixMilli()
	return r.replace(ctx, w)
}

func (x *committing) committed() {
	if x.refused != nil {
		return
	}
	x.e.landed()
	x.e.changes.Tell(x.c.Tell...)
}
