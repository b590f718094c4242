package templates_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/templates"
)

// The files that "mcpe-gen init --transport http --source check" writes, before the generated code and go.mod.
func ExampleRender() {
	files, err := templates.Render(templates.Scaffold{
		Module: "example.com/demo", Name: "demo", Transport: "http", Source: "check", GoVersion: "1.26.0",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range files {
		fmt.Println(f.Path)
	}
	// Output:
	// .dockerignore
	// .gitattributes
	// .github/workflows/ci.yml
	// .gitignore
	// Dockerfile
	// README.md
	// auth.go
	// events/notes.yaml
	// generate.go
	// list.go
	// list_test.go
	// main.go
	// mcpe.yaml
	// notes.go
	// server.go
	// server_test.go
}
