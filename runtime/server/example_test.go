package server_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

type arguments struct {
	Severity string `json:"severity,omitzero"`
}

type payload struct {
	IncidentID string `json:"incidentId"`
	Severity   string `json:"severity"`
}

// Generated code holds such a description for each event type of an event file.
var incidentCreated = events.Type[arguments, payload]{Info: events.Info{
	Name:          "incident.created",
	Description:   "Fires when a new incident is created.",
	InputSchema:   json.RawMessage(`{"type":"object","properties":{"severity":{"type":"string"}},"additionalProperties":false}`),
	PayloadSchema: json.RawMessage(`{"type":"object","properties":{"incidentId":{"type":"string"},"severity":{"type":"string"}},"required":["incidentId","severity"]}`),
	Match:         []events.MatchRule{{Argument: "severity", Path: "/severity", Op: events.MatchEqual}},
}}

// A server registers its event types and emits; a poll sees what matches its arguments.
func Example() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(ctx)
	created, err := server.Register(es, incidentCreated, server.Hooks[arguments, payload]{})
	if err != nil {
		fmt.Println(err)
		return
	}

	cursor, _ := pollOnce(ctx, es, "null")
	created.Emit(ctx, payload{IncidentID: "INC-1", Severity: "P1"}, events.WithID("evt_1"))
	created.Emit(ctx, payload{IncidentID: "INC-2", Severity: "P3"}, events.WithID("evt_2"))
	_, ids := pollOnce(ctx, es, cursor)
	fmt.Println(ids)
	// Output: [evt_1]
}
