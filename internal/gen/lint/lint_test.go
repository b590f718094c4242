package lint_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var update = flag.Bool("update", false, "rewrite the findings that are expected")

var today = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// check lints one file, which must load without errors.
func check(t *testing.T, content []byte, s rule.Selection) []source.Diagnostic {
	t.Helper()
	read := func(string) ([]byte, error) { return content, nil }
	set, found := schema.Load([]string{"events.yaml"}, schema.Options{ReadFile: read})
	if source.HasErrors(found) {
		t.Fatalf("%v\n%s", found, content)
	}
	return lint.Check(set, lint.Options{Rules: s, Now: today, ReadFile: read})
}

func text(ds []source.Diagnostic) string {
	var b strings.Builder
	if err := source.Write(&b, ds, source.WriteOptions{}); err != nil {
		return err.Error()
	}
	return b.String()
}

// Every rule has a purpose, and an archive with a file that it objects to and one that it does not.
// SRV-7: PAYLOAD_FREE_TEXT, PAYLOAD_BINARY and PAYLOAD_SIZE are among them.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range lint.Rules() {
		t.Run(r.ID, func(t *testing.T) {
			if seen[r.ID] || !strings.HasSuffix(r.Purpose, ".") {
				t.Errorf("%+v", r)
			}
			seen[r.ID] = true
			a := txtar.Parse(lint.Example(r.ID))
			if len(a.Files) < 2 || a.Files[0].Name != "bad.yaml" || a.Files[1].Name != "good.yaml" || len(a.Comment) < 40 {
				t.Fatalf("rules/%s.txtar does not say why and show bad.yaml and good.yaml", r.ID)
			}
			only := rule.Selection{Use: []string{r.ID}}
			got := text(check(t, a.Files[0].Data, only))
			if got == "" {
				t.Error("bad.yaml passes")
			}
			golden(t, filepath.Join("testdata", "rules", r.ID+".txt"), got)
			if good := check(t, a.Files[1].Data, only); len(good) > 0 {
				t.Errorf("good.yaml: %s", text(good))
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

// The argument that x-actor adds is not the author's, so no rule is about it.
func TestAddedArgument(t *testing.T) {
	found := check(t, []byte(`version: 1
events:
  - name: issue.closed
    description: Fires when an issue is closed.
    x-actor: /closed_by
    inputSchema:
      type: object
      properties: {issue_id: {type: string, maxLength: 9, description: Only this issue., x-match: /issue_id}}
      additionalProperties: false
    payloadSchema:
      type: object
      properties:
        issue_id: {type: string, maxLength: 9, description: The issue.}
        closed_by: {type: string, maxLength: 99, description: Who has closed it.}
      required: [issue_id, closed_by]
`), rule.Selection{Use: []string{"STANDARD", "STRICT"}})
	if len(found) > 0 {
		t.Error(text(found))
	}
}

// Only strings carry encoded data: the keywords have no effect on values of other types.
func TestEncodedData(t *testing.T) {
	for payload, binary := range map[string]bool{
		`{type: integer, contentMediaType: text/plain}`:                            false,
		`{type: integer, allOf: [{contentEncoding: base64}]}`:                      false,
		`{anyOf: [{type: integer, contentMediaType: text/plain}, {type: string}]}`: false,
		`{contentMediaType: image/png}`:                                            true,
		`{type: [string, 'null'], allOf: [{contentEncoding: base64}]}`:             true,
		`{anyOf: [{type: string, contentMediaType: text/plain}, {type: integer}]}`: true,
	} {
		found := check(t, []byte(`version: 1
events:
  - name: image.uploaded
    description: Fires when an image is uploaded.
    inputSchema: {type: object}
    payloadSchema: {type: object, properties: {image: `+payload+`}}
`), rule.Selection{Use: []string{"PAYLOAD_BINARY"}})
		if (len(found) > 0) != binary {
			t.Errorf("%s: %s", payload, text(found))
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
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
}
