package breaking_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// What WIRE lets pass is decoded by code that was generated before: packages of old event files are
// compiled and read payloads of the new ones.
func TestOldCodeDecodesNewPayloads(t *testing.T) {
	cases, err := filepath.Glob("testdata/decode/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	dir := module(t)
	var imports, calls strings.Builder
	for _, path := range cases {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		old, new, payloads := a.Files[0].Data, a.Files[1].Data, string(a.Files[2].Data)
		if found := compare(t, string(old), string(new), breaking.Wire); len(found) > 0 {
			t.Errorf("%s: %s", name, text(found))
		}
		now := version(t, "new.yaml", new)[0].Set
		schema, err := validate.Compile(now.Published(now.Files[0].Events[0].Payload))
		if err != nil {
			t.Fatal(err)
		}
		generate(t, dir, name, old)
		fmt.Fprintf(&imports, "\t%q\n", "example.com/old/"+name)
		for payload := range strings.Lines(payloads) {
			if err := schema.Validate([]byte(payload)); err != nil {
				t.Errorf("%s: %s is not valid by the new schema: %v", name, payload, err)
			}
			fmt.Fprintf(&calls, "\tdecode[%s.ThingChangedPayload](%q, %q)\n", name, name, strings.TrimSpace(payload))
		}
	}
	program := "package main\n\nimport (\n\t\"encoding/json\"\n\t\"fmt\"\n\n" + imports.String() + `)

func decode[P any](name, payload string) {
	var v P
	if err := json.Unmarshal([]byte(payload), &v); err != nil {
		fmt.Printf("%s: %s: %v\n", name, payload, err)
	}
}

func main() {
` + calls.String() + "}\n"
	write(t, filepath.Join(dir, "main.go"), []byte(program))
	cmd := exec.CommandContext(t.Context(), "go", "run", "-trimpath", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// module makes a module that requires this one from its checkout.
func module(t *testing.T) string {
	t.Helper()
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), sum)
	write(t, filepath.Join(dir, "go.mod"), fmt.Appendf(nil,
		"module example.com/old\n\ngo 1.26.0\n\nrequire github.com/mcpe-gen/mcpe-gen v0.0.0\n\nreplace github.com/mcpe-gen/mcpe-gen => %s\n", checkout))
	return dir
}

// generate writes the types of an event file as a package of the module.
func generate(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	write(t, filepath.Join(dir, name+".yaml"), content)
	plan, found, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{name + ".yaml"}, Out: name, Package: name, Emit: []string{"types"}})
	if err != nil || source.HasErrors(found) {
		t.Fatalf("%s: %v\n%s", name, err, text(found))
	}
	if err := plan.Apply(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
