package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// goMod is a go.mod, which generate needs for more than types.
const goMod = "module example.com/m\n"

// writeFiles writes files below a new directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// oneWebhook is an OpenAPI document with one webhook, whose body has the schema, and more members.
func oneWebhook(schema, more string) string {
	return "openapi: 3.1.0\nwebhooks:\n  w:\n    post:\n      requestBody: {content: {application/json: {schema: " + schema + "}}}\n" + more
}

// Documents that others wrote have keys that are numbers and booleans.
func TestImportOfOtherKeys(t *testing.T) {
	for name, text := range map[string]string{
		"openapi.yaml":  oneWebhook("{type: object, properties: {a: {enum: [x, z]}}}", "      responses: {200: {description: OK}, true: {}}\n"),
		"asyncapi.yaml": "asyncapi: 2.6.0\nchannels: {a: {subscribe: {message: {name: m, payload: {type: object, properties: {404: {type: string}, a: {enum: [x, z]}}}}}}}\n",
	} {
		dir := writeFiles(t, map[string]string{"go.mod": goMod, name: text})
		for _, args := range [][]string{{"import", name, "-o", "events.yaml"}, {"generate", "-q", "events.yaml", "-o", "code"}} {
			if out, code := runIn(t, dir, args...); code != 0 {
				t.Errorf("%s: %q: exit %d\n%s", name, args, code, out)
			}
		}
	}
	dir := writeFiles(t, map[string]string{"schemas/a.yaml": "title: a\ntype: object\nproperties: {200: {type: string}}\n"})
	if out, code := runIn(t, dir, "import", "schemas", "--event-from", "title", "-o", "events.yaml", "--strict"); code != 0 {
		t.Errorf("directory: exit %d\n%s", code, out)
	}
	if text := readText(t, filepath.Join(dir, "events.yaml")); !strings.Contains(text, "'200': {type: string}") {
		t.Errorf("no member 200 in\n%s", text)
	}
	if out, code := runIn(t, writeFiles(t, map[string]string{"e.yaml": "version: 1\n200: x\n"}), "generate", "e.yaml", "-o", "code"); code != 3 || !strings.Contains(out, "MCPE104") {
		t.Errorf("an event file: exit %d\n%s", code, out)
	}
}

