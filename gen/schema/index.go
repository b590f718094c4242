package schema

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A root is a schema that stands by itself: an entry of schemas, or one of an event, a task or the
// conversation.
type root struct {
	file *File
	node *source.Node
	// Exactly one of entry, event, task and talk is set.
	entry *Entry
	event *Event
	task  *Task
	talk  *Conversation
	// name is the entry's, or that of what it belongs to with the part.
	name string
	// dialect is nil until it is decided; from is the schema that led to a file which is one schema.
	dialect *dialect
	decided bool
	from    *root
	// base is the URL that a document stands for, nil for others.
	base *url.URL
	// ids holds the resources by their absolute $id.
	ids map[string]*resource
	// refs are the schema objects with a $ref, in order; samples those with a default or examples.
	refs, samples []*source.Node
	// mappings are the references in discriminators.
	mappings []mapped
	// matches are the x-match members that were found.
	matches []*source.Node
	// loose are the schemas below a keyword that the metaschema of the dialect does not know.
	loose []*source.Node
	// nested tells that there is an $id below the top.
	nested bool
	// broken tells that the schema is invalid, so that nothing may be concluded from it.
	broken bool
	// marked are the values about which more is said than the metaschema would.
	marked map[source.Range]bool
}

// mapped is a reference in the discriminator of the schema at.
type mapped struct{ at, text *source.Node }

// A resource is a schema with an $id, or a root: what "#" stands for within it.
type resource struct {
	node    *source.Node
	base    *url.URL
	anchors map[string]*source.Node
	// dynamic are the names of $dynamicAnchor.
	dynamic map[string]bool
}

// A place is where a schema node belongs.
type place struct {
	root     *root
	resource *resource
	// target and fault are the resolved $ref of the node, if it has one.
	resolved bool
	target   Target
	fault    *source.Diagnostic
	// state is the progress of the search for loops.
	state int8
}

// index walks through the schema of r: it notes what every node is and checks keyword by keyword
// what needs no other schema.
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
		k, known := r.dialect.keywords[m.Key]
		if !known {
			l.unknown(r, m)
			continue
		}
		switch k.shape {
		case data:
			l.keyword(r, n, m)
		default:
			if m.Key == "$defs" && r.dialect == draft07 {
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
			eachSchema(k.shape, m.Value, func(s *source.Node) { l.walk(r, res, s) })
		}
	}
}

// eachSchema calls f for the schemas that a keyword of the shape holds.
func eachSchema(s shape, v *source.Node, f func(*source.Node)) {
	switch {
	case s == schemaList || s == schemaOrList && v.Kind == source.Array:
		for _, item := range v.Items {
			f(item)
		}
	case s == oneSchema || s == schemaOrList:
		f(v)
	case s == schemaMap || s == schemaOrNames:
		for _, m := range v.Members {
			if s == schemaMap || m.Value.Kind != source.Array {
				f(m.Value)
			}
		}
	}
}

// inner calls f for the schemas within the schema n, with the keyword that holds them.
func (d *dialect) inner(n *source.Node, f func(k keyword, s *source.Node)) {
	for _, m := range n.Members {
		if k := d.keywords[m.Key]; k.shape != data {
			eachSchema(k.shape, m.Value, func(s *source.Node) { f(k, s) })
		}
	}
}

// identify notes the $id and the anchors of n and returns the resource that n belongs to.
func (l *loader) identify(r *root, res *resource, n *source.Node) *resource {
	anchor := func(name string, at *source.Node) {
		if first := res.anchors[name]; first != nil {
			l.fail(r, source.New("MCPE137", at.Range, "anchor %q is given twice", name).WithRelated(anchorAt(first), "also given here"))
			return
		}
		res.anchors[name] = n
	}
	if id := n.Get("$id"); id != nil && id.Kind == source.String && (!r.dialect.refAlone || n.Get("$ref") == nil) {
		u, err := url.Parse(id.Text)
		switch {
		case err != nil || u.Scheme != "" && u.Opaque == "" && u.Host == "" && (u.Scheme != "file" || u.Path == ""):
			r.mark(id)
			l.fail(r, source.New("MCPE137", id.Range, "$id %q is not a URI reference", id.Text))
		case r.dialect == draft07 && strings.HasPrefix(id.Text, "#") && len(id.Text) > 1:
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
	if a := n.Get("$anchor"); a != nil && a.Kind == source.String && !r.dialect.refAlone {
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

// anchorAt returns where the schema n says its anchor.
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

// ownKeys are the generator's keywords inside schemas.
var ownKeys = []string{"x-match", "x-go-name", "x-go-type", "x-enum-varnames"}

// unknown warns of a keyword that is probably misspelt. Others are allowed: JSON Schema says so.
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
		l.fail(r, source.New("MCPE131", m.KeyRange, "%s is a keyword of %s and has no effect in %s", m.Key, other.name, r.dialect.name).
			WithHint("say the same with keywords of %s, or set $schema to %s at the top", r.dialect.name, other.uri))
		return
	}
	if near := l.near(r.dialect, m.Key); near != "" {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("did you mean %q?", near))
		return
	}
	// What a comma cuts off from prose in YAML's flow style: {description: One, two} has the key two.
	if strings.ContainsAny(m.Key, " \t\n") || m.Value.Kind == source.Null && !strings.HasPrefix(m.Key, "x-") {
		l.fail(r, source.New("MCPE131", m.KeyRange, "%q is not a keyword of JSON Schema and has no effect", m.Key).
			WithHint("if it belongs to the text before it, quote that text: {description: 'One, two'}"))
	}
}

// near returns the keyword that an unknown one is a misspelling of, empty when none is near.
func (l *loader) near(d *dialect, word string) string {
	key := d.name + " " + word
	near, ok := l.misspelt[key]
	if !ok {
		candidates := ownKeys
		if !strings.HasPrefix(word, "x-") {
			candidates = slices.Sorted(slices.Values(d.names))
		}
		near = source.Suggest(word, candidates)
		if l.misspelt == nil {
			l.misspelt = make(map[string]string)
		}
		l.misspelt[key] = near
	}
	return near
}

// otherDialect returns the dialect that has a keyword which d has not.
func otherDialect(d *dialect, word string) *dialect {
	for _, other := range []*dialect{draft2020, draft07} {
		if _, known := other.keywords[word]; known && other != d {
			return other
		}
	}
	return nil
}
