// Package engine defines the interface between the runtime and its storage: an ordered log per event type, and records,
// a key-value store with compare-and-set. Records work like etcd: a commit is a transaction of compares and writes, and
// [Engine.Changes] notifies each process of changed keys.
//
// An engine knows nothing of subscriptions, leases and quotas. Package ledger stores those as records, once for all
// engines. Package enginetest tests engines. Start with [Engine].
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrNewLife is returned if the store has begun a new life since [Engine.Enter], and before the first Enter. Records
	// and entries that the caller has read may be gone.
	ErrNewLife = errors.New("engine: the store has begun a new life")
	// ErrCompacted is returned by [Engine.Changes] for a mark that is older than [ChangesAge], that the engine did not
	// issue in this life, or after which commits have told more names than the engine keeps. The caller scans the records
	// instead.
	ErrCompacted = errors.New("engine: the changes since the mark are no longer known")
	// ErrRefused is returned by [Log.Append] for an entry that the store can never hold; nothing was appended.
	ErrRefused = errors.New("engine: the entry cannot be stored")
)

const (
	// LivePrefix begins the keys of the records that a new life deletes: leases and the holders of shards.
	LivePrefix = "live/"
	// ChangesAge is the time for which an engine remembers changes. An engine may bound their number, too, by 10,000 names
	// or more.
	ChangesAge = time.Hour
	// MaxGroup bounds the entries of one [Log.Append].
	MaxGroup = 512
)

// An Engine stores records and logs for one or more processes. Implementations are safe for concurrent use. Methods
// return [store.ErrClosed] after Close.
type Engine interface {
	store.Records
	// Changes returns the names that commits have told since the mark. It returns as soon as there is one, and otherwise
	// after wait; it reads the store in each call. No commit is missed; a commit may be reported more than once. For
	// the mark "" it returns no names and the current mark.
	Changes(ctx context.Context, since Mark, wait time.Duration) (Changed, error)
	// OpenLog opens a log, and creates it if it does not exist. The options of the latest call apply.
	OpenLog(ctx context.Context, name string, o store.LogOptions) (Log, error)
	// Clock returns the time of the store, by which processes judge leases. It never goes back while the engine is open
	// (REP-8).
	Clock(ctx context.Context) (time.Time, error)
	// Enter joins the current life of the store and returns its number, which identifies the life. After a new life has
	// begun, Commit and Changes return [ErrNewLife] until the process calls Enter. Logs that were opened before return
	// it for good; the process must reopen them.
	Enter(ctx context.Context) (life uint64, err error)
	// NewLife begins a new life: it deletes the records under [LivePrefix], and each log begins a new epoch. Operators
	// call it after they have restored a backup. The engine calls it if it detects that the store lacks commits that
	// it has answered. After NewLife has returned, the store refuses a commit of a member of an earlier life if the
	// commit guards a record under LivePrefix, and any other one once that member has called Changes (REP-19).
	NewLife(ctx context.Context) error
	// Exclusive reports whether only one process can open the store. Its leases then need no renewal.
	Exclusive() bool
	// Ping returns nil if the store can be read and written now. It writes nothing.
	Ping(ctx context.Context) error
	Close() error
}

// A Mark is a place in the sequence of changes. "" is the current end. Marks are opaque.
type Mark string

// Changed is the result of [Engine.Changes].
type Changed struct {
	// Names are the names that commits have told, each once, in no particular order.
	Names []string
	// Next is the mark for the next call.
	Next Mark
	// AsOf is the local time at which the engine began to read. Each commit that was answered before AsOf is in this
	// result or in an earlier one. It has a monotonic reading.
	AsOf time.Time
}

// An Append is an entry to append.
type Append struct {
	Entry store.Entry
	// Once skips the append if an entry with the same EventID and Targets is retained after position Above; see
	// [store.EventLog.AppendOnce].
	Once  bool
	Above store.Position
}

// CheckGroup returns an error that names the first entry that makes a group invalid; see [Log.Append].
func CheckGroup(group []Append) error {
	if len(group) > MaxGroup {
		return fmt.Errorf("engine: a group of %d entries; %d are the most", len(group), MaxGroup)
	}
	if len(group) < 2 {
		return nil
	}
	type occurrence struct{ id, audience string }
	first := make(map[occurrence]int, len(group))
	for i := range group {
		e := &group[i].Entry
		o := occurrence{e.EventID, store.Audience(e.Targets)}
		if j, twice := first[o]; twice {
			return fmt.Errorf("engine: entries %d and %d of the group both have the id %q and the same targets", j, i, e.EventID)
		}
		first[o] = i
	}
	return nil
}

// Appended is the result of an [Append].
type Appended struct {
	// Position is the position of the entry, or of the entry with the same EventID and Targets.
	Position store.Position
	// Fresh reports whether the entry was appended.
	Fresh bool
	// Err is the result of [store.Repeats] for an entry that was not appended.
	Err error
}

// A Log stores the occurrences of one event type in order. Any process may append (REP-1 to REP-5, CUR-8).
type Log interface {
	// Append appends the entries that are not there yet, in order, completely or not at all, and returns a result for
	// each. An entry gets its position in the step that makes it visible, so no reader sees a position before all lower
	// ones. The entries are durable when Append returns. A group has up to [MaxGroup] entries, each with another EventID
	// or other Targets.
	Append(ctx context.Context, group ...Append) ([]Appended, error)
	// Read returns entries after a position; see [store.EventLog.Read].
	Read(ctx context.Context, after store.Position, limit int) (store.Batch, error)
	// Bounds returns the first retained position and the last position that [store.LogOptions.Appended] was called with.
	Bounds(ctx context.Context) (oldest, head store.Position, err error)
	// CatchUp returns the head once it has reached p, or once the store, read after the call began, does not have p. A
	// log reads the store for this at most every 100 ms, for all callers together (REP-3).
	CatchUp(ctx context.Context, p store.Position) (head store.Position, err error)
	// Seen returns the local time of the last read of the store whose entries were all passed to Appended. It has a
	// monotonic reading.
	Seen() time.Time
	// Proof returns the [store.Entry.Proof] of the entry at p, or 0 if it is not known; see [store.EventLog.Proof].
	Proof(ctx context.Context, p store.Position) (uint32, error)
	// Epoch identifies the life of the log. It is never 0.
	Epoch() uint64
}
