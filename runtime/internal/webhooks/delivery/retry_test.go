package delivery

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// offsets are when attempts came, since start.
func offsets(start time.Time, gots []got) []time.Duration {
	var ds []time.Duration
	for _, g := range gots {
		ds = append(ds, g.at.Sub(start))
	}
	return ds
}

// TestHOOK3Schedule delivers on the schedule exactly, each time with a new timestamp and signature
// under one webhook-id, and abandons afterwards.
func TestHOOK3Schedule(t *testing.T) {
	seconds := func(s ...float64) (ds []time.Duration) {
		for _, x := range s {
			ds = append(ds, time.Duration(x*float64(time.Second)))
		}
		return ds
	}
	retryAfter := func(v string) func(got) (int, http.Header) {
		return func(got) (int, http.Header) { return 503, http.Header{"Retry-After": {v}} }
	}
	status := func(s int) func(got) (int, http.Header) {
		return func(got) (int, http.Header) { return s, nil }
	}
	for _, c := range []struct {
		name   string
		o      Options
		answer func(got) (int, http.Header)
		want   []time.Duration
	}{
		{"default", Options{}, status(500), seconds(0, 5, 35, 155, 755)},
		{"3xx", Options{}, status(302), seconds(0, 5, 35, 155, 755)},
		{"4xx", Options{}, status(404), seconds(0, 5, 35, 155, 755)},
		{"410 is final", Options{}, status(410), seconds(0)},
		{"413 is final", Options{}, status(413), seconds(0)},
		{"no two in one second", Options{Schedule: seconds(0, 0, 0.2, 0.3)}, status(500), seconds(0, 1, 2, 3)},
		{"0s,1s,2s", Options{Schedule: seconds(0, 1, 2)}, status(500), seconds(0, 1, 3)},
		{"a wait before the first", Options{Schedule: seconds(2, 1)}, status(500), seconds(2, 3)},
		{"the window ends it", Options{Schedule: seconds(0, 5, 5, 5, 5), RetryWindow: 12 * time.Second}, status(500), seconds(0, 5, 10, 12)},
		{"Retry-After", Options{}, retryAfter("60"), seconds(0, 60, 120, 240, 840)},
		{"Retry-After below the schedule", Options{}, retryAfter("1"), seconds(0, 5, 35, 155, 755)},
		{"Retry-After beyond the window", Options{}, retryAfter("100000"), seconds(0, 900)},
		{"absurd Retry-After", Options{}, retryAfter("99999999999999999999999"), seconds(0, 900)},
		{"unusable Retry-After", Options{}, retryAfter("soon"), seconds(0, 5, 35, 155, 755)},
		{"negative Retry-After", Options{}, retryAfter("-5"), seconds(0, 5, 35, 155, 755)},
		{"Retry-After as a date", Options{Schedule: seconds(0, 5)}, func(g got) (int, http.Header) {
			return 503, http.Header{"Retry-After": {g.at.Add(30 * time.Second).UTC().Format(http.TimeFormat)}}
		}, seconds(0, 30)},
		{"recovery", Options{}, func(g got) (int, http.Header) {
			if g.attempt < 3 {
				return 500, nil
			}
			return 200, nil
		}, seconds(0, 5, 35)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					status, h := c.answer(g)
					return status, h, nil
				}}
				c.o.Sender = s
				e := newEngine(t, c.o)
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				h, _ := top.join(t, e, record("sub_1"), false)
				synctest.Wait()
				start := time.Now()
				top.emit(t, "evt_1")
				time.Sleep(30 * time.Minute)
				gots := s.all()
				if ds := offsets(start, gots); !slices.Equal(ds, c.want) {
					t.Errorf("attempts at %v, want %v", ds, c.want)
				}
				stamps := map[string]bool{}
				for _, g := range gots {
					stamp := g.header.Get(wire.HeaderWebhookTimestamp)
					if g.id != "evt_1" || stamps[stamp] || stamp != strconv.FormatInt(g.at.Unix(), 10) {
						t.Errorf("webhook-id %s, webhook-timestamp %s", g.id, stamp)
					}
					stamps[stamp] = true
				}
				if c := *h.Watermark(); c != "c1" {
					t.Errorf("watermark %s: neither acknowledged nor abandoned", c)
				}
			})
		})
	}
}

