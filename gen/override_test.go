package gen_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
)

// Overrides of a configuration act on what is generated, and tell when they had no effect.
func TestReadOverrides(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mcpe.yaml": `
version: 1
packages:
  - schemas: [incidents.yaml]
    out: incidents
overrides:
  - file: incidents.yaml
    at: /events/0/payloadSchema/properties/id
    x-go-name: Number
  - file: incidents.yaml
    at: /events/0/payloadSchema/properties/gone
    remove: true
`,
		"incidents.yaml": `
version: 1
events:
  - name: incident.created
    description: Fires when a new incident is created.
    inputSchema: {type: object, additionalProperties: false}
    payloadSchema: {type: object, properties: {id: {type: string}}, required: [id]}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	overrides, found := gen.ReadOverrides(filepath.Join(dir, "mcpe.yaml"))
	if overrides == nil {
		t.Fatalf("no overrides: %v", found)
	}
	r := gen.Request{Dir: dir, Files: []string{"incidents.yaml"}, Out: "incidents", Overrides: overrides}
	m, found, err := gen.Inspect(t.Context(), r)
	if err != nil || m == nil {
		t.Fatalf("%v, %v", found, err)
	}
	named := false
	for _, typ := range m.Types {
		for _, f := range typ.Type.Members {
			named = named || f.Go != nil && f.Go.Name == "Number"
		}
	}
	if !named {
		t.Errorf("the override has no effect: %+v", m.Types)
	}
	if unused := overrides.Unused(false); len(unused) != 1 || unused[0].Code != "MCPE406" {
		t.Errorf("without effect: %v", unused)
	}
	none, found := gen.ReadOverrides(filepath.Join(dir, "missing.yaml"))
	if none != nil || !diagnostic.HasErrors(found) {
		t.Errorf("of a file that is not there: %v, %v", none, found)
	}
	r.Overrides = foreign{}
	var usage *gen.UsageError
	if _, _, err := gen.Inspect(t.Context(), r); !errors.As(err, &usage) {
		t.Errorf("foreign overrides: %v", err)
	}
}

type foreign struct{}

func (foreign) Unused(bool) []diagnostic.Diagnostic { return nil }
