package schema_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func eventFileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.EventFileSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///events.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///events.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// formal lists the codes of faults that the JSON Schema of the event file must find too. Add a code here if an editor can
// detect its fault by the schema alone.
var formal = []string{"MCPE120", "MCPE121", "MCPE122", "MCPE123", "MCPE124", "MCPE127", "MCPE130", "MCPE132"}

// The JSON Schema of the event file accepts the files of testdata/good and refuses those of
// testdata/bad whose form is wrong.
func TestEventFileSchemaAgreesWithLoad(t *testing.T) {
	s := eventFileSchema(t)
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, found := load(t, a)
		for _, f := range a.Files {
			n, text := source.Parse(f.Name, f.Data)
			if f.Name == "want" || n == nil || source.HasErrors(text) {
				continue
			}
			var malformed, other bool
			for _, d := range found {
				if d.Range.Start.File == f.Name && d.Severity == source.Error {
					malformed = malformed || slices.Contains(formal, d.Code)
					other = true
				}
			}
			err := s.Validate(n.Value())
			switch {
			case malformed && err == nil:
				t.Errorf("%s: %s is accepted", path, f.Name)
			case !other && err != nil:
				t.Errorf("%s: %s is refused: %v", path, f.Name, err)
			}
		}
	}
}
