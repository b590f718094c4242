package operator

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that operates a server links it by its own hand only: this package has no part of one.
func TestLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, refused := range []string{"/runtime/server", "/runtime/admin", "/runtime/client", "/runtime/internal/", "/go-sdk/"} {
			if strings.Contains(dep, refused) && !strings.HasSuffix(dep, "/runtime/internal/actor") { // a name in a context
				t.Errorf("links %s", dep)
			}
		}
	}
}
