package gen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	formats "github.com/mcpe-gen/mcpe-gen/internal/gen/foreign"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// corpora names the directory with the packages of testdata/corpora installed.
const corpora = "MCPE_TEST_CORPORA"

// corporaTable has what the corpora give; -update rewrites it.
const corporaTable = "testdata/corpora/table.md"

// samplesEach is how many values of a corpus are tried.
const samplesEach = 50

// A corpus is what others describe their events with. write makes an event file of it and gives how often each code was
// said.
type corpus struct {
	name, from string
	write      func(t *testing.T, sources, dir string) (said map[string]int)
	// examples are payloads beside those that are made; nil where there are none.
	examples func(t *testing.T, sources string, e model.Event, set *schema.Set) []json.RawMessage
}

var allCorpora = []corpus{
	{name: "github", from: "@octokit/openapi-webhooks 12.1.0, OpenAPI", write: openAPI("node_modules/@octokit/openapi-webhooks/generated/api.github.com.json")},
	{name: "octokit", from: "@octokit/webhooks-schemas 7.6.1, JSON Schema", write: definitions("node_modules/@octokit/webhooks-schemas/schema.json",
		regexp.MustCompile(`\$`), "secret_scanning_alert_location$created")}, // of which no value is valid
	{name: "stripe", from: "github.com/stripe/stripe-mock v0.203.0, OpenAPI", write: openAPI("stripe-mock/embedded/openapi/spec3.beta.sdk.json"), examples: stripeExamples},
	{name: "figma", from: "@figma/rest-api-spec 0.43.0, OpenAPI", write: openAPI("node_modules/@figma/rest-api-spec/openapi/openapi.yaml")},
	{name: "shopify", from: "shopify-webhook-schemas 0.3.8, its 2026-07, JSON Schema", write: directory("node_modules/shopify-webhook-schemas/schemas/2026-07")},
	{name: "cucumber", from: "@cucumber/messages 34.2.1, JSON Schema", write: definitions("node_modules/@cucumber/messages/messages.schema.json", regexp.MustCompile(`.`))},
	{name: "vegalite", from: "vega-lite 6.5.0, JSON Schema", write: definitions("node_modules/vega-lite/build/vega-lite-schema.json", regexp.MustCompile(`.`))},
}

// openAPI imports an OpenAPI document.
func openAPI(path string) func(t *testing.T, sources, dir string) map[string]int {
	return func(t *testing.T, sources, dir string) map[string]int {
		path := filepath.Join(sources, path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		doc, found := formats.Read(path, text, formats.Options{})
		if source.HasErrors(found) {
			t.Fatal(diagnosticText(onlyErrors(found)))
		}
		file, more, err := importer.Write(doc, importer.Options{From: filepath.Base(path)})
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "events.yaml", string(file))
		said := map[string]int{}
		count(said, append(found, more...))
		return said
	}
}

// definitions has an event type for each definition of an object whose name fits, but for some.
func definitions(path string, names *regexp.Regexp, except ...string) func(t *testing.T, sources, dir string) map[string]int {
	return func(t *testing.T, sources, dir string) map[string]int {
		text, err := os.ReadFile(filepath.Join(sources, path))
		if err != nil {
			t.Fatal(err)
		}
		root, found := source.Parse("schema.json", text)
		if source.HasErrors(found) {
			t.Fatal(diagnosticText(onlyErrors(found)))
		}
		write(t, dir, "schema.json", string(text))
		refs := map[string]string{}
		for _, key := range []string{"definitions", "$defs"} {
			list := root.Get(key)
			if list == nil {
				continue
			}
			for _, m := range list.Members {
				if of := m.Value.Get("type"); names.MatchString(m.Key) && !slices.Contains(except, m.Key) && of != nil && of.Text == "object" {
					refs[m.Key] = "./schema.json#" + wire.Pointer(key, m.Key)
				}
			}
		}
		writeEvents(t, dir, refs, root.Get("$schema"))
		return map[string]int{}
	}
}

