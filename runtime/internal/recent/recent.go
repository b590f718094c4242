// Package recent keeps the last entries of a log in memory. Most reads of a durable log need only these: see
// [Entries].
package recent

import "github.com/mcpe-gen/mcpe-gen/runtime/store"

// Bounds of the entries in memory, and of one read of a log from its database. Up to twice as much is kept until the
// older half is dropped.
const (
	Count = 1024
	Bytes = 8 << 20
)

// overhead is the assumed size of an entry without its strings.
const overhead = 256

// Size returns the size of an entry in memory, in bytes.
func Size(e *store.Entry) int {
	n := overhead + len(e.EventID) + len(e.Data) + len(e.Meta) + len(e.Cursor)
	for _, t := range e.Targets {
		n += len(t) + 16
	}
	return n
}

// Entries holds the last entries of a log. The zero value is empty. A slice that All has returned never changes.
type Entries struct {
	list  []store.Entry
	bytes int
}

// Add appends entries and drops the oldest ones. It keeps the last entry, whatever its size.
func (r *Entries) Add(entries ...store.Entry) {
	for i := range entries {
		r.bytes += Size(&entries[i])
	}
	r.list = append(r.list, entries...)
	if len(r.list) <= 2*Count && r.bytes <= 2*Bytes {
		return
	}
	first, bytes := len(r.list)-1, Size(&r.list[len(r.list)-1])
	for ; first > 0 && len(r.list)-first < Count; first-- {
		n := Size(&r.list[first-1])
		if bytes+n > Bytes {
			break
		}
		bytes += n
	}
	r.list, r.bytes = append(make([]store.Entry, 0, 2*(len(r.list)-first)), r.list[first:]...), bytes
}

// All returns the entries, the oldest first.
func (r *Entries) All() []store.Entry { return r.list }

// Clear removes all entries.
func (r *Entries) Clear() { *r = Entries{} }
