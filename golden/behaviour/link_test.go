package behaviour

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcpe-gen/mcpe-gen/"

// dependencies returns what go build links into packages that match the patterns.
func dependencies(t *testing.T, patterns ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-deps"}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", patterns, err)
	}
	return strings.Fields(string(out))
}

// TestPackagesLinkOnlyTheirSide proves that the packages of generated code decide what a program links: a client no
// server code, a server no client code, types neither, and read tools alone no server.
func TestPackagesLinkOnlyTheirSide(t *testing.T) {
	server := []string{"runtime/server", "runtime/transport", "runtime/internal/webhooks/delivery", "internal/validate", "internal/evolve"}
	client := []string{"runtime/client", "runtime/mcpc/mcpcclient"}
	for pattern, refused := range map[string][]string{
		"*/want/*client":         server,
		"*/want/*server":         append([]string{"runtime/transport"}, client...),
		"emittools/want/*server": append(server, client...),
		"*/want":                 append(server, append(client, "runtime/readtool")...),
	} {
		files, err := filepath.Glob(filepath.Join("..", pattern, "mcpe.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		var packages []string
		for _, f := range files {
			packages = append(packages, filepath.ToSlash(filepath.Dir(f)))
		}
		deps := dependencies(t, packages...)
		for _, r := range refused {
			if slices.Contains(deps, module+r) {
				t.Errorf("%s links %s", pattern, r)
			}
		}
		if !slices.Contains(deps, module+"runtime/events") {
			t.Errorf("%s does not link runtime/events", pattern)
		}
	}
}

// TestRuntimeLinksNoGenerator proves that programs with generated code carry nothing of the
// generator.
func TestRuntimeLinksNoGenerator(t *testing.T) {
	for _, dep := range dependencies(t, module+"runtime/...") {
		for _, refused := range []string{"github.com/spf13/cobra", "github.com/dave/jennifer", "golang.org/x/tools", module + "gen"} {
			if dep == refused || strings.HasPrefix(dep, refused+"/") {
				t.Errorf("runtime links %s", dep)
			}
		}
	}
}
