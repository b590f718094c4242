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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
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
	a      *Admin
	ctx    context.Context
	filter operator.Filter
	since  map[logPosition]time.Time
	before map[*topic.Topic]store.Position // entries up to here are late
}

func (a *Admin) newQuery(ctx context.Context) *query {
	return &query{a: a, ctx: ctx, since: map[logPosition]time.Time{}, before: map[*topic.Topic]store.Position{}}
}

// A subscriptionView contains the data of a webhook subscription that a query has read.
type subscriptionView struct {
	// If the subscription is live and its record was not read, WebhookInfo only contains the fields needed for filters
	// and sums. query.addDetails adds the others, Cursor and WaitingSince.
	operator.WebhookInfo
	live  *subscriber.Live // nil if the subscription does not live here
	read  bool
	waits logPosition
}

// setRecord sets the fields that only the record contains.
func (s *subscriptionView) setRecord(r *engine.Listed) {
	s.ID, s.Principal, s.Event, s.URL, s.Arguments = r.ID, r.Principal, r.Event, r.URL, r.Arguments
	s.CreatedAt, s.RefreshedAt, s.ExpiresAt, s.Truncated = r.CreatedAt, r.RefreshedAt, r.ExpiresAt, r.Truncated
	s.Unreadable, s.Requests = r.Unreadable, subscriber.Requests(&r.Subscription)
	s.read = true
}

// setLive updates the fields that are more up to date in the live subscription than in its record.
func (s *subscriptionView) setLive(h *subscriber.Live) delivery.Status {
	s.live = h
	status := h.Handle.Status()
	s.LastDeliveryAt, s.LastError = status.LastDeliveryAt, string(status.LastError)
	s.FailedSince, s.Throttled = status.FailedSince, status.Throttled
	if s.Replay = nil; status.Replaying > 0 {
		s.Replay = &operator.Replay{AskedBy: status.AskedBy, Left: status.Replaying}
	}
	return status
}

// setBacklog sets the number of waiting entries and the position before them.
func (s *subscriptionView) setBacklog() {
	if s.live == nil {
		return
	}
	if base, behind, ok := s.live.Waiting(); ok {
		if s.Behind = &behind; behind > 0 {
			s.waits = logPosition{s.live.Type.Topic(), base}
		}
	}
}

// viewOfRecord returns the view of a subscription from its record.
func (a *Admin) viewOfRecord(r *engine.Listed) (s subscriptionView) {
	s.setRecord(r)
	s.LastDeliveryAt, s.LastError, s.FailedSince = r.Health.LastDeliveryAt, r.Health.LastError, r.Health.FailedSince
	s.Replay = subscriber.ReplayIn(&r.Subscription)
	suspended := r.Health.Suspended
	if h := a.o.Webhooks.Get(r.ID); h != nil && h.Generation == r.Generation {
		status := s.setLive(h)
		suspended = !status.Active && !status.Paused
	}
	switch {
	case subscriber.Lapsed(&r.Subscription, a.o.Webhooks.Now()):
		s.State = operator.StateAbsent
	case r.Unreadable != "" && s.live == nil:
		s.State = operator.StateUnreadable
	case !r.PausedAt.IsZero():
		s.State = operator.StatePaused
	case suspended:
		s.State = operator.StateSuspended
	default:
		s.State = operator.StateActive
	}
	return s
}

// viewOfLive returns the view of a live subscription without reading its record. If the subscription is no longer live
// in this process, ok is false.
func (a *Admin) viewOfLive(id string) (s subscriptionView, ok bool) {
	h := a.o.Webhooks.Get(id)
	if h == nil {
		return s, false
	}
	status := s.setLive(h)
	s.ID, s.Principal, s.Event, s.URL, s.CreatedAt = h.ID, h.Principal, h.Type.Name(), h.Handle.URL(), h.CreatedAt()
	switch {
	case status.Paused:
		s.State = operator.StatePaused
	case status.Suspended:
		s.State = operator.StateSuspended
	default:
		s.State = operator.StateActive
	}
	return s, !status.Over
}

// viewOf returns the view of a listed subscription. It returns false if the subscription no longer exists.
func (l *query) viewOf(listed *engine.Listed) (s subscriptionView, ok bool, err error) {
	if listed.Generation != 0 {
		s, err := l.viewOfListed(listed)
		return s, err == nil, err
	}
	if s, ok := l.a.viewOfLive(listed.ID); ok {
		return s, true, nil
	}
	r, ok, err := l.readRecord(listed.ID) // the subscription ended, or moved to another process
	if err != nil || !ok {
		return s, false, err
	}
	return l.a.viewOfRecord(&r), true, nil
}

