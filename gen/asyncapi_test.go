package gen_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A package that is exported to AsyncAPI and imported again, its files merged into one, has an equal
// model: everything that inspect prints, but for positions. Comments are kept too.
func TestExportedPackageIsImportedEqual(t *testing.T) {
	cases := map[string]gen.Request{}
	for name, c := range goldenCases(t) {
		c.request.Imports = nil // the bundle has the types of other files
		cases[name] = c.request
	}
	examples, err := filepath.Glob("../examples/schemas/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatal(examples, err)
	}
	for _, f := range examples {
		cases[filepath.Base(f)] = gen.Request{Dir: filepath.Dir(f), Files: []string{filepath.Base(f)}, Out: "want"}
	}
	tried := 0
	for name, r := range cases {
		want, _, err := gen.Inspect(t.Context(), r)
		if err != nil || want == nil || len(want.Events)+len(want.Tasks) == 0 {
			continue // a case about diagnostics
		}
		tried++
		t.Run(name, func(t *testing.T) {
			var files []string
			for _, f := range r.Files {
				files = append(files, filepath.Join(r.Dir, f))
			}
			set, found := schema.Load(files, schema.Options{Refs: r.Refs})
			if source.HasErrors(found) {
				t.Fatal(found)
			}
			exported, _ := asyncapi.Export(set, asyncapi.Options{Title: "T", Version: "1", ReadFile: os.ReadFile})
			text, err := asyncapi.Text(exported, false)
			if err != nil {
				t.Fatal(err)
			}
			doc, found := asyncapi.Read("doc.yaml", text)
			if len(found) > 0 {
				t.Fatal(found)
			}
			file, found, err := importer.Write(doc, importer.Options{})
			if err != nil || len(found) > 0 {
				t.Fatal(err, found)
			}
			again := r
			again.Dir, again.Files = t.TempDir(), []string{"again.yaml"}
			if err := os.WriteFile(filepath.Join(again.Dir, "again.yaml"), file, 0o666); err != nil {
				t.Fatal(err)
			}
			got, found, err := gen.Inspect(t.Context(), again)
			if err != nil || got == nil {
				t.Fatalf("%v %v\n%s", err, found, file)
			}
			if diff := gocmp.Diff(plainModel(t, want), plainModel(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s\n%s", diff, file)
			}
			if want, got := commentsOf(t, files), commentsOf(t, []string{filepath.Join(again.Dir, "again.yaml")}); len(want) > 0 {
				for _, c := range want {
					if !slices.Contains(got, c) {
						t.Errorf("the comment %q is lost:\n%s", c, file)
					}
				}
			}
		})
	}
	if tried < 25 {
		t.Errorf("only %d packages were tried", tried)
	}
}

var position = regexp.MustCompile(`"(pos|schema)": "[^"]*"`)

// plainModel is a model without positions, schemas and sources. Types have no order across files, nor members of
// _meta; a schema that was in another file has another fingerprint.
func plainModel(t *testing.T, m *model.Package) string {
	t.Helper()
	c := *m
	c.Types, c.Sources, c.Defs = slices.Clone(m.Types), nil, nil
	slices.SortFunc(c.Types, func(a, b model.Definition) int { return cmp.Compare(a.Name, b.Name) })
	c.Events = slices.Clone(m.Events)
	for i := range c.Events {
		e := &c.Events[i]
		e.Fingerprint = ""
		if len(e.Meta) > 0 {
			meta := jsontext.Value(slices.Clone(e.Meta))
			if err := meta.Format(jsontext.ReorderRawObjects(true)); err != nil {
				t.Fatal(err)
			}
			e.Meta = json.RawMessage(meta)
		}
	}
	raw, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(position.ReplaceAll(raw, []byte(`"pos": ""`)))
}

func commentsOf(t *testing.T, files []string) []string {
	t.Helper()
	var out []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		root, _ := source.Parse(f, data)
		for _, c := range source.Comments(root, data) {
			out = append(out, c.Text)
		}
	}
	return out
}
