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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// scanPage is the number of records per read.
	scanPage = 1000
	// maxScan is the maximum number of records that a single search in id order examines.
	maxScan = 10_000
)

// A logPosition is a position in a log.
type logPosition struct {
	log *topic.Topic // nil if nothing waits
	at  store.Position
}

// A query is the state of a single query for subscriptions. It caches the results of reads from logs.
type query struct {
	a       *Admin
	ctx     context.Context
	now     time.Time
	members *membership
	filter  operator.Filter
	since   map[logPosition]time.Time
	before  map[*topic.Topic]store.Position // entries up to here are late
}

// newQuery returns a query for the subscriptions that match the filter. Its results include all attempts that this process
// has made before the call.
func (a *Admin) newQuery(ctx context.Context, f operator.Filter) *query {
	a.flush(ctx)
	f.Host = strings.ToLower(f.Host)
	return &query{a: a, ctx: ctx, now: a.o.Now(), members: a.members(ctx), filter: f, since: map[logPosition]time.Time{}, before: map[*topic.Topic]store.Position{}}
}

// A subscriptionView is a webhook subscription as a query has read it. WebhookInfo lacks Cursor and WaitingSince until
// query.addDetails adds them.
type subscriptionView struct {
	operator.WebhookInfo
	record *engine.Listed
	report store.Report // in the record, or zero
	waits  logPosition
}

// viewOf returns the view of a record.
func (l *query) viewOf(r *engine.Listed) subscriptionView {
	report := *cmp.Or(r.Report, &store.Report{})
	s := subscriptionView{record: r, report: report, WebhookInfo: operator.WebhookInfo{
		ID: r.ID, Principal: r.Principal, Event: r.Event, URL: r.URL, Arguments: r.Arguments,
		CreatedAt: r.CreatedAt, RefreshedAt: r.RefreshedAt, ExpiresAt: r.ExpiresAt, Truncated: r.Truncated,
		Unreadable: r.Unreadable, Requests: subscriber.Requests(&r.Subscription), Replay: subscriber.ReplayIn(&r.Subscription),
		LastDeliveryAt: r.Health.LastDeliveryAt, FailedSince: r.Health.FailedSince,
		LastError: r.Health.LastError, LastStatus: report.LastStatus, LastErrorAt: report.LastErrorAt,
		Throttled: report.Held == store.HeldLimited, Abandoned: report.Abandoned.LastHour(l.now),
	}}
	switch {
	case subscriber.Lapsed(&r.Subscription, l.now):
		s.State = operator.StateAbsent
	case r.Unreadable != "" && l.a.o.Webhooks.Get(r.ID) == nil:
		s.State = operator.StateUnreadable
	case !r.PausedAt.IsZero():
		s.State = operator.StatePaused
	case r.Health.Suspended:
		s.State = operator.StateSuspended
	default:
		s.State = operator.StateActive
	}
	l.members.addOwner(&s)
	l.addBacklog(&s)
	return s
}

// addBacklog sets the number of waiting entries and the position before them.
func (l *query) addBacklog(s *subscriptionView) {
	if s.Missing != "" {
		return
	}
	log, base, behind := l.a.o.Webhooks.Waiting(&s.record.Subscription)
	if log == nil {
		return
	}
	if s.Behind = &behind; behind > 0 {
		s.waits = logPosition{log, base}
	}
}

// readRecord reads the record with the id. If parts of the record are unreadable, it returns the readable fields.
func (a *Admin) readRecord(ctx context.Context, id string) (engine.Listed, bool, error) {
	r, ok, err := engine.ListOne(ctx, a.o.Webhooks.Store(), id)
	return r, ok, wrapError("reading webhook subscription "+id, err)
}

// addDetails adds the fields that a query for many subscriptions omits.
func (l *query) addDetails(s *subscriptionView) (err error) {
	if s.Unreadable == "" {
		s.Cursor = l.a.o.Webhooks.Describe(l.ctx, &s.record.Subscription)
	}
	s.WaitingSince, err = l.waitingSince(s.waits)
	return err
}

func (l *query) addDetailsToAll(all []subscriptionView) (infos []operator.WebhookInfo, err error) {
	for n := range all {
		if err := l.addDetails(&all[n]); err != nil {
			return nil, err
		}
		infos = append(infos, all[n].WebhookInfo)
	}
	return infos, nil
}

// waitingSince returns the timestamp of the first retained entry after p.
func (l *query) waitingSince(p logPosition) (time.Time, error) {
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
	at := time.Time{} // evicted in the meantime
	if len(b.Entries) > 0 {
		at = b.Entries[0].Timestamp.Time
	}
	l.since[p] = at
	return at, nil
}

