package operate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// E6, SRV-8: what was given up since a time is listed by filter, in pages of any size, the oldest of each subscription
// first, and is sent again once: by whom has seen the failure and before anybody else has.
func TestSRV8Abandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		ctx := operator.WithActor(t.Context(), "olga")
		ann, bob := b.at("ann", "/a"), b.at("bob", "/b")
		must(t, b.Pause(ctx, bob))
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		between := time.Now()
		settle(time.Second)
		e.Emit(incident{ID: "2"})
		settle(20 * time.Minute) // both are given up
		e.Emit(incident{ID: "3"})
		settle(time.Second) // this one is retried
		none := time.Time{}
		for limit := 1; limit < 4; limit++ {
			if _, names := b.abandoned(operator.Filter{}, between, none, limit); !slices.Equal(names, []string{"ann 1", "ann 2"}) {
				t.Errorf("in pages of %d: %q", limit, names)
			}
		}
		for _, c := range []struct {
			f            operator.Filter
			since, until time.Time
			want         int
		}{{operator.Filter{Principal: "bob"}, between, none, 0}, {operator.Filter{Host: "Receiver.test", URL: "/a"}, none, none, 2}, {operator.Filter{}, time.Now(), none, 0},
			{operator.Filter{}, none, between, 0}} {
			if _, names := b.abandoned(c.f, c.since, c.until, 10); len(names) != c.want {
				t.Errorf("%+v: %q", c, names)
			}
		}
		if after, next, err := b.Abandoned(ctx, operator.Filter{}, between, none, ann, 10); err != nil || len(after) != 0 || next != "" {
			t.Errorf("after the subscription: %+v %q %v", after, next, err)
		}
		for _, bad := range []string{"/", ann + "/", ann + "/x/YQ", ann + "/1/", ann + "/1/!", "/1/YQ"} {
			if _, _, err := b.Abandoned(ctx, operator.Filter{}, between, none, bad, 10); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("after %q: %v", bad, err)
			}
		}
		if _, _, err := b.Abandoned(ctx, operator.Filter{}, between, between, "", 10); !errors.Is(err, events.ErrInvalidParams) {
			t.Errorf("an end that is not after the beginning: %v", err)
		}

		future := time.Now().Add(time.Minute)
		if _, _, err := b.Abandoned(ctx, operator.Filter{}, future, none, "", 10); err == nil || !strings.Contains(err.Error(), "is in the future") {
			t.Errorf("a beginning in the future: %v", err)
		}

		// What fails once more is given up later, so that a loop with an end passes over it.
		until := time.Now()
		settle(time.Second)
		first, _ := b.abandoned(operator.Filter{}, between, until, 10)
		r.all()
		for _, f := range first {
			if made, err := b.SendAgain(ctx, f.Subscription, f.Attempt.EventID, f.Attempt.At); err != nil || made.Category == "" {
				t.Errorf("while it refuses: %+v %v", made, err)
			}
		}
		r.want(t, "refused", "1", "2")
		r.on(nil)
		if _, names := b.abandoned(operator.Filter{}, between, until, 10); len(names) != 0 {
			t.Errorf("before the end: %q", names)
		}
		second, names := b.abandoned(operator.Filter{}, between, none, 1)
		if !slices.Equal(names, []string{"ann 1", "ann 2"}) {
			t.Errorf("given up once more: %q", names)
		}
		settle(time.Second)                                                  // attempts are told apart by their times
		for _, seen := range [][]operator.Abandoned{first, second, second} { // others have made another attempt since; nobody has; this loop has
			for _, f := range seen {
				_, err := b.SendAgain(ctx, f.Subscription, f.Attempt.EventID, f.Attempt.At)
				if err != nil && !errors.Is(err, operator.ErrUnderWay) {
					t.Error(err)
				}
			}
		}
		r.want(t, "sent again once, the oldest first", "1", "2")
		if _, names := b.abandoned(operator.Filter{}, between, none, 10); len(names) != 0 {
			t.Errorf("afterwards: %q", names)
		}
		settle(time.Minute)
		r.want(t, "the retry", "3")
		if made, err := b.Attempts(ctx, ann); err != nil || !slices.ContainsFunc(made, func(m operator.Attempt) bool { return m.EventID == "2" && m.AskedBy == "olga" && m.Category == "" }) {
			t.Errorf("%+v %v", made, err)
		}
		if got := b.log(); strings.Contains(got, "ERROR") {
			t.Errorf("logged: %s", got)
		}
	})
}

// SRV-8: a list of what was given up goes on where it stopped, in the middle of a subscription and after one that has
// ended.
func TestSRV8AbandonedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		for i := range 3 {
			b.at(fmt.Sprint("p", i), fmt.Sprint("/", i))
		}
		r.on(refuse)
		for i := range 3 {
			e.Emit(incident{ID: fmt.Sprint(i + 1)})
		}
		settle(20 * time.Minute)
		all, _ := b.abandoned(operator.Filter{}, time.Time{}, time.Time{}, 100)
		if len(all) != 9 {
			t.Fatalf("%+v", all)
		}
		some, next, err := b.Abandoned(t.Context(), operator.Filter{}, time.Time{}, time.Time{}, "", 2)
		if err != nil || len(some) != 2 || next == "" {
			t.Fatalf("%+v %q %v", some, next, err)
		}
		rest, end, err := b.Abandoned(t.Context(), operator.Filter{}, time.Time{}, time.Time{}, next, 7)
		if err != nil || len(rest) != 7 || end != "" || rest[0].Attempt.EventID != "3" || rest[0].Subscription != all[0].Subscription {
			t.Errorf("%+v %q %v", rest, end, err)
		}
		must(t, b.End(t.Context(), all[0].Subscription, nil))
		settle(time.Minute)
		if rest, end, err := b.Abandoned(t.Context(), operator.Filter{}, time.Time{}, time.Time{}, next, 100); err != nil || len(rest) != 6 || end != "" {
			t.Errorf("after the end of the one where it stopped: %+v %q %v", rest, end, err)
		}
	})
}
