package docs_test

import (
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/docs"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

func ExamplePage_Markdown() {
	set, _ := schema.Load([]string{"testdata/incidents.yaml"}, schema.Options{})
	types, _ := ir.Build(set, ir.Options{})
	page := docs.New([]docs.Package{{Set: set, Model: types.Describe()}}, docs.Options{Title: "Incidents"})
	head, _, _ := strings.Cut(string(page.Markdown()), "\n<a id")
	fmt.Print(head)
	// Output:
	// # Incidents
	//
	// | Event | What it tells | Delivery |
	// |---|---|---|
	// | [incident.created](#event-incident-created) | Fires when a new incident is created. | poll, push, webhook |
	// | [incident.updated](#event-incident-updated) | Fires whenever an incident changes after it was created. | poll, push, webhook |
	// | [incident.opened](#event-incident-opened) (deprecated) | The older name of incident.created. | poll, push, webhook |
	// | [incident.digest](#event-incident-digest) (experimental) | A summary of open incidents; its shape may still change. | poll, push, webhook |
}
