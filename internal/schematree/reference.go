package schematree

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Cut splits a reference into the document and the unescaped fragment. The document is empty if it is the current one.
// It returns false if the fragment has an invalid escape.
func Cut(ref string) (document, fragment string, ok bool) {
	document, fragment, _ = strings.Cut(ref, "#")
	fragment, err := url.PathUnescape(fragment)
	return document, fragment, err == nil
}

// LastToken returns the last token of the JSON Pointer in a reference. Without a pointer, it returns the anchor or the
// name of the document.
func LastToken(ref string) string {
	_, fragment, _ := Cut(ref)
	if tokens, ok := wire.SplitPointer(fragment); ok {
		return tokens[len(tokens)-1]
	}
	return ref[strings.LastIndexAny(ref, "/#")+1:]
}

// At returns the value at a JSON Pointer relative to n.
func At[V Value[V]](n V, pointer string) (V, bool) {
	if pointer == "" {
		return n, true
	}
	tokens, ok := wire.SplitPointer(pointer)
	for _, t := range tokens {
		if list, isList := n.Elements(); isList {
			i, err := strconv.Atoi(t)
			if ok = err == nil && i >= 0 && i < len(list) && strconv.Itoa(i) == t; ok {
				n = list[i]
			}
		} else {
			n, ok = n.Find(t)
		}
		if !ok {
			break
		}
	}
	return n, ok
}

// Resolve returns the target of a reference within the document of root. The fragment is a JSON Pointer or an anchor.
// The document must not refer to other documents.
func Resolve[V Value[V]](root V, ref string) (to V, ok bool) {
	document, fragment, ok := Cut(ref)
	switch {
	case !ok || document != "":
		return to, false
	case fragment == "" || fragment[0] == '/':
		return At(root, fragment)
	}
	return findAnchor(root, fragment)
}

// findAnchor returns the schema in n with an anchor, in the syntax of 2020-12 or draft-07.
func findAnchor[V Value[V]](n V, name string) (to V, found bool) {
	for keyword, value := range map[string]string{"$anchor": name, "$id": "#" + name} {
		if v, ok := n.Find(keyword); ok && v.Value() == value {
			return n, true
		}
	}
	Each(Any, n, func(_, _ string, inner V) {
		if !found {
			to, found = findAnchor(inner, name)
		}
	})
	return to, found
}

// Definition returns the definition that contains the target of a reference, and the target's JSON Pointer within it.
// The keyword is $defs or definitions. It returns false if the target is not within a definition.
func Definition(defs []*published.Schema, keyword, ref string) (d *published.Schema, rest string, ok bool) {
	document, fragment, ok := Cut(ref)
	below, under := strings.CutPrefix(fragment, "/"+keyword+"/")
	if !ok || document != "" || !under {
		return nil, "", false
	}
	token, _, _ := strings.Cut(below, "/")
	name, ok := wire.SplitPointer("/" + token)
	if !ok {
		return nil, "", false
	}
	if i := slices.IndexFunc(defs, func(d *published.Schema) bool { return d.Name == name[0] }); i >= 0 {
		return defs[i], below[len(token):], true
	}
	return nil, "", false
}
