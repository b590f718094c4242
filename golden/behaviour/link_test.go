package behaviour

import (
	"os/exec"
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

// TestEmittedPartsLinkOnlyTheirSide proves that the parts of generated code decide what a program
// links: a client no server code, a server no client code.
func TestEmittedPartsLinkOnlyTheirSide(t *testing.T) {
	server := []string{"runtime/server", "runtime/transport", "runtime/internal/delivery", "internal/validate", "internal/evolve"}
	client := []string{"runtime/client"}
	for emitted, refused := range map[string][]string{
		"emitclient": server,
		"emitserver": append([]string{"runtime/transport"}, client...),
		"emittools":  append(server, client...),
		"emittypes":  append(server, append(client, "runtime/readtool")...),
	} {
		deps := dependencies(t, module+"golden/"+emitted+"/want")
		for _, r := range refused {
			if slices.Contains(deps, module+r) {
				t.Errorf("%s links %s", emitted, r)
			}
		}
		if !slices.Contains(deps, module+"runtime/events") {
			t.Errorf("%s does not link runtime/events", emitted)
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
