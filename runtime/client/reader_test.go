package client

import (
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/racetest"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

type rawEvent = *events.Event[json.RawMessage, json.RawMessage]
type rawSub = TypedSubscription[json.RawMessage, json.RawMessage]

func subscribe(t *testing.T, c *Client, o ...SubscribeOption) *rawSub {
	t.Helper()
	s, err := Subscribe(t.Context(), c, Dynamic("tick"), nil, o...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A reader takes items from an iteration and writes each as a word: an eventId, "gap:CURSOR" or
// "error".
type reader struct {
	t    *testing.T
	next func() (rawEvent, error, bool)
	stop func()
	err  error
}

func read(t *testing.T, s *rawSub) *reader {
	next, stop := iter.Pull2(s.Events())
	r := &reader{t: t, next: next, stop: stop}
	t.Cleanup(stop)
	return r
}

func (r *reader) word() string {
	ev, err, ok := r.next()
	var gap *GapError
	switch {
	case !ok:
		return "end"
	case errors.As(err, &gap):
		return "gap:" + gap.Cursor
	case err != nil:
		r.err = err
		return "error"
	}
	return ev.ID
}

func (r *reader) want(words ...string) {
	r.t.Helper()
	for _, w := range words {
		if got := r.word(); got != w {
			r.t.Fatalf("got %q (%v), want %q", got, r.err, w)
		}
	}
}

// eachCarrier runs a test in a bubble for every carrier and era; in short tests and under the race detector for one, which
// changes with the commit.
func eachCarrier(t *testing.T, test func(t *testing.T, c carrier)) {
	some := carriers
	if racetest.Enabled || testing.Short() {
		some = sampletest.Draw(t, carriers, 1)
	}
	for _, c := range some {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, c) })
		})
	}
}

// cursors returns the cursors with which streams were opened.
func (f *fake) cursors() []string {
	var all []string
	for _, r := range f.sent(wire.MethodStream) {
		var p wire.StreamParams
		json.Unmarshal(r.Params, &p)
		if p.Cursor == nil {
			all = append(all, "null")
		} else {
			all = append(all, *p.Cursor)
		}
	}
	return all
}
