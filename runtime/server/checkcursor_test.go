package server_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A check gets the text that a caller has put into its own cursor, as its documentation says, and its Truncated reaches
// the caller (CUR-7).
func TestCheckGetsTheCallersCursor(t *testing.T) {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	asked := ""
	check := func(_ context.Context, _ arguments, cursor string) (events.Page[payload], error) {
		asked = cursor
		_, err := strconv.ParseUint(cursor, 10, 64)
		return events.Page[payload]{Cursor: "7", Truncated: cursor != "" && err != nil}, nil
	}
	if err := server.RegisterCheck(es, incidentCreated, check, server.Hooks[arguments, payload]{}); err != nil {
		t.Fatal(err)
	}
	poll := func(cursor string) (r wire.PollResult) {
		params := `{"name":"incident.created","arguments":{"severity":"P1"},"cursor":` + cursor + `}`
		res, err := port.Of(es).Call(t.Context(), port.Request{Method: wire.MethodPoll, Params: json.RawMessage(params)})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(res, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	own, err := wire.ParseCursor(*poll("null").Cursor)
	if err != nil {
		t.Fatal(err)
	}
	const written = "https://evil.example/' OR 1=1"
	own.Upstream = written
	if r := poll(strconv.Quote(own.String())); asked != written || !r.Truncated {
		t.Errorf("the check got %q; truncated %v", asked, r.Truncated)
	}
}
