package schema_test

import (
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// The dialect of a schema: its own $schema, the target's of a bare $ref, the file's, the
// configuration's, 2020-12. A draft-07 schema is published with its $schema, so that whoever validates
// against it knows.
func TestDialectOrder(t *testing.T) {
	const old, new = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
	for _, c := range []struct{ name, config, file, payload, document, want string }{
		{"nothing says one", "", "", `{type: object}`, "", new},
		{"the configuration", "draft-07", "", `{type: object}`, "", old},
		{"the configuration, by URI", old, "", `{type: object}`, "", old},
		{"the file before the configuration", "draft-07", "2020-12", `{type: object}`, "", new},
		{"the file", "", "draft-07", `{type: object}`, "", old},
		{"its own before the file", "", "draft-07", `{$schema: '` + new + `', type: object}`, "", new},
		{"the target", "", "", `{$ref: d.json}`, `{"$schema": "` + old + `", "type": "object"}`, old},
		{"the target's definition", "", "2020-12", `{$ref: 'd.json#/definitions/a'}`, `{"$schema": "` + old + `", "definitions": {"a": {"type": "object"}}}`, old},
		{"the target before the file", "draft-07", "draft-07", `{$ref: d.json}`, `{"$schema": "` + new + `", "type": "object"}`, new},
		{"its own before the target", "", "", `{$schema: '` + old + `', $ref: d.json}`, `{"$schema": "` + old + `", "type": "object"}`, old},
		{"a target without one follows", "", "draft-07", `{$ref: d.json}`, `{"type": "object"}`, old},
		{"a target that refers on", "", "", `{$ref: d.json}`, `{"$ref": "e.json"}`, old},
		{"what a generator reads beside it", "", "", `{$ref: d.json, description: A thing., x-go-name: Thing}`, `{"$schema": "` + old + `", "type": "object"}`, old},
		{"a schema of the file", "", "", `{$ref: '#/schemas/Old'}`, "", old},
		{"a schema of another file with a dialect", "", "", `{$ref: 'o.yaml#/schemas/Thing'}`, "", old},
		{"targets in a circle", "draft-07", "", `{$ref: '#/schemas/A'}`, "", old},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialect := ""
			if c.file != "" {
				dialect = "dialect: " + c.file + "\n"
			}
			files := map[string]string{
				"a.yaml": "version: 1\n" + dialect + "schemas:\n  Old: {$schema: '" + old + "', type: object}\n  A: {$ref: '#/schemas/B'}\n  B: {$ref: '#/schemas/A'}\n" +
					"events:\n  - name: a\n    description: d\n    inputSchema: {$schema: '" + new + "', type: object}\n    payloadSchema: " + c.payload + "\n",
				"d.json": c.document,
				"e.json": `{"$schema": "` + old + `", "type": "object"}`,
				"o.yaml": "version: 1\ndialect: draft-07\nschemas:\n  Thing: {type: object}\n",
			}
			set, found := schema.Load([]string{"a.yaml"}, schema.Options{Dialect: c.config, ReadFile: func(path string) ([]byte, error) { return []byte(files[path]), nil }})
			for _, d := range found {
				if d.Severity.String() == "error" && d.Code != "MCPE145" && d.Code != "MCPE135" {
					t.Error(d)
				}
			}
			published := string(set.Published(set.Files[0].Events[0].Payload))
			if got := strings.Contains(published, `"$schema":"`+old+`"`); got != (c.want == old) {
				t.Errorf("published as %s", published)
			}
			if strings.Count(published, "$schema") > 1 {
				t.Errorf("$schema twice in %s", published)
			}
		})
	}
}

// loadFirst loads the first file of an archive; the others are there to be referred to.
func loadFirst(t *testing.T, archive []byte) (*schema.Set, []source.Diagnostic) {
	t.Helper()
	a := txtar.Parse(archive)
	return schema.Load([]string{a.Files[0].Name}, schema.Options{ReadFile: func(path string) ([]byte, error) {
		for _, f := range a.Files {
			if f.Name == path {
				return f.Data, nil
			}
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}})
}

// A draft-07 array of items is read as one when the file says draft-07, and a wrong dialect has its place.
func TestDialectOfFile(t *testing.T) {
	_, found := load(t, txtar.Parse([]byte(`-- a.yaml --
version: 1
dialect: draft-7
schemas:
  Pair: {type: array, items: [{type: string}]}
`)))
	if got := found[0].String(); got != `a.yaml:2:10: error MCPE132: dialect cannot be "draft-7"` {
		t.Error(got)
	}
	_, found = load(t, txtar.Parse([]byte("-- a.yaml --\nversion: 1\ndialect: draft-07\nschemas:\n  Pair: {type: array, items: [{type: string}]}\n")))
	if len(found) > 0 {
		t.Error(found)
	}
}

// A $ref that leads to a URL hints at refs, also when only the $id around it makes it one.
func TestRemoteRefHints(t *testing.T) {
	for ref, want := range map[string]string{
		"links/one":                   `refs: {"https://ex.dev/schema/links/one": PATH}`,
		"https://other.dev/x.json#/a": `refs: {"https://other.dev/x.json": PATH}`,
		"/schema/links/two":           "", // a path by itself; see below
	} {
		_, found := loadFirst(t, []byte(`-- a.yaml --
version: 1
schemas:
  A: {properties: {a: {$ref: s.json}}}
-- s.json --
{"$id": "https://ex.dev/schema/a", "type": "object", "properties": {"l": {"$ref": "`+ref+`"}}}
`))
		if len(found) != 1 || !strings.Contains(found[0].Hint, want) {
			t.Errorf("%s: %v (%s)", ref, found, found[0].Hint)
		}
		if ref[0] == '/' && !strings.Contains(found[0].Hint, "https://ex.dev/schema/links/two") {
			t.Errorf("%s: %v (%s)", ref, found, found[0].Hint)
		}
	}
}

// Files of one base name in several directories have stems and names of their own.
func TestStems(t *testing.T) {
	set, found := loadFirst(t, []byte(`-- a.yaml --
version: 1
schemas:
  A: {properties: {one: {$ref: x/user.json}, two: {$ref: y/User.json}, three: {$ref: x/z/user.schema.json}, four: {$ref: only.json}}}
-- x/user.json --
{"type": "object"}
-- y/User.json --
{"type": "object"}
-- x/z/user.schema.json --
{"type": "object"}
-- only.json --
{"type": "object"}
`))
	if len(found) > 0 {
		t.Fatal(found)
	}
	var got []string
	for _, f := range set.Files {
		got = append(got, f.Stem+"="+f.Schemas[0].Name)
	}
	if s := strings.Join(got, " "); s != "a=A x_user=x_user y_User=y_User z_user=z_user only=only" {
		t.Error(s)
	}
}
