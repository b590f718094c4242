package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A counter is divided into stripes, one record each, so that concurrent commits do not compete for one record. A stripe
// has a fixed share of the limit and admits up to its share, so all together admit exactly the limit: one of them has
// room if and only if the total is below the limit. A record stores the numbers of the stripes that count it, and is
// subtracted from the same ones.
//
// After a limit was lowered, a stripe may have more than its share and hide room that the others seem to have. As long
// as that is so, and at the first admission to a counter by a process, all stripes are read, and the total decides.

// stripes is the maximum number of stripes of a counter.
const stripes = 16

// maxSound bounds the counters that a process remembers to be sound.
const maxSound = 4096

// Kinds of counted records.
const (
	countSubscriptions = "sub"
	countVerifications = "ver"
)

// A counter counts the records of one kind, of a principal or of all.
type counter struct {
	prefix string
	limit  int
	own    bool
}

// countersOf returns the counters of a principal's records of a kind: its own and that of all.
func countersOf(kind, principal string, q Quota) [2]counter {
	return [2]counter{
		{join(familyQuota, kind, hash(principal)), max(q.Own, 0), true},
		{join(familyQuota, kind, "all"), max(q.All, 0), false},
	}
}

func (c *counter) stripe(i int) string { return c.prefix + "/" + strconv.Itoa(i) }

// width returns the number of stripes that admit. With a small limit each of them admits one record.
func (c *counter) width() int {
	if c.limit > 0 {
		return min(c.limit, stripes)
	}
	return stripes
}

// share returns how many records a stripe admits, if there is a limit.
func (c *counter) share(stripe int) int {
	switch w := c.width(); {
	case stripe >= w:
		return 0
	case stripe < c.limit%w:
		return c.limit/w + 1
	default:
		return c.limit / w
	}
}

// A count is the value of a stripe.
type count struct {
	Used int `json:"used"`
}

// Bytes implements [store.Value].
func (c *count) Bytes() []byte { return encode(c) }

// errElsewhere is returned by a step that needs other keys than it has read.
var errElsewhere = errors.New("ledger: the step needs other records")

// damaged is the count of a stripe that cannot be read. It admits nothing and stays as it is.
const damaged = -1

// used returns the count of a stripe.
func (l *Ledger) used(r store.Record) int {
	n, err := decode[count](r)
	switch {
	case err != nil:
		l.passOver(r.Key, err)
		return damaged
	case n == nil:
		return 0
	}
	return n.Used
}

// add returns a write that adds one record to a stripe, or errElsewhere if the stripe is full.
func (l *Ledger) add(c *counter, r reading, stripe int) (w store.Write, err error) {
	k := c.stripe(stripe)
	n := l.used(r.of(k))
	if n == damaged || c.limit > 0 && n >= c.share(stripe) {
		return w, errElsewhere
	}
	return r.write(k, &count{n + 1}), nil
}

// subtract appends a write that takes one record from a stripe. The stripe is deleted with its last record.
func (l *Ledger) subtract(c *counter, writes []store.Write, r reading, stripe int) []store.Write {
	k := c.stripe(stripe)
	switch n := l.used(r.of(k)); n {
	case damaged, 0:
		return writes
	case 1:
		return append(writes, r.write(k, nil))
	default:
		return append(writes, r.write(k, &count{n - 1}))
	}
}

// A stripeSet hands out stripes, so that concurrent commits of a process use different ones, and remembers the counters
// that are sound: no stripe has more than its share.
type stripeSet struct {
	free chan int

	mu    sync.Mutex
	sound map[counter]struct{}
}

func newStripeSet() *stripeSet {
	s := &stripeSet{free: make(chan int, stripes), sound: map[counter]struct{}{}}
	for _, i := range rand.Perm(stripes) {
		s.free <- i
	}
	return s
}

func (s *stripeSet) isSound(c counter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sound[c]
	return ok
}

func (s *stripeSet) setSound(c counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sound) >= maxSound {
		clear(s.sound)
	}
	s.sound[c] = struct{}{}
}

// A reservation chooses the stripes that count a new record.
type reservation struct {
	counters [2]counter
	at       [2]int
	checked  bool // the totals were read
}

// keys returns the keys of the stripes.
func (v *reservation) keys() [2]string {
	return [2]string{v.counters[0].stripe(v.at[0]), v.counters[1].stripe(v.at[1])}
}

// count appends the writes that count a record. It returns errElsewhere if other stripes must be read first.
func (v *reservation) count(l *Ledger, writes []store.Write, r reading) ([]store.Write, error) {
	for i := range v.counters {
		c := &v.counters[i]
		if c.limit > 0 && !v.checked && !l.stripes.isSound(*c) {
			return nil, errElsewhere
		}
		w, err := l.add(c, r, v.at[i])
		if err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	return writes, nil
}

// reserve calls try with stripes that no other commit of this process is using. As long as try returns errElsewhere,
// reserve looks for stripes that have room, and returns a [*QuotaError] if all are full.
func (l *Ledger) reserve(ctx context.Context, counters [2]counter, try func(v *reservation) error) error {
	var mine int
	select {
	case mine = <-l.stripes.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.stripes.free <- mine }()
	v := &reservation{counters: counters}
	for i := range counters {
		v.at[i] = mine % counters[i].width()
	}
	for {
		if err := try(v); !errors.Is(err, errElsewhere) {
			return err
		}
		for i := range counters {
			if err := l.findRoom(ctx, v, i); err != nil {
				return err
			}
		}
		v.checked = true
	}
}

// findRoom reads all stripes of a counter and chooses one with room.
func (l *Ledger) findRoom(ctx context.Context, v *reservation, i int) error {
	c := &v.counters[i]
	used, err := l.counts(ctx, c)
	if err != nil {
		return err
	}
	sum, sound := 0, true
	var room []int
	for stripe, n := range used {
		if n == damaged {
			continue
		}
		sum += n
		if c.limit <= 0 || n < c.share(stripe) {
			room = append(room, stripe)
		} else if n > c.share(stripe) {
			sound = false
		}
	}
	if sound {
		l.stripes.setSound(*c)
	}
	if c.limit > 0 && sum >= c.limit || len(room) == 0 {
		return &QuotaError{Own: c.own, Limit: c.limit}
	}
	if !slices.Contains(room, v.at[i]) {
		v.at[i] = room[rand.IntN(len(room))]
	}
	return nil
}

// counts reads the stripes of a counter.
func (l *Ledger) counts(ctx context.Context, c *counter) (used [stripes]int, err error) {
	var keys [stripes]string
	for i := range keys {
		keys[i] = c.stripe(i)
	}
	found, err := l.e.Get(ctx, store.Latest, keys[:]...)
	if err != nil {
		return used, err
	}
	for i, r := range found {
		used[i] = l.used(r)
	}
	return used, nil
}

// total returns how many records of a kind the principal has and how many there are.
func (l *Ledger) total(ctx context.Context, kind, principal string) (own, all int, err error) {
	var sums [2]int
	for i, c := range countersOf(kind, principal, Quota{}) {
		used, err := l.counts(ctx, &c)
		if err != nil {
			return 0, 0, err
		}
		for _, n := range used {
			sums[i] += max(n, 0)
		}
	}
	return sums[0], sums[1], nil
}
