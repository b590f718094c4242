package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Member is a running process, as its lease describes it to the others.
type Member struct {
	// ID identifies the lease. No other lease gets it later.
	ID string `json:"id"`
	// Name is for people.
	Name string `json:"name"`
	// Types are the event types that the process has registered, with the fingerprints of their schemas (REP-16).
	Types map[string]string `json:"types,omitempty"`
	// Joined is when the lease began, and Renewed when it was renewed last, by the clock of the store. It expires TTL
	// after that.
	Joined  time.Time     `json:"joined"`
	Renewed time.Time     `json:"renewed"`
	TTL     time.Duration `json:"ttl"`

	revision uint64
}

// Bytes implements [store.Value].
func (m *Member) Bytes() []byte { return encode(m) }

// expired reports whether the lease has expired.
func (m *Member) expired(now time.Time) bool { return !now.Before(m.Renewed.Add(m.TTL)) }

// leaseGrace is for how long after its end the record of a lease exists at most if no process deletes it.
const leaseGrace = 5 * time.Minute

// A Lease lets a process hold shards (REP-6). Other processes judge it by the clock of the store. The process itself
// counts by its own clock, from before it called Join or Renew. On an engine that is exclusive, leases do not expire.
type Lease struct {
	l      *Ledger
	id     string
	joined time.Time

	turn turn   // for renewals and claims, which depend on m
	m    Member // as it is stored
}

func leaseKey(id string) string { return leasePrefix + escape(id) }

// Join begins a lease for m. It chooses an ID if m has none; an ID of the caller must never have been used. Join sets the
// times of the member.
func (l *Ledger) Join(ctx context.Context, m Member) (*Lease, error) {
	m.ID, m.revision = cmp.Or(m.ID, strings.ToLower(rand.Text())), 0
	x := l.Lease(m)
	now, err := x.renew(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("joining as %s: %w", m.Name, err)
	}
	x.joined = now
	return x, nil
}

// Lease returns the lease of a member that [Ledger.Cluster] has returned.
func (l *Ledger) Lease(m Member) *Lease {
	return &Lease{l: l, id: m.ID, joined: m.Joined, turn: newTurn(), m: m}
}

// ID returns the ID of the lease.
func (x *Lease) ID() string { return x.id }

// Renew extends the lease to ttl from now, and replaces the types of the member. It returns the time of the store at which
// the lease was renewed. It returns [ErrFenced] if the lease has expired or was ended.
func (x *Lease) Renew(ctx context.Context, ttl time.Duration, types map[string]string) (now time.Time, err error) {
	if err := x.turn.take(ctx); err != nil {
		return now, err
	}
	defer x.turn.give()
	m := x.m
	m.TTL, m.Types = ttl, types
	return x.renew(ctx, m)
}

// Joined returns when the lease began, by the clock of the store.
func (x *Lease) Joined() time.Time { return x.joined }

func (x *Lease) renew(ctx context.Context, m Member) (time.Time, error) {
	now, err := x.l.e.Clock(ctx)
	if err != nil {
		return now, err
	}
	first := m.revision == 0
	if !first && x.m.expired(now) && !x.l.e.Exclusive() {
		return now, fmt.Errorf("lease %s has expired: %w", x.id, ErrFenced)
	}
	if m.Renewed = now; first {
		m.Joined = now
	}
	m.Types = maps.Clone(m.Types)
	key := leaseKey(m.ID)
	for {
		stored := m
		c := &store.Commit{Writes: []store.Write{{Key: key, On: m.revision, Value: &stored}}}
		if !x.l.e.Exclusive() {
			c.Writes[0].Until = now.Add(m.TTL + leaseGrace)
		}
		if first || !maps.Equal(m.Types, x.m.Types) {
			c.Tell = []string{key}
		}
		revisions, err := x.l.commit(ctx, c)
		if err == nil {
			x.m = m
			x.m.revision = revisions[0]
			return now, nil
		}
		if first || !errors.Is(err, store.ErrConflict) {
			return now, err
		}
		// Others only delete the record. If it exists, an earlier renewal has replaced it whose answer was lost.
		if m.revision, err = x.current(ctx); err != nil {
			return now, err
		}
	}
}

