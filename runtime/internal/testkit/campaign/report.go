package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report is the result of a campaign.
type Report struct {
	took         time.Duration
	acknowledged int
	maybe        int // not acknowledged; may or may not be in the log
	retries      int
	logged       int      // entries in the log
	names        []string // of faults and actions
	done, wanted map[string]int
	consumers    []consumed
	failover     []time.Duration // from the death of the outbox's owner to the first delivery committed after it
	// served contains the times from each kill of a replica to the next delivery to each client, by kind of client.
	served   map[string][]time.Duration
	attempts int            // of webhooks
	repeats  map[string]int // of accepted deliveries, by reason
	doubled  map[string]int // made by two replicas concurrently, by reason
	note     string
	failures []error
}

// Short returns an error for faults that occurred less often than planned because the machine was too slow.
func (r *Report) Short() (err error) {
	for what, n := range r.wanted {
		if r.done[what] < n {
			err = errors.Join(err, fmt.Errorf("%s: %d of %d", what, r.done[what], n))
		}
	}
	return err
}

// consumed contains the report line for one consumer.
type consumed struct {
	kind, severity                                        string
	expected, got, missing, foreign, repeated, disordered int
	truncated, troubles                                   int
	p50, p99, max                                         time.Duration
}

// judge compares the received occurrences with the emitted occurrences and returns the report.
func (c *Campaign) judge(ctx context.Context, took time.Duration) *Report {
	c.mu.Lock()
	r := &Report{took: took, done: c.done, wanted: c.wanted,
		names: append(c.names, unsubscribed, expired, revoked, rotated, overfull,
			paused, replayed, replayEnded, sent, gapped, ended, kept)}
	for _, d := range c.deaths {
		if !d.next.IsZero() {
			r.failover = append(r.failover, d.next.Sub(d.at))
		}
	}
	c.mu.Unlock()
	r.served = map[string][]time.Duration{}
	for _, x := range c.consumers {
		if t, ok := x.(*typed); ok {
			r.served[t.kind] = append(r.served[t.kind], t.delaysAfter(c.killed)...)
		}
	}
	slices.Sort(r.failover)
	r.acknowledged = len(c.ledger.expected(""))
	r.maybe, r.retries = len(c.ledger.tickets)-r.acknowledged, c.ledger.retries
	log, err := c.db.Log(ctx)
	if err != nil {
		c.fail(fmt.Errorf("reading the log after the faults: %w", err))
	}
	r.logged = len(log)
	for _, x := range c.consumers {
		l, err := c.ledger.consumed(x.result(), log)
		if err != nil {
			c.fail(fmt.Errorf("%s of %q: %w", l.kind, l.severity, err))
		}
		if h, ok := x.(*hook); ok && l.missing > 0 {
			c.fail(fmt.Errorf("%s of %q: %s", l.kind, l.severity, c.history(ctx, h.endpoint.Path(), h.answers)))
		}
		r.consumers = append(r.consumers, l)
	}
	if c.reception != nil {
		c.judgeAttempts(r)
	}
	r.note = c.db.Note(ctx)
	return r
}

// consumed evaluates the occurrences that one consumer has received.
func (l *ledger) consumed(r *record, log []string) (x consumed, err error) {
	expected := l.expected(r.severity)
	missing := r.missing(expected)
	r.mu.Lock()
	defer r.mu.Unlock()
	x = consumed{kind: r.kind, severity: r.severity, expected: len(expected), got: len(r.seen), missing: len(missing),
		truncated: r.truncated, troubles: r.troubles}
	var want []string // entries of the log that the consumer must have received
	for _, id := range log {
		if e, ok := l.get(id); ok && (r.severity == "" || e.Severity == r.severity) {
			want = append(want, id)
		}
	}
	var foreign []string
	for id, n := range r.seen {
		e, ok := l.get(id)
		if !ok || r.severity != "" && e.Severity != r.severity {
			foreign = append(foreign, id)
		}
		x.repeated += n - 1
	}
	x.foreign = len(foreign)
	fail := func(what string, n int, examples []string) {
		if n > 0 {
			err = errors.Join(err, fmt.Errorf("%d %s, for example %q", n, what, examples[:min(len(examples), 5)]))
		}
	}
	fail("missing", len(missing), missing)
	fail("that it did not request or that were never emitted", len(foreign), foreign)
	fail("gaps", r.truncated, nil)
	if r.exact {
		fail("repeated", x.repeated, nil)
	}
	if r.exact || strings.HasPrefix(r.kind, "client") {
		for i := range min(len(want), len(r.order)) {
			if want[i] != r.order[i] {
				x.disordered++
			}
		}
		fail("not in the log's order", x.disordered, nil)
	}
	if slices.Sort(r.latency); len(r.latency) > 0 {
		n := len(r.latency)
		x.p50, x.p99, x.max = r.latency[n/2], r.latency[n*99/100], r.latency[n-1]
	}
	return x, errors.Join(err, r.fatal)
}

