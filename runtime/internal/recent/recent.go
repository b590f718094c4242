// Package recent keeps the last entries of a log in memory. Most reads of a durable log need no others: see [Entries].
package recent

import "github.com/mcpe-gen/mcpe-gen/runtime/store"

// Bounds of what is kept, and of what one read of a log takes from its database. Up to twice as much is kept
// until the older half is given up.
const (
	Count = 1024
	Bytes = 8 << 20
)

// overhead is what an entry takes beside its texts.
const overhead = 256

// Size is what an entry takes in memory, in bytes.
func Size(e *store.Entry) int {
	n := overhead + len(e.EventID) + len(e.Data) + len(e.Meta) + len(e.Cursor)
	for _, t := range e.Targets {
		n += len(t) + 16
	}
	return n
}

// Entries are the last ones of a log. The zero value has none. A part that was handed out never changes.
type Entries struct {
	list  []store.Entry
	bytes int
}

// Add appends entries, and gives up the oldest: the last one stays whatever its size.
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

// All are the entries, the oldest first.
func (r *Entries) All() []store.Entry { return r.list }

// Clear forgets all.
func (r *Entries) Clear() { *r = Entries{} }
