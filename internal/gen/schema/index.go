package schema

import (
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A root is a top-level schema: an entry of schemas, or a schema of an event, a task or the conversation.
type root struct {
	file *File
	node *source.Node
	// Exactly one of entry, event, task and talk is set.
	entry *Entry
	event *Event
	task  *Task
	talk  *Conversation
	// name is the name of the entry. For other schemas, it consists of the owner's name and the key.
	name string
	// dialect is nil until setDialect is called. from is the first schema that refers to the root, if the root is a
	// whole file.
	dialect *schematree.Dialect
	decided bool
	from    *root
	// base is the URL of the document, or nil if it has none.
	base *url.URL
	// ids maps absolute $id values to resources.
	ids map[string]*resource
	// refs lists the schema objects with a $ref, in order. samples lists the schema objects with a default or examples.
	refs, samples []*source.Node
	// mappings lists the references in discriminators.
	mappings []mapped
	// matches lists the values of x-match.
	matches []*source.Node
	// loose lists the schemas in keywords that are unknown to the metaschema of the dialect.
	loose []*source.Node
	// nested reports whether a subschema has an $id.
	nested bool
	// broken reports whether the schema is invalid. Checks skip broken schemas.
	broken bool
	// marked is the set of values with a finding that is more specific than the metaschema's.
	marked map[source.Range]bool
}

// mapped is a reference in the discriminator of the schema at.
type mapped struct{ at, text *source.Node }

// A resource is a root or a schema with an $id. Within it, "#" refers to its node.
type resource struct {
	node    *source.Node
	base    *url.URL
	anchors map[string]*source.Node
	// dynamic is the set of $dynamicAnchor names.
	dynamic map[string]bool
}

// A place contains the root and the resource of a schema node.
type place struct {
	root     *root
	resource *resource
	// target and fault are the result of resolving the node's $ref, if it has one.
	resolved bool
	target   Target
	fault    *source.Diagnostic
	// state is the state of the node in the search for loops.
	state int8
}

// index visits all nodes in the schema of r and records their places. It performs the checks of keywords that do not
// require other schemas.
func (l *loader) index(r *root) {
	l.setDialect(r)
	r.ids = make(map[string]*resource)
	top := &resource{node: r.node, base: &url.URL{}, anchors: make(map[string]*source.Node)}
	if r.base != nil {
		top.base = r.base
		r.ids[withoutFragment(r.base)] = top
	}
	l.walk(r, top, r.node)
}

func (l *loader) fail(r *root, d source.Diagnostic) {
	if d.Severity == source.Error {
		r.broken = true
	}
	l.Report(d)
}

func (r *root) mark(n *source.Node) {
	if r.marked == nil {
		r.marked = make(map[source.Range]bool)
	}
	r.marked[n.Range] = true
}

func (l *loader) walk(r *root, res *resource, n *source.Node) {
	if n.Kind == source.Object {
		res = l.identify(r, res, n)
	}
	l.set.places[n] = &place{root: r, resource: res}
	if n.Kind != source.Object {
		return
	}
	for i := range n.Members {
		m := &n.Members[i]
		k, known := r.dialect.Keyword(m.Key)
		if !known {
			l.checkUnknown(r, m)
			continue
		}
		switch k.Holds {
		case schematree.Nothing:
			l.checkKeyword(r, n, m)
		default:
			if m.Key == "$defs" && r.dialect == schematree.Draft07 {
				for _, d := range m.Value.Members {
					r.loose = append(r.loose, d.Value)
				}
				l.fail(r, source.New("MCPE138", m.KeyRange, "draft-07 calls shared schemas definitions; a $ref finds them below $defs too"))
			}
			if m.Key == "patternProperties" {
				for _, p := range m.Value.Members {
					l.checkPattern(r, p.Key, p.KeyRange)
				}
			}
			schematree.Held(k, m.Value, func(_ string, s *source.Node) { l.walk(r, res, s) })
		}
	}
}

// identify records the $id and the anchors of n, and returns the resource that contains n.
func (l *loader) identify(r *root, res *resource, n *source.Node) *resource {
	anchor := func(name string, at *source.Node) {
		if first := res.anchors[name]; first != nil {
			l.fail(r, source.New("MCPE137", at.Range, "anchor %q is given twice", name).WithRelated(anchorAt(first), "also given here"))
			return
		}
		res.anchors[name] = n
	}
	if id := n.Get("$id"); id != nil && id.Kind == source.String && (!r.dialect.RefAlone || n.Get("$ref") == nil) {
		u, err := url.Parse(id.Text)
		switch {
		case err != nil || u.Scheme != "" && u.Opaque == "" && u.Host == "" && (u.Scheme != "file" || u.Path == ""):
			r.mark(id)
			l.fail(r, source.New("MCPE137", id.Range, "$id %q is not a URI reference", id.Text))
		case r.dialect == schematree.Draft07 && strings.HasPrefix(id.Text, "#") && len(id.Text) > 1:
			anchor(id.Text[1:], id)
		case u.Fragment != "":
			r.mark(id)
			l.fail(r, source.New("MCPE137", id.Range, "$id %q has a fragment", id.Text).WithHint("use $anchor for a name within the schema"))
		case id.Text == "" || id.Text == "#":
			l.fail(r, source.New("MCPE137", id.Range, "$id is empty"))
		default:
			base := res.base.ResolveReference(u)
			key := withoutFragment(base)
			if first := r.ids[key]; first != nil && first.node != n {
				l.fail(r, source.New("MCPE137", id.Range, "$id %q is given twice", id.Text).
					WithRelated(first.node.Get("$id").Range, "also given here"))
				break
			}
			res = &resource{node: n, base: base, anchors: make(map[string]*source.Node)}
			r.ids[key] = res
			r.nested = r.nested || n != r.node
		}
	}
	if a := n.Get("$anchor"); a != nil && a.Kind == source.String && !r.dialect.RefAlone {
		anchor(a.Text, a)
	}
	if a := n.Get("$dynamicAnchor"); a != nil && a.Kind == source.String {
		if res.dynamic == nil {
			res.dynamic = make(map[string]bool)
		}
		res.dynamic[a.Text] = true
	}
	return res
}

// anchorAt returns the range of the anchor of the schema n.
func anchorAt(n *source.Node) source.Range {
	if a := n.Get("$anchor"); a != nil {
		return a.Range
	}
	return n.Get("$id").Range
}

func withoutFragment(u *url.URL) string {
	v := *u
	v.Fragment, v.RawFragment = "", ""
	return v.String()
}

// unsupported maps keywords that depend on the dynamic scope to their replacements. A type for such a keyword cannot be
// generated, and a published schema with it could not be assembled from its parts.
var unsupported = map[string]string{
	"$dynamicRef":      "$ref",
	"$dynamicAnchor":   "$anchor",
	"$recursiveRef":    "$ref",
	"$recursiveAnchor": "$anchor",
}

// ownKeys lists the generator's schema keywords.
var ownKeys = []string{"x-match", "x-go-name", "x-go-type", "x-enum-varnames"}

// checkUnknown reports unsupported keywords, and warns about unknown keywords that are probably mistakes. JSON Schema
// allows other unknown keywords.
func (l *loader) checkUnknown(r *root, m *source.Member) {
	if use, ok := unsupported[m.Key]; ok {
		r.mark(m.Value)
		l.fail(r, source.New("MCPE136", m.KeyRange, "%s is not supported", m.Key).WithHint("use %s", use))
		return
	}
	if m.Key == "nullable" && m.Value.True() {
		l.fail(r, source.New("MCPE131", m.KeyRange, "nullable is not a keyword of JSON Schema: the Go type holds null, but validation refuses it").
			WithHint("add null to the types: type: [string, \"null\"]"))
		return
	}
	if other := otherDialect(r.dialect, m.Key); other != nil {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%s is a keyword of %s and has no effect in %s", m.Key, other.Name, r.dialect.Name).
			WithHint("say the same with keywords of %s, or set $schema to %s at the top", r.dialect.Name, other.URI))
		return
	}
	if near := l.near(r.dialect, m.Key); near != "" {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("did you mean %q?", near))
		return
	}
	// In YAML's flow style, a comma in prose starts a new key. For example, {description: One, two} contains the key
	// two.
	if strings.ContainsAny(m.Key, " \t\n") || m.Value.Kind == source.Null && !strings.HasPrefix(m.Key, "x-") {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("if it belongs to the text before it, quote that text: {description: 'One, two'}"))
	}
}

// near returns the keyword that word is probably a misspelling of, or "".
func (l *loader) near(d *schematree.Dialect, word string) string {
	key := d.Name + " " + word
	near, ok := l.misspelt[key]
	if !ok {
		candidates := ownKeys
		if !strings.HasPrefix(word, "x-") {
			candidates = d.Keywords()
		}
		near = source.Suggest(word, candidates)
		if l.misspelt == nil {
			l.misspelt = make(map[string]string)
		}
		l.misspelt[key] = near
	}
	return near
}

// otherDialect returns a dialect other than d that has the keyword, or nil.
func otherDialect(d *schematree.Dialect, word string) *schematree.Dialect {
	for _, other := range []*schematree.Dialect{schematree.Draft2020, schematree.Draft07} {
		if _, known := other.Keyword(word); known && other != d {
			return other
		}
	}
	return nil
}