// stamp is the time format in a history, as in the replicas' logs.
const stamp = "15:04:05.000"

// history describes everything known about a webhook with missing deliveries, with the answers to the last requests for
// it. It must be called while the replicas are still running.
func (c *Campaign) history(ctx context.Context, path string, answers []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  answers to the last requests:\n", path)
	for _, a := range answers {
		fmt.Fprintln(&b, "    "+a)
	}
	made, _ := c.reception.of(path)
	fmt.Fprintf(&b, "  the last of %d attempts:\n", len(made))
	for _, a := range made[max(0, len(made)-maxAnswers):] {
		fmt.Fprintf(&b, "    %s %s from %s, accepted %v\n", a.begin.UTC().Format(stamp), a.event, a.source, a.accepted)
	}
	b.WriteString(c.db.Story(ctx, path))
	return b.String()
}

// judgeAttempts checks repeated deliveries. An accepted delivery may be repeated only if the replica that sent it was
// killed, was suspended or lost its database before it could store the result.
func (c *Campaign) judgeAttempts(r *Report) {
	c.reception.mu.Lock()
	attempts, holds := slices.Clone(c.reception.attempts), maps.Clone(c.reception.terms)
	operations := slices.Clone(c.reception.operations)
	c.reception.mu.Unlock()
	slices.SortFunc(attempts, func(a, b attempt) int { return a.begin.Compare(b.begin) })
	r.attempts, r.repeats, r.doubled = len(attempts), map[string]int{}, map[string]int{}
	c.mu.Lock()
	unleased := slices.Clone(c.unleased)
	c.mu.Unlock()
	for _, a := range attempts {
		for _, w := range unleased {
			if a.signed.After(w.from.Add(clockError)) && a.signed.Add(time.Second+clockError).Before(w.to) {
				c.fail(fmt.Errorf("%s was attempted by %s at %v, when no replica could have a lease", a.event, a.source,
					a.begin.Format(time.StampMilli)))
			}
		}
	}
	accepted := map[[2]string]attempt{}
	ids := map[string]string{} // webhook-ids, by event
	for _, a := range attempts {
		if id, ok := ids[a.event]; ok && id != a.id {
			c.fail(fmt.Errorf("events keep their webhook-ids: %s was sent to %s as %s and %s", a.event, a.receiver, id, a.id))
		}
		ids[a.event] = a.id
		key := [2]string{a.receiver, a.event}
		if before, ok := accepted[key]; ok {
			why, ok := c.excuse(before)
			if !ok && before.end.Before(holds[a.receiver].anew) {
				why, ok = "its subscription had ended and another one had begun", true
			}
			if !ok && slices.ContainsFunc(operations, func(o operation) bool { return o.repeats(before, a) }) {
				why, ok = "an operator asked for it", true
			}
			if r.repeats[why]++; !ok {
				c.fail(fmt.Errorf("%s was accepted at %s from %s at %v and repeated by %s at %v without a fault at that time (%s)", a.event,
					a.receiver, before.source, before.end.Format(time.StampMilli), a.source, a.begin.Format(time.StampMilli), why))
			}
		}
		if a.accepted {
			accepted[key] = a
		}
	}
	open := map[[2]string]attempt{} // the attempt that ended last
	for _, a := range attempts {
		key := [2]string{a.receiver, a.event}
		before, ok := open[key]
		if ok && before.source != a.source && a.begin.Before(before.end) {
			why, ok := c.excuse(before)
			if r.doubled[why]++; !ok {
				c.fail(fmt.Errorf("%s was attempted at %s by %s and %s concurrently, at %v, without a fault at that time (%s)", a.event, a.receiver, before.source, a.source,
					a.begin.Format(time.StampMilli), why))
			}
		}
		if !ok || a.end.After(before.end) {
			open[key] = a
		}
	}
}