// The fragment of a reference is percent-encoded, as RFC 6901, section 6, has it, in documents, their files, and what
// import writes.
func TestImportDecodesReferences(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"go.mod": goMod,
		"api.yaml": oneWebhook("{$ref: '#/paths/~1c~1%7Bid%7D/post/requestBody/content/application~1json/schema'}", `
paths:
  /c/{id}: {post: {requestBody: {content: {application/json: {schema: {type: object, required: [a], properties: {a: {$ref: '#/components/schemas/A%20b'}, p: {$ref: '#/components/schemas/A%20b/properties/50%25'}, f: {$ref: 'my%20files.yaml#/x%20y'}}}}}}}}
components: {schemas: {A b: {type: object, properties: {50%: {type: string}}}}}
`),
		"my files.yaml": "x y: {type: object, properties: {k: {$ref: '#/z%25'}}}\nz%: {type: boolean}\n",
	})
	for _, args := range [][]string{{"import", "--strict", "api.yaml", "-o", "events.yaml"}, {"generate", "-q", "events.yaml", "-o", "code"}} {
		if out, code := runIn(t, dir, args...); code != 0 {
			t.Fatalf("%q: exit %d\n%s\n%s", args, code, out, readText(t, filepath.Join(dir, "events.yaml")))
		}
	}
	text := readText(t, filepath.Join(dir, "events.yaml"))
	for _, want := range []string{"p: {$ref: '#/schemas/A.b/properties/50%25'}", "k: {$ref: '#/schemas/z'}", "z: {type: boolean}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// import of OpenAPI follows the references that events reach and no others, so that its warnings are about events.
func TestImportFollowsWhatEventsReach(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"api.yaml": oneWebhook("{$ref: 'files.yaml#/Used'}", `
      x-codeSamples: [{source: {$ref: examples/a.php}}]
      parameters: [{$ref: parameters.yaml#/A}]
      responses: {'200': {$ref: responses.yaml#/A}}
  empty: {post: {requestBody: {content: {application/xml: {schema: {type: object}}}}}}
paths:
  /a: {get: {x-codeSamples: [{source: {$ref: examples/b.php}}], requestBody: {$ref: bodies.yaml#/A}, callbacks: {called: {'{$request.body#/url}': {post: {requestBody: {$ref: 'files.yaml#/Body'}}}}}}}
  /b: {$ref: paths.yaml#/B}
components: {schemas: {Unused: {$ref: unused.yaml}, Used: {type: object, properties: {gone: {$ref: gone.yaml}}}}}
`),
		"files.yaml": `
Used: {type: object, properties: {a: {type: string}, b: {$ref: 'api.yaml#/components/schemas/Used'}}, x-internal: {$ref: internal.yaml}}
Body: {content: {application/json: {schema: {type: object, properties: {x-custom: {$ref: '#/Custom'}}}}}}
Custom: {type: string}
Unused: {$ref: elsewhere.yaml}
`,
	})
	out, code := runIn(t, dir, "import", "api.yaml", "-o", "events.yaml")
	want := []string{"the reference to gone.yaml is not followed", "schema Used_2 is left out: it refers to gone.yaml", "webhook empty is left out: its requestBody has no schema for application/json"}
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in\n%s", w, out)
		}
	}
	if n := strings.Count(out, "MCPE511"); code != 0 || n != len(want) {
		t.Errorf("exit %d, %d warnings:\n%s", code, n, out)
	}
	if text := readText(t, filepath.Join(dir, "events.yaml")); !strings.Contains(text, "name: called") || !strings.Contains(text, "x-custom: {$ref: '#/schemas/Custom'}") {
		t.Errorf("got\n%s", text)
	}
}

