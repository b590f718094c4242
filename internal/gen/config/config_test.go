package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func load(t *testing.T, text string) (*config.Config, []source.Diagnostic) {
	t.Helper()
	return config.Load("dir/mcpe.yaml", func(string) ([]byte, error) { return []byte(text), nil })
}

func TestLoad(t *testing.T) {
	c, found := load(t, `version: 1
packages:
  - {schemas: [events/*.yaml], out: internal/incidents, package: incidents, emit: [server, tools]}
  - {schemas: [a.yaml, b.yaml], out: ../x}
types: {uuid: github.com/google/uuid.UUID, number-as-text: string}
refs: {'https://example.com/schemas/': third/, 'https://example.com/one.json': third/one.json}
lint:
  use: [MINIMAL, TIME_FORMAT]
  except: [INPUT_OPEN]
  severity: {TIME_FORMAT: error}
  ignore:
    - {path: events/legacy, rules: [TIME_FORMAT]}
    - {event: 'old.*'}
breaking: {categories: [STRICT, WIRE], except: [FIELD_REMOVED], ignore: [{event: a, rules: [STRICT]}]}
`)
	if len(found) > 0 {
		t.Fatal(found)
	}
	if c.Dir != "dir" || len(c.Packages) != 2 {
		t.Fatalf("%+v", c)
	}
	p, q := c.Packages[0], c.Packages[1]
	if p.Out != filepath.Join("dir", "internal", "incidents") || p.Name != "incidents" || strings.Join(p.Emit, " ") != "server tools" || p.Schemas[0].Text != "events/*.yaml" {
		t.Errorf("%+v", p)
	}
	if q.Out != "x" || q.Name != "" || strings.Join(q.Emit, " ") != "server client tools" || len(q.Schemas) != 2 {
		t.Errorf("%+v", q)
	}
	if diff := cmp.Diff(map[string]string{"uuid": "github.com/google/uuid.UUID", "number-as-text": "string"}, c.Types); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"https://example.com/schemas/": filepath.Join("dir", "third"), "https://example.com/one.json": filepath.Join("dir", "third", "one.json")}, c.Refs); diff != "" {
		t.Error(diff)
	}
	lint := rule.Selection{
		Use: []string{"MINIMAL", "TIME_FORMAT"}, Except: []string{"INPUT_OPEN"}, Severity: map[string]source.Severity{"TIME_FORMAT": source.Error},
		Ignore: []rule.Ignore{{Dir: "dir", Path: "events/legacy", Rules: []string{"TIME_FORMAT"}}, {Dir: "dir", Event: "old.*"}},
	}
	ranges := cmpopts.IgnoreFields(rule.Ignore{}, "Range")
	if diff := cmp.Diff(lint, c.Lint, ranges); diff != "" {
		t.Error(diff)
	}
	breaking := rule.Selection{
		Use: []string{"STRICT", "WIRE"}, Except: []string{"FIELD_REMOVED"},
		Ignore: []rule.Ignore{{Dir: "dir", Event: "a", Rules: []string{"STRICT"}}},
	}
	if diff := cmp.Diff(breaking, c.Breaking, ranges); diff != "" {
		t.Error(diff)
	}
}

