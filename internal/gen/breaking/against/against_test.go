package against_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking/against"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
)

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	const file = "version: 1\nevents:\n  - {name: a, description: A., inputSchema: {type: object}, payloadSchema: {type: object}}\n"
	if err := os.WriteFile(filepath.Join(dir, "events.yaml"), []byte(file), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	packages, found, err := against.Load(context.Background(), dir, against.New{Files: []string{"events.yaml"}, Config: &config.Config{}})
	fmt.Println(packages[0].Set.Files[0].Events[0].Name, found, err)
	// Output: a [] <nil>
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func event(name string) string {
	return "version: 1\nevents:\n  - {name: " + name + ", description: A., inputSchema: {type: object}, payloadSchema: {type: object}}\n"
}

// names lists the events of what was loaded, package by package.
func names(t *testing.T, spec string, new against.New) string {
	t.Helper()
	packages, found, err := against.Load(t.Context(), spec, new)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, d := range found {
		out = append(out, d.String())
	}
	for _, p := range packages {
		s := p.Key + "="
		for _, f := range p.Set.Files {
			for _, e := range f.Events {
				s += e.Name
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// The configuration of the old version says which files it had; without one the new one does.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"new/mcpe.yaml": "version: 1\npackages: [{schemas: [events/*.yaml], out: gen}]\n", "new/events/a.yaml": event("a"),
		"old/mcpe.yaml": "version: 1\npackages: [{schemas: [x.yaml], out: gen}, {schemas: [y.yaml], out: other}]\n", "old/x.yaml": event("x"), "old/y.yaml": event("y"),
		"older/events/b.yaml": event("b"), "older/events/c.yaml": event("c"), "empty/readme": "",
	})
	t.Chdir(filepath.Join(dir, "new"))
	cfg, found := config.Load("mcpe.yaml", nil)
	if len(found) > 0 {
		t.Fatal(found)
	}
	for spec, want := range map[string]string{
		"../old":   "gen=x other=y",
		"../older": "gen=bc",
		"../empty": "../empty: error MCPE560: it has none of the event files that are compared",
	} {
		if got := names(t, spec, against.New{Config: cfg}); got != want {
			t.Errorf("%s: got %s, want %s", spec, got, want)
		}
	}
	if got := names(t, "../older", against.New{Files: []string{"events/b.yaml", "events/new.yaml"}, Config: &config.Config{}}); got != "=b" {
		t.Errorf("files: got %s", got)
	}
	if got := names(t, "../older/events", against.New{Files: []string{filepath.Join(dir, "new", "events", "b.yaml")}, Config: &config.Config{}}); got != "=b" {
		t.Errorf("by name: got %s", got)
	}
}

// The places of the packages for servers and clients are those of the version's own configuration.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"new/mcpe.yaml": "version: 1\npackages: [{schemas: [a.yaml], out: gen}]\n", "new/a.yaml": event("a"), "older/a.yaml": event("a"),
		"old/mcpe.yaml": "version: 1\npackages:\n  - {schemas: [a.yaml], out: gen, package: notes, server: {out: serve}}\n" +
			"  - {schemas: [b.yaml], out: other, emit: [tools]}\n  - {schemas: [c.yaml], typescript: {out: web}}\n",
		"old/a.yaml": event("a"), "old/b.yaml": event("b"), "old/c.yaml": event("c"),
	})
	t.Chdir(filepath.Join(dir, "new"))
	cfg, found := config.Load("mcpe.yaml", nil)
	if len(found) > 0 {
		t.Fatal(found)
	}
	for spec, want := range map[string]string{"../old": "[serve gen/notesclient][other/otherserver ][ ]", "../older": "[ ]"} {
		packages, found, err := against.Load(t.Context(), spec, against.New{Config: cfg})
		got := ""
		for _, p := range packages {
			got += fmt.Sprint([]string{p.Server, p.Client})
		}
		if err != nil || len(found) > 0 || got != want {
			t.Errorf("%s: got %s, want %s: %v %v", spec, got, want, found, err)
		}
	}
}

// Revisions have files that git archive would leave out, and nothing outside the repository.
func TestRevision(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"outside.yaml":         "version: 1\nschemas:\n  X: {type: object}\n",
		"repo/.gitattributes":  "events.yaml export-ignore\n",
		"repo/events.yaml":     event("a"),
		"repo/sub/escape.yaml": strings.Replace(event("b"), "payloadSchema: {type: object}", "payloadSchema: {$ref: '../../outside.yaml#/schemas/X'}", 1),
	})
	t.Chdir(filepath.Join(dir, "repo"))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if got := names(t, "git:HEAD", against.New{Files: []string{"events.yaml"}, Config: &config.Config{}}); got != "=a" {
		t.Errorf("got %s", got)
	}
	got := names(t, "git:HEAD:sub/escape.yaml", against.New{Files: []string{"sub/escape.yaml"}, Config: &config.Config{}})
	if !strings.Contains(got, `HEAD:sub/escape.yaml:3:83: error MCPE141: $ref "../../outside.yaml#/schemas/X": the file cannot be read`) {
		t.Errorf("got %s", got)
	}
	_, _, err := against.Load(t.Context(), "git:none", against.New{Files: []string{"events.yaml"}, Config: &config.Config{}})
	if _, ok := errors.AsType[*against.RevisionError](err); !ok {
		t.Errorf("got %v", err)
	}
}
