package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
)

// An operator looks up an occurrence by its id, and finds out where a replay of the last hour would begin.
func ExampleAdmin() {
	ctx := context.Background()
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil), server.Options{Operators: operators.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer es.Shutdown(ctx)
	created, err := server.Register(es, events.Type[struct{}, map[string]string]{Info: events.Info{
		Name: "incident.created", InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`),
	}}, server.Hooks[struct{}, map[string]string]{})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"evt_1", "evt_2"} {
		if err := created.Emit(ctx, map[string]string{"severity": "P1"}, events.WithID(id)); err != nil {
			log.Fatal(err)
		}
	}

	admin := es.Admin()
	found, _, err := admin.FindOccurrences(ctx, "", "evt_2")
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range found {
		fmt.Println(o.Event, o.Position, string(o.Data))
	}
	begin, err := admin.Locate(ctx, "incident.created", operator.Point{Since: time.Now().Add(-time.Hour)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a replay begins with", begin.EventID)
	// Output:
	// incident.created 2 {"severity":"P1"}
	// a replay begins with evt_1
}
