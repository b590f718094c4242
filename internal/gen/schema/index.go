package schema

import (
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// A root is a top-level schema: an entry of schemas, or a schema of an event, a task or the conversation.
type root struct {
	file *File
	node *source.Node
	// entry or event is set, unless the schema belongs to a task or the conversation.
	entry *Entry
	event *Event
	// name is the name of the entry. For other schemas, it consists of the owner's name and the key.
	name string
	// dialect is nil until setDialect is called. referrer is the first schema that refers to the root, if the root is a
	// whole file.
	dialect  *schematree.Dialect
	decided  bool
	referrer *root
	// base is the URL of the document, or nil.
	base *url.URL
	// ids maps absolute $id values to resources.
	ids map[string]*resource
	// refs lists the schema objects with a $ref, in order. samples lists the schema objects with a default or examples.
	refs, samples []*source.Node
	// mappings lists the references in discriminators.
	mappings []mappingRef
	// matches lists the values of x-match.
	matches []*source.Node
	// unknownSchemas lists the schemas in keywords that the metaschema of the dialect does not describe.
	unknownSchemas []*source.Node
	// hasNestedID reports whether a subschema has an $id.
	hasNestedID bool
	// isBroken reports whether the schema is invalid. Checks skip broken schemas.
	isBroken bool
	// reported is the set of values for which a more specific diagnostic replaces the diagnostic of the metaschema.
	reported map[source.Range]bool
}

// A mappingRef is the reference text in the discriminator of the schema at.
type mappingRef struct{ at, text *source.Node }

// A resource is a root or a schema with an $id. Within it, "#" refers to its node.
type resource struct {
	node    *source.Node
	base    *url.URL
	anchors map[string]*source.Node
	// dynamic is the set of $dynamicAnchor names.
	dynamic map[string]bool
}

// A place records where a schema node is: its root and its resource.
type place struct {
	root     *root
	resource *resource
	// target and fault are the result of resolving the node's $ref. They are valid if resolved is true.
	resolved bool
	target   Target
	fault    *source.Diagnostic
	// state is the state of the node in findLoops.
	state int8
}

// indexRoot visits all nodes in the schema of r and records their places. It also performs the checks that do not
// require other schemas.
func (l *loader) indexRoot(r *root) {
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
		r.isBroken = true
	}
	l.Report(d)
}

func (r *root) mark(n *source.Node) {
	if r.reported == nil {
		r.reported = make(map[source.Range]bool)
	}
	r.reported[n.Range] = true
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
			l.checkUnknownKeyword(r, m)
			continue
		}
		switch k.Holds {
		case schematree.Nothing:
			l.checkKeyword(r, n, m)
		default:
			if m.Key == "$defs" && r.dialect == schematree.Draft07 {
				for _, d := range m.Value.Members {
					r.unknownSchemas = append(r.unknownSchemas, d.Value)
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
			r.hasNestedID = r.hasNestedID || n != r.node
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

// anchorAt returns the range of the $anchor of n, or of its $id if it has no $anchor.
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

// keywordReplacements maps unsupported keywords to the keywords to use instead. The unsupported keywords depend on the
// dynamic scope, which prevents generating types and assembling published schemas from parts.
var keywordReplacements = map[string]string{
	"$dynamicRef":      "$ref",
	"$dynamicAnchor":   "$anchor",
	"$recursiveRef":    "$ref",
	"$recursiveAnchor": "$anchor",
}

// ownKeys lists the schema keywords that this generator defines.
var ownKeys = []string{"x-match", privateKey, "x-go-name", "x-go-type", "x-enum-varnames"}

// checkUnknownKeyword reports unsupported keywords, and warns about unknown keywords that are probably mistakes. JSON
// Schema allows other unknown keywords.
func (l *loader) checkUnknownKeyword(r *root, m *source.Member) {
	if use, ok := keywordReplacements[m.Key]; ok {
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
	if near := l.nearKeyword(r.dialect, m.Key); near != "" {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("did you mean %q?", near))
		return
	}
	if t := m.Value.Get("type"); t != nil && !strings.HasPrefix(m.Key, "x-") && schematree.Named(t.Text) != 0 {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("a member belongs below properties"))
		return
	}
	// In YAML's flow style, a comma in prose starts a new key. For example, {description: One, two} contains the key
	// two.
	if strings.ContainsAny(m.Key, " \t\n") || m.Value.Kind == source.Null && !strings.HasPrefix(m.Key, "x-") {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("if it belongs to the text before it, quote that text: {description: 'One, two'}"))
	}
}

// nearKeyword returns the keyword that was probably misspelled as word, or "".
func (l *loader) nearKeyword(d *schematree.Dialect, word string) string {
	key := d.Name + " " + word
	near, ok := l.nearKeywords[key]
	if !ok {
		candidates := ownKeys
		if !strings.HasPrefix(word, "x-") {
			candidates = d.Keywords()
		}
		near = suggest.Nearest(word, candidates)
		if l.nearKeywords == nil {
			l.nearKeywords = make(map[string]string)
		}
		l.nearKeywords[key] = near
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
