package source

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// A Reader extracts values from nodes in a strict format. It collects diagnostics about unexpected content.
type Reader struct {
	Collector
}

// Is reports whether n has the given kind. If it does not, Is adds a diagnostic. The parameter what names the node, for
// example "delivery".
func (r *Reader) Is(n *Node, k Kind, what string) bool {
	if n.Kind != k {
		r.Report(TypeFault("MCPE121", n, what, k.String()))
	}
	return n.Kind == k
}

// TypeFault returns the diagnostic for a node that has none of the given types of JSON Schema. It has a hint if the
// correction is obvious.
func TypeFault(code string, n *Node, what string, types ...string) Diagnostic {
	d := New(code, n.Range, "%s must be %s, not %s", what, choices(types), WithArticle(n.Kind.String()))
	word := strings.ToLower(n.Text)
	switch scalar := n.Kind == Bool || n.Kind == Number || n.Kind == String; {
	case slices.Contains(types, "array") && scalar:
		return d.WithHint("write [%s]", n.JSON())
	case slices.Contains(types, "array") && n.Kind == Object:
		return d.WithHint("write a list, whose elements begin with a dash")
	case n.Kind == String && isNumber(n.Text) && (slices.Contains(types, "number") || slices.Contains(types, "integer")):
		return d.WithHint("write %s without quotes", n.Text)
	case slices.Equal(types, []string{"string"}) && scalar:
		return d.WithHint("quote it: %q", n.Text)
	case slices.Equal(types, []string{"boolean"}) && slices.Contains([]string{"yes", "on", "y"}, word):
		return d.WithHint("write true")
	case slices.Equal(types, []string{"boolean"}) && slices.Contains([]string{"no", "off", "n"}, word):
		return d.WithHint("write false")
	}
	return d
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// choices formats a list of types for messages, such as "a string or an array".
func choices(types []string) string {
	list := make([]string, len(types))
	for i, t := range types {
		list[len(types)-1-i] = WithArticle(t)
	}
	return strings.Join(list, " or ")
}

// WithArticle returns the name of a type with its article, such as "an object".
func WithArticle(t string) string {
	switch t {
	case "null":
		return t
	case "array", "object", "integer":
		return "an " + t
	}
	return "a " + t
}

// An ObjectReader reads the members of an object.
type ObjectReader struct {
	*Reader
	Node *Node
	// What names the object in diagnostics, for example "the event".
	What string
}

// Object returns a reader for an object with the given required and optional keys. It reports missing and unknown keys.
// If n is not an object, it returns nil.
func (r *Reader) Object(n *Node, what string, required, optional []string) *ObjectReader {
	if n.Kind != Object {
		r.Report(TypeFault("MCPE121", n, what, Object.String()).WithHint("%s", objectHint(n, required, optional)))
		return nil
	}
	for _, m := range n.Members {
		if slices.Contains(required, m.Key) || slices.Contains(optional, m.Key) {
			continue
		}
		d := New("MCPE120", m.KeyRange, "%s has no key %q", what, m.Key)
		if s := suggest.Nearest(m.Key, slices.Concat(required, optional)); s != "" {
			d = d.WithHint("did you mean %q?", s)
		} else {
			d = d.WithHint("its keys are %s", strings.Join(slices.Concat(required, optional), ", "))
		}
		r.Report(d)
	}
	for _, key := range required {
		if n.Get(key) == nil {
			at := n.Range
			if len(n.Members) > 0 {
				at = Range{Start: at.Start, End: at.Start}
			}
			d := New("MCPE122", at, "%s needs %q", what, key)
			if key == "version" {
				d = d.WithHint("write version: 1") // the version of each format
			}
			r.Report(d)
		}
	}
	return &ObjectReader{Reader: r, Node: n, What: what}
}

// maxHintKeys is the maximum number of keys in a hint.
const maxHintKeys = 5

// objectHint suggests an object to write instead of n. If n is a string and only one key is required, the hint uses n
// as its value. If there are few keys, the hint lists them. Otherwise, it returns "".
func objectHint(n *Node, required, optional []string) string {
	if n.Kind == String && len(required) == 1 {
		return "write {" + required[0] + ": " + n.Text + "}"
	}
	if keys := slices.Concat(required, optional); len(required) > 0 || len(keys) == 0 {
		if len(keys) > maxHintKeys {
			return ""
		}
		return "its keys are " + strings.Join(keys, ", ")
	}
	return "write {" + strings.Join(optional, ": …, ") + ": …}, or {} without any of them"
}

// Text returns the value of a string member and its node. The node is nil if the member is absent or not a string.
func (o *ObjectReader) Text(key string) (string, *Node) {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, String, key) {
		return "", nil
	}
	return n.Text, n
}

// Flag returns the value of a boolean member. If the member is absent, it returns the parameter absent.
func (o *ObjectReader) Flag(key string, absent bool) bool {
	n := o.Node.Get(key)
	if n == nil || !o.Is(n, Bool, key) {
		return absent
	}
	return n.True()
}

// Choice returns the value of a string member, which must be one of the words. If the member is absent, it returns the
// first word.
func (o *ObjectReader) Choice(key string, words ...string) string {
	s, n := o.Text(key)
	if n == nil || !o.Among(n, key, words) {
		return words[0]
	}
	return s
}

// Among reports whether the string n is one of the words. If it is not, Among adds a diagnostic.
func (r *Reader) Among(n *Node, what string, words []string) bool {
	if slices.Contains(words, n.Text) {
		return true
	}
	d := New("MCPE123", n.Range, "%s cannot be %q", what, n.Text)
	if s := suggest.Nearest(n.Text, words); s != "" {
		d = d.WithHint("did you mean %q?", s)
	} else {
		d = d.WithHint("it is one of %s", strings.Join(words, ", "))
	}
	r.Report(d)
	return false
}
