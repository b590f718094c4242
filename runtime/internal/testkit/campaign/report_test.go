package campaign

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// The judgment detects every kind of finding.
func TestJudgement(t *testing.T) {
	l := newLedger()
	log := []string{"1", "2", "3", "4"}
	for i, id := range log {
		l.begin(ticket{ID: id, Severity: severities[i%2]}, false)
		l.acknowledged(id)
	}
	l.begin(ticket{ID: "maybe", Severity: "low"}, false)
	for _, c := range []struct {
		name, kind, severity string
		exact                bool
		got                  []string
		gap                  bool
		want                 string
	}{
		{name: "all", kind: "poll", exact: true, got: log},
		{name: "those that match", kind: "poll", severity: "low", exact: true, got: []string{"1", "3"}},
		{name: "loss", kind: "poll", exact: true, got: []string{"1", "2", "4"}, want: "1 missing"},
		{name: "loss behind a filter", kind: "client, push", severity: "low", got: []string{"1"}, want: "1 missing"},
		{name: "repetition", kind: "stream", exact: true, got: []string{"1", "2", "2", "3", "4"}, want: "1 repeated"},
		{name: "repetition at a receiver", kind: "webhook", got: []string{"1", "2", "2", "3", "4"}},
		{name: "order", kind: "stream", exact: true, got: []string{"2", "1", "3", "4"}, want: "2 not in the log's order"},
		{name: "order at a client", kind: "client, poll", got: []string{"2", "1", "3", "4"}, want: "2 not in the log's order"},
		{name: "order at a receiver", kind: "webhook", got: []string{"2", "1", "3", "4"}},
		{name: "what does not match", kind: "webhook", severity: "low", got: []string{"1", "2", "3"}, want: "1 that it did not request"},
		{name: "what nobody emitted", kind: "webhook", got: []string{"1", "2", "3", "4", "x"}, want: "1 that it did not request"},
		{name: "a gap", kind: "webhook", got: log, gap: true, want: "1 gaps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecord(c.kind, c.severity, c.exact)
			for _, id := range c.got {
				r.got(id, l)
			}
			if c.gap {
				r.gap()
			}
			_, err := l.consumed(r, log)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	r := newRecord("poll", "", true)
	for _, id := range []string{"1", "2", "maybe", "3", "4"} {
		r.got(id, l)
	}
	if _, err := l.consumed(r, []string{"1", "2", "maybe", "3", "4"}); err != nil {
		t.Errorf("one that was never acknowledged stands, and: %v", err)
	}
}

// An accepted delivery is repeated only after a fault of its replica, or of the database.
func TestJudgementOfAttempts(t *testing.T) {
	at := time.Now()
	one, other := &Slot{options: replicaOptions{source: "127.0.0.2"}}, &Slot{options: replicaOptions{source: "127.0.0.3"}}
	for name, c := range map[string]struct {
		windows []window
		refused bool
		until   time.Duration // of the first, after the second has begun
		anew    time.Duration // when the subscription has expired, after that as well
		want    string
	}{
		"no fault":            {want: "without a fault"},
		"a fault elsewhere":   {windows: []window{{other, at, at, "a fault"}}, want: "without a fault"},
		"a fault before":      {windows: []window{{one, at.Add(-time.Minute), at.Add(-time.Second), "a fault"}}, want: "without a fault"},
		"a fault long after":  {windows: []window{{other, at.Add(2 * time.Second), at, "another"}, {one, at.Add(30 * time.Second), at.Add(time.Minute), "a fault"}}, want: "without a fault at that time (a fault 30s later)"},
		"its replica's kill":  {windows: []window{{one, at, at, "a fault"}}},
		"the database's":      {windows: []window{{nil, at, at, "a fault"}}},
		"refused before that": {refused: true},
		"an expiry":           {anew: time.Second},
		"an expiry before":    {anew: -time.Second, want: "without a fault"},
		"at once":             {refused: true, until: time.Second, want: "concurrently"},
		"at once at a kill":   {refused: true, until: time.Second, windows: []window{{one, at, at, "a fault"}}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &reception{attempts: []attempt{
				{receiver: "/r", event: "1", source: "127.0.0.3", begin: at, end: at.Add(time.Second), accepted: true},
				{receiver: "/r", event: "1", source: "127.0.0.2", begin: at.Add(-time.Millisecond), end: at.Add(c.until), accepted: !c.refused},
			}}
			if c.anew != 0 {
				rec.terms = map[string]terms{"/r": {anew: at.Add(c.anew)}}
			}
			cam := &Campaign{reception: rec, windows: c.windows}
			var r Report
			cam.judgeAttempts(&r)
			for why := range r.repeats {
				if (why == "a fault" || c.anew > 0) != (c.want == "") {
					t.Errorf("repeated: %s", formatCounts(r.repeats))
				}
			}
			if got := len(cam.failures) > 0; got != (c.want != "") || got && !strings.Contains(cam.failures[0].Error(), c.want) {
				t.Errorf("%v, want %q", cam.failures, c.want)
			}
		})
	}
}

// A subscription's end and its new secret apply 2 s later, whichever replica makes the attempt.
func TestBreach(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	old, fresh := webhook.NewSecret(), webhook.NewSecret()
	body := []byte(`{}`)
	for name, c := range map[string]struct {
		terms  terms
		signed time.Duration // after now
		with   webhook.Ring
		want   string
	}{
		"it lives":             {signed: time.Hour, with: webhook.NewRing(old)},
		"just over":            {terms: terms{over: now, why: "expiry"}, signed: 2 * time.Second, with: webhook.NewRing(old)},
		"long over":            {terms: terms{over: now, why: "expiry"}, signed: 3 * time.Second, with: webhook.NewRing(old), want: "3s after its expiry"},
		"just rotated":         {terms: terms{secret: fresh, since: now}, signed: 2 * time.Second, with: webhook.NewRing(old)},
		"both sign":            {terms: terms{secret: fresh, since: now}, signed: 3 * time.Second, with: webhook.Ring{{Secret: fresh}, {Secret: old}}},
		"only the old one yet": {terms: terms{secret: fresh, since: now}, signed: 3 * time.Second, with: webhook.NewRing(old), want: "not signed with the new secret"},
	} {
		at := now.Add(c.signed)
		header := http.Header{}
		m := webhook.Message{ID: "m", Body: body}
		if err := (webhook.Signer{Ring: c.with}).Sign(header, m, at); err != nil {
			t.Fatal(err)
		}
		err := c.terms.check(attempt{event: "1", signed: at}, header, body)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// answering answers requests with a function.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// A subscription that could not be refreshed before it expired starts at its first cursor, with only the new secret.
func TestHookExpires(t *testing.T) {
	for name, c := range map[string]struct {
		outage time.Duration // of all answers, after 5 s
		anew   bool
	}{
		"a short outage": {outage: 10 * time.Second},
		"a long outage":  {outage: 40 * time.Second, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, err := webhook.NewReceiver(webhook.ReceiverOptions{})
				if err != nil {
					t.Fatal(err)
				}
				rec := &reception{handler: handler, server: &httptest.Server{URL: "http://receiver"}, terms: map[string]terms{}}
				begin := time.Now()
				away := func() bool {
					d := time.Since(begin) - 5*time.Second
					return d > 0 && d < c.outage
				}
				hc := &http.Client{Transport: answering(func(r *http.Request) (*http.Response, error) {
					if away() {
						return nil, errors.New("away")
					}
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"result":{"id":"s"}}`)), Request: r}, nil
				})}
				h, err := newHook(caller{base: "http://server/mcp", hc: hc, record: newRecord("webhook", "", false)}, rec)
				if err != nil {
					t.Fatal(err)
				}
				h.ttl, h.every = 30*time.Second, 2*time.Second
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); h.run(ctx) }()
				of := func() terms {
					rec.mu.Lock()
					defer rec.mu.Unlock()
					return rec.terms[h.endpoint.Path()]
				}
				time.Sleep(c.outage)
				if got := of(); !got.since.IsZero() && c.anew {
					t.Errorf("the secret that signs is known since %v", got.since)
				}
				time.Sleep(10 * time.Second)
				if got := of(); got.since.IsZero() || got.anew.IsZero() == c.anew {
					t.Errorf("known since %v, anew %v", got.since, got.anew)
				}
				cancel()
				<-done
			})
		})
	}
}
