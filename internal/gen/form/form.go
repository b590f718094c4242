// Package form judges files by the JSON Schema of their format and describes the faults with positions.
package form

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Form is the JSON Schema of a format. Diagnostics call a value by the title of its schema or, if that has none, by
// its key. The keyword errorMessage completes a sentence about a value that breaks a pattern, and can end with a remedy
// in parentheses. The keyword x-code is the code of the diagnostic. The keyword x-remedies maps words that
// people write instead of those of an enum to remedies. A number has both a minimum and a maximum, or neither.
type Form struct {
	text     *source.Node
	compiled func() *jsonschema.Schema
	// levels limits the depth below the values of keys.
	levels map[string]int
}

// New returns the form with the given JSON Schema. It panics if the text is not a schema; tests use every form. levels
// are the numbers of levels below the values of keys that the form describes; all levels are the default.
func New(text []byte, levels map[string]int) *Form {
	n, found := source.Parse("form.schema.json", text)
	if len(found) > 0 {
		panic("internal/gen/form: " + found[0].String())
	}
	return &Form{text: n, levels: levels, compiled: compile(n, "")}
}

// Part returns the form of the values that the schema at a JSON Pointer describes.
func (f *Form) Part(pointer string) *Form {
	return &Form{text: f.text, levels: f.levels, compiled: compile(f.text, pointer)}
}

// compile returns a function that returns the schema at a JSON Pointer.
func compile(text *source.Node, pointer string) func() *jsonschema.Schema {
	return sync.OnceValue(func() *jsonschema.Schema {
		const name = "mem:///form.schema.json" // absolute: it must not depend on the working directory
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		err := c.AddResource(name, text.Value())
		s, failed := c.Compile(name + "#" + pointer)
		if err = errors.Join(err, failed); err != nil {
			panic("internal/gen/form: " + err.Error())
		}
		return s
	})
}

// Read reads the file at path by readFile, and checks its form. The node is nil if the file is not valid YAML.
func (f *Form) Read(path string, readFile func(string) ([]byte, error)) (*source.Node, []source.Diagnostic) {
	content, err := readFile(path)
	if err != nil {
		return nil, []source.Diagnostic{source.New("MCPE100", source.InFile(path), "the file cannot be read: %s", source.Reason(err))}
	}
	n, found := source.Parse(path, content)
	if n == nil {
		return nil, found
	}
	return n, append(found, f.Check(n)...)
}

// Check returns the faults of the form of a file.
func (f *Form) Check(root *source.Node) []source.Diagnostic {
	var invalid *jsonschema.ValidationError
	if !errors.As(f.compiled().Validate(f.value(root, -1)), &invalid) {
		return nil
	}
	var found []source.Diagnostic
	mistyped := map[*source.Node]bool{}
	causes := Causes(invalid)
	for _, e := range causes {
		if k, ok := e.ErrorKind.(*kind.Type); ok {
			n, rule := At(root, e.InstanceLocation), f.rule(e)
			mistyped[n] = true
			d := TypeFault("MCPE121", n, nameOf(n, rule), k.Want...)
			if hint := objectHint(n, rule); hint != "" {
				d = d.WithHint("%s", hint)
			}
			found = append(found, d)
		}
	}
	for _, e := range causes {
		if k, ok := e.ErrorKind.(*kind.PropertyNames); ok {
			found = append(found, f.nameFaults(root, len(e.InstanceLocation), k.Property, e)...)
		} else if n := At(root, e.InstanceLocation); !mistyped[n] {
			found = append(found, f.faults(n, e, f.rule(e))...)
		}
	}
	return source.Sort(found)
}

// nameFaults describes an error about the name of a member. depth is the number of elements in the location of the
// object. The elements themselves are not usable, because the validator overwrites them.
func (f *Form) nameFaults(n *source.Node, depth int, name string, e *jsonschema.ValidationError) []source.Diagnostic {
	if depth > 0 {
		var found []source.Diagnostic
		for _, m := range n.Members {
			found = append(found, f.nameFaults(m.Value, depth-1, name, e)...)
		}
		for _, item := range n.Items {
			found = append(found, f.nameFaults(item, depth-1, name, e)...)
		}
		return found
	}
	m := n.Member(name)
	if m == nil || !f.rulesNames(n, e) {
		return nil
	}
	key := &source.Node{Kind: source.String, Text: m.Key, Range: m.KeyRange}
	rule, inner := f.rule(e), Causes(e.Causes[0])[0]
	return f.faults(key, inner, &source.Node{Kind: source.Object, Members: slices.Concat(rule.Members, f.rule(inner).Members)})
}