// TestHOOK3Jitter keeps waits within 20 % and out of the same second.
func TestHOOK3Jitter(t *testing.T) {
	o := Options{Sender: &script{}}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	varied := false
	for range 1000 {
		d := o.spread(time.Minute)
		if d < 48*time.Second || d > 72*time.Second {
			t.Fatal(d)
		}
		varied = varied || d != time.Minute
	}
	if !varied || o.spread(0) != 0 {
		t.Error("no jitter, or jitter on nothing")
	}
}

// TestHOOK3Independent retries events independently: one that fails holds up no other, except in
// ordered mode.
func TestHOOK3Independent(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(strconv.FormatBool(ordered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					if g.id == "evt_1" && g.attempt == 1 {
						return 500, nil, nil
					}
					return 200, nil, nil
				}}
				o := Options{Sender: s}
				if ordered {
					o.PerSubscription = 1
				}
				e := newEngine(t, o)
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				top.join(t, e, record("sub_1"), false)
				for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
					top.emit(t, id)
				}
				time.Sleep(time.Minute)
				var order, cursors []string
				for _, g := range s.all() {
					order, cursors = append(order, g.id), append(cursors, g.cursor)
				}
				if ordered {
					if want := []string{"evt_1", "evt_1", "evt_2", "evt_3"}; !slices.Equal(order, want) {
						t.Errorf("%v, want %v", order, want)
					}
					if want := []string{"c1", "c1", "c2", "c3"}; !slices.Equal(cursors, want) {
						t.Errorf("%v, want %v", cursors, want)
					}
					return
				}
				if len(order) != 4 || order[3] != "evt_1" || cursors[3] != "c1" {
					t.Errorf("%v with cursors %v", order, cursors)
				}
				for i, id := range order[:3] {
					if id != "evt_1" && cursors[i] != "c0" {
						t.Errorf("%s carries %s while evt_1 is not settled", id, cursors[i])
					}
				}
			})
		})
	}
}

// TestHOOK3Categories has every way to fail end in its category and in another attempt.
func TestHOOK3Categories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status int
		var fail error
		s := &script{answer: func(context.Context, got) (int, http.Header, error) { return status, nil, fail }}
		e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0, time.Second}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, _ := top.join(t, e, record("sub_1"), false)
		for _, c := range []struct {
			status int
			err    error
			want   wire.Category
		}{
			{301, nil, wire.HTTP4xx}, {400, nil, wire.HTTP4xx}, {429, nil, wire.HTTP4xx}, {500, nil, wire.HTTP5xx}, {599, nil, wire.HTTP5xx},
			{0, http.ErrServerClosed, wire.ConnectionRefused}, {0, &netguard.URLError{}, wire.ConnectionRefused}, {410, nil, wire.HTTP4xx},
		} {
			status, fail = c.status, c.err
			before := len(s.all())
			top.emit(t, "evt_"+strconv.Itoa(before))
			time.Sleep(time.Minute)
			if got := h.Status(); got.LastError != c.want {
				t.Errorf("%d, %v: %s, want %s", c.status, c.err, got.LastError, c.want)
			}
			if n, final := len(s.all())-before, c.status == 410; n != 2 && !final || final && n != 1 {
				t.Errorf("%d, %v: %d attempts", c.status, c.err, n)
			}
		}
	})
}

// TestRetryHeaders has attempts after the first say which one they are and why, where that is wanted.
func TestRetryHeaders(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			statuses := []int{500, 404, 0, 200, 200}
			s := &script{answer: func(context.Context, got) (status int, h http.Header, err error) {
				if status, statuses = statuses[0], statuses[1:]; status == 0 {
					err = &netguard.Error{Category: wire.Proxy}
				}
				return status, nil, err
			}}
			e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0, time.Second, time.Second, time.Second}, RetryHeaders: wanted})
			defer shutdown(t, e)
			top := newTopic(store.LogOptions{})
			top.join(t, e, record("sub_1"), false)
			for _, id := range []string{"evt_1", "evt_2"} {
				top.emit(t, id)
				time.Sleep(time.Minute)
			}
			var said []string
			for _, g := range s.all() {
				said = append(said, g.header.Get(wire.HeaderRetryNumber)+g.header.Get(wire.HeaderRetryReason))
			}
			want := []string{"", "1http_5xx", "2http_4xx", "3connection_refused", ""}
			if !wanted {
				want = make([]string, 5)
			}
			if !slices.Equal(said, want) {
				t.Errorf("wanted %v: %q, want %q", wanted, said, want)
			}
		})
	}
}
