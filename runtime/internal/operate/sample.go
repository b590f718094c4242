package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// sample calls f for up to maxDeliveries subscriptions that match the filter, each with its recorded attempts. Ids are
// hashes, so the first subscriptions in order of ids are a fair sample. whole reports whether these are all.
func (a *Admin) sample(ctx context.Context, filter operator.Filter, f func(i *operator.WebhookInfo, made []operator.Attempt)) (looked int, whole bool, err error) {
	w := a.o.Webhooks
	if w == nil {
		return 0, true, nil
	}
	if err := a.flush(ctx); err != nil {
		return 0, false, err
	}
	l := a.look(ctx)
	l.filter = filter
	more := false
	var failed error
	next, err := l.each("", maxScan, func(s *sight) bool {
		if more = looked == maxDeliveries; more {
			return false
		}
		looked++
		var made []operator.Attempt
		if made, failed = a.kept(ctx, s.ID); failed != nil {
			return false
		}
		f(&s.WebhookInfo, made)
		return true
	})
	return looked, !more && next == "", cmp.Or(err, failed)
}

// timed reports whether an attempt shows how fast its endpoint answers: it answered or timed out. A refused connection
// fails immediately, however slow the endpoint is.
func timed(m *operator.Attempt) bool { return m.Status != 0 || m.Category == string(wire.Timeout) }

// A tally collects the attempts for a row of latencies.
type tally struct {
	operator.Latency
	took []time.Duration
}

func (t *tally) add(m *operator.Attempt) {
	t.Attempts++
	if m.Category != "" {
		t.Failures++
	}
	if timed(m) {
		t.took = append(t.took, m.Took)
	}
}

// finish returns the row with its percentiles.
func (t *tally) finish() operator.Latency {
	t.Timed = len(t.took)
	slices.Sort(t.took)
	t.P50, t.P95 = percentile(t.took, 50), percentile(t.took, 95)
	return t.Latency
}

// percentile returns the nearest-rank percentile of sorted durations, 0 for none.
func percentile(sorted []time.Duration, of int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*of+99)/100-1]
}

func (a *Admin) Latency(ctx context.Context, f operator.Filter) (s operator.LatencySample, err error) {
	endpoints, types := map[string]*tally{}, map[string]*tally{}
	of := func(all map[string]*tally, name string, row operator.Latency) *tally {
		if all[name] == nil {
			all[name] = &tally{Latency: row}
		}
		return all[name]
	}
	f.Host = strings.ToLower(f.Host)
	s.Subscriptions, s.Whole, err = a.sample(ctx, f, func(i *operator.WebhookInfo, made []operator.Attempt) {
		row := operator.Latency{Host: operator.HostOf(i.URL)}
		name := row.Host
		if f.Host != "" {
			row.URL = operator.ShownURL(i.URL)
			name = row.URL
		}
		for n := range made {
			of(endpoints, name, row).add(&made[n])
			of(types, made[n].Event, operator.Latency{Event: made[n].Event}).add(&made[n])
		}
		s.Attempts += len(made)
	})
	s.Endpoints, s.Types = slowestFirst(endpoints), slowestFirst(types)
	return s, wrapped("sampling attempts", err)
}

// slowestFirst returns the rows, sorted by 95th percentile in descending order.
func slowestFirst(all map[string]*tally) []operator.Latency {
	rows := []operator.Latency{}
	for _, t := range all {
		rows = append(rows, t.finish())
	}
	slices.SortFunc(rows, func(a, b operator.Latency) int {
		return cmp.Or(cmp.Compare(b.P95, a.P95), cmp.Compare(b.P50, a.P50), cmp.Compare(a.Host+a.URL+a.Event, b.Host+b.URL+b.Event))
	})
	return rows
}
