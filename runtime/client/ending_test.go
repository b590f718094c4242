package client

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// SRV-6, CLI-4: a server at its end refuses calls. That is no failure for the application to hear of: the
// client goes on as after a session that was lost, also where the connection stays open.
func TestServerAtItsEnd(t *testing.T) {
	ending := func(f *fake) *jsonrpc.Error { return f.err(wire.Internal, `{"reason":"shutting_down"}`) }
	t.Run("poll", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			var polls atomic.Int32
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
				switch polls.Add(1) {
				case 1:
					return polled("c0", false, 1000, "e1"), nil
				case 2, 3:
					return nil, ending(f)
				}
				return polled("c1", false, 1000, "e2"), nil
			}
			r := read(t, subscribe(t, connect(t, f, c, Options{}), WithMode("poll")))
			r.want("e1", "e2")
			endings(t, f, c, 2)
		})
	})
	t.Run("push", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			var streams atomic.Int32
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				switch streams.Add(1) {
				case 1:
					st.active("c0")
					st.event("e1", "c1")
					return json.RawMessage(`{}`), nil
				case 2, 3:
					return nil, ending(f)
				}
				st.active("c1")
				st.event("e2", "c2")
				return hold(st)
			}
			r := read(t, subscribe(t, connect(t, f, c, Options{})))
			r.want("e1", "e2")
			endings(t, f, c, 2)
		})
	})
}

// endings checks that each refusal cost a session, where the server's connection ends with it.
func endings(t *testing.T, f *fake, c carrier, refusals int) {
	t.Helper()
	method := "server/discover"
	if c.legacy {
		method = "initialize"
	}
	want := 1
	if !c.http {
		want += refusals
	}
	if n := len(f.sent(method)); n != want {
		t.Errorf("%d sessions, want %d", n, want)
	}
}
