// Package validate validates incoming arguments and outgoing payloads against JSON Schema. Generated types do not
// contain validation code.
//
// Compile a schema once with [Compile]. Then call [Schema.Validate] with raw JSON, from any number of goroutines. The
// dialect is 2020-12 unless $schema specifies draft-07. Formats and base64 are asserted, patterns follow ECMA-262, and
// no external documents are loaded.
package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	full *jsonschema.Schema
	fast *shape // nil if the schema has no shape
}

// base is the URL of a schema without $id. Relative references are resolved against it and fail, because there is no
// other document.
const base = "mcpe:///schema"

// Compile compiles a schema. A $ref, $schema or $dynamicRef to a document other than the schema itself or a JSON
// Schema meta-schema is an error, as are duplicate members and invalid patterns.
func Compile(schema json.RawMessage) (*Schema, error) {
	doc, err := Decode(schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	full, err := compileFull(doc)
	if err != nil {
		return nil, compileError(err)
	}
	return &Schema{full: full, fast: newShapes().shapeOf(base, doc)}, nil
}

func compileFull(doc any) (*jsonschema.Schema, error) {
	c := NewCompiler()
	if err := c.AddResource(base, doc); err != nil {
		return nil, err
	}
	return c.Compile(base)
}

// NewCompiler returns a compiler of the underlying library with the settings of this package. It is for callers that
// need the library's errors. The default dialect is 2020-12, formats and base64 are asserted, patterns follow ECMA-262,
// and no external documents are loaded.
func NewCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.AssertContent()
	c.RegisterContentEncoding(base64Text)
	c.RegisterContentMediaType(anyContent)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return pattern.Compile(text) })
	for _, f := range formatOverrides {
		c.RegisterFormat(f)
	}
	return c
}

// Validate checks raw, which must be a single JSON value. The error is an [*Error].
func (s *Schema) Validate(raw json.RawMessage) error {
	if s.fast != nil && s.fast.acceptsAll(raw) {
		return nil
	}
	v, err := Decode(raw)
	if err != nil {
		return err
	}
	return s.ValidateValue(v)
}

// ValidateValue checks a value returned by [Decode]. The error is an [*Error].
func (s *Schema) ValidateValue(v any) error {
	err := s.full.Validate(v)
	if err == nil {
		return nil
	}
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return &Error{Fields: []events.FieldError{{Message: "cannot be checked against its schema"}}}
	}
	return &Error{Fields: fieldErrors(failed)}
}

// An Error lists the errors in a value. It contains at most MaxFields leaf causes, sorted by path.
type Error struct{ Fields []events.FieldError }

// MaxFields limits the number of field errors in an Error.
const MaxFields = 32

// Error joins the field errors.
func (e *Error) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Error()
	}
	return strings.Join(parts, "; ")
}

// noLoader refuses to load documents. A schema may come from a remote server and must not cause access to files or the
// network.
type noLoader struct{}

var errElsewhere = errors.New("refers to another document, which is never loaded")

func (noLoader) Load(url string) (any, error) { return nil, errElsewhere }

func compileError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var load *jsonschema.LoadURLError
	switch {
	case errors.As(err, &invalid):
		var failed *jsonschema.ValidationError
		if errors.As(invalid.Err, &failed) {
			return fmt.Errorf("not a valid JSON Schema: %w", &Error{Fields: fieldErrors(failed)})
		}
	case errors.As(err, &load):
		return fmt.Errorf("schema %w: %s", errElsewhere, strings.TrimPrefix(load.URL, "mcpe:///"))
	}
	return fmt.Errorf("schema: %s", strings.ReplaceAll(err.Error(), base, ""))
}
