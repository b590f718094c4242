package behaviour

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/golden/tools/want/toolsserver"
)

// The tools that a server adds are those of tools.json, whatever names their authors chose.
func TestReadTools(t *testing.T) {
	b, err := os.ReadFile("../tools/want/toolsserver/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tools []struct {
			Name, Description string
			InputSchema       struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	made := toolsserver.ReadTools()
	if len(made) != len(file.Tools) || len(made) == 0 {
		t.Fatalf("%d tools, %d in tools.json", len(made), len(file.Tools))
	}
	for i, want := range file.Tools {
		got := made[i]
		if got.Tool.Name != want.Name || got.Tool.Description != want.Description {
			t.Errorf("tool %d is %q: %q, want %q: %q", i, got.Tool.Name, got.Tool.Description, want.Name, want.Description)
		}
		if len(want.InputSchema.Properties) == 0 {
			continue // a reference
		}
		for _, own := range []string{got.CursorArgument, got.MaxEventsArgument, got.WaitArgument, got.QuietArgument, got.SinceArgument} {
			if _, ok := want.InputSchema.Properties[own]; !ok {
				t.Errorf("%s has no argument %q", want.Name, own)
			}
		}
	}
}
