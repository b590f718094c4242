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

// A Database is what the replicas share, as the program of its engine has started it.
type Database interface {
	// URL is what a replica's process has its store opened at, see [Open]. Each reaches the database by a way of its own.
	URL(replica int) string
	// Owner returns the name of the replica that owns the topic's first shard that is owned, "" for none.
	Owner(ctx context.Context, topic string) (name string, err error)
	// Log returns the ids of the tickets in the log of ticket.created, by position. A hole is an error.
	Log(ctx context.Context) (ids []string, err error)
	// Waiting returns how many occurrences are in the outbox.
	Waiting(ctx context.Context) (int, error)
	// Subscriptions returns how many webhook subscriptions a principal has.
	Subscriptions(ctx context.Context, principal string) (int, error)
	// Story tells all that is stored of the webhook subscription whose URL contains path, a thing a line.
	Story(ctx context.Context, path string) string
	// Note is what there is to say of the database at the end, a sentence or none.
	Note(ctx context.Context) string
	// Faults are those of the database.
	Faults(c *Campaign) []Fault
	// Stop ends it. Nobody calls anything afterwards.
	Stop() error
}

// A Restorer is a Database of which an older backup can be put back.
type Restorer interface {
	Database
	// Backup takes a backup, and Restore puts the last one back while no replica runs.
	Backup(ctx context.Context) error
	Restore(ctx context.Context) error
}

// A Fault is something that goes wrong with a database.
type Fault struct {
	Name string
	// Count is how often it happens, spread over the time.
	Count int
	// Do lets it happen once and returns when it is over. Its context ends only with the campaign.
	Do func(ctx context.Context) error
}

// Open opens what a replica's process serves from, at what [Database.URL] gave.
type Open func(ctx context.Context, url string, log *slog.Logger) (*Store, error)

// A Store is an open store with, where there is an outbox, the database of the author's own data.
type Store struct {
	store.Store
	// Outbox is one beside the store; nil for the store's own.
	Outbox engine.Outbox
	// Authors has a table campaign_tickets with the column id, a primary key. Nil where there is no outbox.
	Authors *pgxpool.Pool
	// Emit puts an occurrence into a transaction of Authors.
	Emit func(ctx context.Context, tx pgx.Tx, occurrence store.Prepared) error
}

// Close closes the store and the author's database.
func (s *Store) Close() error {
	if s.Authors != nil {
		s.Authors.Close()
	}
	return s.Store.Close()
}

// Window says what is wrong with a slot, or with the database when slot is nil: deliveries of that time may be repeated, and
// the report has how many were for that.
func (c *Campaign) Window(why string, slot *Slot, from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows = append(c.windows, window{slot, from, to, why})
}

// Unleased says that nobody can have had a lease in that time: a delivery then is a finding.
func (c *Campaign) Unleased(from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unleased = append(c.unleased, window{from: from, to: to})
}

// Slots are the places of the replicas, by number.
func (c *Campaign) Slots() []*Slot { return c.slots }

// OwnerSlot is where the owner of the topic's shards runs, with its turn; some other one when that cannot be told.
func (c *Campaign) OwnerSlot(ctx context.Context, topic string) *Slot {
	name, err := c.db.Owner(ctx, topic)
	for _, s := range c.slots {
		if err == nil && s.options.name == name {
			s.Lock()
			return s
		}
	}
	return c.anySlot()
}
