package gen_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// refusedFile lists the cases of the official test suite that the generator refuses, and the
// instances that it judges otherwise, each with the reason. It may only shrink.
const refusedFile = "testdata/suite/refused.txt"

// A suiteCase is one schema of the official JSON-Schema-Test-Suite with its instances.
type suiteCase struct {
	key, dialect string
	Description  string          `json:"description"`
	Schema       json.RawMessage `json:"schema"`
	Tests        []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`

	// name is that of the schema's entry.
	name string
	// twin tells that a type was put beside the suite's schema.
	twin bool
}

// suiteDir is the official suite, whole: draft 2020-12 and draft-07, required and optional.
const suiteDir = "testdata/json-schema-suite"

// remotes maps the address that the suite's server would have to its files.
var remotes = map[string]string{"http://localhost:1234/": suiteDir + "/remotes"}

func suite(t *testing.T) []*suiteCase {
	t.Helper()
	var all []*suiteCase
	for sub, dialect := range map[string]string{
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema", "draft7": "http://json-schema.org/draft-07/schema#",
	} {
		files := suiteFiles(t, sub)
		for _, f := range files {
			content, err := os.ReadFile(filepath.Join(suiteDir, "tests", filepath.FromSlash(f)))
			if err != nil {
				t.Fatal(err)
			}
			var cases []*suiteCase
			if err := json.Unmarshal(content, &cases); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			for _, c := range cases {
				c.key, c.dialect = f+": "+c.Description, dialect
			}
			all = append(all, cases...)
		}
	}
	slices.SortFunc(all, func(a, b *suiteCase) int { return strings.Compare(a.key, b.key) })
	for i, c := range all {
		if i > 0 && c.key == all[i-1].key {
			c.key += " (again)"
		}
		c.name = fmt.Sprintf("S%04d", i)
	}
	return all
}

// suiteFiles lists the files of a dialect, as in draft7/optional/bignum.json.
func suiteFiles(t *testing.T, dialect string) []string {
	t.Helper()
	var files []string
	root := filepath.Join(suiteDir, "tests")
	err := filepath.WalkDir(filepath.Join(root, dialect), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".json" {
			var name string
			name, err = filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of the suite for %s: %v", dialect, err)
	}
	return files
}

// entry is the schema as an entry of an event file, its dialect written at its top.
func (c *suiteCase) entry() json.RawMessage {
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(c.Schema)), "{")
	if !ok || strings.Contains(rest, `"$schema"`) {
		return c.Schema
	}
	comma := ","
	if strings.TrimSpace(rest) == "}" {
		comma = ""
	}
	return json.RawMessage(fmt.Sprintf(`{"$schema": %q%s%s`, c.dialect, comma, rest))
}

// event is an event whose payload is the schema itself, or holds the instance at v.
func (c *suiteCase) event(direct bool) string {
	if direct {
		return fmt.Sprintf(`{"name":"d.%s","description":"d","inputSchema":{"type":"object"},"payloadSchema":%s}`, c.name, c.entry())
	}
	return fmt.Sprintf(`{"name":"c.%s","description":%q,"inputSchema":{"type":"object"},"payloadSchema":{"$schema":%q,"type":"object",`+
		`"properties":{"v":{"$ref":"#/schemas/%s"},"o":{"$ref":"#/schemas/%s"}},"required":["v"]}}`, c.name, "About "+c.Description, c.dialect, c.name, c.name)
}

func eventDocument(schemas, events []string) []byte {
	return []byte(`{"version":1,"package":"suite","schemas":{` + strings.Join(schemas, ",") + `},"events":[` + strings.Join(events, ",") + `]}`)
}

func (c *suiteCase) document(direct bool) []byte {
	if direct {
		return eventDocument(nil, []string{c.event(true)})
	}
	return eventDocument([]string{fmt.Sprintf("%q:%s", c.name, c.entry())}, []string{c.event(false)})
}

// build types a document and returns what would be published of its event, and of how many files
// the package is made.
func build(document []byte) (json.RawMessage, int, []source.Diagnostic) {
	set, diags := schema.Load([]string{"s.json"}, schema.Options{Refs: remotes, ReadFile: func(path string) ([]byte, error) {
		if path == "s.json" {
			return document, nil
		}
		return os.ReadFile(path)
	}})
	if source.HasErrors(diags) {
		return nil, 0, diags
	}
	p, diags := ir.Build(set, ir.Options{Package: "suite"})
	if source.HasErrors(diags) {
		return nil, 0, diags
	}
	return p.Files[0].Events[0].PayloadSchema.JSON(), len(p.Files), nil
}

// TestSuite puts the official test suite through the generator: of every schema that is accepted,
// the generated package compiles, valid instances survive a round trip, and validation says what the
// suite says. What is refused is on the list. Each schema comes as it is, and again with each type
// that its valid instances have: the suite hardly ever says type, and without it a value stays JSON.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	refused := map[string]string{}
	dir := t.TempDir()
	// A Go number has bounds that a JSON number has not: what such a type cannot hold is listed too.
	trips := &roundTrips{dir: dir, lost: func(d document, why string) {
		if refused[d.label] == "" { // else validation keeps it away from the type
			refused[d.label] = why
		}
	}}
	var schemas, events []string // of the cases that fit into one event file
	accepted, instances := 0, 0
	for _, c := range withTypes(suite(t)) {
		published, files, diags := build(c.document(false))
		if published == nil {
			refused[c.key] = oneLine.Replace(firstError(diags))
			continue
		}
		accepted, instances = accepted+1, instances+len(c.Tests)
		c.judge(t, published, refused)
		pkg := "all"
		if files > 1 { // what it refers to may have the name of what another case refers to
			pkg = strings.ToLower(c.name)
			write(t, dir, pkg+".json", string(c.document(false)))
			trips.requests = append(trips.requests, gen.Request{Dir: dir, Files: []string{pkg + ".json"}, Out: pkg, Package: pkg, Refs: absolute(t, remotes), Emit: []string{"types"}})
		} else {
			schemas, events = append(schemas, fmt.Sprintf("%q:%s", c.name, c.entry())), append(events, c.event(false))
			if direct, _, _ := build(c.document(true)); direct != nil && !c.twin {
				events = append(events, c.event(true))
				c.trips(trips, pkg+".D"+c.name+"Payload", "%s")
			}
		}
		c.trips(trips, pkg+".C"+c.name+"Payload", `{"v":%s,"o":%[1]s}`)
	}
	t.Logf("%d schemas accepted, %d refused or judged otherwise, %d instances", accepted, len(refused), instances)
	write(t, dir, "all.json", string(eventDocument(schemas, events)))
	trips.requests = append(trips.requests, gen.Request{Dir: dir, Files: []string{"all.json"}, Out: "all", Package: "all", Emit: []string{"types"}})
	trips.run(t)
	for key := range refused { // a twin that differs as its like does says nothing new
		at := strings.LastIndex(key, " as ")
		if at < 0 {
			continue
		}
		if _, test, of := strings.Cut(key[at:], " / "); of && refused[key[:at]+" / "+test] == refused[key] {
			delete(refused, key)
		}
	}
	compareRefused(t, refused)
}

// absolute returns refs with absolute paths, for a run in another directory.
func absolute(t *testing.T, refs map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for url, path := range refs {
		full, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		out[url] = full
	}
	return out
}

// trips adds the valid instances as documents of a type.
func (c *suiteCase) trips(to *roundTrips, typ, format string) {
	for _, test := range c.Tests {
		if test.Valid {
			to.documents = append(to.documents, document{c.key + " / " + test.Description, typ, json.RawMessage(fmt.Sprintf(format, test.Data)), c.names})
		}
	}
}

// names reports whether the schema names a member, so that it must not be lost.
func (c *suiteCase) names(member string) bool {
	quoted, _ := json.Marshal(member)
	return strings.Contains(string(c.Schema), string(quoted)+":") || strings.Contains(string(c.Schema), string(quoted)+" :")
}

// withTypes adds to each case the same schema with a type beside it, for the types that its valid
// instances have.
func withTypes(cases []*suiteCase) []*suiteCase {
	var all []*suiteCase
	for _, c := range cases {
		all = append(all, c)
		seen := map[string]bool{}
		for _, test := range c.Tests {
			typ := jsonType(test.Data)
			if !test.Valid || seen[typ] || typ == "null" {
				continue
			}
			seen[typ] = true
			// A $ref keeps its siblings out in draft-07, and an $id keeps its base.
			twin := *c
			twin.key, twin.name, twin.Tests = c.key+" as "+typ, c.name+"As"+strings.ToUpper(typ[:1])+typ[1:], nil
			twin.twin = true
			twin.Schema = json.RawMessage(fmt.Sprintf(`{"type":%q,"allOf":[%s]}`, typ, c.Schema))
			for _, test := range c.Tests {
				test.Valid = test.Valid && (jsonType(test.Data) == typ || typ == "number" && jsonType(test.Data) == "integer")
				twin.Tests = append(twin.Tests, test)
			}
			if !strings.Contains(string(c.Schema), "#") { // a reference from the top would lead elsewhere
				all = append(all, &twin)
			}
		}
	}
	return all
}

func jsonType(data json.RawMessage) string {
	switch data[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// judge compares our verdict on each instance with the suite's.
func (c *suiteCase) judge(t *testing.T, published json.RawMessage, refused map[string]string) {
	t.Helper()
	s, err := validate.Compile(published)
	if err != nil {
		t.Errorf("%s: the published schema does not compile: %v\n%s", c.key, err, published)
		return
	}
	for _, test := range c.Tests {
		err := s.Validate(json.RawMessage(`{"v":` + string(test.Data) + `}`))
		if (err == nil) != test.Valid {
			refused[c.key+" / "+test.Description] = fmt.Sprintf("valid is %v, but: %v", test.Valid, err)
		}
	}
}

var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

func firstError(diags []source.Diagnostic) string {
	for _, d := range diags {
		if d.Severity == source.Error {
			return d.Code + " " + d.Message
		}
	}
	return "no diagnostic"
}

// compareRefused fails for everything that is not on the committed list, and for what is on it and
// no longer refused, or for another reason; -update only takes lines away.
func compareRefused(t *testing.T, refused map[string]string) {
	t.Helper()
	content, err := os.ReadFile(refusedFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var kept []string
	listed := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") || line == "" {
			kept = append(kept, line)
			continue
		}
		key, reason, _ := strings.Cut(line, " => ")
		listed[key] = true
		if now, ok := refused[key]; ok {
			kept = append(kept, key+" => "+now)
			if now != reason && !*update {
				t.Errorf("%s is refused for another reason than %s says: %s", key, refusedFile, now)
			}
		} else if !*update {
			t.Errorf("%s is no longer refused: take it off %s", key, refusedFile)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(refused)) {
		if !listed[key] {
			t.Errorf("%s: %s\nis refused and not on the list %s", key, refused[key], refusedFile)
		}
	}
	if *update {
		if err := os.WriteFile(refusedFile, []byte(strings.Join(kept, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
