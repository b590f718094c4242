package server

import (
	"fmt"
	"sync"
	"testing"
)

// EVOL-3, trap 3: additive changes in place while events flow end nothing, lose nothing and double
// nothing, for streams and for held polls, whatever they race with.
func TestChangeWhileRunning(t *testing.T) {
	s := newServer(t, Options{})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	var streams []*live
	for range 4 {
		streams = append(streams, stream(t, s, `{"name":"e","arguments":{"severity":"P1"}}`))
	}
	const total = 300
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range total {
			emit(t, e, incident{ID: fmt.Sprint("x", i), Severity: "P1"})
			emit(t, e, incident{ID: fmt.Sprint("no", i), Severity: "P2"})
		}
	})
	wg.Go(func() {
		for i := range 40 {
			typ := incidentType("e")
			typ.Description = fmt.Sprint(i)
			if i%2 == 0 {
				typ.Match = append(filterRules[3:5:5], filterRules[:3]...)
			}
			if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
				t.Error(err)
			}
		}
	})
	c := pollFrom(t, s, nil, "").Cursor

	for last := ""; last != fmt.Sprint("x", total-1); {
		r := pollFrom(t, s, c, `,"arguments":{"severity":"P1"},"timeoutMs":500`)
		if ids := r.ids(); len(ids) > 0 {
			last = ids[len(ids)-1]
		} else {
			break // it came too late for all of them
		}
		c = r.Cursor
	}
	wg.Wait()
	for _, l := range streams {
		waitFor(t, func() bool { return len(l.ids()) >= total })
		for i, id := range l.ids() {
			if id != fmt.Sprint("x", i) {
				t.Fatalf("%d is %s", i, id)
			}
		}
	}
}
