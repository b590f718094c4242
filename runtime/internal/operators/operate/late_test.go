package operate_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// happenings is what a window says of its occurrences, in pages of any size.
func (b *bed) happenings(event string, since, until time.Time, limit int) (w operator.Window, names []string) {
	b.t.Helper()
	for after := ""; ; after = w.Next {
		var err error
		w, err = b.Between(b.t.Context(), event, since, until, after, limit)
		must(b.t, err)
		for _, o := range w.Occurrences {
			names = append(names, fmt.Sprintf("%s %s: %d/%d/%d of %d", o.Event, o.EventID, o.Accepted, o.Waiting, o.Failed, o.Attempts))
		}
		if len(w.Occurrences) > limit {
			b.t.Errorf("a page of %d has %d", limit, len(w.Occurrences))
		}
		if w.Next == "" {
			return w, names
		}
	}
}

// SRV-8: the occurrences between two times are listed with the results of their deliveries, of one event type or of
// all, in pages; attempts between the times count for whatever occurrence they were made.
func TestSRV8Between(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		other := b.event("f")
		b.at("ann", "/a")
		b.at("bob", "/b")
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		since := time.Now()
		e.Emit(incident{ID: "2"})
		other.Emit(incident{ID: "2"})
		settle(time.Minute)
		r.on(refuse)
		e.Emit(incident{ID: "3"})
		settle(time.Minute)
		until := time.Now()
		e.Emit(incident{ID: "4"})
		settle(time.Second)
		for limit := 1; limit < 5; limit++ {
			if _, names := b.happenings("", since, until, limit); !slices.Equal(names, []string{"e 2: 2/0/0 of 2", "e 3: 0/2/0 of 6", "f 2: 0/0/0 of 0"}) {
				t.Errorf("in pages of %d: %q", limit, names)
			}
		}
		w, names := b.happenings("e", since, until, 10)
		if len(names) != 2 || w.Attempts != 8 || w.Failures != 6 || w.Subscriptions != 2 || !w.Whole {
			t.Errorf("%q %+v", names, w)
		}
		if last := w.Occurrences[1]; last.LastError != "http_5xx" || last.LastAt.Before(since) || last.Cursor == "" {
			t.Errorf("%+v", last)
		}
		settle(20 * time.Minute)
		if _, names = b.happenings("e", until, time.Time{}, 10); !slices.Equal(names, []string{"e 4: 0/0/2 of 10"}) {
			t.Errorf("given up: %q", names)
		}
		// Nothing happened meanwhile, but what had happened before was tried again.
		if w, names = b.happenings("e", until.Add(time.Minute), until.Add(time.Hour), 10); len(names) != 0 || w.Attempts == 0 || w.Attempts != w.Failures {
			t.Errorf("a time without occurrences: %q %+v", names, w)
		}
		for _, bad := range []struct {
			since, until time.Time
			after        string
		}{{until, since, ""}, {since, since, ""}, {time.Time{}, since, ""}, {time.Now().Add(time.Minute), time.Time{}, ""}, {since, until, "x"}, {since, until, "/1"}, {since, until, "e/x"}} {
			if _, err := b.Between(t.Context(), "e", bad.since, bad.until, bad.after, 1); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		missing(t, "an unknown event type", errorOf(b.Between(t.Context(), "x", since, until, "", 1)))
	})
}

// SRV-8: the slowest endpoint and event type come first. A connection that is refused at once does not make its
// endpoint quick.
func TestSRV8Latency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		b.at("ann", "/a")
		b.at("bob", "/b")
		r.on(func(http.ResponseWriter) { time.Sleep(3 * time.Second) })
		for i := range 3 {
			e.Emit(incident{ID: fmt.Sprint(i)})
		}
		settle(time.Minute)
		r.on(func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
		e.Emit(incident{ID: "refused"})
		settle(20 * time.Minute)
		s, err := b.Latency(t.Context(), operator.Filter{})
		if err != nil || len(s.Endpoints) != 1 || len(s.Types) != 1 || s.Subscriptions != 2 || !s.Whole || s.Attempts != 16 {
			t.Fatalf("%+v %v", s, err)
		}
		for _, l := range []operator.Latency{s.Endpoints[0], s.Types[0]} {
			if l.P50 != 3*time.Second || l.P95 != 3*time.Second || l.Timed != 6 || l.Attempts != 16 || l.Failures != 10 || l.Host+l.Event != "receiver.test" && l.Event != "e" {
				t.Errorf("%+v", l)
			}
		}
		if s, err = b.Latency(t.Context(), operator.Filter{Host: "Receiver.test"}); err != nil || len(s.Endpoints) != 2 || s.Endpoints[0].URL != origin+"/a" {
			t.Errorf("%+v %v", s, err)
		}
		if s, err = b.Latency(t.Context(), operator.Filter{Principal: "nobody"}); err != nil || len(s.Endpoints)+len(s.Types)+s.Attempts != 0 {
			t.Errorf("%+v %v", s, err)
		}
	})
}

// why fails unless the reason is that, and the text has the words.
func (b *bed) why(id, reason, help string, words ...string) operator.Delay {
	b.t.Helper()
	d, err := b.Why(b.t.Context(), id)
	if err != nil || d.Reason != reason || d.Help != help {
		b.t.Errorf("%q %q, %v: %s; want %q %q", d.Reason, d.Help, err, d.Text, reason, help)
	}
	for _, w := range words {
		if !strings.Contains(d.Text, w) {
			b.t.Errorf("%s: it does not say %q", d.Text, w)
		}
	}
	return d
}

