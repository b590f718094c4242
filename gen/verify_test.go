package gen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// consumerModule makes dir the module example.com/m, which uses ours with the same requirements.
func consumerModule(t testing.TB, dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	mods, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, requires, _ := strings.Cut(string(mods), "\ngo 1")
	_, requires, _ = strings.Cut(requires, "\n")
	write(t, dir, "go.mod", "module example.com/m\n\ngo 1.26.0\n\nrequire github.com/mcpe-gen/mcpe-gen v0.1.0\n\nreplace github.com/mcpe-gen/mcpe-gen => "+root+"\n"+requires)
	write(t, dir, "go.sum", string(sums))
}

// TestVerify type-checks planned output that is nowhere on disk, in a module that uses ours.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	consumerModule(t, dir)
	write(t, dir, "bad.yaml", strings.ReplaceAll(eventFile("bad.x"), "{type: string}", "{type: string, x-go-type: example.com/missing.Type}"))
	write(t, dir, "own.yaml", strings.ReplaceAll(eventFile("own.x"), "{type: string}", "{type: string, x-go-type: example.com/m/out.Own}"))
	write(t, dir, "out/own.go", "package out\n\n// Own is the author's.\ntype Own string\n")

	for _, c := range []struct{ file, wrong string }{
		{"own.yaml", ""},
		{"bad.yaml", "example.com/missing"},
	} {
		p := plan(t, gen.Request{Dir: dir, Files: []string{c.file}, Out: "out", Emit: []string{"types"}})
		diags, err := p.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.wrong == "" && len(diags) > 0:
			t.Errorf("%s: %v", c.file, diags)
		case c.wrong != "" && (len(diags) == 0 || !strings.Contains(diags[0].Message, c.wrong)):
			t.Errorf("%s: %v, want a diagnostic about %s", c.file, diags, c.wrong)
		case c.wrong != "" && !strings.HasPrefix(filepath.ToSlash(diags[0].String()), "out/bad.mcpe.go:"):
			t.Errorf("%s: the diagnostic has no place: %s", c.file, diags[0])
		}
	}
}

// A module whose go.mod is not complete cannot be checked, and that is an error.
func TestVerifyIncompleteModule(t *testing.T) {
	dir := t.TempDir()
	consumerModule(t, dir)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(mod), "\nrequire (")
	write(t, dir, "go.mod", before)
	write(t, dir, "e.yaml", strings.ReplaceAll(eventFile("e.x"), "{type: string}", "{type: string, x-go-type: time.Duration}"))
	p := plan(t, gen.Request{Dir: dir, Files: []string{"e.yaml"}, Out: "out", Emit: []string{"types"}})
	if diags, err := p.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "run go mod tidy") {
		t.Errorf("got %v and error %v, want go mod tidy", diags, err)
	}
}
