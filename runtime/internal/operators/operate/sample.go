package operate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// sampleAttempts calls f with up to maxDeliveries subscriptions that match the filter and their stored attempts. Ids
// are hashes, so the first subscriptions in id order are a representative sample. The result whole reports whether f
// has been called for all matching subscriptions.
func (a *Admin) sampleAttempts(ctx context.Context, filter operator.Filter, f func(i *operator.WebhookInfo, made []operator.Attempt)) (looked int, whole bool, err error) {
	w := a.o.Webhooks
	if w == nil {
		return 0, true, nil
	}
	l := a.newQuery(ctx, filter)
	more := false
	var failed error
	next, err := l.visitMatches("", maxScan, func(s *subscriptionView) bool {
		if more = looked == maxDeliveries; more {
			return false
		}
		looked++
		var made []operator.Attempt
		if made, failed = a.storedAttempts(ctx, s.ID); failed != nil {
			return false
		}
		f(&s.WebhookInfo, made)
		return true
	})
	return looked, !more && next == "", cmp.Or(err, failed)
}

// isTimed reports whether the duration of an attempt reflects the endpoint's speed. This is the case if the endpoint
// responded or the attempt timed out. A refused connection fails immediately, even if the endpoint is slow.
func isTimed(m *operator.Attempt) bool {
	return m.Status != 0 && m.Category != string(wire.Proxy) || m.Category == string(wire.Timeout)
}

// A tally aggregates attempts into one row of latencies.
type tally struct {
	operator.Latency
	took []time.Duration
}

func (t *tally) add(m *operator.Attempt) {
	t.Attempts++
	if m.Category != "" {
		t.Failures++
	}
	if isTimed(m) {
		t.took = append(t.took, m.Took)
	}
}

// latencyRow returns the row, including the percentiles.
func (t *tally) latencyRow() operator.Latency {
	t.Timed = len(t.took)
	slices.Sort(t.took)
	t.P50, t.P95 = percentile(t.took, 50), percentile(t.took, 95)
	return t.Latency
}

// percentile returns a nearest-rank percentile of the sorted durations, or 0 for an empty slice.
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
	s.Subscriptions, s.Whole, err = a.sampleAttempts(ctx, f, func(i *operator.WebhookInfo, made []operator.Attempt) {
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
	return s, wrapError("sampling attempts", err)
}

// slowestFirst returns the rows in descending order of the 95th percentile.
func slowestFirst(all map[string]*tally) []operator.Latency {
	rows := []operator.Latency{}
	for _, t := range all {
		rows = append(rows, t.latencyRow())
	}
	slices.SortFunc(rows, func(a, b operator.Latency) int {
		return cmp.Or(cmp.Compare(b.P95, a.P95), cmp.Compare(b.P50, a.P50), cmp.Compare(a.Host+a.URL+a.Event, b.Host+b.URL+b.Event))
	})
	return rows
}
