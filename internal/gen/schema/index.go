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
	// name is the name of the entry, or of the owner and the part.
	name string
	// dialect is nil until it is decided. from is the schema that first referred to a file with a single schema.
	dialect *schematree.Dialect
	decided bool
	from    *root
	// base is the URL that the document stands for, nil if it has none.
	base *url.URL
	// ids holds the resources by their absolute $id.
	ids map[string]*resource
	// refs holds the schema objects with a $ref, in order. samples holds those with a default or examples.
	refs, samples []*source.Node
	// mappings holds the references in discriminators.
	mappings []mapped
	// matches holds the x-match members.
	matches []*source.Node
	// loose holds the schemas below keywords that the metaschema of the dialect does not know.
	loose []*source.Node
	// nested reports whether a schema below the top has an $id.
	nested bool
	// broken reports whether the schema is invalid. Nothing may be concluded from a broken schema.
	broken bool
	// marked holds values with a finding that is more specific than the metaschema's.
	marked map[source.Range]bool
}

// mapped is a reference in the discriminator of the schema at.
type mapped struct{ at, text *source.Node }

// A resource is a root or a schema with an $id. Within it, "#" refers to its node.
type resource struct {
	node    *source.Node
	base    *url.URL
	anchors map[string]*source.Node
	// dynamic holds the names of each $dynamicAnchor.
	dynamic map[string]bool
}

// A place holds the root and resource of a schema node.
type place struct {
	root     *root
	resource *resource
	// target and fault hold the resolved $ref of the node, if it has one.
	resolved bool
	target   Target
	fault    *source.Diagnostic
	// state is the progress of the loop search.
	state int8
}

// index walks through the schema of r. It records the place of every node and checks each keyword as far as possible
// without other schemas.
func (l *loader) index(r *root) {
	l.decide(r)
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
			l.unknown(r, m)
			continue
		}
		switch k.Holds {
		case schematree.Nothing:
			l.keyword(r, n, m)
		default:
			if m.Key == "$defs" && r.dialect == schematree.Draft07 {
				for _, d := range m.Value.Members {
					r.loose = append(r.loose, d.Value)
				}
				l.fail(r, source.New("MCPE138", m.KeyRange, "draft-07 calls shared schemas definitions; a $ref finds them below $defs too"))
			}
			if m.Key == "patternProperties" {
				for _, p := range m.Value.Members {
					l.pattern(r, p.Key, p.KeyRange)
				}
			}
			schematree.Held(k, m.Value, func(_ string, s *source.Node) { l.walk(r, res, s) })
		}
	}
}

// identify records the $id and the anchors of n, and returns the resource that n belongs to.
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

// unsupported maps keywords whose meaning depends on the dynamic scope to their replacements. No type can be
// generated for them, and a published schema could not be assembled from its parts.
var unsupported = map[string]string{
	"$dynamicRef":      "$ref",
	"$dynamicAnchor":   "$anchor",
	"$recursiveRef":    "$ref",
	"$recursiveAnchor": "$anchor",
}

// ownKeys lists the generator's keywords inside schemas.
var ownKeys = []string{"x-match", "x-go-name", "x-go-type", "x-enum-varnames"}

// unknown warns of keywords that are probably misspelled. JSON Schema allows other unknown keywords.
func (l *loader) unknown(r *root, m *source.Member) {
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
	// In YAML's flow style, a comma in prose starts a new key: {description: One, two} has the key two.
	if strings.ContainsAny(m.Key, " \t\n") || m.Value.Kind == source.Null && !strings.HasPrefix(m.Key, "x-") {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("if it belongs to the text before it, quote that text: {description: 'One, two'}"))
	}
}

// near returns the keyword that word probably misspells, or "".
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

// otherDialect returns a dialect that has a keyword that d does not have.
func otherDialect(d *schematree.Dialect, word string) *schematree.Dialect {
	for _, other := range []*schematree.Dialect{schematree.Draft2020, schematree.Draft07} {
		if _, known := other.Keyword(word); known && other != d {
			return other
		}
	}
	return nil
}
