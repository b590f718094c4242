package form

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// TypeFault returns the diagnostic for a node that has none of the given types of JSON Schema. It has a hint if the
// correction is obvious.
func TypeFault(code string, n *source.Node, what string, types ...string) source.Diagnostic {
	d := source.New(code, n.Range, "%s must be %s, not %s", what, choices(types), source.WithArticle(n.Kind.String()))
	word := strings.ToLower(n.Text)
	switch scalar := n.Kind == source.Bool || n.Kind == source.Number || n.Kind == source.String; {
	case slices.Contains(types, "array") && scalar:
		return d.WithHint("write [%s]", n.JSON())
	case slices.Contains(types, "array") && n.Kind == source.Object:
		return d.WithHint("write a list, whose elements begin with a dash")
	case n.Kind == source.String && isNumber(n.Text) && (slices.Contains(types, "number") || slices.Contains(types, "integer")):
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
		list[len(types)-1-i] = source.WithArticle(t)
	}
	return strings.Join(list, " or ")
}
