package importer

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Resolve returns the target of a reference in a document, and its JSON Pointer.
func Resolve(doc *source.Node, ref string) (pointer string, to *source.Node, err error) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", nil, fmt.Errorf("it refers to %s, another document, which was not read", ref)
	}
	pointer = Unescaped(pointer)
	if to = doc.Lookup(pointer); to == nil {
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

// Follow returns n, or the final target if n is a reference. It follows chains of references.
func Follow(n *source.Node, resolve func(ref string) (*source.Node, error)) (*source.Node, error) {
	for range 20 {
		ref := n.Get("$ref")
		if ref == nil || ref.Kind != source.String {
			return n, nil
		}
		to, err := resolve(ref.Text)
		if err != nil {
			return nil, err
		}
		n = to
	}
	return nil, fmt.Errorf("its references lead back to themselves")
}