// current returns the revision of the lease, or [ErrFenced] if it was ended.
func (x *Lease) current(ctx context.Context) (revision uint64, err error) {
	found, err := x.l.e.Get(ctx, store.Latest, leaseKey(x.id))
	if err == nil && found[0].Value == nil {
		err = fmt.Errorf("lease %s was ended: %w", x.id, ErrFenced)
	}
	if err != nil {
		return 0, err
	}
	return found[0].Revision, nil
}

// Leave ends the lease. Other processes may claim its shards. A lease that has ended is not an error.
func (x *Lease) Leave(ctx context.Context) error {
	if err := x.turn.take(ctx); err != nil {
		return err
	}
	defer x.turn.give()
	key := leaseKey(x.id)
	_, err := x.l.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		if r.of(key).Value == nil {
			return nil, nil
		}
		return &store.Commit{Writes: []store.Write{r.write(key, nil)}, Tell: []string{key}}, nil
	})
	if err != nil {
		return fmt.Errorf("ending lease %s: %w", x.id, err)
	}
	return nil
}

// end deletes the lease of a member that has expired, and reports whether it is over. A lease that is renewed at this
// moment is not.
func (l *Ledger) end(ctx context.Context, m Member) (over bool, err error) {
	key := leaseKey(m.ID)
	_, err = l.commit(ctx, &store.Commit{Writes: []store.Write{{Key: key, On: m.revision}}, Tell: []string{key}})
	if !errors.Is(err, store.ErrConflict) {
		return err == nil, err
	}
	found, err := l.e.Get(ctx, store.Latest, key)
	return err == nil && found[0].Value == nil, err
}

// A Cluster lists the running processes and the shards.
type Cluster struct {
	// Members are in the order in which they have joined.
	Members []Member
	// Shards are all shards of all event types, in order of event type and number.
	Shards []Hold
}

// Cluster returns the running processes and all shards. It ends the leases that have expired by the clock of the store;
// they are over for good.
func (l *Ledger) Cluster(ctx context.Context) (c Cluster, err error) {
	now, err := l.e.Clock(ctx)
	if err != nil {
		return c, err
	}
	held := map[Shard]Hold{}
	err = l.each(ctx, leasePrefix, func(r store.Record) error {
		m, err := decode[Member](r)
		if err != nil {
			return err
		}
		member := *m
		member.revision = r.Revision
		c.Members = append(c.Members, member)
		return nil
	})
	if err == nil {
		err = l.each(ctx, shardPrefix, func(r store.Record) error {
			h, err := decode[holder](r)
			if err == nil {
				held[h.Shard] = Hold{Shard: h.Shard, Lease: h.Lease, revision: r.Revision}
			}
			return err
		})
	}
	if err == nil {
		err = l.each(ctx, familyTopic+"/", func(r store.Record) error {
			t, err := decode[topicRecord](r)
			for i := 0; err == nil && i < t.Shards; i++ {
				s := Shard{Topic: t.Name, Number: i}
				if _, ok := held[s]; !ok {
					held[s] = Hold{Shard: s}
				}
			}
			return err
		})
	}
	if err != nil {
		return Cluster{}, err
	}
	if c.Members, err = l.running(ctx, c.Members, now); err != nil {
		return Cluster{}, err
	}
	slices.SortFunc(c.Members, func(a, b Member) int { return cmp.Or(a.Joined.Compare(b.Joined), strings.Compare(a.ID, b.ID)) })
	c.Shards = slices.SortedFunc(maps.Values(held), func(a, b Hold) int { return a.Shard.Compare(b.Shard) })
	return c, nil
}

// running ends the leases that have expired, and returns the others.
func (l *Ledger) running(ctx context.Context, all []Member, now time.Time) (running []Member, err error) {
	for _, m := range all {
		if !l.e.Exclusive() && m.expired(now) {
			over, err := l.end(ctx, m)
			if err != nil {
				return nil, err
			}
			if over {
				continue
			}
		}
		running = append(running, m)
	}
	return running, nil
}
