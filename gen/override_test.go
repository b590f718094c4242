package gen_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
)

// Overrides of a configuration act on what is generated, and tell which settings had no effect in any request.
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
types: {uuid: string, email: string, uid: string}
`,
		"incidents.yaml": `
version: 1
events:
  - name: incident.created
    description: Fires when a new incident is created.
    inputSchema: {type: object, additionalProperties: false}
    payloadSchema: {type: object, properties: {id: {type: string, format: uuid}}, required: [id]}
`,
		"second/members.yaml": `
version: 1
events:
  - name: member.joined
    description: Fires when a member joins.
    inputSchema: {type: object, additionalProperties: false}
    payloadSchema: {type: object, properties: {address: {type: string, format: email}}, required: [address]}
`} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
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
	second := gen.Request{Dir: filepath.Join(dir, "second"), Files: []string{"members.yaml"}, Out: "members", Emit: []string{"types"}, Overrides: overrides}
	if plan, found, err := gen.Generate(t.Context(), second); plan == nil {
		t.Fatalf("%v, %v", found, err)
	}
	for some, want := range map[bool][]string{true: {"MCPE406"}, false: {"MCPE406", "MCPE409"}} {
		var codes []string
		for _, d := range overrides.Unused(some) {
			codes = append(codes, d.Code)
		}
		if !slices.Equal(codes, want) {
			t.Errorf("without effect: %v, want %v", codes, want)
		}
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
