package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A trimming is a pass over all attempts. The records of a subscription follow each other, the latest first.
type trimming struct {
	l   *Ledger
	b   AttemptBounds
	now time.Time

	of     string // the prefix of the present subscription
	exists bool
	kept   int // of the present subscription
	all    int
	byHour map[int64]int // attempts by the hour of their record
}

// page deletes the records of a page that are too old, are beyond the bound of their subscription, or have none, and
// counts the others.
func (t *trimming) page(ctx context.Context, page []store.Record) error {
	exists, err := t.subscriptions(ctx, page)
	if err != nil {
		return err
	}
	var old []store.Record
	for _, r := range page {
		prefix := r.Key[:strings.LastIndexByte(r.Key, '/')+1]
		if prefix != t.of {
			t.of, t.kept, t.exists = prefix, 0, exists[prefix]
		}
		at, ok := lastAttempt(r.Key)
		if !t.exists || !ok || t.kept >= t.b.PerSubscription || t.now.Sub(at) >= t.b.MaxAge {
			old = append(old, r)
			continue
		}
		made, err := attemptsOf(r)
		if err != nil && !t.l.passOver(r.Key, err) {
			return err
		}
		n := max(len(made), 1)
		t.kept, t.all = t.kept+n, t.all+n
		t.byHour[at.Unix()/3600] += n
	}
	return t.l.deleteOnce(ctx, old)
}

// subscriptions reports for which prefixes of a page there is a subscription.
func (t *trimming) subscriptions(ctx context.Context, page []store.Record) (exists map[string]bool, err error) {
	exists = map[string]bool{}
	var prefixes, keys []string
	for _, r := range page {
		segments := strings.Split(r.Key, "/")
		prefix := r.Key[:strings.LastIndexByte(r.Key, '/')+1]
		if n := len(prefixes); n == 0 || prefixes[n-1] != prefix {
			prefixes, keys = append(prefixes, prefix), append(keys, join(familySub, segments[1]))
		}
	}
	found, err := t.l.get(ctx, store.Latest, keys)
	for i, r := range found {
		exists[prefixes[i]] = r.Value != nil
	}
	return exists, err
}

// total deletes the oldest attempts if there are too many in all.
func (t *trimming) total(ctx context.Context) error {
	room := t.b.Total
	for _, hour := range slices.Backward(slices.Sorted(maps.Keys(t.byHour))) {
		if t.byHour[hour] > room {
			return t.deleteBefore(ctx, hour, room)
		}
		room -= t.byHour[hour]
	}
	return nil
}

// deleteBefore deletes the records before an hour, and the oldest of this hour beyond so many attempts.
func (t *trimming) deleteBefore(ctx context.Context, hour int64, room int) error {
	type candidate struct {
		store.Record
		at       time.Time
		attempts int
	}
	var within []candidate
	err := t.l.pages(ctx, familyAttempt+"/", func(page []store.Record) error {
		var old []store.Record
		for _, r := range page {
			at, ok := lastAttempt(r.Key)
			switch h := at.Unix() / 3600; {
			case !ok || h < hour:
				old = append(old, r)
			case h == hour:
				made, _ := attemptsOf(r) // an error was logged when they were counted
				r.Value = nil
				within = append(within, candidate{r, at, max(len(made), 1)})
			}
		}
		return t.l.deleteOnce(ctx, old)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(within, func(a, b candidate) int { return b.at.Compare(a.at) })
	var old []store.Record
	for _, c := range within {
		if room -= c.attempts; room < 0 {
			old = append(old, c.Record)
		}
	}
	return t.l.deleteOnce(ctx, old)
}
