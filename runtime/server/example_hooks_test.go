package server_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Hooks decide who may subscribe, which occurrences match, and what a payload contains.
func ExamplePointerHooks() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(ctx)
	created, err := server.Register(es, incidentCreated, server.Hooks[arguments, payload]{
		Authorize: func(_ context.Context, principal string, a *arguments) error {
			if a.Severity == "P1" && principal != "oncall" {
				return events.Forbidden("only the on-call engineer may watch P1")
			}
			return nil
		},
		Match: func(_ context.Context, p *payload, _ *arguments) bool {
			return p.IncidentID != "INC-TEST"
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	_, _, err = pollAs(ctx, es, "guest", "null")
	fmt.Println("guest:", err)
	cursor, _, err := pollAs(ctx, es, "oncall", "null")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"INC-TEST", "INC-1"} {
		if err := created.Emit(ctx, payload{IncidentID: id, Severity: "P1"}, events.WithID("evt_"+id)); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, ids, err := pollAs(ctx, es, "oncall", cursor)
	fmt.Println("oncall:", ids, err)
	// Output:
	// guest: Forbidden
	// oncall: [evt_INC-1] <nil>
}
