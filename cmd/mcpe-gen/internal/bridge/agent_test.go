package bridge

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
)

// BRIDGE-2, BRIDGE-7: what a result shows is read once that is written, and unread again when it is not: when the agent
// has cancelled the call before or after the answer was made, when the answer is an error, when it cannot be written,
// and when the agent uses an id twice.
func TestBRIDGE7Written(t *testing.T) {
	id := func(n int64) jsonrpc.ID {
		v, err := jsonrpc.MakeID(float64(n))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, test := range map[string]struct {
		cancel string // "", "before" or "after"
		answer *jsonrpc.Response
		fails  bool // to be written
		twice  bool
		read   bool
	}{
		"written":          {answer: &jsonrpc.Response{ID: id(1)}, read: true},
		"an error":         {answer: &jsonrpc.Response{ID: id(1), Error: errors.New("x")}},
		"not written":      {answer: &jsonrpc.Response{ID: id(1)}, fails: true},
		"cancelled before": {answer: &jsonrpc.Response{ID: id(1)}, cancel: "before"},
		"cancelled after":  {answer: &jsonrpc.Response{ID: id(1)}, cancel: "after"},
		"an id twice":      {answer: &jsonrpc.Response{ID: id(1)}, twice: true},
	} {
		t.Run(name, func(t *testing.T) {
			box, err := inbox.Open(t.Context(), filepath.Join(t.TempDir(), "inbox"), inbox.Options{Batches: 9, Bytes: 999, Events: 9})
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			if _, err := box.Add(t.Context(), inbox.Batch{Subscription: "s"}, []inbox.Event{{ID: "e1"}}, false); err != nil {
				t.Fatal(err)
			}
			ours, theirs := mcp.NewInMemoryTransports()
			reader, err := box.Reader("window")
			if err != nil {
				t.Fatal(err)
			}
			turn := make(chan struct{}, 1)
			agent := newAgentTransport(ours)
			conn, err := agent.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			peer, err := theirs.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			receive := func(req *jsonrpc.Request) *mcp.RequestExtra {
				t.Helper()
				sent := make(chan error, 1)
				go func() { sent <- peer.Write(t.Context(), req) }()
				msg, err := conn.Read(t.Context())
				if err := errors.Join(err, <-sent); err != nil {
					t.Fatal(err)
				}
				extra, _ := msg.(*jsonrpc.Request).Extra.(*mcp.RequestExtra)
				return extra
			}
			call := &jsonrpc.Request{ID: id(1), Method: "tools/call", Params: json.RawMessage(`{}`)}
			cancelled := &jsonrpc.Request{Method: "notifications/cancelled", Params: json.RawMessage(`{"requestId":1}`)}
			extra := receive(call)
			if test.twice {
				extra = receive(call)
			}
			if test.cancel == "before" {
				receive(cancelled)
			}
			turn <- struct{}{}
			lease := reader.Take(9, nil)
			agent.onWritten(extra, func() {
				if n, err := reader.Read(1); n != 1 || err != nil {
					t.Error(n, err)
				}
				<-turn
			}, func() { lease.Release(); <-turn })
			if test.cancel == "after" {
				receive(cancelled)
			}
			if test.fails {
				peer.Close()
				conn.Close()
			} else {
				go peer.Read(t.Context())
			}
			if err := conn.Write(t.Context(), test.answer); (err != nil) != test.fails {
				t.Fatal(err)
			}
			if n := reader.Count(nil); (n == 0) != test.read || len(turn) != 0 {
				t.Errorf("%d unread, the turn is held: %d", n, len(turn))
			}
		})
	}
}
