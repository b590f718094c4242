package memory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// maxPage bounds the records of one Scan, whatever its limit.
	maxPage = 1000
	// sweepStep is how many overdue records a Commit or Scan ends in addition to its own work.
	sweepStep = 64
)

// A record is a stored record or a tombstone.
type record struct {
	store.Record
	due  int64 // Unix time in seconds at which expire is called; 0 means never
	once bool  // see [store.Write.Once]
}

// records is an ordered map of records. Each method gets the current time and ends what is overdue before it looks.
type records struct {
	revision uint64
	existing btree.Map[string, *record]
	deleted  btree.Map[string, *record] // tombstones; apart, so that a scan does not meet them
	due      *btree.BTreeG[*record]     // existing and deleted ones that have a due time
}

func (rs *records) init() {
	rs.due = btree.NewBTreeGOptions(func(a, b *record) bool {
		return a.due < b.due || a.due == b.due && a.Key < b.Key
	}, btree.Options{NoLocks: true})
}

// place returns the map for records with the value.
func (rs *records) place(v store.Value) *btree.Map[string, *record] {
	if v == nil {
		return &rs.deleted
	}
	return &rs.existing
}

// find returns the record or tombstone of a key, or nil.
func (rs *records) find(key string, now int64) *record {
	r, _ := rs.existing.Get(key)
	if r == nil {
		r, _ = rs.deleted.Get(key)
	}
	for r != nil && r.overdue(now) {
		r = rs.expire(r)
	}
	return r
}

func (r *record) overdue(now int64) bool { return r.due != 0 && r.due <= now }

// revisionOf returns the current revision of a key.
func (rs *records) revisionOf(key string, now int64) uint64 {
	if r := rs.find(key, now); r != nil {
		return r.Revision
	}
	return 0
}

// moved returns the keys of c that do not have the revision that c names.
func (rs *records) moved(c *store.Commit, now int64) (keys []string) {
	for _, g := range c.Guards {
		if rs.revisionOf(g.Key, now) != g.Revision {
			keys = append(keys, g.Key)
		}
	}
	for _, w := range c.Writes {
		if rs.revisionOf(w.Key, now) != w.On {
			keys = append(keys, w.Key)
		}
	}
	return keys
}

// apply makes a write, under the latest revision.
func (rs *records) apply(w *store.Write, call uint64, now int64) {
	r := rs.find(w.Key, now)
	switch {
	case r == nil:
		r = &record{Record: store.Record{Key: w.Key}}
		rs.place(w.Value).Set(w.Key, r)
	case (r.Value == nil) != (w.Value == nil):
		rs.place(r.Value).Delete(w.Key)
		rs.place(w.Value).Set(w.Key, r)
	}
	once := w.Once || w.Value == nil && r.once
	rs.schedule(r, 0)
	r.Value, r.Revision, r.Call, r.once = w.Value, rs.revision, call, once
	switch {
	case w.Value == nil && once:
		rs.remove(r)
	case w.Value == nil:
		rs.schedule(r, now+tombstoneSeconds)
	case !w.Until.IsZero():
		rs.schedule(r, max(w.Until.Unix()+1, 1))
	}
}

// tombstoneSeconds is [store.TombstoneAge], rounded up because due times are whole seconds.
const tombstoneSeconds = int64(store.TombstoneAge/time.Second) + 1

// schedule changes the due time of r.
func (rs *records) schedule(r *record, due int64) {
	if r.due != 0 {
		rs.due.Delete(r)
	}
	r.due = due
	if due != 0 {
		rs.due.Set(r)
	}
}

// expire turns an overdue record into a tombstone and returns it, or removes it and returns nil: a tombstone, and a
// record that was written with Once.
func (rs *records) expire(r *record) *record {
	if r.Value == nil || r.once {
		rs.remove(r)
		return nil
	}
	rs.revision++
	due := r.due
	rs.apply(&store.Write{Key: r.Key}, r.Call, due-1) // deleted when it was due
	return r
}

func (rs *records) remove(r *record) {
	rs.schedule(r, 0)
	rs.place(r.Value).Delete(r.Key)
}

// sweep ends up to n overdue records.
func (rs *records) sweep(n int, now int64) {
	for range n {
		r, ok := rs.due.Min()
		if !ok || !r.overdue(now) {
			return
		}
		rs.expire(r)
	}
}

// scan returns a page of records, or complete false if it met so many overdue ones that it has to begin again: these
// are gone then.
func (rs *records) scan(prefix, after string, limit int, now int64) (page []store.Record, complete bool) {
	var overdue []*record
	rs.existing.Ascend(max(prefix, after), func(key string, r *record) bool {
		switch {
		case len(page) >= limit || !strings.HasPrefix(key, prefix) || len(overdue) == maxPage:
			return false
		case key == after:
		case r.overdue(now):
			overdue = append(overdue, r)
		default:
			page = append(page, r.Record)
		}
		return true
	})
	for _, r := range overdue {
		rs.expire(r)
	}
	return page, len(overdue) < maxPage
}

// deleteLive deletes the records under [engine.LivePrefix].
func (rs *records) deleteLive(now time.Time) {
	rs.revision++
	for complete := false; !complete; {
		var page []store.Record
		page, complete = rs.scan(engine.LivePrefix, "", maxPage, now.Unix())
		for i := range page {
			rs.apply(&store.Write{Key: page[i].Key}, page[i].Call, now.Unix())
		}
		complete = complete && len(page) == 0
	}
}

// Get implements [store.Records].
func (e *Engine) Get(ctx context.Context, _ store.Consistency, keys ...string) (found []store.Record, err error) {
	if len(keys) > store.MaxGet {
		return nil, fmt.Errorf("memory: a Get of %d keys; %d are the most", len(keys), store.MaxGet)
	}
	found = make([]store.Record, len(keys))
	err = e.do(ctx, func(db *DB) error {
		now := db.clock.now().Unix()
		for i, key := range keys {
			found[i].Key = key
			if r := db.records.find(key, now); r != nil {
				found[i] = r.Record
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Scan implements [store.Records]. A page has up to 1,000 records.
func (e *Engine) Scan(ctx context.Context, prefix, after string, limit int) (page []store.Record, err error) {
	for complete := false; !complete; {
		err := e.do(ctx, func(db *DB) error {
			now := db.clock.now().Unix()
			page, complete = db.records.scan(prefix, after, min(limit, maxPage), now)
			db.records.sweep(sweepStep, now)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}

// Commit implements [store.Records].
func (e *Engine) Commit(ctx context.Context, c *store.Commit) (revisions []uint64, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	revisions = make([]uint64, len(c.Writes))
	err = e.doEntered(ctx, func(db *DB) error {
		now := db.clock.now().Unix()
		if keys := db.records.moved(c, now); keys != nil {
			return &store.ConflictError{Keys: keys}
		}
		db.records.revision++
		for i := range c.Writes {
			db.records.apply(&c.Writes[i], c.Call, now)
			revisions[i] = db.records.revision
		}
		db.records.sweep(2*len(c.Writes)+sweepStep, now) // more than c adds: its records end as tombstones
		db.told.Tell(c.Tell...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return revisions, nil
}
