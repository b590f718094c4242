package importer

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
)

// Resolve returns the target of a reference to a part of a document, and its JSON Pointer.
func Resolve(doc *source.Node, ref string) (pointer string, to *source.Node, err error) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", nil, fmt.Errorf("it refers to %s, another document, which was not read", ref)
	}
	pointer = Unescaped(pointer)
	if to = doc.Lookup(pointer); to == nil || to == doc {
		return pointer, nil, fmt.Errorf("it refers to %s, which does not exist", ref)
	}
	return pointer, to, nil
}

// Unescaped decodes the percent-encoding of a URI fragment. It does not change a fragment with an invalid escape.
func Unescaped(fragment string) string {
	if plain, err := url.PathUnescape(fragment); err == nil {
		return plain
	}
	return fragment
}

// Follow returns n, or the final target if n is a reference in doc. It follows chains of references.
func Follow(doc, n *source.Node) (*source.Node, error) {
	for range 20 {
		ref := n.Get("$ref")
		if ref == nil || ref.Kind != source.String {
			return n, nil
		}
		_, to, err := Resolve(doc, ref.Text)
		if err != nil {
			return nil, err
		}
		n = to
	}
	return nil, fmt.Errorf("its references lead back to themselves")
}

// Reference returns a schema that refers to another one.
func Reference(to string) *source.Node {
	n := yaml.Object()
	yaml.Set(n, "$ref", yaml.Text(to))
	return n
}

// Description returns the first text of the nodes that is not blank, or "". keys are the names of members with texts.
func Description(keys []string, nodes ...*source.Node) string {
	for _, n := range nodes {
		for _, key := range keys {
			if text := n.Word(key); strings.TrimSpace(text) != "" {
				return text
			}
		}
	}
	return ""
}
