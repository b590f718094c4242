package starter

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// E4: what GitHub has really sent fits the event types that are made of its schemas, also where it does not fit
// those schemas.
func TestRealBodiesFit(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/octokit/bodies.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
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
	if all != 329 || unfit > 0 {
		t.Errorf("%d of %d bodies do not fit", unfit, all)
	}
}
