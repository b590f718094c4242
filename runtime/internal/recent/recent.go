// Package recent caches the latest entries of a log in memory. Most reads from a durable log require only these
// entries. See [Entries].
package recent

import "github.com/mcpe-gen/mcpe-gen/runtime/store"

// Limits on the number and size of the entries in memory, and of the entries in a single read from a log's database.
// The cache can grow to twice these limits before its older half is dropped.
const (
	Count = 1024
	Bytes = 8 << 20
)

// overhead is the assumed size of an entry without its strings, in bytes.
const overhead = 256

// Size returns the size of an entry in memory, in bytes.
func Size(e *store.Entry) int {
	n := overhead + len(e.EventID) + len(e.Data) + len(e.Meta) + len(e.Cursor)
	for _, t := range e.Targets {
		n += len(t) + 16
	}
	return n
}

// Entries is a cache of the latest entries of a log. The zero value is empty. The slices that All returns never change.
type Entries struct {
	list  []store.Entry
	bytes int
}

// Add appends entries and drops the oldest entries if necessary. It always keeps the newest entry.
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

// All returns the entries, oldest first.
func (r *Entries) All() []store.Entry { return r.list }

// Clear removes all entries.
func (r *Entries) Clear() { *r = Entries{} }