// What is wrong with a configuration is found by the loader, at its place, and by the JSON Schema,
// except where the schema cannot know.
func TestMistakes(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.ConfigSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///config.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///config.json")
	if err != nil {
		t.Fatal(err)
	}
	const pkg = "version: 1\npackages: [{schemas: [a], out: b}]\n"
	for _, test := range []struct {
		in, want string
		schema   bool // the JSON Schema accepts it
	}{
		{pkg, "", true},
		{"version: 1\n", "", true},
		{"packages: []\n", `dir/mcpe.yaml:1:1: error MCPE122: the configuration needs "version"`, false},
		{"version: 2\n", `dir/mcpe.yaml:1:10: error MCPE400: version 2 is not known`, false},
		{"version: 1\npackage: []\n", `dir/mcpe.yaml:2:1: error MCPE120: the configuration has no key "package"`, false},
		{"version: 1\npackages: {}\n", `dir/mcpe.yaml:2:11: error MCPE121: packages must be an array, not an object`, false},
		{"version: 1\npackages: [{out: b}]\n", `dir/mcpe.yaml:2:12: error MCPE122: a package needs "schemas"`, false},
		{pkg + "plugins: [{name: p, command: [x, y], out: c, options: {a: 1}, timeout: 10s}]\n", "", true},
		{pkg + "plugins: [{name: p, command: [x]}]\n", `dir/mcpe.yaml:3:11: error MCPE122: a plugin needs "out"`, false},
		{pkg + "plugins: [{name: p, command: [], out: c}]\n", `dir/mcpe.yaml:3:30: error MCPE123: command is empty`, false},
		{pkg + "plugins: [{name: p, command: [''], out: c}]\n", `dir/mcpe.yaml:3:31: error MCPE123: the program is empty`, false},
		{pkg + "plugins: [{name: p, command: [x], out: /c}]\n", `dir/mcpe.yaml:3:40: error MCPE123: out "/c" is an absolute path`, false},
		{pkg + "plugins: [{name: p, command: [x], out: c, timeout: soon}]\n", `dir/mcpe.yaml:3:52: error MCPE123: timeout "soon" is not a duration of at most an hour`, false},
		{pkg + "plugins: [{name: p, command: [x], out: c}, {name: p, command: [x], out: d}]\n", `dir/mcpe.yaml:3:51: error MCPE123: two plugins are called "p"`, true},
		{pkg + "plugins: [{name: p, command: [x], out: c}, {name: q, command: [x], out: c}]\n", `dir/mcpe.yaml:3:73: error MCPE403: two plugins are written to "c"`, true},
		{"version: 1\npackages: [{schemas: [a]}]\n", `dir/mcpe.yaml:2:12: error MCPE122: a package needs "out" or "typescript"`, false},
		{"version: 1\npackages: [{schemas: [a], typescript: {out: b, emit: [client]}}]\n", "", true},
		{"version: 1\npackages: [{schemas: [a], out: b, typescript: {out: b}}]\n", "", true},
		{"version: 1\npackages: [{schemas: [a], emit: [server], typescript: {out: b}}]\n", `dir/mcpe.yaml:2:27: error MCPE122: emit needs "out" next to it`, false},
		{"version: 1\npackages: [{schemas: [a], typescript: {}}]\n", `dir/mcpe.yaml:2:39: error MCPE122: typescript needs "out"`, false},
		{"version: 1\npackages: [{schemas: [a], typescript: {out: b, emit: [clint]}}]\n", `dir/mcpe.yaml:2:55: error MCPE123: an element of emit cannot be "clint"`, false},
		{"version: 1\npackages: [{schemas: [a], typescript: {out: b}}, {schemas: [c], typescript: {out: ./b}}]\n", `dir/mcpe.yaml:2:83: error MCPE403: two TypeScript packages are written to "./b"`, true},
		{"version: 1\npackages: [{schemas: [a], out: b, import: {c/d.yaml: example.com/m/c}}]\n", "", true},
		{"version: 1\npackages: [{schemas: [a], out: b, import: [c]}]\n", `dir/mcpe.yaml:2:43: error MCPE121: import must be an object, not an array`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, import: {c: 5}}]\n", `dir/mcpe.yaml:2:47: error MCPE121: the import path must be a string, not a number`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, import: {c: 'a b'}}]\n", `dir/mcpe.yaml:2:47: error MCPE408: the import path "a b" is not valid`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, import: {c: ../d}}]\n", `dir/mcpe.yaml:2:47: error MCPE408: the import path "../d" is not valid`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, import: {/c: d}}]\n", `dir/mcpe.yaml:2:44: error MCPE123: the file "/c" is an absolute path`, false},
		{"version: 1\npackages: [{schemas: [a], import: {c: d}, typescript: {out: b}}]\n", `dir/mcpe.yaml:2:27: error MCPE122: import needs "out" next to it`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, server: {out: c}, client: {out: d}, emit: [types]}]\n", "", true},
		{"version: 1\npackages: [{schemas: [a], out: b, server: {out: ./b}}]\n", `dir/mcpe.yaml:2:49: error MCPE403: two packages are written to "./b"`, true},
		{"version: 1\npackages: [{schemas: [a], out: b, client: c}]\n", `dir/mcpe.yaml:2:43: error MCPE121: client must be an object, not a string`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, client: {}}]\n", `dir/mcpe.yaml:2:43: error MCPE122: client needs "out"`, false},
		{"version: 1\npackages: [{schemas: [a], server: {out: c}, typescript: {out: b}}]\n", `dir/mcpe.yaml:2:27: error MCPE122: server needs "out" next to it`, false},
		{"version: 1\npackages: [{schemas: [], out: b}]\n", `dir/mcpe.yaml:2:22: error MCPE123: schemas is empty`, false},
		{"version: 1\npackages: [{schemas: [/a], out: b}]\n", `dir/mcpe.yaml:2:23: error MCPE123: an element of schemas "/a" is an absolute path`, false},
		{"version: 1\npackages: [{schemas: [a], out: ''}]\n", `dir/mcpe.yaml:2:32: error MCPE123: out is empty`, false},
		{"version: 1\npackages: [{schemas: ['a['], out: b}]\n", `dir/mcpe.yaml:2:23: error MCPE401: "a[" is not a glob pattern`, true},
		{"version: 1\npackages: [{schemas: ['a**/b'], out: b}]\n", `dir/mcpe.yaml:2:23: error MCPE401: "a**/b" is not a glob pattern`, true},
		{"version: 1\npackages: [{schemas: [a], out: b}, {schemas: [c], out: ./b}]\n", `dir/mcpe.yaml:2:56: error MCPE403: two packages are written to "./b"`, true},
		{"version: 1\npackages: [{schemas: [a], out: b, package: go}]\n", `dir/mcpe.yaml:2:44: error MCPE124: package "go" cannot name a Go package`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, emit: []}]\n", `dir/mcpe.yaml:2:41: error MCPE123: emit is empty`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, emit: [servr]}]\n", `dir/mcpe.yaml:2:42: error MCPE123: an element of emit cannot be "servr"`, false},
		{"version: 1\npackages: [{schemas: [a], out: b, emit: [tools, tools]}]\n", `dir/mcpe.yaml:2:49: error MCPE123: emit holds "tools" twice`, false},
		{"version: 1\ntypes: {uuid: not a type}\n", `dir/mcpe.yaml:2:15: error MCPE402: the Go type "not a type" is not an import path and a type`, false},
		{"version: 1\ntypes: {uuid: 5}\n", `dir/mcpe.yaml:2:15: error MCPE121: the Go type must be a string, not a number`, false},
		{"version: 1\nlint: {rules: []}\n", `dir/mcpe.yaml:2:8: error MCPE120: lint has no key "rules"`, false},
		{"version: 1\nrefs: {example.com: a.json}\n", `dir/mcpe.yaml:2:8: error MCPE405: the key "example.com" is not a URL without a fragment`, false},
		{"version: 1\nrefs: {'https://e.x/a#b': a.json}\n", `dir/mcpe.yaml:2:8: error MCPE405: the key "https://e.x/a#b" is not a URL without a fragment`, false},
		{"version: 1\nrefs: {'https://e.x/': a.json}\n", `dir/mcpe.yaml:2:24: error MCPE405: the path "a.json" does not end in a slash, but its URL does`, false},
		{"version: 1\nrefs: {'https://e.x/a': /a.json}\n", `dir/mcpe.yaml:2:25: error MCPE123: https://e.x/a "/a.json" is an absolute path`, false},
		{"version: 1\nlint: {use: [STANDRD]}\n", `dir/mcpe.yaml:2:14: error MCPE123: a category or rule cannot be "STANDRD"`, false},
		{"version: 1\nlint: {use: []}\n", `dir/mcpe.yaml:2:13: error MCPE123: use is empty`, false},
		{"version: 1\nlint: {except: [STANDARD]}\n", `dir/mcpe.yaml:2:17: error MCPE123: a rule cannot be "STANDARD"`, false},
		{"version: 1\nlint: {severity: {TIME_FORMAT: fatal}}\n", `dir/mcpe.yaml:2:32: error MCPE123: a severity cannot be "fatal"`, false},
		{"version: 1\nlint: {severity: {TIME_FORMT: note}}\n", `dir/mcpe.yaml:2:19: error MCPE404: a lint rule cannot be "TIME_FORMT"`, false},
		{"version: 1\nlint: {ignore: [{rules: [TIME_FORMAT]}]}\n", `dir/mcpe.yaml:2:17: error MCPE122: an element of ignore needs "path" or "event"`, false},
		{"version: 1\nlint: {ignore: [{path: /a}]}\n", `dir/mcpe.yaml:2:24: error MCPE123: path "/a" is an absolute path`, false},
		{"version: 1\nlint: {ignore: [{path: 'a['}]}\n", `dir/mcpe.yaml:2:24: error MCPE401: "a[" is not a glob pattern`, true},
		{"version: 1\nlint: {ignore: [{event: '['}]}\n", `dir/mcpe.yaml:2:25: error MCPE401: "[" is not a glob pattern`, true},
		{"version: 1\nlint: {ignore: [{file: a}]}\n", `dir/mcpe.yaml:2:17: error MCPE122: an element of ignore needs "path" or "event"
dir/mcpe.yaml:2:18: error MCPE120: an element of ignore has no key "file"`, false},
		{"version: 1\nbreaking: {except: [FIELD_REMOVD]}\n", `dir/mcpe.yaml:2:21: error MCPE123: a rule cannot be "FIELD_REMOVD"`, false},
		{"version: 1\nbreaking: {ignore: [{event: a, rules: [TIME_FORMAT]}]}\n", `dir/mcpe.yaml:2:40: error MCPE123: a category or rule cannot be "TIME_FORMAT"`, false},
		{"version: 1\nbreaking: {categories: [wire]}\n", `dir/mcpe.yaml:2:25: error MCPE123: a category cannot be "wire"`, false},
		{"version: 1\nbreaking: {categories: []}\n", `dir/mcpe.yaml:2:24: error MCPE123: categories is empty`, false},
		{"version: 1\ndialect: draft-07\n", "", true},
		{"version: 1\ndialect: http://json-schema.org/draft-07/schema#\n", "", true},
		{"version: 1\ndialect: draft-04\n", `dir/mcpe.yaml:2:10: error MCPE132: dialect cannot be "draft-04"`, false},
		{"version: 1\ndialect: 7\n", `dir/mcpe.yaml:2:10: error MCPE121: dialect must be a string, not a number`, false},
		{"version: 1\noverrides: [{file: a.json, at: /a, x-go-name: A, replace: {type: string}}]\n", "", true},
		{"version: 1\noverrides: [{file: a.json, at: /a, remove: true}, {file: '**/*.json', at: '', x-go-type: math/big.Int}]\n", "", true},
		{"version: 1\noverrides: [{at: /a, remove: true}]\n", `dir/mcpe.yaml:2:13: error MCPE122: an override needs "file"`, false},
		{"version: 1\noverrides: [{file: a.json, remove: true}]\n", `dir/mcpe.yaml:2:13: error MCPE122: an override needs "at"`, false},
		{"version: 1\noverrides: [{file: a.json, at: a, remove: true}]\n", `dir/mcpe.yaml:2:32: error MCPE123: at "a" is not a JSON Pointer`, false},
		{"version: 1\noverrides: [{file: /a.json, at: /a, remove: true}]\n", `dir/mcpe.yaml:2:20: error MCPE123: file "/a.json" is an absolute path`, false},
		{"version: 1\noverrides: [{file: 'a[', at: /a, remove: true}]\n", `dir/mcpe.yaml:2:20: error MCPE401: "a[" is not a glob pattern`, true},
		{"version: 1\noverrides: [{file: a, at: /a}]\n", `dir/mcpe.yaml:2:13: error MCPE122: an override needs x-go-name, x-go-type, replace or remove`, false},
		{"version: 1\noverrides: [{file: a, at: '', remove: true}]\n", `dir/mcpe.yaml:2:27: error MCPE123: at is empty`, false},
		{"version: 1\noverrides: [{file: a, at: /a, remove: false}]\n", `dir/mcpe.yaml:2:39: error MCPE123: remove false can only be true`, false},
		{"version: 1\noverrides: [{file: a, at: /a, remove: true, x-go-name: A}]\n", `dir/mcpe.yaml:2:56: error MCPE123: x-go-name "A" stands next to remove`, false},
		{"version: 1\noverrides: [{file: a, at: /a, x-go-name: a}]\n", `dir/mcpe.yaml:2:42: error MCPE124: x-go-name "a" is not an exported Go identifier`, false},
		{"version: 1\noverrides: [{file: a, at: /a, x-go-type: a b}]\n", `dir/mcpe.yaml:2:42: error MCPE124: x-go-type "a b" is not an import path and a type`, false},
		{"version: 1\noverrides: [{file: a, at: /a, name: A}]\n", `dir/mcpe.yaml:2:13: error MCPE122: an override needs x-go-name, x-go-type, replace or remove
dir/mcpe.yaml:2:31: error MCPE120: an override has no key "name"`, false},
		{"version: 1\nsilence: [{code: MCPE204, files: 'third/**', reason: no bounds there}]\n", "", true},
		{"version: 1\nsilence: [{code: MCPE204}]\n", `dir/mcpe.yaml:2:11: error MCPE122: a silence needs "reason"`, false},
		{"version: 1\nsilence: [{code: MCPE204, reason: ' '}]\n", `dir/mcpe.yaml:2:35: error MCPE123: reason " " says nothing`, false},
		{"version: 1\nsilence: [{code: MCPE103, reason: r}]\n", `dir/mcpe.yaml:2:18: error MCPE407: MCPE103 is an error, and errors are not silenced`, true},
		{"version: 1\nsilence: [{code: MCPE999, reason: r}]\n", `dir/mcpe.yaml:2:18: error MCPE407: unknown code MCPE999`, true},
		{"version: 1\nsilence: [{code: TIME_FORMAT, reason: r}]\n", `dir/mcpe.yaml:2:18: error MCPE407: code "TIME_FORMAT" is not of the form MCPE204`, false},
		{"version: 1\nsilence: [{code: MCPE204, files: /a, reason: r}]\n", `dir/mcpe.yaml:2:34: error MCPE123: files "/a" is an absolute path`, false},
		{"- a\n", `dir/mcpe.yaml:1:1: error MCPE121: the configuration must be an object, not an array`, false},
	} {
		_, found := load(t, test.in)
		var got []string
		for _, d := range found {
			got = append(got, d.String())
		}
		if strings.Join(got, "\n") != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", test.in, strings.Join(got, "\n"), test.want)
		}
		n, _ := source.Parse("mcpe.yaml", []byte(test.in))
		if err := s.Validate(n.Value()); (err == nil) != test.schema {
			t.Errorf("%s\nthe JSON Schema says %v", test.in, err)
		}
	}
}

