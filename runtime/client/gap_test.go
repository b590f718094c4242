package client

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// CLI-2: a gap is an error of the iterator that does not end it, so that a program which looks at err
// alone never takes the zero payload of a gap for an event. subscription.gapItem and
// Subscription.typed carry it.
func TestCLI2GapIsAnError(t *testing.T) {
	type payload struct {
		N string `json:"n"`
	}
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.truncated("c1")
			st.event("e1", "c2")
			return hold(st)
		}
		cl := connect(t, f, c, Options{})
		typ := events.Type[struct{}, payload]{Info: events.Info{Name: "tick"}}
		s, err := Subscribe(t.Context(), cl, typ, struct{}{}, WithCursor("c0"))
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for ev, err := range s.Events() {
			if err != nil {
				var gap *GapError
				if !errors.As(err, &gap) || gap.Event != "tick" || gap.Cursor != "c1" || Final(err) {
					t.Fatalf("got %#v", err)
				}
				if !strings.Contains(err.Error(), "tick: gap") {
					t.Error(err)
				}
				seen = append(seen, "gap")
				continue
			}
			if seen = append(seen, ev.Data.N); ev.Data.N == "e1" {
				break
			}
		}
		if got := strings.Join(seen, " "); got != "gap e1" {
			t.Errorf("got %q", got)
		}
		if s.Subscription().Status().Gaps != 1 {
			t.Errorf("%d gaps", s.Subscription().Status().Gaps)
		}
	})
}
