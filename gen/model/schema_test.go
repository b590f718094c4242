package model_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

var update = flag.Bool("update", false, "write model.schema.json")

const position, pointer = `{"pattern": ":[0-9]+:[0-9]+$"}`, `{"pattern": "^#/\\$defs/"}`

// constraints are the keywords that the Go types do not express, by type and JSON name, or by type.
var constraints = map[string]string{
	"Document.version": `{"const": 1}`,
	"Event.source":     `{"enum": ["emit", "check", "both"]}`,
	"Event.delivery":   `{"items": {"enum": ["poll", "push", "webhook"]}}`,
	"Event.stability":  `{"enum": ["stable", "experimental"]}`,
	"Match.op":         `{"enum": ["equal", "in", "glob", "prefix", "lt", "lte", "gt", "gte", "min", "max"]}`,
	"Coalesce.keep":    `{"enum": ["latest", "all"]}`,
	"GoType.form":      `{"enum": ["alias", "defined", "struct", "enum", "union"]}`,
	"Package.$defs":    `{"additionalProperties": {"type": ["object", "boolean"]}}`,
	"Use.schema":       pointer, "Definition.schema": pointer,
	"Event.pos": position, "Match.pos": position, "Coalesce.pos": position, "Task.pos": position, "Conversation.pos": position,
	"Override.pos": position, "Definition.pos": position, "Member.pos": position,
	"Type.kind": `{"enum": ["any", "null", "never", "boolean", "integer", "number", "string", "const", "enum", "array", "tuple", "map", "object", "union", "ref"]}`,
	"Type.base": `{"enum": ["string", "number", "boolean", "json"]}`,
	"Type": `{"allOf": [
		{"if": {"properties": {"kind": {"const": "ref"}}}, "then": {"required": ["ref"]}},
		{"if": {"properties": {"kind": {"const": "const"}}}, "then": {"required": ["value"]}},
		{"if": {"properties": {"kind": {"const": "enum"}}}, "then": {"required": ["base", "values"]}},
		{"if": {"properties": {"kind": {"enum": ["array", "map"]}}}, "then": {"required": ["items"]}},
		{"if": {"properties": {"kind": {"const": "union"}}}, "then": {"required": ["variants"]}}
	]}`,
}

// TestSchema makes model.schema.json from the Go types and their comments (MODEL-2).
func TestSchema(t *testing.T) {
	t.Setenv("JSONSCHEMAGODEBUG", "typeschemasnull=1") // slices and pointers are absent instead of null
	comments := commentsOf(t)
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[json.Number]():     {Type: "number"},
	}
	collect(reflect.TypeFor[model.Document](), known)
	applied := map[string]bool{}
	constrain := func(name string, s *jsonschema.Schema) {
		s.Description = comments[name]
		if more := constraints[name]; more != "" {
			applied[name] = true
			if err := json.Unmarshal([]byte(more), s); err != nil {
				t.Fatalf("constraints of %s: %v", name, err)
			}
		}
	}
	describe := func(of reflect.Type) *jsonschema.Schema {
		var fields []reflect.StructField
		for i := range of.NumField() {
			fields = append(fields, of.Field(i))
		}
		// A type of its own lets the fields refer to of.
		s, err := jsonschema.ForType(reflect.StructOf(fields), &jsonschema.ForOptions{TypeSchemas: known})
		if err != nil {
			t.Fatal(err)
		}
		s.AdditionalProperties = nil // a later release adds members
		constrain(of.Name(), s)
		for name, property := range s.Properties {
			constrain(of.Name()+"."+name, property)
		}
		return s
	}
	document := describe(reflect.TypeFor[model.Document]())
	document.Schema, document.Title, document.Defs = "https://json-schema.org/draft/2020-12/schema", "mcpe-gen model", map[string]*jsonschema.Schema{}
	for of := range known {
		if of.Kind() == reflect.Struct && of.Name() != "Document" {
			document.Defs[of.Name()] = describe(of)
		}
	}
	if len(applied) != len(constraints) {
		t.Errorf("%d constraints apply, want %d: remove those of former members", len(applied), len(constraints))
	}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("model.schema.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(model.Schema(), want.Bytes()) {
		t.Error("model.schema.json is not current: run go test ./gen/model -update")
	}
}

// collect adds a reference for each struct type that is reachable from at.
func collect(at reflect.Type, known map[reflect.Type]*jsonschema.Schema) {
	for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
		at = at.Elem()
	}
	if at.Kind() != reflect.Struct || known[at] != nil {
		return
	}
	known[at] = &jsonschema.Schema{Ref: "#/$defs/" + at.Name()}
	for i := range at.NumField() {
		collect(at.Field(i).Type, known)
	}
}

// docLink matches a link to a Go name in a comment.
var docLink = regexp.MustCompile(`\[([A-Z]\w*)\]`)

// commentsOf returns the comments of the types and, by type and JSON name, of their fields.
func commentsOf(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "model.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	add := func(name string, doc *ast.CommentGroup) {
		comments[name] = docLink.ReplaceAllString(strings.Join(strings.Fields(doc.Text()), " "), "$1")
	}
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, spec := range types.Specs {
			spec := spec.(*ast.TypeSpec)
			add(spec.Name.Name, types.Doc)
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range fields.Fields.List {
					name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
					add(spec.Name.Name+"."+name, f.Doc)
				}
			}
		}
	}
	return comments
}
