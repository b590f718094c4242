package breaking_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var update = flag.Bool("update", false, "rewrite the findings that are expected")

var today = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// version loads one file, which must be without errors.
func version(t *testing.T, name string, content []byte) []breaking.Package {
	t.Helper()
	set, found := schema.Load([]string{name}, schema.Options{ReadFile: func(string) ([]byte, error) { return content, nil }})
	if source.HasErrors(found) {
		t.Fatalf("%s: %v\n%s", name, found, content)
	}
	pkg := set.Files[0].Package
	if pkg == "" {
		pkg = "incidents"
	}
	return []breaking.Package{{Set: set, Go: ir.Options{Package: pkg}}}
}

func compare(t *testing.T, old, new string, use ...string) []source.Diagnostic {
	t.Helper()
	return breaking.Compare(version(t, "old.yaml", []byte(old)), version(t, "new.yaml", []byte(new)),
		breaking.Options{Rules: rule.Selection{Use: use}, Now: today})
}

func text(ds []source.Diagnostic) string {
	var b strings.Builder
	if err := source.Write(&b, ds, source.WriteOptions{}); err != nil {
		return err.Error()
	}
	return b.String()
}

// Every rule has a purpose and a golden pair that it alone is asked about.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range breaking.Rules() {
		t.Run(r.ID, func(t *testing.T) {
			if seen[r.ID] || !strings.HasSuffix(r.Purpose, ".") || !slices.Contains(breaking.Categories, r.Category) {
				t.Errorf("%+v", r)
			}
			seen[r.ID] = true
			a := txtar.Parse(breaking.Example(r.ID))
			if len(a.Files) != 2 || a.Files[0].Name != "old.yaml" || a.Files[1].Name != "new.yaml" || len(a.Comment) < 40 {
				t.Fatalf("rules/%s.txtar does not say why and show old.yaml and new.yaml", r.ID)
			}
			old, new := string(a.Files[0].Data), string(a.Files[1].Data)
			got := text(compare(t, old, new, r.ID))
			if got == "" {
				t.Error("the pair passes")
			}
			path := filepath.Join("testdata", "rules", r.ID+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if same := compare(t, old, old, breaking.Categories...); len(same) > 0 {
				t.Errorf("a version breaks itself: %s", text(same))
			}
		})
	}
	files, err := filepath.Glob("rules/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if id := strings.TrimSuffix(filepath.Base(f), ".txtar"); !seen[id] {
			t.Errorf("%s is about no rule", f)
		}
	}
}
