package schema

import (
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Dialects lists the dialect names that `dialect:` accepts. It also accepts URIs.
var Dialects = []string{schematree.Draft2020.Name, schematree.Draft07.Name}

// ValidDialect reports whether s is the name or the $schema URI of a dialect.
func ValidDialect(s string) bool { return dialectNamed(s) != nil }

func dialectNamed(s string) *schematree.Dialect {
	for _, d := range []*schematree.Dialect{schematree.Draft2020, schematree.Draft07} {
		if s == d.Name {
			return d
		}
	}
	return schematree.DialectOf(s)
}

// setDialect sets the dialect of r. It uses the first of the following that exists: the $schema of r, the dialect of
// its target if r is only a $ref, the dialect of the file, and the dialect of the configuration. The default is
// 2020-12. A root that is a whole file without a dialect has the dialect of the first schema that refers to it.
func (l *loader) setDialect(r *root) {
	if r.decided {
		return
	}
	r.decided = true
	if s := r.node.Get("$schema"); s != nil && s.Kind == source.String && schematree.DialectOf(s.Text) == nil {
		l.fail(r, source.New("MCPE132", s.Range, "the schema dialect %q is not supported", s.Text).
			WithHint("use %s or %s#", schematree.Draft2020.URI, schematree.Draft07.URI))
	}
	r.dialect = l.declaredDialect(r)
	if r.dialect == nil && r.referrer != nil {
		l.setDialect(r.referrer)
		r.dialect = r.referrer.dialect
	}
	for _, d := range []*schematree.Dialect{r.file.dialect, dialectNamed(l.o.Dialect), schematree.Draft2020} {
		if r.dialect == nil {
			r.dialect = d
		}
	}
}

// declaredDialect returns the dialect that r declares. If r is only a $ref, it returns the dialect of the target. If no
// dialect is declared, it returns nil.
func (l *loader) declaredDialect(r *root) *schematree.Dialect {
	if s := r.node.Get("$schema"); s != nil && s.Kind == source.String {
		return schematree.DialectOf(s.Text)
	}
	to := l.bareTarget(r)
	switch {
	case to == nil:
		return nil
	case to.referrer == r && !to.decided:
		return l.declaredDialect(to) // without a declaration its dialect depends on r
	}
	l.setDialect(to)
	return to.dialect
}

// bareTarget returns the target of r if r is only a $ref, or nil otherwise.
func (l *loader) bareTarget(r *root) *root {
	ref := r.node.Get("$ref")
	if ref == nil || ref.Kind != source.String || !hasOnlyRef(r.node) {
		return nil
	}
	path, fragment, ok := schematree.Cut(ref.Text)
	if !ok {
		return nil
	}
	file := r.file
	if path != "" {
		base := r.base
		if base == nil {
			base = &url.URL{}
		}
		name, base, d := l.set.referencedFile(&place{root: r, resource: &resource{node: r.node, base: base}}, ref, path)
		if d != nil {
			return nil
		}
		if file = l.openFile(name, false, base, r).file; file == nil {
			return nil
		}
	}
	if file.Document {
		return l.entries[file.Schemas[0]]
	}
	if tokens, _ := wire.SplitPointer(fragment); len(tokens) > 1 && tokens[0] == "schemas" {
		return l.entries[file.named[tokens[1]]]
	}
	return nil
}

// hasOnlyRef reports whether the schema contains only a $ref, annotations and x- keywords.
func hasOnlyRef(n *source.Node) bool {
	for _, m := range n.Members {
		switch m.Key {
		case "$ref", "$comment", "title", "description":
		default:
			if !strings.HasPrefix(m.Key, "x-") {
				return false
			}
		}
	}
	return true
}