// isLate reports whether the log has an entry after p that is older than the filter's limit.
func (l *query) isLate(p logPosition) (bool, error) {
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

// matchListed returns the view of a listed subscription if it matches the filter.
func (l *query) matchListed(listed *engine.Listed) (s subscriptionView, ok bool, err error) {
	s = l.viewOf(listed)
	f := &l.filter
	if s.State == operator.StateAbsent || f.State != "" && s.State != f.State || f.Failing && !s.Failing() ||
		f.Principal != "" && s.Principal != f.Principal || f.Event != "" && s.Event != f.Event ||
		f.Host != "" && operator.HostOf(s.URL) != f.Host || f.URL != "" && !strings.Contains(operator.ShownURL(s.URL), f.URL) {
		return s, false, nil
	}
	if f.MinBehind > 0 && (s.Behind == nil || *s.Behind < f.MinBehind) {
		return s, false, nil
	}
	if f.Late > 0 {
		ok, err = l.isLate(s.waits)
		return s, ok, err
	}
	return s, true, nil
}

// visitMatches calls found for the subscriptions that match the filter, in id order, until found returns false. After
// it has examined at least most records, it returns the id of the last examined record. Otherwise it returns "". A
// most of 0 means no limit.
func (l *query) visitMatches(after string, most int, found func(s *subscriptionView) bool) (next string, err error) {
	w := l.a.o.Webhooks
	if w == nil {
		return "", nil
	}
	for scanned := 0; ; {
		page, err := engine.List(l.ctx, w.Store(), after, scanPage, l.filter.Failing)
		if err != nil {
			return "", fmt.Errorf("listing webhook subscriptions: %w", err)
		}
		for n := range page {
			after = page[n].ID
			s, ok, err := l.matchListed(&page[n])
			if err != nil {
				return "", err
			}
			if ok && !found(&s) {
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

func (a *Admin) Find(ctx context.Context, f operator.Filter, after string, limit int) (page []operator.WebhookInfo, next string, err error) {
	l := a.newQuery(ctx, f)
	limit = max(limit, 1)
	var all []subscriptionView
	if f.Failing {
		all, next, _, err = l.longestFailing(after, limit)
	} else {
		all, next, err = l.pageByID(after, limit)
	}
	if err == nil {
		page, err = l.addDetailsToAll(all)
	}
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// pageByID returns up to limit subscriptions in id order.
func (l *query) pageByID(after string, limit int) (all []subscriptionView, next string, err error) {
	more := false
	next, err = l.visitMatches(after, maxScan, func(s *subscriptionView) bool {
		if more = len(all) == limit; more {
			return false
		}
		all = append(all, *s)
		return true
	})
	if more {
		next = all[limit-1].ID
	}
	return all, next, err
}

// longestFailing returns up to limit failing subscriptions, in order of how long they have been failing, and the number
// of all failing subscriptions.
func (l *query) longestFailing(after string, limit int) (all []subscriptionView, next string, total int, err error) {
	var from subscriptionView
	if after != "" {
		nanos, id, _ := strings.Cut(after, ".")
		since, err := strconv.ParseInt(nanos, 10, 64)
		if err != nil || id == "" {
			return nil, "", 0, events.Invalid(events.FieldError{Message: "after is not a page cursor of failing subscriptions"})
		}
		if from.ID = id; since != 0 {
			from.FailedSince = time.Unix(0, since)
		}
	}
	order := func(a, b *subscriptionView) int {
		return cmp.Or(a.FailedSince.Compare(b.FailedSince), cmp.Compare(a.ID, b.ID))
	}
	more := false
	_, err = l.visitMatches("", 0, func(s *subscriptionView) bool {
		total++
		if after != "" && order(s, &from) <= 0 {
			return true
		}
		n, _ := slices.BinarySearchFunc(all, s, func(a subscriptionView, s *subscriptionView) int { return order(&a, s) })
		if len(all) == limit {
			more = true
			if n == limit {
				return true
			}
			all = all[:limit-1]
		}
		kept, record := *s, *s.record
		kept.record = &record // s.record keeps its whole page in memory
		all = slices.Insert(all, n, kept)
		return true
	})
	if more {
		last, since := &all[limit-1], int64(0) // for a subscription without attempts
		if !last.FailedSince.IsZero() {
			since = last.FailedSince.UnixNano()
		}
		next = strconv.FormatInt(since, 10) + "." + last.ID
	}
	return all, next, total, err
}

// An endpointGroup aggregates the subscriptions with the same endpoint.
type endpointGroup struct {
	operator.Endpoint
	least map[*topic.Topic]store.Position // the first waiting place in each log
}

func (g *endpointGroup) add(i *subscriptionView) {
	g.Subscriptions++
	g.Abandoned += i.Abandoned
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
	switch {
	case i.Missing != "":
		g.Missing = i.Missing
	case i.Behind != nil && (g.Behind == nil || *i.Behind > *g.Behind):
		g.Behind = i.Behind
	}
	if at, ok := g.least[i.waits.log]; i.waits.log != nil && (!ok || i.waits.at < at) {
		g.least[i.waits.log] = i.waits.at
	}
}

func (a *Admin) Endpoints(ctx context.Context, f operator.Filter, after string, limit int) (page []operator.Endpoint, next string, err error) {
	l := a.newQuery(ctx, f)
	limit = max(limit, 1)
	groups := map[string]*endpointGroup{}
	var names []string // the first names in order, at most limit+1
	_, err = l.visitMatches("", 0, func(i *subscriptionView) bool {
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
			g = &endpointGroup{Endpoint: e, least: map[*topic.Topic]store.Position{}}
			groups[name] = g
		}
		g.add(i)
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
		if g.Missing != "" {
			g.Behind, g.least = nil, nil
		}
		for log, at := range g.least {
			since, err := l.waitingSince(logPosition{log, at})
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
