package client

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// CLI-1: push before poll; one may be forced; modes that nobody knows are ignored; the error names
// both sets.
func TestCLI1Modes(t *testing.T) {
	for _, tt := range []struct {
		offered []string
		forced  string
		want    string
		refused []string // supported in the error
	}{
		{[]string{"poll", "push"}, "", "push", nil},
		{[]string{"poll"}, "", "poll", nil},
		{[]string{"webhook", "poll"}, "", "poll", nil},
		{[]string{"carrier-pigeon", "push"}, "auto", "push", nil},
		{[]string{"push", "poll"}, "poll", "poll", nil},
		{[]string{"poll"}, "push", "", []string{"push"}},
		{[]string{"webhook"}, "", "", []string{"push", "poll"}},
		{[]string{"webhook"}, "webhook", "", []string{"push", "poll"}},
		{[]string{"poll"}, "stream", "", []string{"push", "poll"}},
		{nil, "", "", []string{"push", "poll"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(true)
			f.list = func() []wire.Descriptor { return []wire.Descriptor{descriptor("tick", tt.offered...)} }
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c", false, 0), nil }
			cl := connect(t, f, carriers[0], Options{})
			s, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil, WithMode(tt.forced))
			var none *NoCompatibleDeliveryModeError
			switch {
			case err == nil:
				if s.Subscription().Mode() != tt.want {
					t.Errorf("%v: mode %s", tt, s.Subscription().Mode())
				}
			case !errors.As(err, &none) || tt.want != "" || none.Event != "tick" ||
				!slices.Equal(none.Offered, tt.offered) || !slices.Equal(none.Supported, tt.refused):
				t.Errorf("%v: %v", tt, err)
			}
		})
	}
}

// A type that the server does not list is NotFound, and nothing else is asked.
func TestUnlisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		cl := connect(t, f, carriers[0], Options{})
		if _, err := Subscribe(t.Context(), cl, Dynamic("tock"), nil); !errors.Is(err, events.ErrNotFound) {
			t.Error(err)
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), json.RawMessage(`[]`)); err == nil {
			t.Error("arguments that are no object")
		}
	})
}

// A forced mode that the server refuses is the server's error; an unforced one gives way to the
// next; and a type that was added since the list was read is found.
func TestCLI1Refused(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			return nil, f.err(wire.Unsupported, `{"feature":"deliveryMode","value":"push"}`)
		}
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c", false, 1e6), nil }
		cl := connect(t, f, c, Options{})
		if s := subscribe(t, cl); s.Subscription().Mode() != wire.ModePoll {
			t.Errorf("mode %s", s.Subscription().Mode())
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil, WithMode("push")); !errors.Is(err, events.ErrUnsupported) {
			t.Error(err)
		}
		f.list = func() []wire.Descriptor { return []wire.Descriptor{descriptor("new", "poll")} }
		if _, err := Subscribe(t.Context(), cl, Dynamic("new"), nil); err != nil {
			t.Error(err)
		}
	})
}
