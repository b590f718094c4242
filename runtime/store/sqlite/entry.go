package sqlite

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// entryColumns contains the columns that scanEntry decodes.
const entryColumns = "position, appended, event_id, timestamp, data, meta, targets, cursor, sum"

// An entryRow is the encoding of an entry in the file.
type entryRow struct {
	position, appended    int64
	id, timestamp, cursor string
	data, meta            []byte // meta nil for none
	targets               sql.NullString
	sum                   int64 // checksum
}

func newRow(e *store.Entry, appended int64) (entryRow, error) {
	r := entryRow{position: int64(e.Position), appended: appended, id: e.EventID, timestamp: e.Timestamp.String(), data: e.Data, cursor: e.Cursor}
	if r.data == nil {
		r.data = []byte{}
	}
	if len(e.Meta) > 0 {
		r.meta = e.Meta
	}
	if e.Targets != nil {
		b, err := json.Marshal(e.Targets)
		if err != nil {
			return entryRow{}, err
		}
		r.targets = sql.NullString{String: string(b), Valid: true}
	}
	return r, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns a checksum of the entry and the log's name. It is necessary because SQLite does not detect changed
// bytes within a row.
func (r *entryRow) checksum(log string) int64 {
	var b []byte
	for _, n := range []int64{int64(len(log)), r.position, r.appended, int64(len(r.id)), int64(len(r.timestamp)), int64(len(r.cursor)), int64(len(r.data)),
		optionalLength(r.meta != nil, len(r.meta)), optionalLength(r.targets.Valid, len(r.targets.String))} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(append(append(append(append(b, log...), r.id...), r.timestamp...), r.cursor...), r.targets.String...)
	sum := crc32.Update(0, castagnoli, b)
	sum = crc32.Update(sum, castagnoli, r.data)
	return int64(crc32.Update(sum, castagnoli, r.meta))
}

// optionalLength returns the length of an optional value, or -1 if the value is absent.
func optionalLength(there bool, n int) int64 {
	if !there {
		return -1
	}
	return int64(n)
}

// scanEntry decodes and verifies a row of entryColumns.
func (l *Log) scanEntry(rows *sql.Rows) (e store.Entry, err error) {
	var r entryRow
	corrupt := func(why any) (store.Entry, error) {
		return store.Entry{}, fmt.Errorf("%w: entry %d of %s: %v", ErrCorrupt, r.position, l.name, why)
	}
	if err := rows.Scan(&r.position, &r.appended, &r.id, &r.timestamp, &r.data, &r.meta, &r.targets, &r.cursor, &r.sum); err != nil {
		if rows.Err() == nil { // a value has the wrong type
			return corrupt(err)
		}
		return e, err
	}
	if r.sum != r.checksum(l.name) {
		return corrupt("the checksum does not match")
	}
	e = store.Entry{Position: store.Position(r.position), EventID: r.id, Data: r.data, Meta: r.meta, Cursor: r.cursor}
	if e.Timestamp, err = events.ParseTime(r.timestamp); err != nil {
		return corrupt(err)
	}
	if r.targets.Valid {
		if err := json.Unmarshal([]byte(r.targets.String), &e.Targets); err != nil || e.Targets == nil {
			return corrupt("its targets cannot be read")
		}
	}
	return e, nil
}
