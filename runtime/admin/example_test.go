package admin_test

import (
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

func ExampleNewHandler() {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil), server.Options{
		Operators: operators.New(),
		Webhooks:  webhooks.New(webhooks.Options{}),
	})
	if err != nil {
		log.Fatal(err)
	}
	operators, err := admin.NewHandler(es, admin.Options{
		Hosts:        []string{"ops.example.com"},
		Authenticate: admin.Tokens(map[string]string{"oncall": os.Getenv("ADMIN_TOKEN")}),
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/events/", http.StripPrefix("/events", operators))
}