// viewOfListed returns the view of a listed record, which does not contain the progress. If a replay might be in
// progress, it reads the full record.
func (l *query) viewOfListed(listed *engine.Listed) (subscriptionView, error) {
	s := l.a.viewOfRecord(listed)
	if s.Replay == nil || s.live != nil {
		return s, nil
	}
	r, ok, err := l.readRecord(listed.ID)
	if err != nil || !ok {
		return s, err
	}
	return l.a.viewOfRecord(&r), nil
}

// readRecord reads the record with the id. If parts of the record are unreadable, it returns the readable fields.
func (l *query) readRecord(id string) (engine.Listed, bool, error) {
	st := l.a.o.Webhooks.Store()
	sub, ok, err := st.Subscription(l.ctx, id)
	r := engine.Listed{Subscription: sub}
	if err != nil {
		if part, there, failed := engine.ListOne(l.ctx, st, id); failed == nil && part.Unreadable != "" {
			r, ok, err = part, there, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("reading webhook subscription %s: %w", id, err)
	}
	return r, ok, err
}

// addDetails adds the fields that a query for many subscriptions omits. It returns false if the record no longer
// exists.
func (l *query) addDetails(s *subscriptionView) (ok bool, err error) {
	if !s.read {
		r, ok, err := l.readRecord(s.ID)
		if err != nil || !ok {
			return false, err
		}
		s.setRecord(&r)
	}
	if s.live != nil {
		s.Cursor = s.live.Handle.Watermark()
	}
	s.WaitingSince, err = l.waitingSince(s.waits)
	return true, err
}

func (l *query) addDetailsToAll(all []subscriptionView) (infos []operator.WebhookInfo, err error) {
	for n := range all {
		ok, err := l.addDetails(&all[n])
		if err != nil {
			return nil, err
		}
		if ok {
			infos = append(infos, all[n].WebhookInfo)
		}
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
	if s, ok, err = l.viewOf(listed); err != nil || !ok {
		return s, false, err
	}
	f := &l.filter
	if s.State == operator.StateAbsent || f.State != "" && s.State != f.State || f.Failing && !s.Failing() ||
		f.Principal != "" && s.Principal != f.Principal || f.Event != "" && s.Event != f.Event ||
		f.Host != "" && operator.HostOf(s.URL) != f.Host || f.URL != "" && !strings.Contains(operator.ShownURL(s.URL), f.URL) {
		return s, false, nil
	}
	s.setBacklog()
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
	here := func(id string) bool { return w.Get(id) != nil }
	for scanned := 0; ; {
		page, err := engine.List(l.ctx, w.Store(), after, scanPage, here)
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
	l := a.newQuery(ctx)
	f.Host, limit = strings.ToLower(f.Host), max(limit, 1)
	l.filter = f
	var all []subscriptionView
	if f.Failing {
		all, next, err = l.longestFailing(after, limit)
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

// longestFailing returns up to limit failing subscriptions, in order of how long they have been failing.
func (l *query) longestFailing(after string, limit int) (all []subscriptionView, next string, err error) {
	var from subscriptionView
	if after != "" {
		nanos, id, _ := strings.Cut(after, ".")
		since, err := strconv.ParseInt(nanos, 10, 64)
		if err != nil || id == "" {
			return nil, "", events.Invalid(events.FieldError{Message: "after is not a page cursor of failing subscriptions"})
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
		all = slices.Insert(all, n, *s)
		return true
	})
	if more {
		last, since := &all[limit-1], int64(0) // for a subscription without attempts
		if !last.FailedSince.IsZero() {
			since = last.FailedSince.UnixNano()
		}
		next = strconv.FormatInt(since, 10) + "." + last.ID
	}
	return all, next, err
}

// An endpointGroup aggregates the subscriptions with the same endpoint.
type endpointGroup struct {
	operator.Endpoint
	least map[*topic.Topic]store.Position // the first waiting place in each log
}

func (g *endpointGroup) add(i *subscriptionView) {
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
	if at, ok := g.least[i.waits.log]; i.waits.log != nil && (!ok || i.waits.at < at) {
		g.least[i.waits.log] = i.waits.at
	}
}

func (a *Admin) Endpoints(ctx context.Context, f operator.Filter, after string, limit int) (page []operator.Endpoint, next string, err error) {
	l := a.newQuery(ctx)
	f.Host, limit = strings.ToLower(f.Host), max(limit, 1)
	l.filter = f
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
