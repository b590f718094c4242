package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// recordColumns are the columns that scanRecord reads.
const recordColumns = "key, revision, call, value, once, gone, sum"

const (
	getRecords  = "SELECT " + recordColumns + " FROM records WHERE key IN (SELECT value FROM json_each(?))"
	scanRecords = "SELECT " + recordColumns + " FROM records WHERE key >= ? AND key < ? AND key > ? AND value IS NOT NULL ORDER BY key LIMIT ?"
)

// A recordRow is a record, or its deletion, in the file.
type recordRow struct {
	key            string
	revision, call uint64
	value          []byte // nil after a deletion, otherwise not
	once           bool   // a deletion removes the row
	gone           int64  // Unix milliseconds, 0 for never
}

// checksum covers the whole row: SQLite does not notice a byte of it that has changed on the disk.
func (r *recordRow) checksum() int64 {
	b := make([]byte, 0, 64+len(r.key))
	for _, n := range []uint64{uint64(len(r.key)), r.revision, r.call, uint64(length(r.value != nil, len(r.value))), uint64(flag(r.once)), uint64(r.gone)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	sum := crc32.Update(0, castagnoli, append(b, r.key...))
	return int64(crc32.Update(sum, castagnoli, r.value))
}

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// args returns the row as the arguments of a statement, in the order of recordColumns but for the key.
func (r *recordRow) args() []any {
	var value, gone any
	if r.value != nil {
		value = r.value
	}
	if r.gone != 0 {
		gone = r.gone
	}
	return []any{int64(r.revision), int64(r.call), value, flag(r.once), gone, r.checksum()}
}

// millis returns a time as Unix milliseconds, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// scanRecord reads one row of recordColumns. The value of a damaged record is a [store.Damaged].
func scanRecord(from scanner) (store.Record, error) {
	var r recordRow
	var revision, call, sum int64
	var value any
	var gone *int64
	if err := from.Scan(&r.key, &revision, &call, &value, &r.once, &gone, &sum); err != nil {
		return store.Record{}, err
	}
	r.revision, r.call = uint64(revision), uint64(call)
	if gone != nil {
		r.gone = *gone
	}
	found := store.Record{Key: r.key, Revision: r.revision, Call: r.call}
	if b, there := value.([]byte); there {
		r.value = b
		if b == nil {
			r.value = []byte{}
		}
		found.Value = store.Bytes(r.value)
	}
	if sum != r.checksum() {
		found.Value = store.Damaged{Err: fmt.Errorf("%w: record %s is not what was written", ErrCorrupt, r.key)}
	}
	return found, nil
}

// Get implements [store.Records]. The file has one version of a record, so Stale is Latest.
func (e *storeEngine) Get(ctx context.Context, _ store.Consistency, keys ...string) ([]store.Record, error) {
	if len(keys) > store.MaxGet {
		return nil, fmt.Errorf("sqlite: a get has at most %d keys, this one has %d", store.MaxGet, len(keys))
	}
	found := make(map[string]store.Record, len(keys))
	list, err := json.Marshal(keys)
	if err == nil {
		err = e.query(ctx, e.get, func(r store.Record) (more bool) {
			found[r.Key] = r
			return true
		}, string(list))
	}
	if err != nil {
		return nil, err
	}
	all := make([]store.Record, len(keys))
	for i, k := range keys {
		all[i] = found[k]
		all[i].Key = k
	}
	return all, nil
}

// Scan implements [store.Records].
func (e *storeEngine) Scan(ctx context.Context, prefix, after string, limit int) (page []store.Record, err error) {
	bytes := 0
	err = e.query(ctx, e.scan, func(r store.Record) (more bool) {
		page = append(page, r)
		bytes += len(r.Key) + len(r.Value.Bytes())
		return bytes < recent.Bytes
	}, prefix, end(prefix), after, max(limit, 0))
	if err != nil {
		return nil, err
	}
	return page, nil
}

// end returns a text that is greater than the keys that begin with prefix, and not greater than the keys after them.
func end(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return "\xff" // keys are ASCII
	}
	b[len(b)-1]++
	return string(b)
}

// query calls keep for each record that a statement finds, until keep returns false.
func (e *storeEngine) query(ctx context.Context, st *sql.Stmt, keep func(store.Record) (more bool), args ...any) error {
	if _, err := e.s.queries(ctx); err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRecord(rows)
		if err != nil {
			return classify(err)
		}
		if !keep(r) {
			return nil
		}
	}
	return classify(rows.Err())
}
