package schema

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/form"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/parallel"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// metaschemas maps dialects to functions that return the compiled metaschema. The validator package includes them.
var metaschemas = map[*schematree.Dialect]func() (*jsonschema.Schema, error){
	schematree.Draft2020: sync.OnceValues(func() (*jsonschema.Schema, error) {
		meta, err := metaCompiler().Compile(schematree.Draft2020.URI)
		if err == nil {
			mergeVocabularies(meta)
		}
		return meta, err
	}),
	schematree.Draft07: sync.OnceValues(func() (*jsonschema.Schema, error) { return metaCompiler().Compile(schematree.Draft07.URI) }),
}

// mergeVocabularies moves the keywords of all vocabularies to meta itself. A validation then visits each schema once
// instead of once for each vocabulary.
func mergeVocabularies(meta *jsonschema.Schema) {
	for _, vocabulary := range meta.AllOf {
		maps.Copy(meta.Properties, vocabulary.Ref.Properties)
	}
	meta.AllOf = nil
}

// metaCompiler returns a compiler that ignores the format regex, which the metaschema of draft-07 asserts. A separate
// check reports invalid patterns, including those in patternProperties, and suggests a correction.
func metaCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		if p, err := pattern.Compile(text); err == nil {
			return p, nil
		}
		return invalidPattern(text), nil
	})
	return c
}

// An invalidPattern is a pattern that does not compile. It matches every string.
type invalidPattern string

func (invalidPattern) MatchString(string) bool { return true }
func (f invalidPattern) String() string        { return string(f) }

var english = sync.OnceValue(func() *message.Printer { return message.NewPrinter(language.English) })

// checkMeta checks every schema against the metaschema of its dialect, including schemas in keywords that are unknown
// to the metaschema.
func (l *loader) checkMeta() {
	type checked struct {
		root *root
		node *source.Node
		err  error
	}
	var all []checked
	for _, r := range l.roots {
		all = append(all, checked{root: r, node: r.node})
		for _, n := range r.unknownSchemas {
			all = append(all, checked{root: r, node: n})
		}
	}
	parallel.Do(len(all), func(i int) {
		meta, err := metaschemas[all[i].root.dialect]()
		if err == nil {
			err = meta.Validate(all[i].node.Value())
		}
		all[i].err = err
	})
	for _, c := range all {
		var invalid *jsonschema.ValidationError
		switch {
		case errors.As(c.err, &invalid):
			for _, leaf := range form.Causes(invalid) {
				if d := metaFault(c.node, leaf); !c.root.reported[d.Range] {
					l.fail(c.root, d)
				}
			}
		case c.err != nil:
			l.fail(c.root, source.New("MCPE130", c.node.Range, "the metaschema of %s is not usable: %v", c.root.dialect.Name, c.err))
		}
	}
}

// typeHints maps type names of other languages to JSON Schema types.
var typeHints = map[string]string{
	"int": "integer", "int32": "integer", "int64": "integer", "long": "integer", "uint": "integer", "float": "number", "float64": "number",
	"double": "number", "decimal": "number", "bool": "boolean", "str": "string", "text": "string", "char": "string", "list": "array", "slice": "array",
	"tuple": "array", "map": "object", "dict": "object", "struct": "object", "record": "object", "none": `"null"`, "nil": `"null"`,
	"date": "type: string and format: date", "datetime": "type: string and format: date-time", "date-time": "type: string and format: date-time",
	"time": "type: string and format: time", "timestamp": "type: string and format: date-time", "uuid": "type: string and format: uuid",
	"url": "type: string and format: uri", "uri": "type: string and format: uri", "email": "type: string and format: email",
	"any": "no type, which allows any value",
}

func metaFault(n *source.Node, e *jsonschema.ValidationError) source.Diagnostic {
	v := form.At(n, e.InstanceLocation)
	at, what := v.Range, nameOf(v, n, "the schema")
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		d := form.TypeFault("MCPE130", v, what, k.Want...)
		switch {
		case what == `"required"` && k.Got == "boolean":
			member := "NAME"
			if l := e.InstanceLocation; len(l) > 2 && l[len(l)-3] == "properties" {
				member = l[len(l)-2]
			}
			return d.WithHint("write required: [%s] on the object, next to properties", member)
		case k.Got == "boolean" && (what == `"exclusiveMinimum"` || what == `"exclusiveMaximum"`):
			keyword, bound := strings.Trim(what, `"`), "NUMBER"
			if b := v.Parent.Get(strings.ToLower(strings.TrimPrefix(keyword, "exclusive"))); b != nil {
				bound = b.Text
			}
			return d.WithHint("this is the form of draft 4; write %s: %s", keyword, bound)
		case what == `"$ref"` && v.Kind == source.Null:
			return d.WithHint("quote it, as in $ref: '#/schemas/NAME': an unquoted # begins a comment")
		case what == `"$ref"`:
			return d.WithHint("")
		case what == `"items"` && v.Kind == source.Array:
			return d.WithHint("write prefixItems: […] for elements with a schema each, or items: SCHEMA for all elements")
		}
		return d
	case *kind.Enum:
		if k.Got == nil {
			return source.New("MCPE130", at, "%s cannot be null", what).WithHint(`quote it: "null"`)
		}
		d := source.New("MCPE130", at, "%s cannot be %q", what, fmt.Sprint(k.Got))
		var words []string
		for _, w := range k.Want {
			words = append(words, fmt.Sprint(w))
		}
		if what == `"type"` {
			if hint := typeHints[strings.ToLower(fmt.Sprint(k.Got))]; hint != "" {
				return d.WithHint("write %s", hint)
			}
		}
		return d.WithHint("%s", form.Suggestion(fmt.Sprint(k.Got), words, "it is one of"))
	case *kind.Minimum:
		return source.New("MCPE130", at, "%s must not be less than %s", what, k.Want.RatString())
	case *kind.ExclusiveMinimum:
		return source.New("MCPE130", at, "%s must be greater than %s", what, k.Want.RatString())
	case *kind.MinItems:
		return source.New("MCPE130", at, "%s needs at least %d element", what, k.Want)
	case *kind.UniqueItems:
		return source.New("MCPE130", at, "%s holds the same value twice, at %d and %d", what, k.Duplicates[0], k.Duplicates[1])
	}
	return source.New("MCPE130", at, "%s: %s", what, e.ErrorKind.LocalizedString(english()))
}

// nameOf returns the name in messages of a node in the value root, whose name is whole.
func nameOf(n, root *source.Node, whole string) string {
	elements := ""
	for ; n != root; n = n.Parent {
		if key, _ := n.Key(); key != "" {
			return fmt.Sprintf("%s%q", elements, key)
		}
		elements = "an element of "
	}
	return elements + whole
}
