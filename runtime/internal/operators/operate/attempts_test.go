package operate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// SRV-8: attempts tell what was sent and what came back, and one occurrence is sent again under its webhook-id.
func TestSRV8Attempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		ctx := t.Context()
		ann, bob := b.subscribe("ann"), b.subscribe("bob")
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		r.on(nil)
		settle(time.Minute)
		got, err := b.Attempts(ctx, ann)
		if err != nil || len(got) != 2 || got[0].EventID != "1" || got[0].Number != 2 || got[0].Category != "" || got[1].Category == "" {
			t.Fatalf("%+v %v", got, err)
		}
		before, err := b.Get(ctx, ann)
		must(t, err)
		r.all()
		made, err := b.SendAgain(ctx, ann, "1", time.Time{})
		if err != nil || made.Number != 3 || made.Status/100 != 2 || made.Category != "" || made.AskedBy == "" {
			t.Fatalf("%+v %v", made, err)
		}
		if ids := r.webhookIDs(); !slices.Equal(ids, []string{"1"}) {
			t.Errorf("its webhook-id is %q", ids)
		}
		r.want(t, "again", "1")
		if after, err := b.Get(ctx, ann); err != nil || *after.Cursor != *before.Cursor {
			t.Errorf("the watermark moved: %+v %v", after, err)
		}
		settle(time.Second)
		if got, err := b.Attempts(ctx, ann); err != nil || len(got) != 3 || got[0].Number != 3 {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := b.Attempts(ctx, bob); err != nil || len(got) != 2 {
			t.Errorf("of the other one: %+v %v", got, err)
		}
		missing(t, "an unknown occurrence", errorOf(b.SendAgain(ctx, ann, "2", time.Time{})))
		missing(t, "an unknown subscription", errorOf(b.SendAgain(ctx, "sub_x", "1", time.Time{})))
		missing(t, "attempts of an unknown subscription", errorOf(b.Attempts(ctx, "sub_x")))
		must(t, b.End(ctx, ann, nil))
		settle(time.Second)
		r.all()
		missing(t, "after its end", errorOf(b.SendAgain(ctx, ann, "1", time.Time{})))
		missing(t, "attempts after its end", errorOf(b.Attempts(ctx, ann)))
		r.want(t, "nothing is sent for what is not there")
	})
}

// SRV-8: nothing is kept where none are wanted, and nothing can be sent again.
func TestSRV8AttemptsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r, kept: -1})
		e := b.event("e")
		id := b.subscribe("ann")
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		if got, err := b.Attempts(t.Context(), id); err != nil || len(got) != 0 {
			t.Errorf("%+v %v", got, err)
		}
		missing(t, "again", errorOf(b.SendAgain(t.Context(), id, "1", time.Time{})))
		r.want(t, "once", "1")
	})
}

// SRV-8: an attempt by hand takes the retry that is due (E12), two at a time are refused, and an occurrence that the
// log has no more is not sent.
func TestSRV8SendAgainBesideARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e := b.event("e", server.WithRetention(server.Retention{MaxCount: 1}))
		id := b.subscribe("ann")
		release := make(chan struct{})
		r.on(func(w http.ResponseWriter) {
			<-release
			refuse(w)
		})
		e.Emit(incident{ID: "1"})
		release <- struct{}{}
		settle(time.Second)
		refused := make(chan error)
		go func() {
			_, err := b.SendAgain(t.Context(), id, "1", time.Time{})
			refused <- err
		}()
		settle(time.Millisecond)
		if _, err := b.SendAgain(t.Context(), id, "1", time.Time{}); !errors.Is(err, operator.ErrUnderWay) {
			t.Errorf("beside another one: %v", err)
		}
		close(release)
		must(t, <-refused)
		r.on(nil)
		if made, err := b.SendAgain(t.Context(), id, "1", time.Time{}); err != nil || made.Number != 3 || made.Category != "" {
			t.Fatalf("%+v, %v", made, err)
		}
		settle(15 * time.Minute)
		got, err := b.Attempts(t.Context(), id)
		if n := len(r.all()); err != nil || len(got) != 3 || n != 3 {
			t.Fatalf("%d requests, %+v, %v", n, got, err)
		}
		for i, m := range got {
			if m.Number != 3-i || m.AskedBy != "" != (m.Number > 1) {
				t.Errorf("%+v", m)
			}
		}
		e.Emit(incident{ID: "2"})
		settle(time.Minute)
		r.want(t, "the next one", "2")
		if _, err := b.SendAgain(t.Context(), id, "1", time.Time{}); err == nil || !strings.Contains(err.Error(), "no longer in the log") {
			t.Errorf("an evicted one: %v", err)
		}
	})
}

// SRV-8: what the store says of attempts is told.
func TestSRV8AttemptsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFailingStore()
		b := newBed(t, setup{store: st, r: receive(t)})
		b.event("e")
		id := b.subscribe("ann")
		st.failAttempts(errTest)
		for _, err := range []error{errorOf(b.Attempts(t.Context(), id)), errorOf(b.SendAgain(t.Context(), id, "1", time.Time{}))} {
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "reading the attempts of subscription "+id+": ") {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.SendAgain(ctx, id, "1", time.Time{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who has gone: %v", err)
		}
	})
}