// directory has an event type for each file below a directory.
func directory(path string) func(t *testing.T, sources, dir string) map[string]int {
	return func(t *testing.T, sources, dir string) map[string]int {
		root := filepath.Join(sources, path)
		refs := map[string]string{}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".json" {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			name := strings.ReplaceAll(strings.TrimSuffix(filepath.ToSlash(rel), ".json"), "/", ".")
			write(t, dir, name+".schema.json", string(text))
			refs[name] = "./" + name + ".schema.json"
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		writeEvents(t, dir, refs, nil)
		return map[string]int{}
	}
}

// unnamable is what the name of an event type cannot have.
var unnamable = regexp.MustCompile(`[^A-Za-z0-9]+`)

// writeEvents writes an event file with an event type for each reference.
func writeEvents(t *testing.T, dir string, refs map[string]string, dialect *source.Node) {
	t.Helper()
	events := []any{}
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		at := strings.Trim(unnamable.ReplaceAllString(strings.ReplaceAll(name, "https://cucumber.io/schema/", ""), "_"), "_")
		if at[0] < 'A' {
			at = "n" + at
		}
		for taken[at] {
			at += "_x"
		}
		taken[at] = true
		payload := map[string]any{"$ref": refs[name]}
		if dialect != nil {
			payload["$schema"] = dialect.Text
		}
		events = append(events, map[string]any{"name": at, "description": "It is of " + name + ".", "inputSchema": map[string]any{"type": "object"}, "payloadSchema": payload})
	}
	text, err := json.Marshal(map[string]any{"version": 1, "events": events})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "events.yaml", string(text))
}

// stripeExamples are the objects that Stripe's own mock answers with.
func stripeExamples(t *testing.T, sources string, e model.Event, set *schema.Set) []json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sources, "stripe-mock/embedded/openapi/fixtures3.beta.json"))
	if err != nil {
		t.Fatal(err)
	}
	var fixtures struct{ Resources map[string]json.RawMessage }
	if err := json.Unmarshal(text, &fixtures); err != nil {
		t.Fatal(err)
	}
	for _, of := range set.Files[0].Events {
		ref := of.Payload.Get("properties").Get("object").Get("$ref")
		if of.Name != e.Name || ref == nil {
			continue
		}
		if object, ok := fixtures.Resources[strings.TrimPrefix(ref.Text, "#/schemas/")]; ok {
			return []json.RawMessage{json.RawMessage(`{"object":` + string(object) + `}`)}
		}
	}
	return nil
}

func onlyErrors(found []source.Diagnostic) []source.Diagnostic {
	return slices.DeleteFunc(slices.Clone(found), func(d source.Diagnostic) bool { return d.Severity != source.Error })
}

func count(said map[string]int, found []source.Diagnostic) {
	for _, d := range found {
		said[d.Code]++
	}
}

