package campaign

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Database is the database that the replicas share. The program of its engine starts it.
type Database interface {
	// URL returns the address at which a replica opens its store, see [Open]. Each replica reaches the database
	// through a separate path.
	URL(replica int) string
	// Owner returns the name of the replica that owns a shard of the topic, "" for none.
	Owner(ctx context.Context, topic string) (name string, err error)
	// Log returns the ids of the tickets in the log of ticket.created, by position, with "" for a mark of a gap. It
	// returns an error if positions are missing.
	Log(ctx context.Context) (ids []string, err error)
	// Waiting returns the number of occurrences in the outbox.
	Waiting(ctx context.Context) (int, error)
	// Subscriptions returns the number of webhook subscriptions of a principal.
	Subscriptions(ctx context.Context, principal string) (int, error)
	// Story describes the stored state of the webhook subscription whose URL contains path, one item per line.
	Story(ctx context.Context, path string) string
	// Note returns a remark on the database for the end of the report; it may be empty.
	Note(ctx context.Context) string
	// Faults returns the faults of the database.
	Faults(c *Campaign) []Fault
	// Stop stops the database. No method is called afterwards.
	Stop() error
}

// A Restorer is a Database that can be restored from a backup.
type Restorer interface {
	Database
	// Backup takes a backup, and Restore restores the last one while no replica runs.
	Backup(ctx context.Context) error
	Restore(ctx context.Context) error
}

// A Fault is a fault of a database.
type Fault struct {
	Name string
	// Count is how often to cause the fault during the campaign.
	Count int
	// Do causes the fault once and returns after the fault has ended. Its context is done only when the campaign ends.
	Do func(ctx context.Context) error
}

// Open opens the store of a replica at the address from [Database.URL].
type Open func(ctx context.Context, url string, log *slog.Logger) (*Store, error)

// A Store is an open store, with the author's database if there is an outbox.
type Store struct {
	store.Store
	// Outbox is a separate outbox. If it is nil, the store's outbox is used.
	Outbox engine.Outbox
	// Authors is the author's database, with a table campaign_tickets that has the primary key id. It is nil if the
	// store does not have an outbox.
	Authors *pgxpool.Pool
	// Emit emits an occurrence in a transaction of Authors.
	Emit func(ctx context.Context, tx pgx.Tx, occurrence store.Prepared) error
}

// Close closes the store and the author's database.
func (s *Store) Close() error {
	if s.Authors != nil {
		s.Authors.Close()
	}
	return s.Store.Close()
}

// Window records the period of a fault of a slot or, if slot is nil, of the database. Deliveries during this period may
// be repeated. The report counts the repetitions by reason.
func (c *Campaign) Window(why string, slot *Slot, from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows = append(c.windows, window{slot, from, to, why})
}

// Unleased records a period during which no replica can have held a lease. Any delivery during this period is a
// finding.
func (c *Campaign) Unleased(from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unleased = append(c.unleased, window{from: from, to: to})
}

// Slots returns the slots of the replicas, by number.
func (c *Campaign) Slots() []*Slot { return c.slots }

// OwnerSlot locks and returns the slot of the replica that owns the topic's shards. If the owner is unknown, it locks
// and returns a random slot.
func (c *Campaign) OwnerSlot(ctx context.Context, topic string) *Slot {
	name, err := c.db.Owner(ctx, topic)
	for _, s := range c.slots {
		if err == nil && s.options.name == name {
			s.Lock()
			return s
		}
	}
	return c.lockAnySlot()
}
