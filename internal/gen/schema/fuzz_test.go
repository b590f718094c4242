package schema_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// FuzzLoad feeds arbitrary text to Load: it never panics, every position lies inside the file, and
// what has no error publishes schemas that a validator accepts. The seeds are every file of testdata.
func FuzzLoad(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if file.Name != "want" {
				f.Add(file.Data)
				f.Add([]byte(strings.ReplaceAll(string(file.Data), "\n", "\r\n")))
			}
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		set, found := schema.Load([]string{"f.yaml"}, schema.Options{ReadFile: func(path string) ([]byte, error) {
			if filepath.Base(path) == "f.yaml" {
				return content, nil
			}
			return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
		}})
		lines := splitLines(content)
		for _, d := range found {
			if _, ok := source.Lookup(d.Code); !ok {
				t.Errorf("%s is not in the table of codes", d.Code)
			}
			inside(t, d, d.Range, lines)
			for _, r := range d.Related {
				inside(t, d, r.Range, lines)
			}
		}
		if source.HasErrors(found) {
			return
		}
		for _, file := range set.Files {
			for _, e := range file.Schemas {
				publishes(t, set, e.Node)
			}
			for _, e := range file.Events {
				publishes(t, set, e.Input)
				publishes(t, set, e.Payload)
			}
		}
	})
}

func publishes(t *testing.T, set *schema.Set, n *source.Node) {
	t.Helper()
	compiles(t, set.Published(n))
}

func splitLines(content []byte) []int {
	text := strings.TrimPrefix(string(content), "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var widths []int
	for line := range strings.SplitSeq(text, "\n") {
		widths = append(widths, utf8.RuneCountInString(line))
	}
	return widths
}

func inside(t *testing.T, d source.Diagnostic, r source.Range, widths []int) {
	t.Helper()
	if r.End.Line < r.Start.Line || r.End.Line == r.Start.Line && r.End.Column < r.Start.Column {
		t.Errorf("%s: the range ends before it begins: %s", d, r.End)
	}
	for _, p := range []source.Position{r.Start, r.End} {
		if p.Line == 0 {
			continue // only the file is known
		}
		// A range may end after the line break of an unfinished line.
		if p.Line > len(widths) || p.Column > widths[p.Line-1]+2 {
			t.Errorf("%s: %s lies outside the file", d, p)
		}
	}
}
