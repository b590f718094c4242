package gen_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

func ExampleGenerate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	const events = `
version: 1
events:
  - name: incident.created
    description: Fires when a new incident is created.
    inputSchema: {type: object}
    payloadSchema: {type: object, properties: {id: {type: string}}, required: [id]}
`
	for name, content := range map[string]string{"go.mod": "module example.com/m\n", "incidents.yaml": events} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}
	plan, diagnostics, err := gen.Generate(context.Background(), gen.Request{
		Dir: dir, Files: []string{"incidents.yaml"}, Out: "incidents", Emit: []string{"server", "client"},
	})
	for _, d := range diagnostics {
		fmt.Println(d)
	}
	if err != nil || plan == nil {
		fmt.Println("failed:", err)
		return
	}
	for _, f := range plan.Create {
		fmt.Println(filepath.ToSlash(f.Path))
	}
	if err := plan.Apply(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// incidents/incidents.mcpe.go
	// incidents/incidentsclient/incidents.mcpe.go
	// incidents/incidentsclient/mcpe.go
	// incidents/incidentsserver/incidents.mcpe.go
	// incidents/incidentsserver/mcpe.go
	// incidents/incidentsserver/mcpe.schemas.json
	// incidents/mcpe.go
}
