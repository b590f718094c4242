package schema

import (
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// Dialects are the names of the dialects that `dialect:` takes beside their URIs.
var Dialects = []string{draft2020.name, draft07.name}

// ValidDialect reports whether s names a dialect, by its name or as $schema does.
func ValidDialect(s string) bool { return dialectNamed(s) != nil }

func dialectNamed(s string) *dialect {
	for _, d := range []*dialect{draft2020, draft07} {
		if s == d.name {
			return d
		}
	}
	return dialectOf(s)
}

// fileDialect reads `dialect` of an event file.
func (l *loader) fileDialect(f *File, o *source.ObjectReader) {
	text, n := o.Text("dialect")
	if n == nil {
		return
	}
	if f.dialect = dialectNamed(text); f.dialect == nil {
		l.Report(BadDialect(n))
	}
}

// BadDialect is the finding that n names no dialect.
func BadDialect(n *source.Node) source.Diagnostic {
	return source.New("MCPE132", n.Range, "the schema dialect %q is not supported", n.Text).
		WithHint("it is %s or %s", draft2020.name, draft07.name)
}

// decide gives r its dialect: its own $schema, that of the target when it is a bare $ref, the file's,
// the configuration's, 2020-12. A file that is one schema and says nothing has the dialect of the first
// schema that leads to it.
func (l *loader) decide(r *root) {
	if r.decided {
		return
	}
	r.decided = true
	if s := r.node.Get("$schema"); s != nil && s.Kind == source.String && dialectOf(s.Text) == nil {
		l.fail(r, source.New("MCPE132", s.Range, "the schema dialect %q is not supported", s.Text).
			WithHint("use %s or %s#", draft2020.uri, draft07.uri))
	}
	r.dialect = l.said(r)
	if r.dialect == nil && r.from != nil {
		l.decide(r.from)
		r.dialect = r.from.dialect
	}
	for _, d := range []*dialect{r.file.dialect, dialectNamed(l.o.Dialect), draft2020} {
		if r.dialect == nil {
			r.dialect = d
		}
	}
}

// said returns the dialect that r itself or the target of a bare $ref asks for, nil when neither does.
func (l *loader) said(r *root) *dialect {
	if s := r.node.Get("$schema"); s != nil && s.Kind == source.String {
		return dialectOf(s.Text)
	}
	to := l.bareTarget(r)
	switch {
	case to == nil:
		return nil
	case to.from == r && !to.decided:
		return l.said(to) // what it does not say depends on r
	}
	l.decide(to)
	return to.dialect
}

// bareTarget returns the root that r refers to when it is nothing but a $ref, nil when it is not.
func (l *loader) bareTarget(r *root) *root {
	ref := r.node.Get("$ref")
	if ref == nil || ref.Kind != source.String || !bare(r.node) {
		return nil
	}
	path, fragment, _ := strings.Cut(ref.Text, "#")
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	file := r.file
	if path != "" {
		base := r.base
		if base == nil {
			base = &url.URL{}
		}
		name, base, d := l.set.elsewhere(&place{root: r, resource: &resource{node: r.node, base: base}}, ref, path)
		if d != nil {
			return nil
		}
		if file = l.open(name, false, base, r).file; file == nil {
			return nil
		}
	}
	if file.Document {
		return l.entries[file.Schemas[0]]
	}
	if tokens, _ := source.SplitPointer(fragment); len(tokens) > 1 && tokens[0] == "schemas" {
		return l.entries[file.named[tokens[1]]]
	}
	return nil
}

// bare reports whether the schema says nothing but its $ref, apart from what people and the generator
// read.
func bare(n *source.Node) bool {
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
