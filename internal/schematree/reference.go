package schematree

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Cut splits a reference into the document, empty for the current one, and the unescaped fragment. It returns false
// if the fragment has an invalid escape.
func Cut(ref string) (document, fragment string, ok bool) {
	document, fragment, _ = strings.Cut(ref, "#")
	fragment, err := url.PathUnescape(fragment)
	return document, fragment, err == nil
}

// At follows a JSON Pointer from n.
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

// Resolve returns the target of a reference within the document of root, by a JSON Pointer or an anchor. The document
// must not refer to other documents.
func Resolve[V Value[V]](root V, ref string) (to V, ok bool) {
	document, fragment, ok := Cut(ref)
	switch {
	case !ok || document != "":
		return to, false
	case fragment == "" || fragment[0] == '/':
		return At(root, fragment)
	}
	return anchored(root, fragment)
}

// anchored returns the schema in n with an anchor of 2020-12 or draft-07.
func anchored[V Value[V]](n V, name string) (to V, found bool) {
	for keyword, value := range map[string]string{"$anchor": name, "$id": "#" + name} {
		if v, ok := n.Find(keyword); ok && v.Value() == value {
			return n, true
		}
	}
	Each(Any, n, func(_, _ string, inner V) {
		if !found {
			to, found = anchored(inner, name)
		}
	})
	return to, found
}

// Definition returns the definition below the keyword, $defs or definitions, that a reference leads to or into, and
// the remaining JSON Pointer. It returns false for other references.
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