// Sets of schemas that others have published give Go and TypeScript that compiles; what ajv takes of 50 values each goes
// through the Go types unchanged, and our verdicts are those of ajv. How much stays untyped, and what is said about it, is
// in a table that grows worse only on purpose (MODEL-1, TS-3).
func TestCorpora(t *testing.T) {
	sources := os.Getenv(corpora)
	if sources == "" {
		t.Skipf("NOT RUN: %s; `make corpora` installs what it needs and runs it", t.Name())
	}
	rows := []string{
		"# Corpora",
		"",
		"What `make corpora` makes of sets of schemas that others have published. \"any\" counts what stays JSON in Go, and `unknown` in",
		"TypeScript. CDEvents and google-cloudevents are not among them: no npm package has their schemas.",
		"",
		"| Corpus | From | Event types | Types | any in Go | any in TypeScript | Unions by tag | by form | Diagnostics | Values | Refused | Verdicts unlike ajv's |",
		"|---|---|---|---|---|---|---|---|---|---|---|---|",
	}
	head := len(rows)
	for _, c := range allCorpora {
		t.Run(c.name, func(t *testing.T) { rows = append(rows, c.row(t, sources)) })
	}
	if len(rows) < head+len(allCorpora) {
		return // some were left out by -run, or failed
	}
	text := strings.Join(rows, "\n") + "\n"
	if *update {
		if err := os.WriteFile(corporaTable, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(readText(t, corporaTable), text); diff != "" {
		t.Errorf("%s (-want +got); run make corpora UPDATE=1 if that is meant:\n%s", corporaTable, diff)
	}
}

// row tries one corpus.
func (c corpus) row(t *testing.T, sources string) string {
	p := newProject(t)
	dir := t.TempDir()
	said := c.write(t, sources, dir)
	r := gen.Request{Dir: dir, Files: []string{"events.yaml"}, Out: c.name, Package: c.name, Emit: []string{"types"}}
	set, found := schema.Load([]string{filepath.Join(dir, "events.yaml")}, schema.Options{})
	if source.HasErrors(found) {
		t.Fatal(diagnosticText(onlyErrors(found)))
	}
	m, found, err := gen.Inspect(t.Context(), r)
	if err != nil || m == nil {
		t.Fatal(diagnosticText(onlyErrors(found)), err)
	}
	count(said, found)
	p.write(t, "events.ts", typescriptOf(t, m)["events.ts"])
	p.compile(t)

	values, refused, unlike, trips := c.try(t, p, sources, m, set)
	trips.dir, trips.requests = dir, []gen.Request{r}
	trips.run(t)

	tagged, byForm, anyGo, anyTS := 0, 0, 0, 0
	for _, d := range m.Types {
		if d.Go != nil && strings.Contains(d.Go.Type, "RawMessage") {
			anyGo++
		}
		switch {
		case d.Type.Kind != model.Union:
		case d.Type.Discriminator != "":
			tagged++
		default:
			byForm++
		}
		for _, member := range d.Type.Members {
			if member.Go != nil && strings.Contains(member.Go.Type, "RawMessage") {
				anyGo++
			}
		}
		anyTS += unknowns(d.Type)
	}
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(said)) {
		codes = append(codes, fmt.Sprintf("%s %d", code, said[code]))
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %s | %d | %d | %d |",
		c.name, c.from, len(m.Events), len(m.Types), anyGo, anyTS, tagged, byForm, strings.Join(codes, ", "), values, refused, unlike)
}

// unknowns counts what of a type TypeScript calls unknown.
func unknowns(t model.Type) int {
	n := 0
	if t.Kind == model.Any {
		n++
	}
	for _, inner := range []*model.Type{t.Items, t.Rest} {
		if inner != nil {
			n += unknowns(*inner)
		}
	}
	for _, e := range t.Elements {
		n += unknowns(e)
	}
	for _, m := range t.Members {
		n += unknowns(m.Type)
	}
	for _, v := range t.Variants {
		n += unknowns(v.Type)
	}
	return n
}

// alteredEach is how many altered values are tried beside a value.
const alteredEach = 30

// altered are values that differ from one in one place each, so that some are valid and some are not.
func altered(t *testing.T, value json.RawMessage) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	alter(decode(t, value), func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	})
	var some []json.RawMessage
	for i := range min(alteredEach, len(all)) { // from everywhere in the value
		some = append(some, all[i*len(all)/min(alteredEach, len(all))])
	}
	return some
}

// alter calls yield with v altered in each place.
func alter(v any, yield func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			other := maps.Clone(v)
			alter(v[k], func(inner any) {
				other[k] = inner
				yield(other)
			})
			delete(other, k)
			yield(other)
		}
		more := maps.Clone(v)
		more["zz further"] = []int{1}
		yield(more)
	case []any:
		for i := range v {
			other := slices.Clone(v)
			alter(v[i], func(inner any) {
				other[i] = inner
				yield(other)
			})
		}
		yield([]any{})
		yield(slices.Concat(v, v))
	case string:
		yield(v + "x")
		yield(1)
	case json.Number:
		yield(json.Number("-" + strings.TrimPrefix(string(v), "-")))
		yield("1")
	case bool:
		yield(!v)
	case nil:
		yield("x")
	}
	yield(nil)
}

