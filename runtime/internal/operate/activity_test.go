package operate

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// SRV-8: an operator sees what the attempts of the last hour came to, of all, an event type and a host.
func TestSRV8Activity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e := b.event("e", true)
		b.event("silent", true)
		time.Sleep(time.Hour)
		b.at("ann", "/ann")
		e.Emit(incident{ID: "1"})
		settle(2 * time.Minute)
		for _, c := range []struct {
			event, host string
			attempts    int64
		}{{"", "", 1}, {"e", "", 1}, {"", operator.HostOf(origin), 1}, {"silent", "", 0}, {"", "other.test", 0}} {
			a, err := b.Activity(c.event, c.host)
			must(t, err)
			n, sum := len(a.Minutes), int64(0)
			for _, m := range a.Minutes {
				sum += m.Attempts
			}
			if a.Whole.Attempts != c.attempts || sum != c.attempts || a.Whole.Failures != 0 || n != 60 || !a.Whole.At.Equal(a.Minutes[0].At) {
				t.Errorf("%+v: %+v and %d in %d minutes", c, a.Whole, sum, n)
			}
			if got := a.Minutes[n-2].Behind; c.attempts > 0 && (got == nil || *got != 0) || a.Whole.At.Sub(a.Minutes[n-1].At) != -59*time.Minute {
				t.Errorf("%+v: behind by %v, from %v", c, got, a.Whole.At)
			}
		}
		if _, err := b.Activity("e", "a.test"); !errors.Is(err, events.ErrInvalidParams) {
			t.Errorf("an event type and a host: %v", err)
		}
		if _, err := b.Activity("nothing", ""); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("an unknown event type: %v", err)
		}
		o := b.o
		o.Webhooks = nil
		if a, err := New(o).Activity("e", ""); err != nil || a.Minutes != nil {
			t.Errorf("without webhooks: %+v, %v", a, err)
		}
	})
}
