package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// SRV-1: with both sources an eventId that comes both ways is delivered once, by poll and by push,
// whatever comes first; both parts of the cursor move.
func TestBoth(t *testing.T) {
	for _, checkFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			m := &mailbox{}
			e, err := RegisterBoth(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			emit(t, e, incident{ID: "history"})
			c := pollFrom(t, s, nil, "").Cursor
			l := stream(t, s, `{"name":"e"}`)
			synctest.Wait()
			polled := []string{}
			drain := func() {
				for {
					r := pollFrom(t, s, c, `,"maxEvents":1`)
					polled, c = append(polled, r.ids()...), r.Cursor
					if !*r.HasMore && len(r.Events) == 0 {
						return
					}
				}
			}
			for i := range 4 {
				both := incident{ID: fmt.Sprint("both", i)}
				if checkFirst {
					m.put("", mail(both.ID))
					time.Sleep(1100 * time.Millisecond)
					drain()
					emit(t, e, both)
				} else {
					emit(t, e, both)
					drain()
					m.put("", mail(both.ID))
					time.Sleep(1100 * time.Millisecond)
				}
				m.put("", mail(fmt.Sprint("check", i)))
				emit(t, e, incident{ID: fmt.Sprint("emit", i)})
				time.Sleep(1100 * time.Millisecond)
				drain()
			}
			synctest.Wait()
			for what, got := range map[string][]string{"polled": polled, "streamed": l.ids()} {
				sorted := slices.Sorted(slices.Values(got))
				wantStrings(t, fmt.Sprint(what, " check first ", checkFirst), sorted, "both0", "both1", "both2", "both3",
					"check0", "check1", "check2", "check3", "emit0", "emit1", "emit2", "emit3")
			}
			// Any cursor of the stream resumes without loss.
			for i, f := range l.frames() {
				if f.params.Cursor == nil {
					t.Fatalf("no cursor in %s", f.raw)
				}
				again := stream(t, s, fmt.Sprintf(`{"name":"e","cursor":%q}`, *f.params.Cursor))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				rest := map[string]bool{}
				for _, id := range again.ids() {
					rest[id] = true
				}
				for _, g := range l.frames()[i+1:] {
					if id := g.params.EventID; id != "" && !rest[id] {
						t.Errorf("after frame %d %s is missing", i, id)
					}
				}
				again.cancel()
				<-again.done
			}
		})
	}
}
