package mcpeclient_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that subscribes by MCPE links no server code, and one that does not use this package
// links nothing of it.
func TestLinks(t *testing.T) {
	const module = "github.com/mcpe-gen/mcpe-gen/"
	deps := func(pkg string) string {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	linked := strings.ReplaceAll(deps("."), module+"runtime/store/clientstore\n", "") // a client's cursors
	for _, banned := range []string{"runtime/server", "runtime/mcpe\n", "runtime/internal/webhooks/netguard", "runtime/store/"} {
		if strings.Contains(linked, module+banned) {
			t.Errorf("links %s", banned)
		}
	}
	if strings.Contains(deps(module+"runtime/client"), "mcpe/mcpeclient") {
		t.Error("runtime/client links MCPE")
	}
}
