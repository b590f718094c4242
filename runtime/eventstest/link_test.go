package eventstest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TEST-4: a test that uses the package links no test framework beyond testing, and no package that opens flags.
func TestLinksNoFramework(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		for _, refused := range []string{"net/http/httptest", "github.com/stretchr/", "go.uber.org/goleak", "pgregory.net/", "gotest.tools/", "github.com/onsi/",
			"github.com/google/go-cmp", "modernc.org/", "github.com/jackc/"} {
			if strings.HasPrefix(dep, refused) {
				t.Errorf("links %s", dep)
			}
		}
	}
	if len(deps) < 100 {
		t.Errorf("%d packages are linked", len(deps))
	}
}
