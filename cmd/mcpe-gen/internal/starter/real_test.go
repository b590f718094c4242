package starter

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/validate"
)

// What GitHub has really sent fits the event types that are made of its schemas.
func TestRealBodiesFit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../gen/testdata/octokit/examples.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New("github", Names("github"))
	if err != nil {
		t.Fatal(err)
	}
	set := load(t, s)
	types := map[string]*validate.Schema{}
	for _, e := range set.Files[0].Events {
		if types[e.Name], err = validate.Compile(set.Published(e.Payload)); err != nil {
			t.Fatal(err)
		}
	}
	all, unfit := 0, 0
	for line := range strings.Lines(string(text)) {
		var example struct {
			Event   string
			Payload json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &example); err != nil {
			t.Fatal(err)
		}
		if types[example.Event] == nil {
			t.Fatalf("no event type for %s", example.Event)
		}
		all++
		if err := types[example.Event].Validate(example.Payload); err != nil {
			unfit++
			t.Logf("%s: %v", example.Event, err)
		}
	}
	t.Logf("%d bodies, of which %d do not fit", all, unfit)
	if all < 150 || unfit > 0 {
		t.Errorf("%d of %d bodies do not fit", unfit, all)
	}
}
