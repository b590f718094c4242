package client

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that only receives links no server and no generator code.
func TestLinks(t *testing.T) {
	const module = "github.com/mcpe-gen/mcpe-gen/"
	out, err := exec.Command("go", "list", "-deps", ".", "../impl/clientimpl").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{"runtime/client": true, "runtime/events": true, "runtime/store": true, "runtime/store/clientstore": true,
		"runtime/webhook": true, "internal/wire": true, "runtime/internal/carry": true, "runtime/internal/webhooks/ring": true,
		"runtime/internal/coalesce": true, "runtime/internal/untyped": true, "runtime/telemetry": true, "runtime/impl/clientimpl": true, "internal/codec": true, "internal/published": true, "internal/suggest": true, "internal/inbound": true, "internal/useragent": true}
	for dep := range strings.FieldsSeq(string(out)) {
		if ours, ok := strings.CutPrefix(dep, module); ok && !allowed[ours] {
			t.Errorf("links %s", dep)
		}
		for _, foreign := range []string{"spf13/cobra", "golang.org/x/tools/", "santhosh-tekuri", "modernc.org"} {
			if strings.Contains(dep, foreign) {
				t.Errorf("links %s", dep)
			}
		}
	}
}
