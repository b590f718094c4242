package gen_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

const octokitURL = "https://unpkg.com/@octokit/webhooks-schemas/schema.json"

// An octokitExample is one payload that GitHub has sent.
type octokitExample struct {
	Event   string
	Payload json.RawMessage
}

func octokitExamples(t *testing.T) []octokitExample {
	t.Helper()
	content, err := os.ReadFile("testdata/octokit/examples.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []octokitExample
	for line := range strings.Lines(string(content)) {
		var e octokitExample
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// octokitFile is an event file with an event for each webhook, whose payload is a definition of the
// schema that is published for all of them.
func octokitFile(names []string, definitions *source.Node) string {
	var b strings.Builder
	b.WriteString("version: 1\npackage: octokit\nevents:\n")
	for _, n := range names {
		definition := n + "_event"
		if definitions.Get(definition) == nil {
			definition = n + "$event"
		}
		fmt.Fprintf(&b, "  - name: %s\n    description: A webhook of GitHub.\n    inputSchema: {type: object}\n    payloadSchema:\n"+
			"      $schema: http://json-schema.org/draft-07/schema#\n      $ref: '%s#/definitions/%s'\n", n, octokitURL, definition)
	}
	return b.String()
}

// TestOctokit generates a package for all of GitHub's webhooks from their public schema and puts
// real payloads through it.
func TestOctokit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	examples := octokitExamples(t)
	var names []string
	for _, e := range examples {
		names = append(names, e.Event)
	}
	names = slices.Compact(names)
	content, err := provider.GitHubSchema()
	if err != nil {
		t.Fatal(err)
	}
	root, _ := source.Parse("webhooks.schema.json", content)
	dir := t.TempDir()
	write(t, dir, "webhooks.schema.json", string(content))
	write(t, dir, "octokit.yaml", octokitFile(names, root.Get("definitions")))
	r := gen.Request{Dir: dir, Files: []string{"octokit.yaml"}, Out: "octokit", Refs: map[string]string{octokitURL: "webhooks.schema.json"}, Emit: []string{"types"}}

	set, diags := schema.Load([]string{dir + "/octokit.yaml"}, schema.Options{Refs: map[string]string{octokitURL: dir + "/webhooks.schema.json"}})
	if source.HasErrors(diags) {
		t.Fatal(diagnosticText(diags))
	}
	trips := &roundTrips{dir: dir, requests: []gen.Request{r}}
	valid := map[string]*validate.Schema{}
	goNames := map[string]string{}
	largest := 0
	for _, e := range set.Files[0].Events {
		published := set.Published(e.Payload)
		largest = max(largest, len(published))
		s, err := validate.Compile(published)
		if err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		valid[e.Name] = s
	}
	model, _, err := gen.Inspect(t.Context(), r)
	if err != nil || model == nil {
		t.Fatal(err)
	}
	for _, e := range model.Events {
		goNames[e.Name] = e.Payload.Type
	}
	skipped := 0
	for i, e := range examples {
		if err := valid[e.Event].Validate(e.Payload); err != nil {
			skipped++
			t.Logf("%s, example %d, is not valid by GitHub's own schema: %.200s", e.Event, i, err)
			continue
		}
		named := func(string) bool { return true } // the schema closes its objects
		trips.documents = append(trips.documents, document{fmt.Sprint(e.Event, " ", i), "octokit." + goNames[e.Event], e.Payload, named})
	}
	t.Logf("%d events, %d examples, of which %d are not valid; the largest published schema has %d KB", len(names), len(examples), skipped, largest>>10)
	trips.run(t)
}