// What a document of others refers to is published with it, so that its references stay in its directory unless the
// user names another one.
func TestImportStaysInTheDirectory(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"secret.json":    `{"type": "object", "default": "hunter2", "properties": {"s": {"const": "hunter2"}}}`,
		"api/a.yaml":     oneWebhook("{type: object, properties: {a: {$ref: ../secret.json}}}", ""),
		"api/b.yaml":     oneWebhook("{type: object, properties: {a: {$ref: link.json}}}", ""),
		"api/c.yaml":     oneWebhook("{type: object, properties: {a: {$ref: sub/d.json}}}", ""),
		"api/d.yaml":     oneWebhook("{type: object, properties: {a: {$ref: 'https://example.com/s.json'}}}", ""),
		"api/sub/d.json": `{"type": "object", "properties": {"a": {"$ref": "../../secret.json"}}}`,
		"mcpe.yaml":      "version: 1\nrefs: {'https://example.com/s.json': secret.json}\npackages: []\n",
	})
	if err := os.Symlink(filepath.Join(dir, "secret.json"), filepath.Join(dir, "api", "link.json")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		out, _ := runIn(t, dir, "import", "api/"+name+".yaml", "-o", name+".yaml")
		if _, err := os.Stat(filepath.Join(dir, name+".yaml")); err == nil && strings.Contains(readText(t, filepath.Join(dir, name+".yaml")), "hunter2") {
			t.Errorf("%s: the file of another directory was read", name)
		}
		if !strings.Contains(out, "the file is not in api; --ref-root names a directory whose files may be read") {
			t.Errorf("%s: nothing is said:\n%s", name, out)
		}
	}
	for _, args := range [][]string{{"api/a.yaml", "--ref-root", "."}, {"api/b.yaml", "--ref-root", dir}, {"api/c.yaml", "--ref-root", "."}, {"api/d.yaml"}} {
		if out, code := runIn(t, dir, append([]string{"import", "--strict", "-o", "again.yaml", "--force"}, args...)...); code != 0 || !strings.Contains(readText(t, filepath.Join(dir, "again.yaml")), "hunter2") {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
	if _, code := runIn(t, dir, "import", "api", "--event-from", "title", "--ref-root", "."); code != 2 {
		t.Errorf("--ref-root and a directory: exit %d", code)
	}
}

// import does not write through a symbolic link.
func TestImportRefusesLinks(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.yaml": oneWebhook("{type: object}", ""), "other/mine": "mine"})
	if err := os.Symlink("other/mine", filepath.Join(dir, "events.yaml")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	out, code := runIn(t, dir, "import", "a.yaml", "-o", "events.yaml", "--force")
	if code != 2 || !strings.Contains(out, "events.yaml is a symbolic link") || readText(t, filepath.Join(dir, "other/mine")) != "mine" {
		t.Errorf("exit %d, %s", code, out)
	}
}

// pets is a base with subtypes, one of which has a subtype, and which refer to each other.
const pets = `
components:
  schemas:
    Pet:
      type: object
      description: A pet.
      required: [kind, id]
      properties: {kind: {type: string}, id: {type: string}, friend: {$ref: '#/components/schemas/Pet'}}
      discriminator: {propertyName: kind, mapping: {cat: '#/components/schemas/Cat', dog: Dog, wolf: Dog, husky: '#/components/schemas/Husky', pet: '#/components/schemas/Pet'}}
    Cat: {allOf: [{$ref: '#/components/schemas/Pet'}, {type: object, required: [lives], properties: {lives: {type: integer}, kittens: {type: array, items: {$ref: '#/components/schemas/Cat'}}}}]}
    Dog: {allOf: [{$ref: '#/components/schemas/Pet'}], properties: {barks: {type: boolean}, best: {$ref: '#/components/schemas/Pet'}}}
    Husky: {allOf: [{$ref: '#/components/schemas/Dog'}, {type: object, required: [sled], properties: {sled: {type: string}}}]}
`

// A base with a discriminator stands for its subtypes, which have it in their allOf: the payload is a union by the
// mapping.
func TestImportOfInheritance(t *testing.T) {
	for name, schema := range map[string]string{"direct": "{$ref: '#/components/schemas/Pet'}", "with a description": "{description: D., allOf: [{$ref: '#/components/schemas/Pet'}]}",
		"member": "{type: object, required: [pet], properties: {pet: {$ref: '#/components/schemas/Pet'}}}"} {
		dir := writeFiles(t, map[string]string{"go.mod": goMod, "api.yaml": oneWebhook(schema, pets), "mcpe.yaml": "version: 1\npackages: [{schemas: [events.yaml], out: code}]\n"})
		for _, args := range [][]string{{"import", "api.yaml", "-o", "events.yaml"}, {"generate", "-q"}} {
			if out, code := runIn(t, dir, args...); code != 0 {
				t.Fatalf("%s: %q: exit %d\n%s\n%s", name, args, code, out, readText(t, filepath.Join(dir, "events.yaml")))
			}
		}
		text := readText(t, filepath.Join(dir, "code", "events.mcpe.go"))
		for _, want := range []string{"type Cat struct", "type Dog struct", "type Husky struct", "Sled", "type PetVariant"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in\n%s\n%s", name, want, readText(t, filepath.Join(dir, "events.yaml")), text)
			}
		}
		if name != "member" {
			continue
		}
		for data, ok := range map[string]bool{
			`{"kind": "cat", "id": "1", "lives": 9}`: true, `{"kind": "cat", "id": "1"}`: false, `{"kind": "cat", "lives": 9}`: false,
			`{"kind": "dog", "id": "1"}`: true, `{"kind": "wolf", "id": "1", "barks": 1}`: false, `{"kind": "wolf", "id": "1", "barks": true}`: true,
			`{"kind": "husky", "id": "1", "sled": "s"}`: true, `{"kind": "husky", "id": "1"}`: false, `{"kind": "pet", "id": "1"}`: true, `{"kind": "fish", "id": "1"}`: false,
			`{"kind": "dog", "id": "1", "best": {"kind": "cat", "id": "1"}}`: false, `{"kind": "dog", "id": "1", "best": {"kind": "cat", "id": "1", "lives": 1}}`: true,
		} {
			if got := validPayload(t, filepath.Join(dir, "events.yaml"), json.RawMessage(`{"pet":`+data+`}`)); got != ok {
				t.Errorf("%s is valid: %v, want %v", data, got, ok)
			}
		}
	}
}

// An inheritance that cannot be a union is a warning.
func TestImportOfOtherInheritance(t *testing.T) {
	const base = "\ncomponents:\n  schemas:\n    B: {type: object, properties: {k: {type: string}}, discriminator: "
	const sub = "\n    S: {allOf: [{$ref: '#/components/schemas/B'}, {type: object, properties: {s: {type: string}}}]}\n"
	for text, want := range map[string]string{
		base + "{propertyName: k}}" + sub:                                                    "it has no mapping",
		base + "{propertyName: k, mapping: {s: '#/components/schemas/Gone'}}}" + sub:         "refers to #/components/schemas/Gone, which does not exist",
		base + "{propertyName: k, mapping: {s: S, o: O}}}" + sub + "    O: {type: object}\n": "O of its mapping does not have it in its allOf",
		base + "{mapping: {s: S}}}" + sub:                                                    "it has no propertyName",
		base + "{propertyName: k, mapping: {s: S}}}\n    S: {allOf: [{$ref: '#/components/schemas/B'}], discriminator: {propertyName: l}}\n": "S of its mapping has another discriminator",
	} {
		dir := writeFiles(t, map[string]string{"api.yaml": oneWebhook("{$ref: '#/components/schemas/B'}", text)})
		out, code := runIn(t, dir, "import", "api.yaml", "-o", "events.yaml")
		if code != 0 || !strings.Contains(out, "warning MCPE502: the discriminator of B is left out") || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in %s", code, want, out)
		}
		if _, code := runIn(t, dir, "import", "--strict", "api.yaml", "-o", "strict.yaml"); code != 3 {
			t.Errorf("with --strict: exit %d", code)
		}
	}
	chain := base + "{propertyName: k, mapping: {s: S200}}}\n    S0: {allOf: [{$ref: '#/components/schemas/B'}]}\n"
	for i := range 200 {
		chain += fmt.Sprintf("    S%d: {allOf: [{$ref: '#/components/schemas/S%d'}]}\n", i+1, i)
	}
	deep := writeFiles(t, map[string]string{"api.yaml": oneWebhook("{$ref: '#/components/schemas/B'}", chain)})
	if out, _ := runIn(t, deep, "import", "api.yaml", "-o", "events.yaml"); !strings.Contains(out, "S200 of its mapping does not have it in its allOf, at most 100 schemas up") {
		t.Errorf("of many generations: %s", out)
	}
	dir := writeFiles(t, map[string]string{"api.yaml": oneWebhook("{$ref: '#/components/schemas/B'}", base+"{propertyName: k}}\n")})
	if out, code := runIn(t, dir, "import", "api.yaml", "-o", "events.yaml"); code != 0 || out != "" {
		t.Errorf("without subtypes: exit %d, %s", code, out)
	}
}

// validPayload reports whether the payload schema of the only event type of a file accepts a value.
func validPayload(t *testing.T, file string, payload json.RawMessage) bool {
	t.Helper()
	set, found := schema.Load([]string{file}, schema.Options{})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	s, err := validate.Compile(set.Published(set.Files[0].Events[0].Payload))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(payload) == nil
}