// rulesNames reports whether the schema of an error about a name is that of the object.
func (f *Form) rulesNames(n *source.Node, e *jsonschema.ValidationError) bool {
	key, _ := n.Key()
	return strings.HasSuffix(e.SchemaURL, "/properties/"+key+"/propertyNames")
}

// value returns the value of n for the validator, without what is more than the given number of levels below n. A
// negative number means all levels.
func (f *Form) value(n *source.Node, levels int) any {
	switch n.Kind {
	case source.Object:
		members := make(map[string]any, len(n.Members))
		for _, m := range n.Members {
			if below, limited := f.levels[m.Key]; limited && levels < 0 {
				members[m.Key] = f.value(m.Value, below)
			} else if levels != 0 {
				members[m.Key] = f.value(m.Value, levels-1)
			}
		}
		return members
	case source.Array:
		items := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			if levels != 0 {
				items = append(items, f.value(item, levels-1))
			}
		}
		return items
	}
	return n.Value()
}

// rule returns the schema that an error refers to.
func (f *Form) rule(e *jsonschema.ValidationError) *source.Node {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		panic("internal/gen/form: " + err.Error()) // the validator escapes it
	}
	return f.text.Lookup(pointer)
}

// faults describes an error about n. rule is the schema that n breaks.
func (f *Form) faults(n *source.Node, e *jsonschema.ValidationError, rule *source.Node) []source.Diagnostic {
	what := nameOf(n, rule)
	message, remedy := split(rule.Get("errorMessage"))
	report := func(code string, at source.Range, format string, args ...any) []source.Diagnostic {
		if own := rule.Get("x-code"); own != nil {
			code = own.Text
		}
		d := source.New(code, at, format, args...)
		if remedy != "" {
			d = d.WithHint("%s", remedy)
		}
		return []source.Diagnostic{d}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		remedy = requiredRemedies[k.Missing[0]]
		var found []source.Diagnostic
		for _, key := range k.Missing {
			found = append(found, report("MCPE122", start(n), "%s needs %q", what, key)...)
		}
		return found
	case *kind.AnyOf:
		return report("MCPE122", start(n), "%s %s", what, message)
	case *kind.DependentRequired:
		remedy = ""
		return report("MCPE122", n.Member(k.Prop).KeyRange, "%s needs %q next to it", k.Prop, k.Missing[0])
	case *kind.AdditionalProperties:
		var found []source.Diagnostic
		for _, key := range k.Properties {
			d := source.New("MCPE120", n.Member(key).KeyRange, "%s has no key %q", what, key)
			found = append(found, d.WithHint("%s", Suggestion(key, keysOf(rule), "its keys are")))
		}
		return found
	case *kind.Enum:
		remedy = cmp.Or(rule.Get("x-remedies").Word(n.Text), Suggestion(n.Text, rule.Texts("enum"), "it is one of"))
		return report("MCPE123", n.Range, "%s cannot be %s", what, n.JSON())
	case *kind.UniqueItems:
		first, second := n.Items[k.Duplicates[0]], n.Items[k.Duplicates[1]]
		d := source.New("MCPE123", second.Range, "%s holds %s twice", what, second.JSON())
		return []source.Diagnostic{d.WithRelated(first.Range, "first here")}
	case *kind.MinItems, *kind.MinLength, *kind.MinProperties:
		return report("MCPE123", n.Range, "%s is empty", what)
	case *kind.Minimum, *kind.Maximum:
		return report("MCPE123", n.Range, "%s is %s; it must be %s to %s", what, n.Text, rule.Get("minimum").Text, rule.Get("maximum").Text)
	}
	switch {
	case message == "":
		return nil // a finding of the code that reads the file
	case n.Kind == source.Object || n.Kind == source.Array:
		return report("MCPE123", n.Range, "%s %s", what, message)
	}
	return report("MCPE123", n.Range, "%s %s %s", what, n.JSON(), message)
}

