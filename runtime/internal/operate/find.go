package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// scanPage is how many records are asked for at a time.
	scanPage = 1000
	// maxScan bounds how many records one look in order of ids takes.
	maxScan = 10_000
)

// A place in a log.
type place struct {
	log *topic.Topic // nil for none
	at  store.Position
}

// A look is one question about subscriptions. What it has asked logs for once it knows.
type look struct {
	a      *Admin
	ctx    context.Context
	filter operator.Filter
	since  map[place]time.Time
	before map[*topic.Topic]store.Position // up to where entries are late
}

func (a *Admin) look(ctx context.Context) *look {
	return &look{a: a, ctx: ctx, since: map[place]time.Time{}, before: map[*topic.Topic]store.Position{}}
}

// whole describes a record.
func (l *look) whole(r *store.Subscription) (operator.WebhookInfo, error) {
	i, waits := l.a.info(r)
	var err error
	i.WaitingSince, err = l.waitingSince(waits)
	return i, err
}

// waitingSince is when the first entry after a place happened; the first one that is retained.
func (l *look) waitingSince(p place) (time.Time, error) {
	if p.log == nil {
		return time.Time{}, nil
	}
	if at, ok := l.since[p]; ok {
		return at, nil
	}
	b, err := p.log.Read(l.ctx, p.at, 1)
	if err != nil {
		return time.Time{}, fmt.Errorf("finding the oldest waiting entry: %w", err)
	}
	at := time.Time{} // evicted meanwhile
	if len(b.Entries) > 0 {
		at = b.Entries[0].Timestamp.Time
	}
	l.since[p] = at
	return at, nil
}

// late reports whether an entry after the place is older than the filter says.
func (l *look) late(p place) (bool, error) {
	if p.log == nil {
		return false, nil
	}
	upto, ok := l.before[p.log]
	if !ok {
		var err error
		if upto, err = p.log.Before(l.ctx, l.a.o.Now().Add(-l.filter.Late)); err != nil {
			return false, fmt.Errorf("finding late subscriptions: %w", err)
		}
		l.before[p.log] = upto
	}
	return p.at < upto, nil
}

// takes describes a record, without WaitingSince, when the filter takes it.
func (l *look) takes(r *store.Subscription) (i operator.WebhookInfo, waits place, ok bool, err error) {
	f := &l.filter
	if f.Principal != "" && r.Principal != f.Principal || f.Event != "" && r.Event != f.Event ||
		f.Host != "" && operator.HostOf(r.URL) != f.Host || f.URL != "" && !strings.Contains(operator.ShownURL(r.URL), f.URL) {
		return i, waits, false, nil
	}
	i, waits = l.a.info(r)
	if i.State == operator.StateAbsent || f.State != "" && i.State != f.State || f.Failing && !i.Failing() ||
		f.MinBehind > 0 && (i.Behind == nil || *i.Behind < f.MinBehind) {
		return i, waits, false, nil
	}
	if f.Late > 0 {
		ok, err = l.late(waits)
		return i, waits, ok, err
	}
	return i, waits, true, nil
}

// each calls found for the records that the filter takes, in order of ids, until it returns false. After most records it
// returns the id of the last one; "" at the end. 0 is all of them.
func (l *look) each(after string, most int, found func(i operator.WebhookInfo, waits place) bool) (next string, err error) {
	w := l.a.o.Webhooks
	if w == nil {
		return "", nil
	}
	for scanned := 0; ; {
		page, err := w.Store().Subscriptions(l.ctx, after, scanPage)
		if err != nil {
			return "", fmt.Errorf("listing webhook subscriptions: %w", err)
		}
		for n := range page {
			after = page[n].ID
			i, waits, ok, err := l.takes(&page[n])
			if err != nil {
				return "", err
			}
			if ok && !found(i, waits) {
				return "", nil
			}
		}
		if len(page) < scanPage {
			return "", nil
		}
		if scanned += len(page); most > 0 && scanned >= most {
			return after, nil
		}
	}
}

// A found is a subscription of a list, and where it is to be looked since when it waits.
type found struct {
	operator.WebhookInfo
	waits place
}

