package openapi_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var update = flag.Bool("update", false, "rewrite the event files that are expected")

// imported is the event file that a document becomes, which must generate, and the findings.
func imported(t *testing.T, path, text string) (string, string) {
	t.Helper()
	root, found := source.Parse(path, []byte(text))
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	doc, found := openapi.Read(root)
	file, more, err := importer.Write(doc, importer.Options{From: path})
	if err != nil {
		return err.Error(), lines(append(found, more...))
	}
	set, loaded := schema.Load([]string{"file.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
	_, built := ir.Build(set, ir.Options{Package: "file"})
	for _, d := range append(loaded, built...) {
		if d.Severity == source.Error {
			t.Errorf("%s\n%s", d, file)
		}
	}
	return string(file), lines(append(found, more...))
}

func lines(found []source.Diagnostic) string {
	var out []string
	for _, d := range found {
		out = append(out, d.String())
	}
	return strings.Join(out, "\n")
}

// Documents of GitHub and Stripe, reduced, become these event files.
func TestDocumentsOfOthers(t *testing.T) {
	for _, name := range []string{"github", "stripe"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			file, found := imported(t, name+".json", string(text))
			got := file + "# " + strings.ReplaceAll(found, "\n", "\n# ") + "\n"
			path := "testdata/" + name + ".want.yaml"
			if *update {
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
		})
	}
}

// What OpenAPI says in its own way becomes JSON Schema.
func TestSchemas(t *testing.T) {
	for _, c := range []struct{ version, schema, want string }{
		{"3.0.3", `{type: string, nullable: true}`, `{type: [string, 'null']}`},
		{"3.1.0", `{type: string, nullable: true}`, `{type: [string, 'null']}`},
		{"3.1.0", `{type: [string, 'null'], nullable: true}`, `{type: [string, 'null']}`},
		{"3.0.3", `{type: string, nullable: true, enum: [a, b]}`, `{type: [string, 'null'], enum: [a, b, null]}`},
		{"3.0.3", `{type: string, nullable: true, enum: [a, null]}`, `{type: [string, 'null'], enum: [a, null]}`},
		{"3.0.3", `{nullable: true, allOf: [{$ref: '#/components/schemas/S'}], description: D.}`,
			"\n          description: D.\n          anyOf:\n            - allOf: [{$ref: '#/schemas/S'}]\n            - {type: 'null'}"},
		{"3.1.0", `{$ref: '#/components/schemas/S', nullable: true}`, "\n          anyOf: [{$ref: '#/schemas/S'}, {type: 'null'}]"},
		{"3.0.3", `{$ref: '#/components/schemas/S', description: Ignored.}`, `{$ref: '#/schemas/S'}`},
		{"3.1.0", `{$ref: '#/components/schemas/S', description: Counts.}`, `{$ref: '#/schemas/S', description: Counts.}`},
		{"3.0.3", `{type: number, minimum: 1, exclusiveMinimum: true}`, `{type: number, exclusiveMinimum: 1}`},
		{"3.0.3", `{type: number, maximum: 1, exclusiveMaximum: false}`, `{type: number, maximum: 1}`},
		{"3.1.0", `{type: number, exclusiveMaximum: 9}`, `{type: number, exclusiveMaximum: 9}`},
		{"3.0.3", `{type: string, example: 1, xml: {name: x}, x-go-type: os.File, x-internal: 1}`, `{type: string}`},
		{"3.0.3", `{type: array, items: {type: string, nullable: true}}`, "\n          type: array\n          items: {type: [string, 'null']}"},
	} {
		text := "openapi: " + c.version + "\ninfo: {title: T, version: '1'}\nwebhooks:\n  w: {post: {description: D., requestBody: {content: {application/json: {schema: {type: object, properties: {x: " +
			c.schema + "}}}}}}}\ncomponents: {schemas: {S: {type: object, properties: {a: {type: string}}}}}\n"
		got, found := imported(t, "t.yaml", text)
		want := "        x:" + map[bool]string{true: c.want, false: " " + c.want}[strings.HasPrefix(c.want, "\n")] + "\n"
		if !strings.Contains(got, want) {
			t.Errorf("%s %s: no\n%s in\n%s\n%s", c.version, c.schema, want, got, found)
		}
	}
}

// Webhooks, callbacks and Stripe's marks are event types; a discriminator names shared schemas, and names
// that are too long, or the same, are told apart.
func TestEvents(t *testing.T) {
	long := strings.Repeat("long", 35)
	text := `openapi: 3.1.0
info: {title: T, version: '1'}
paths:
  /orders:
    post:
      operationId: createOrder
      callbacks:
        shipped:
          '{$request.body#/url}': {post: {summary: Shipped., deprecated: true, requestBody: {$ref: '#/components/requestBodies/B'}}}
        paid:
          '{$request.body#/url}': {post: {requestBody: {content: {application/vnd.x+json: {schema: {type: object}}}}}}
  /returns:
    post: {callbacks: {paid: {'{$url}': {$ref: '#/components/pathItems/P'}}}}
webhooks:
  a/b: {post: {description: D., requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/` + long + `a'}}}}}}
  a.b: {post: {description: D., requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/` + long + `b'}}}}}}
  two: {post: {requestBody: {content: {'*/*': {schema: {type: object}}}}}, put: {requestBody: {content: {application/json: {schema: {type: object}}}}}}
  none: {post: {description: Nothing.}}
  form: {post: {requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object}}}}}}
  away: {post: {requestBody: {content: {application/json: {schema: {$ref: 'other.yaml#/X'}}}}}}
  gone: {post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Missing'}}}}}}
  text: {post: {requestBody: {content: {application/json: {schema: {type: string}}}}}}
components:
  requestBodies: {B: {content: {application/json; charset=utf-8: {schema: {type: object, properties: {by: {oneOf: [{$ref: '#/components/schemas/M'}, {$ref: '#/components/schemas/N'}], discriminator: {propertyName: k, mapping: {m: '#/components/schemas/M', n: N}}}}}}}}}
  pathItems: {P: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}}}}
  schemas:
    M: {type: object, required: [k], properties: {k: {type: string}}}
    N: {type: object, required: [k], properties: {k: {type: string}, m: {$ref: '#/components/schemas/M'}}}
    ` + long + `a: {type: object}
    ` + long + `b: {type: object}
    marked: {type: object, x-stripeEvent: {type: account.updated}, properties: {object: {$ref: '#/components/schemas/M'}}}
`
	got, found := imported(t, "t.yaml", text)
	for _, want := range []string{
		"- name: a.b\n", "- name: a.b-2\n", "- name: two.post\n", "- name: two.put\n", "- name: shipped\n    description: Shipped.\n    deprecated: {}\n",
		"- name: createOrder.paid\n", "- name: post.returns.paid\n", "- name: account.updated\n", "mapping: {m: '#/schemas/M', n: N}",
		"  " + long[:128] + ":", "  " + long[:126] + "_2:",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, want := range []string{
		"t.yaml:18:3: warning MCPE511: webhook none is left out: it has no requestBody",
		"t.yaml:19:3: warning MCPE511: webhook form is left out: its requestBody has no schema for application/json",
		"t.yaml:20:3: warning MCPE511: webhook away is left out: it refers to other.yaml#/X, another document, which was not read",
		"t.yaml:21:3: warning MCPE511: webhook gone is left out: it refers to #/components/schemas/Missing, which does not exist",
		"t.yaml:22:3: warning MCPE501: event \"text\" is left out: payloadSchema ",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in\n%s", want, found)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"swagger: '2.0'\n":                 "t.yaml:1:10: error MCPE510: this is not an OpenAPI document of version 3",
		"openapi: 3.1.0\npaths: {}\n":      "t.yaml:1:1: error MCPE510: the document describes no events",
		"openapi: 3.1.0\nwebhooks: [a]\n":  "t.yaml:1:1: error MCPE510: the document describes no events",
		"openapi: 3.1.0\nwebhooks: {a: 1}": "t.yaml:1:1: error MCPE510: the document describes no events",
	} {
		if _, found := imported(t, "t.yaml", text); !strings.Contains(found, want) {
			t.Errorf("%q: got %q, want %q", text, found, want)
		}
	}
}

// Q4: a schema that leaves its type out, as OpenAPI's often do, is an object or an array, but where the keywords ask
// something of any value. One warning counts them.
func TestTypeLeftOut(t *testing.T) {
	file, found := imported(t, "api.yaml", `openapi: 3.0.3
info: {title: T, version: '1'}
x-webhooks:
  paid:
    post:
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Paid'}}}}
components:
  schemas:
    Paid:
      required: [item]
      properties:
        item: {nullable: true, properties: {id: {type: string}}}
        list: {items: {type: string}}
        map: {additionalProperties: {type: string}}
        few: {maxItems: 3}
        listed: {enum: [a, b], properties: {}}
        not: {type: object, not: {required: [a]}, properties: {a: {type: string}}}
        both: {allOf: [{$ref: '#/components/schemas/Base'}, {required: [id]}]}
    Base: {type: object, properties: {id: {type: string}}}
`)
	for _, want := range []string{
		"  Paid:\n    type: object\n", "item:\n        type: [object, 'null']\n", "list: {type: array, items: {type: string}}",
		"map: {type: object, additionalProperties: {type: string}}", "few: {type: array, maxItems: 3}", "listed: {enum: [a, b], properties: {}}", "not: {required: [a]}", "- {type: object, required: [id]}",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("%q is not in\n%s", want, file)
		}
	}
	if !strings.HasPrefix(found, "api.yaml:10:7: warning MCPE502: the document is changed: 6 of its schemas") || strings.Contains(found, "\n") {
		t.Errorf("found %s", found)
	}
}

// Q5: x-webhooks of OpenAPI 3.0 are webhooks, of which those of 3.1 win; callbacks among the components count when no
// operation names them.
func TestOtherPlacesOfEvents(t *testing.T) {
	file, found := imported(t, "api.yaml", `openapi: 3.1.0
info: {title: T, version: '1'}
webhooks:
  a.b: {post: {description: Of 3.1., requestBody: &body {content: {application/json: {schema: {type: object}}}}}}
x-webhooks:
  a.b: {post: {description: Of 3.0., requestBody: *body}}
  c.d: {post: {description: Of 3.0., requestBody: *body}}
paths:
  /subscribe: {post: {callbacks: {named: {$ref: '#/components/callbacks/named'}}}}
components:
  callbacks:
    named: {'{$request.body#/url}': {post: {requestBody: *body}}}
    lonely: {'{$request.body#/url}': {post: {requestBody: *body}}}
`)
	if got := strings.Count(file, "- name: "); got != 4 {
		t.Errorf("%d events in\n%s", got, file)
	}
	for _, want := range []string{"- name: a.b\n    description: Of 3.1.\n", "- name: c.d\n", "- name: named\n", "- name: lonely\n"} {
		if !strings.Contains(file, want) {
			t.Errorf("%q is not in\n%s", want, file)
		}
	}
	if want := "api.yaml:6:3: warning MCPE511: x-webhook a.b is left out: webhooks has one of this name"; found != want {
		t.Errorf("found %s", found)
	}
}

// Q8: a document's jsonSchemaDialect counts, that of OpenAPI itself aside; one that is not supported is one error.
func TestDialectOfDocument(t *testing.T) {
	document := func(dialect string) string {
		return "openapi: 3.1.0\njsonSchemaDialect: " + dialect + "\nwebhooks: {w: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}}}}\n"
	}
	if file, found := imported(t, "a.yaml", document("http://json-schema.org/draft-07/schema#")); !strings.Contains(file, "\ndialect: 'http://json-schema.org/draft-07/schema#'\n") || found != "" {
		t.Errorf("%s\n%s", file, found)
	}
	if file, found := imported(t, "a.yaml", document("https://spec.openapis.org/oas/3.1/dialect/base")); strings.Contains(file, "dialect:") || found != "" {
		t.Errorf("%s\n%s", file, found)
	}
	root, _ := source.Parse("a.yaml", []byte(document("https://example.com/own")))
	doc, _ := openapi.Read(root)
	file, found, err := importer.Write(doc, importer.Options{})
	if file != nil || err != nil || lines(found) != `a.yaml:2:20: error MCPE132: the dialect "https://example.com/own" is not supported; schemas that use it, starting here: 1` {
		t.Errorf("%s, %v, %s", file, err, lines(found))
	}
	if file, _, err := importer.Write(doc, importer.Options{Dialect: "draft-07"}); err != nil || !strings.Contains(string(file), "dialect: draft-07") {
		t.Errorf("%s, %v", file, err)
	}
}