// requiredRemedies are the remedies for missing keys, by key.
var requiredRemedies = map[string]string{"version": "write version: 1"} // the version of each format

// nameOf returns the name of a value in diagnostics.
func nameOf(n, rule *source.Node) string {
	key, _ := n.Key()
	switch {
	case rule.Get("title") != nil:
		return rule.Get("title").Text
	case key == "" && n.Parent != nil:
		list, _ := n.Parent.Key()
		return "an element of " + list
	}
	return cmp.Or(key, "the key") // the name of a member is not below another node
}

// split splits an errorMessage into a sentence and the remedy in parentheses at its end.
func split(n *source.Node) (message, remedy string) {
	if n == nil {
		return "", ""
	}
	message, remedy, _ = strings.Cut(strings.TrimSuffix(n.Text, ")"), " (")
	return message, remedy
}

// start returns the start of an object, or the object itself if it is empty.
func start(n *source.Node) source.Range {
	if len(n.Members) == 0 {
		return n.Range
	}
	return source.Range{Start: n.Range.Start, End: n.Range.Start}
}

// Suggestion returns a hint for an unknown word: the nearest known word, or all of them after the introduction.
func Suggestion(word string, known []string, introduction string) string {
	if plain := strings.Trim(word, "“”„‘’‚«»"); plain != word && slices.Contains(known, plain) {
		return fmt.Sprintf("write %s; only ' and \" are quotes", plain)
	}
	if near := suggest.Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return introduction + " " + strings.Join(known, ", ")
}

func keysOf(rule *source.Node) []string {
	keys := rule.Texts("required")
	if properties := rule.Get("properties"); properties != nil {
		for _, m := range properties.Members {
			if !slices.Contains(keys, m.Key) && m.Value.Kind == source.Object {
				keys = append(keys, m.Key)
			}
		}
	}
	return keys
}

// At returns the node at a location relative to n, or the innermost existing one.
func At(n *source.Node, location []string) *source.Node {
	for _, token := range location {
		next := n.Lookup(wire.Pointer(token))
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// Causes returns the innermost causes of an error. If several alternatives failed, it returns the causes in the
// alternative that matched best.
func Causes(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, names := e.ErrorKind.(*kind.PropertyNames); names || len(e.Causes) == 0 || isMissingOne(e) {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	best := -1
	_, any := e.ErrorKind.(*kind.AnyOf)
	_, one := e.ErrorKind.(*kind.OneOf)
	for _, c := range e.Causes {
		found := Causes(c)
		if !any && !one {
			all = append(all, found...)
			continue
		}
		depth := 0
		for _, f := range found {
			d := 2 * len(f.InstanceLocation)
			if _, ok := f.ErrorKind.(*kind.Type); !ok {
				d++ // at least the type matches
			}
			depth = max(depth, d)
		}
		if depth > best {
			best, all = depth, found
		}
	}
	return all
}

// isMissingOne reports whether an object needs one of several members and has none of them.
func isMissingOne(e *jsonschema.ValidationError) bool {
	_, any := e.ErrorKind.(*kind.AnyOf)
	return any && !slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool {
		leaf := Causes(c)[0]
		_, missing := leaf.ErrorKind.(*kind.Required)
		return !missing || len(leaf.InstanceLocation) != len(e.InstanceLocation)
	})
}

// maxHintKeys is the maximum number of keys in a hint.
const maxHintKeys = 5

// objectHint suggests an object to write instead of n. If n is a string and only one key is required, the hint uses n
// as its value. Otherwise, it is the remedy of the schema, or lists the keys if there are few. For any other fault, the
// hint is "".
func objectHint(n, rule *source.Node) string {
	keys := keysOf(rule)
	required := rule.Texts("required")
	_, remedy := split(rule.Get("errorMessage"))
	switch {
	case n.Kind == source.Object || len(keys) == 0:
		return ""
	case n.Kind == source.String && len(required) == 1:
		return "write {" + required[0] + ": " + n.Text + "}"
	case remedy != "":
		return remedy
	case len(required) == 0:
		return "write {" + strings.Join(keys, ": …, ") + ": …}, or {} without any of them"
	case len(keys) > maxHintKeys:
		return ""
	}
	return "its keys are " + strings.Join(keys, ", ")
}
