package conversation

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that only holds conversations links no server.
func TestLinksNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for dep := range strings.Lines(string(out)) {
		if dep = strings.TrimSpace(dep); strings.HasSuffix(dep, "runtime/server") || strings.HasSuffix(dep, "runtime/internal/webhooks/delivery") {
			t.Errorf("links %s", dep)
		}
	}
}
