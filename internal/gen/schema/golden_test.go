package schema_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// load loads the files of an archive: those before the first name that begins with "lib/" are given,
// the others only reached.
func load(t *testing.T, a *txtar.Archive) (*schema.Set, []source.Diagnostic) {
	t.Helper()
	files := make(map[string][]byte)
	var given []string
	for _, f := range a.Files {
		switch {
		case f.Name == "want":
			continue
		case !strings.HasPrefix(f.Name, "lib/"):
			given = append(given, f.Name)
		}
		files[f.Name] = f.Data
	}
	return schema.Load(given, schema.Options{ReadFile: func(path string) ([]byte, error) {
		if content, ok := files[filepath.ToSlash(path)]; ok {
			return content, nil
		}
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}})
}

// Each archive in testdata/bad holds event files and, as want, exactly what is reported about them.
func TestGoldenDiagnostics(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	covered := make(map[string]bool)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, found := load(t, a)
			for _, d := range found {
				covered[d.Code] = true
			}
			var got bytes.Buffer
			if err := source.Write(&got, found, source.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			compare(t, path, a, got.String())
		})
	}
	for _, c := range source.Codes() {
		if c.ID < "MCPE2" && !covered[c.ID] && c.ID != "MCPE100" && c.ID != "MCPE102" && c.ID != "MCPE111" {
			t.Errorf("no case in testdata/bad reports %s, %s", c.ID, c.Title)
		}
	}
}

func compare(t *testing.T, path string, a *txtar.Archive, got string) {
	t.Helper()
	for i, f := range a.Files {
		if f.Name != "want" {
			continue
		}
		if *update {
			a.Files[i].Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(string(f.Data), got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		return
	}
	t.Errorf("%s has no file named want", path)
}

// Each archive in testdata/good holds event files without errors and, as want, the published schemas
// of the given ones.
func TestGoldenPublished(t *testing.T) {
	paths, err := filepath.Glob("testdata/good/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			set, found := load(t, a)
			for _, d := range found {
				t.Errorf("unexpected: %s", d)
			}
			var got bytes.Buffer
			for _, f := range set.Files {
				for _, e := range f.Events {
					got.WriteString(e.Name + " inputSchema " + string(set.Published(e.Input)) + "\n")
					got.WriteString(e.Name + " payloadSchema " + string(set.Published(e.Payload)) + "\n")
					for _, m := range e.Match {
						got.WriteString(e.Name + " match " + m.Argument + " " + m.Words() + " " + m.Path + "\n")
					}
					if e.Private != nil {
						fmt.Fprintln(&got, e.Name, "private", e.Private)
					}
					compiles(t, set.Published(e.Input))
					compiles(t, set.Published(e.Payload))
				}
				for _, e := range f.Schemas {
					got.WriteString(f.Path + "#" + e.Name + " " + string(set.Published(e.Node)) + "\n")
					compiles(t, set.Published(e.Node))
				}
			}
			compare(t, path, a, got.String())
		})
	}
}