// A tried event type has values, some of which are altered.
type tried struct {
	name, of string
	valid    *validate.Schema
	values   []json.RawMessage
}

// try holds our verdicts against ajv's, and returns how many values both take or refuse, on how many they do not agree,
// and the round trips of what both take.
func (c corpus) try(t *testing.T, p *tsProject, sources string, m *model.Package, set *schema.Set) (taken, refused, unlike int, trips *roundTrips) {
	trips = &roundTrips{}
	var library validate.Library
	maker := new(sample.Maker)
	payloads := map[string]*source.Node{}
	for _, e := range set.Files[0].Events {
		payloads[e.Name] = e.Payload
	}
	types := newValues(m)
	var all []tried
	sound := 0
	for round := 0; round < 2 && sound < samplesEach; round++ { // first those far apart, then all others
		for i, e := range m.Events {
			if sound >= samplesEach || (i%max(1, len(m.Events)/samplesEach) == 0) != (round == 0) {
				continue
			}
			shared := set.Shared(payloads[e.Name])
			var samples []json.RawMessage
			if v, ok := maker.Value(shared); ok {
				samples = append(samples, v)
			}
			if c.examples != nil {
				samples = append(samples, c.examples(t, sources, e, set)...)
			}
			if len(samples) == 0 {
				continue
			}
			valid, err := library.Compile(shared)
			if err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			x := tried{name: e.Name, of: e.Payload.Type, valid: valid, values: samples}
			sound += len(samples)
			for _, v := range samples {
				x.values = append(x.values, altered(t, v)...)
			}
			all = append(all, x)
		}
	}
	for i, verdicts := range c.judge(t, p, m, all) {
		x := all[i]
		for j, ajv := range verdicts {
			err := x.valid.Validate(x.values[j])
			switch {
			case ajv != (err == nil):
				unlike++
				t.Logf("ajv says %v of a %s, and we say %v: %.500s", ajv, x.name, err, x.values[j])
			case !ajv:
				refused++
			default:
				taken++
				data := encode(t, types.named(decode(t, x.values[j]), model.Type{Kind: model.Ref, Ref: x.of}))
				if x.valid.Validate(data) != nil {
					t.Fatalf("a %s is valid, and is not without the members that the schema does not name: %s", x.name, x.values[j])
				}
				trips.documents = append(trips.documents, document{fmt.Sprint(x.name, " ", j), c.name + "." + x.of, data, func(string) bool { return true }})
			}
		}
	}
	if taken < samplesEach {
		t.Errorf("only %d values are valid", taken)
	}
	return taken, refused, unlike, trips
}

// judge asks ajv about all values.
func (c corpus) judge(t *testing.T, p *tsProject, m *model.Package, all []tried) [][]bool {
	t.Helper()
	var questions bytes.Buffer
	ask := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		questions.Write(append(text, '\n'))
	}
	draft07 := false
	for _, text := range m.Defs {
		draft07 = draft07 || bytes.Contains(text, []byte("draft-07"))
	}
	ask(map[string]any{"definitions": m.Defs, "draft07": draft07})
	pointers := map[string]string{}
	for _, e := range m.Events {
		pointers[e.Name] = e.Payload.Schema
	}
	for _, x := range all {
		ask(map[string]any{"ref": pointers[x.name], "values": x.values})
	}
	answers, err := p.node(t, questions.Bytes(), "corpus.mjs")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(answers), []byte("\n"))
	if len(lines) != len(all) {
		t.Fatalf("%d answers to %d questions", len(lines), len(all))
	}
	verdicts := make([][]bool, len(all))
	for i, line := range lines {
		if err := json.Unmarshal(line, &verdicts[i]); err != nil {
			t.Fatal(err)
		}
	}
	return verdicts
}