func TestUnreadable(t *testing.T) {
	_, found := config.Load("none/mcpe.yaml", nil)
	const want = "none/mcpe.yaml: error MCPE100: the file cannot be read: "
	if len(found) != 1 || !strings.HasPrefix(found[0].String(), want) {
		t.Error(found)
	}
}

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("version: 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "mcpe.yaml", "a/b/x")
	t.Chdir(filepath.Join(dir, "a", "b"))
	for at, want := range map[string]string{".": "../../mcpe.yaml", "..": "../../mcpe.yaml", "../..": "../../mcpe.yaml", dir: filepath.Join(dir, "mcpe.yaml"), filepath.Join(dir, "a"): filepath.Join(dir, "mcpe.yaml")} {
		if got, ok := config.Find(at); !ok || filepath.ToSlash(got) != filepath.ToSlash(want) {
			t.Errorf("from %s: got %q, want %q", at, got, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "mcpe.yaml")); err != nil {
		t.Fatal(err)
	}
	if got, ok := config.Find("."); ok {
		t.Errorf("found %s", got)
	}
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "we[ird")
	write(t, dir, "mcpe.yaml", "e/b.yaml", "e/a.yaml", "e/deep/c.yaml", "e/deep/er/d.yaml", "e/.hidden/h.yaml", "e/n.txt", "e/dir.yaml/x.txt")
	type files struct{ patterns, want, fault string }
	tests := []files{
		{"e/*.yaml", "e/a.yaml e/b.yaml", ""},
		{"e/b.yaml e/*.yaml", "e/b.yaml e/a.yaml", ""},
		{"e/**/*.yaml", "e/a.yaml e/b.yaml e/deep/c.yaml e/deep/er/d.yaml", ""},
		{"**/er/*", "e/deep/er/d.yaml", ""},
		{"e/[a-a].yaml", "e/a.yaml", ""},
		{"none/*.yaml e/a.yaml none/**", "e/a.yaml", `MCPE401 MCPE401`},
		{"../we[[]ird/e/a.yaml", "e/a.yaml", ""},
		{"..", "", `MCPE401`},
	}
	if filepath.Separator == '\\' {
		tests = append(tests, files{`e\*.yaml e\deep\**\*.yaml`, "e/a.yaml e/b.yaml e/deep/c.yaml e/deep/er/d.yaml", ""})
	}
	for _, test := range tests {
		c := &config.Config{Path: filepath.Join(dir, "mcpe.yaml"), Dir: dir}
		var p config.Package
		for _, text := range strings.Fields(test.patterns) {
			p.Schemas = append(p.Schemas, config.Pattern{Text: text})
		}
		files, found := c.Files(p)
		var got, codes []string
		for _, f := range files {
			rel, err := filepath.Rel(dir, f)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(rel))
		}
		for _, d := range found {
			codes = append(codes, d.Code)
		}
		if strings.Join(got, " ") != test.want || strings.Join(codes, " ") != test.fault {
			t.Errorf("%s: got %v %v", test.patterns, got, found)
		}
	}
}

func TestAmong(t *testing.T) {
	c := &config.Config{Dir: "sub"}
	paths := []string{"sub/e/a.yaml", "sub/e/deep/b.yaml", "sub/e/.hidden/c.yaml", "shared/d.yaml"}
	for pattern, want := range map[string]string{
		"e/*.yaml": "sub/e/a.yaml", "e/**/*.yaml": "sub/e/a.yaml sub/e/deep/b.yaml", "../shared/*.yaml": "shared/d.yaml", "none/*": "",
	} {
		if got := strings.Join(c.Among(config.Package{Schemas: []config.Pattern{{Text: pattern}}}, paths), " "); got != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
}