// SRV-8: a subscription that is late has a reason, the next attempt, a time at which something is lost, and an action
// that helps.
func TestSRV8Why(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r, suspend: webhooks.Suspension{Min: 8, Rate: 0.5, Span: -1}})
		e := b.event("e")
		ctx := t.Context()
		id := b.at("ann", "/a")
		b.why(id, "", "", "No event is waiting.")
		missing(t, "an unknown subscription", errorOf(b.Why(ctx, "sub_x")))

		must(t, b.Pause(ctx, id))
		settle(time.Minute)
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		b.why(id, "paused", "unpause", "An operator paused it at 2000-01-01 00:00:00Z.", "1 entry waiting, the oldest since 2000-01-01 00:01:00Z")
		must(t, b.Unpause(ctx, id))
		settle(time.Second)
		b.why(id, "", "")

		r.on(refuse)
		failed := time.Now()
		e.Emit(incident{ID: "2"})
		settle(time.Second)
		d := b.why(id, "retrying", "send", "failed since "+operate.FormatUTC(failed), "HTTP 503 at "+operate.FormatUTC(failed)+". The receiver fails. The next attempt is due at "+operate.FormatUTC(failed.Add(5*time.Second)), "is lost: its attempts are used up then")
		if !d.NextAt.Equal(failed.Add(5*time.Second)) || d.EventID != "2" || !d.Since.Equal(failed) {
			t.Errorf("%+v", d)
		}
		settle(20 * time.Minute) // it is given up
		if made, err := b.Attempts(ctx, id); err != nil || made[0].EventID != "2" || !d.LostAt.Equal(made[0].At) {
			t.Errorf("lost at %s, the last attempt was %+v %v", d.LostAt, made[0], err)
		}
		b.why(id, "", "", "1 event given up in the last hour. No event is waiting. But attempts have failed since", "HTTP 503")
		e.Emit(incident{ID: "3"})
		settle(20 * time.Minute)
		b.why(id, "suspended", "resume", "HTTP 503")

		r.on(func(http.ResponseWriter) { time.Sleep(3 * time.Second) })
		must(t, b.Resume(ctx, id))
		for i := range 20 {
			e.Emit(incident{ID: fmt.Sprint("slow", i)})
		}
		settle(10 * time.Second)
		b.why(id, "slow", "", "95 % of its last", "up to 3s", "entries waiting")
		settle(time.Hour / 2)
	})
}

// SRV-8: the reason says what an endpoint's status means for operators, and how much was given up of late.
func TestSRV8WhyStatus(t *testing.T) {
	for status, want := range map[int]string{
		401: "Its endpoint refuses our signature or credentials: its secret may have changed.", 403: "Its endpoint refuses our signature or credentials: its secret may have changed.",
		404: "The address is gone.", 410: "The address is gone.", 413: "The event is too large for its endpoint.", 429: "Its endpoint limits the rate.",
		500: "The receiver fails.", 400: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			b, r, e := serve(t)
			id := b.at("ann", "/a")
			r.on(func(w http.ResponseWriter) { w.WriteHeader(status) })
			for i := range 2 {
				e.Emit(incident{ID: fmt.Sprint(i)})
				settle(20 * time.Minute) // it is given up
			}
			d := b.why(id, "", "", "2 events given up in the last hour. No event is waiting. But", strings.TrimSpace(want+" An abandoned event is sent again only by an operator."))
			if at := fmt.Sprintf("the last one with HTTP %d at ", status); !strings.Contains(d.Text, at) {
				t.Errorf("%s: it does not say %q", d.Text, at)
			}
			hosts, _, err := b.Endpoints(t.Context(), operator.Filter{}, "", 10)
			must(t, err)
			if types := b.EventTypes(t.Context()); hosts[0].Abandoned != 2 || types[0].Abandoned != 2 {
				t.Errorf("given up at %+v, of %+v", hosts, types)
			}
			all, err := b.List(t.Context(), "", 10)
			if err != nil || len(all) != 1 || all[0].LastStatus != status || all[0].LastErrorAt.IsZero() || !all[0].Failing() {
				t.Errorf("%+v %v", all, err)
			}
			w, err := b.Between(t.Context(), "e", time.Now().Add(-time.Hour), time.Now(), "", 10)
			if err != nil || len(w.Occurrences) != 2 || w.Occurrences[0].LastStatus != status {
				t.Errorf("%+v %v", w, err)
			}
		})
	}
}

// SRV-8: a log with bounds says when it forgets an event that waits.
func TestSRV8WhyRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{r: receive(t)})
		e := b.event("e", server.WithRetention(server.Retention{MaxAge: time.Hour, MaxCount: 10}))
		id := b.at("ann", "/a")
		must(t, b.Pause(t.Context(), id))
		began := time.Now()
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		d := b.why(id, "paused", "unpause", "the log keeps events for 1h.", "The log keeps at least 10 events: 10 more may push out the oldest.")
		if !d.LostAt.Equal(began.Add(time.Hour)) {
			t.Errorf("%+v", d)
		}
	})
}

// SRV-8: a retry that a replay has replaced has no time any more, and the last error has one.
func TestSRV8Superseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		ctx := t.Context()
		id := b.at("ann", "/a")
		i, err := b.Get(ctx, id)
		must(t, err)
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		r.on(nil)
		must(t, b.Replay(ctx, id, *i.Cursor, 0))
		settle(time.Second)
		made, err := b.Attempts(ctx, id)
		if err != nil || len(made) != 2 || made[0].Category != "" || made[1].Category == "" {
			t.Fatalf("%+v %v", made, err)
		}
		if !made[1].NextAt.IsZero() {
			t.Errorf("the first attempt announces another one at %s", made[1].NextAt)
		}
		if i, err = b.Get(ctx, id); err != nil || i.LastError == "" || !i.FailedSince.IsZero() || !i.LastErrorAt.Equal(made[1].At) {
			t.Errorf("%+v %v", i, err)
		}
	})
}
