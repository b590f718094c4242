package incidents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsclient"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// The two sides of an event type: a server registers it with hooks and emits, a client subscribes
// with arguments and receives what matches them.
func Example() {
	ctx := context.Background()

	// The server.
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	created, err := incidentsserver.RegisterIncidentCreated(es, incidentsserver.IncidentCreatedHooks{
		Transform: func(_ context.Context, p *incidents.IncidentCreatedPayload, a *incidents.IncidentCreatedArguments) error {
			if a.RedactPIIOrDefault() {
				p.Reporter = nil
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mine, theirs := mcp.NewInMemoryTransports()
	ran := make(chan error, 1)
	go func() { ran <- transport.Run(ctx, es, theirs) }()

	// The client.
	c, err := client.Connect(ctx, mine, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	sub, err := incidentsclient.SubscribeIncidentCreated(ctx, c, incidents.IncidentCreatedArguments{
		Severity: incidents.SeverityP1, Service: new("check*"), RedactPII: new(true),
	})
	if err != nil {
		log.Fatal(err)
	}

	// Two things happen; the subscription asked for the second.
	at := events.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	for _, p := range []incidents.IncidentCreatedPayload{
		{IncidentID: "INC-1", Severity: incidents.SeverityP1, Service: new("search"), OpenedAt: at},
		{IncidentID: "INC-2", Severity: incidents.SeverityP1, Service: new("checkout"), OpenedAt: at, Reporter: &incidents.Person{ID: "u1", Name: new("Ann")}},
	} {
		if err := created.Emit(ctx, p, events.WithID("evt_"+p.IncidentID)); err != nil {
			log.Fatal(err)
		}
	}
	for ev, err := range sub.Events() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.ID, ev.Data.IncidentID, *ev.Data.Service, ev.Data.OpenedAt, "reporter:", ev.Data.Reporter)
		break
	}

	if err := es.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-ran)
	// Output:
	// evt_INC-2 INC-2 checkout 2026-11-20T08:00:00Z reporter: <nil>
	// <nil>
}

// A union is a struct around a sealed interface; the tag is read and written for you, and an object
// with a tag that the schema does not list is kept.
func ExampleUpdate() {
	for _, text := range []string{
		`{"kind":"StatusChanged","from":"open","to":"mitigated"}`,
		`{"kind":"Reassigned","assignee":null}`,
		`{"kind":"Merged","into":"INC-7"}`,
	} {
		var u incidents.Update
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			log.Fatal(err)
		}
		switch v := u.Value.(type) {
		case *incidents.StatusChanged:
			fmt.Println("from", v.From, "to", v.To)
		case *incidents.Reassigned:
			fmt.Println("assigned to", v.Assignee)
		case *incidents.UpdateUnknown:
			fmt.Println("unknown:", string(v.Raw))
		}
	}
	b, err := json.Marshal(incidents.Update{Value: &incidents.NoteAdded{NoteID: "n1"}})
	fmt.Println(string(b), err)
	// Output:
	// from open to mitigated
	// assigned to <nil>
	// unknown: {"kind":"Merged","into":"INC-7"}
	// {"kind":"NoteAdded","noteId":"n1"} <nil>
}

// An enum keeps values that the schema does not list.
func ExampleSeverity_Known() {
	for _, text := range []string{`"P1"`, `"P9"`} {
		var s incidents.Severity
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			log.Fatal(err)
		}
		fmt.Println(s, s == incidents.SeverityP1, s.Known())
	}
	// Output:
	// P1 true true
	// P9 false false
}

// Read tools let a client that knows no events use the event types: one tool each.
func ExampleReadTools() {
	ctx := context.Background()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		log.Fatal(err)
	}
	created, err := incidentsserver.RegisterIncidentCreated(es, incidentsserver.IncidentCreatedHooks{})
	if err != nil {
		log.Fatal(err)
	}
	if err := es.AddReadTools(readtool.Select(incidentsserver.ReadTools(), "incident.created")...); err != nil {
		log.Fatal(err)
	}
	mine, theirs := mcp.NewInMemoryTransports()
	ran := make(chan error, 1)
	go func() { ran <- transport.Run(ctx, es, theirs) }()
	ss, err := mcp.NewClient(&mcp.Implementation{Name: "any", Version: "1"}, nil).Connect(ctx, mine, nil)
	if err != nil {
		log.Fatal(err)
	}

	var result struct {
		Events []struct{ EventID string }
		Cursor string
	}
	call := func(args map[string]any) {
		res, err := ss.CallTool(ctx, &mcp.CallToolParams{Name: "read_incident_created", Arguments: args})
		if err != nil {
			log.Fatal(err)
		}
		text := res.Content[0].(*mcp.TextContent).Text
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&result); err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.IsError, result.Events)
	}
	call(map[string]any{"severity": "P1"}) // from now
	at := events.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	if err := created.Emit(ctx, incidents.IncidentCreatedPayload{IncidentID: "INC-1", Severity: incidents.SeverityP1, OpenedAt: at}, events.WithID("evt_1")); err != nil {
		log.Fatal(err)
	}
	call(map[string]any{"severity": "P1", "cursor": result.Cursor})

	ss.Close()
	fmt.Println(<-ran)
	// Output:
	// false []
	// false [{evt_1}]
	// <nil>
}
