package gen_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const goldenDir = "../golden"

// A golden case is a directory with event files. It has want/, the generated package, unless
// generation fails, and want.txt, the diagnostics, if there are any. request.json changes the
// defaults of the run: files, emit, types, imports and package. model.json and events.ts are the model and the TypeScript of what
// generates.
type goldenCase struct {
	dir     string
	request gen.Request
}

func goldenCases(t *testing.T) map[string]goldenCase {
	t.Helper()
	cases := map[string]goldenCase{}
	for _, base := range []string{goldenDir, filepath.Join(goldenDir, "errors")} {
		entries, err := os.ReadDir(base)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			dir := filepath.Join(base, e.Name())
			var files []string
			for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
				found, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range found {
					if name := filepath.Base(f); name != "request.json" && name != modelFile {
						files = append(files, name)
					}
				}
			}
			if len(files) == 0 { // a Go package about the cases, or the directory of error cases
				for _, left := range []string{"want", "want.txt", "request.json"} {
					if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
						t.Errorf("%s has %s and no event file", dir, left)
					}
				}
				continue
			}
			c := goldenCase{dir: dir, request: gen.Request{Dir: dir, Files: files, Out: "want"}}
			content, err := os.ReadFile(filepath.Join(dir, "request.json"))
			if err == nil {
				var r struct {
					Files, Emit []string
					Package     string
					Types       map[string]string
					Imports     map[string]string
				}
				if err := json.Unmarshal(content, &r); err != nil {
					t.Fatalf("%s: %v", dir, err)
				}
				if len(r.Files) > 0 {
					c.request.Files = r.Files
				}
				c.request.Emit, c.request.Types, c.request.Imports, c.request.Package = r.Emit, r.Types, r.Imports, r.Package
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(goldenDir, dir)
			if err != nil {
				t.Fatal(err)
			}
			cases[filepath.ToSlash(rel)] = c
		}
	}
	return cases
}

// TestGolden generates every case twice with each number of processors and compares with what is
// committed; a file that is missing or too many fails.
func TestGolden(t *testing.T) {
	for name, c := range goldenCases(t) {
		t.Run(name, func(t *testing.T) {
			files, text := c.generate(t)
			if *update {
				c.write(t, files, text)
			}
			if diff := cmp.Diff(readText(t, filepath.Join(c.dir, "want.txt")), text); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
			want := readTree(t, filepath.Join(c.dir, "want"))
			for _, f := range slices.Sorted(maps.Keys(want)) {
				if _, ok := files[f]; !ok {
					t.Errorf("want/%s is not generated", f)
				}
			}
			for _, f := range slices.Sorted(maps.Keys(files)) {
				if _, ok := want[f]; !ok {
					t.Errorf("want/%s is missing", f)
				} else if diff := cmp.Diff(want[f], files[f]); diff != "" {
					t.Errorf("want/%s (-want +got):\n%s", f, diff)
				}
			}
		})
	}
}

// generate runs the case and checks that nothing but the request decides the output.
func (c goldenCase) generate(t *testing.T) (map[string]string, string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var files map[string]string
	var text string
	for i, procs := range []int{1, 1, 2, 2} {
		runtime.GOMAXPROCS(procs)
		gotFiles, gotText := c.once(t)
		if i > 0 && (gotText != text || !maps.Equal(gotFiles, files)) {
			t.Fatalf("run %d with GOMAXPROCS %d differs from the first:\n%s", i+1, procs, cmp.Diff(files, gotFiles))
		}
		files, text = gotFiles, gotText
	}
	return files, text
}

func (c goldenCase) once(t *testing.T) (map[string]string, string) {
	t.Helper()
	plan, diags, err := gen.Generate(context.Background(), c.request)
	text := diagnosticText(diags)
	var use *gen.UsageError
	if errors.As(err, &use) {
		text += "usage: " + use.Message + "\n"
	} else if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	if plan == nil {
		return files, text
	}
	for _, list := range [][]gen.File{plan.Create, plan.Update, plan.Unchanged} {
		for _, f := range list {
			rel, err := filepath.Rel(c.request.Out, f.Path)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.ToSlash(rel)] = string(f.Content)
		}
	}
	return files, text
}

func (c goldenCase) write(t *testing.T, files map[string]string, text string) {
	t.Helper()
	want := filepath.Join(c.dir, "want")
	if err := os.RemoveAll(want); err != nil {
		t.Fatal(err)
	}
	os.Remove(want + ".txt")
	if text != "" {
		if err := os.WriteFile(want+".txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		write(t, want, name, content)
	}
}

// diagnosticText lists diagnostics with all that they say.
func diagnosticText(diags []source.Diagnostic) string {
	var b strings.Builder
	for _, d := range diags {
		b.WriteString(d.String() + "\n")
		for _, r := range d.Related {
			b.WriteString("\t" + r.Range.String() + ": " + r.Message + "\n")
		}
		if d.Hint != "" {
			b.WriteString("\thint: " + d.Hint + "\n")
		}
	}
	return b.String()
}

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		files[filepath.ToSlash(rel)] = readText(t, at)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}