func (a *Admin) Find(ctx context.Context, f operator.Filter, after string, limit int) (page []operator.WebhookInfo, next string, err error) {
	l := a.look(ctx)
	f.Host, limit = strings.ToLower(f.Host), max(limit, 1)
	l.filter = f
	var all []found
	if f.Failing {
		all, next, err = l.longest(after, limit)
	} else {
		all, next, err = l.inOrder(after, limit)
	}
	for n := range all {
		if err == nil {
			all[n].WaitingSince, err = l.waitingSince(all[n].waits)
		}
		page = append(page, all[n].WebhookInfo)
	}
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// inOrder finds up to limit subscriptions in order of ids.
func (l *look) inOrder(after string, limit int) (all []found, next string, err error) {
	more := false
	next, err = l.each(after, maxScan, func(i operator.WebhookInfo, waits place) bool {
		if more = len(all) == limit; more {
			return false
		}
		all = append(all, found{i, waits})
		return true
	})
	if more {
		next = all[limit-1].ID
	}
	return all, next, err
}

// longest finds up to limit subscriptions of which those that have failed for longest come first.
func (l *look) longest(after string, limit int) (all []found, next string, err error) {
	var from operator.WebhookInfo
	if after != "" {
		nanos, id, _ := strings.Cut(after, ".")
		since, err := strconv.ParseInt(nanos, 10, 64)
		if err != nil || id == "" {
			return nil, "", events.Invalid(events.FieldError{Message: "after is not a page cursor of failing subscriptions"})
		}
		from.ID, from.FailedSince = id, time.Unix(0, since)
	}
	order := func(a, b operator.WebhookInfo) int {
		return cmp.Or(a.FailedSince.Compare(b.FailedSince), cmp.Compare(a.ID, b.ID))
	}
	more := false
	_, err = l.each("", 0, func(i operator.WebhookInfo, waits place) bool {
		if after != "" && order(i, from) <= 0 {
			return true
		}
		n, _ := slices.BinarySearchFunc(all, i, func(f found, i operator.WebhookInfo) int { return order(f.WebhookInfo, i) })
		if len(all) == limit {
			more = true
			if n == limit {
				return true
			}
			all = all[:limit-1]
		}
		all = slices.Insert(all, n, found{i, waits})
		return true
	})
	if more {
		last := &all[limit-1]
		next = strconv.FormatInt(last.FailedSince.UnixNano(), 10) + "." + last.ID
	}
	return all, next, err
}

// A group is an endpoint that is being summed up.
type group struct {
	operator.Endpoint
	least map[*topic.Topic]store.Position // of each log the first place where something waits
}

func (g *group) add(i *operator.WebhookInfo, waits place) {
	g.Subscriptions++
	switch i.State {
	case operator.StateActive:
		g.Active++
	case operator.StateSuspended:
		g.Suspended++
	case operator.StatePaused:
		g.Paused++
	}
	if i.Failing() {
		g.Failing++
	}
	if at := i.FailedSince; !at.IsZero() && (g.FailedSince.IsZero() || at.Before(g.FailedSince)) {
		g.FailedSince = at
	}
	if i.LastDeliveryAt.After(g.LastDeliveryAt) {
		g.LastDeliveryAt = i.LastDeliveryAt
	}
	if i.Behind != nil {
		g.Behind = max(g.Behind, *i.Behind)
	}
	if at, ok := g.least[waits.log]; waits.log != nil && (!ok || waits.at < at) {
		g.least[waits.log] = waits.at
	}
}

func (a *Admin) Endpoints(ctx context.Context, f operator.Filter, after string, limit int) (page []operator.Endpoint, next string, err error) {
	l := a.look(ctx)
	f.Host, limit = strings.ToLower(f.Host), max(limit, 1)
	l.filter = f
	groups := map[string]*group{}
	var names []string // the first ones in order, one more than limit at most
	_, err = l.each("", 0, func(i operator.WebhookInfo, waits place) bool {
		e := operator.Endpoint{Host: operator.HostOf(i.URL)}
		name := e.Host
		if f.Host != "" {
			e.URL = operator.ShownURL(i.URL)
			name = e.URL
		}
		if name <= after && after != "" {
			return true
		}
		g := groups[name]
		if g == nil {
			at, _ := slices.BinarySearch(names, name)
			if at > limit {
				return true
			}
			if len(names) > limit {
				delete(groups, names[limit])
				names = names[:limit]
			}
			names = slices.Insert(names, at, name)
			g = &group{Endpoint: e, least: map[*topic.Topic]store.Position{}}
			groups[name] = g
		}
		g.add(&i, waits)
		return true
	})
	if err != nil {
		return nil, "", err
	}
	if len(names) > limit {
		names, next = names[:limit], names[limit-1]
	}
	for _, name := range names {
		g := groups[name]
		for log, at := range g.least {
			since, err := l.waitingSince(place{log, at})
			if err != nil {
				return nil, "", err
			}
			if !since.IsZero() && (g.WaitingSince.IsZero() || since.Before(g.WaitingSince)) {
				g.WaitingSince = since
			}
		}
		page = append(page, g.Endpoint)
	}
	return page, next, nil
}