// storeTime is the maximum time from a response until the delivery is stored on a busy machine.
const storeTime = 4 * time.Second

// patience is the minimum time that a replica waits for a response. The replica might not receive a later response.
const patience = 3 * time.Second

// excuse returns the reason for which an accepted delivery may be repeated, or sent concurrently by another replica. If
// it finds none, ok is false and why describes the next fault.
func (c *Campaign) excuse(a attempt) (why string, ok bool) {
	if a.end.Sub(a.begin) > patience {
		return "it was accepted late", true
	}
	begun := a.begin
	if !a.signed.IsZero() && a.signed.Before(begun) {
		begun = a.signed // a busy receiver may read the request long after its sender was killed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.windows, func(w window) bool {
		return (w.slot == nil || w.slot.options.source == a.source) &&
			w.from.Before(a.end.Add(storeTime)) && w.to.After(begun)
	})
	if i >= 0 {
		return c.windows[i].why, true
	}
	next := window{from: a.end.Add(settleTime), why: "no fault"}
	for _, w := range c.windows { // the delivery may not have been stored until this fault
		if (w.slot == nil || w.slot.options.source == a.source) && w.from.After(a.end) && w.from.Before(next.from) {
			next = w
			next.why = fmt.Sprintf("%s %v later", w.why, w.from.Sub(a.end).Round(time.Millisecond))
		}
	}
	return next.why, false
}

// formatCounts returns the total and the counts by reason as text.
func formatCounts(by map[string]int) string {
	total := 0
	var list []string
	for _, why := range slices.Sorted(maps.Keys(by)) {
		total += by[why]
		list = append(list, fmt.Sprintf("%d as %s", by[why], why))
	}
	if total == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(list, ", "))
}

// Print prints the tables.
func (r *Report) Print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "The campaign took %v: %d occurrences acknowledged, %d never answered, "+
		"%d requests to emit were repeated; the log has %d.\n\n", r.took.Round(time.Second), r.acknowledged, r.maybe, r.retries, r.logged)
	fmt.Fprintln(tw, "fault\tdone\twanted")
	for _, what := range r.names {
		wanted := "-"
		if n, ok := r.wanted[what]; ok {
			wanted = fmt.Sprint(n)
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\n", what, r.done[what], wanted)
	}
	tw.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "consumer\tfilter\texpected\tgot\tmissing\tforeign\trepeated\tout of order\tgaps\trequests again\t"+
		"latency p50\tp99\tmax")
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	for _, x := range r.consumers {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\n", x.kind, x.severity, x.expected, x.got,
			x.missing, x.foreign, x.repeated, x.disordered, x.truncated, x.troubles, round(x.p50), round(x.p99), round(x.max))
	}
	tw.Flush()
	if n := len(r.failover); n > 0 {
		fmt.Fprintf(w, "\nFrom the kill of the outbox's owner to the first delivery committed after it: "+
			"%d times, median %v, longest %v.\n", n, round(r.failover[n/2]), round(r.failover[n-1]))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.served)) {
		if d := r.served[kind]; len(d) > 0 {
			slices.Sort(d)
			fmt.Fprintf(w, "%s: from the kill of a replica to the next delivery: median %v, longest %v of %d.\n",
				kind, round(d[len(d)/2]), round(d[len(d)-1]), len(d))
		}
	}
	if r.attempts > 0 {
		fmt.Fprintf(w, "Webhooks: %d attempts; accepted deliveries repeated: %s; made by two replicas concurrently: %s.\n", r.attempts,
			formatCounts(r.repeats), formatCounts(r.doubled))
	}
	if r.note != "" {
		fmt.Fprintln(w, r.note)
	}
}
