package importer

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// sharePublished converts the definitions in published schemas to shared schemas. It reverses the step in which a
// server copies a definition into each event type that refers to it. If different definitions have the same name, only
// the most frequent one is shared. An event keeps its definitions if sharing would change its published schemas.
func (w *writer) sharePublished() {
	keep := map[*draft]bool{} // drafts that keep their definitions
	before := map[*draft]string{}
	original := map[*draft][]byte{}
	for _, d := range w.drafts {
		original[d] = d.node.JSON()
		before[d], _ = wire.Fingerprint(d.node.Get("inputSchema").JSON(), d.node.Get("payloadSchema").JSON())
	}
	for {
		w.share(keep)
		changed := w.changedDrafts(before, keep)
		if len(changed) == 0 {
			return
		}
		for _, d := range changed {
			keep[d] = true
		}
		w.shared, w.order = map[string]*draft{}, nil
		for _, d := range w.drafts {
			d.node, _ = source.Parse(d.name, original[d])
		}
	}
}

// changedDrafts returns the drafts whose published schemas differ from before. It skips drafts without valid schemas.
func (w *writer) changedDrafts(before map[*draft]string, keep map[*draft]bool) []*draft {
	set, _ := load(w.render())
	var changed []*draft
	for i, e := range set.Files[0].Events {
		d := w.drafts[i]
		if keep[d] || e.Input == nil || e.Payload == nil {
			continue
		}
		is, err := set.Fingerprint(set.Shared(e.Input), set.Shared(e.Payload))
		if err != nil || before[d] == "" || before[d] != is {
			changed = append(changed, d)
		}
	}
	return changed
}

// share makes shared schemas of the parts that several top-level schemas contain, except those of the drafts in keep.
// In published schemas, these are the definitions. In other documents, these are repeated definitions and repeated
// schemas that are large enough. The accepted values do not change.
func (w *writer) share(keep map[*draft]bool) {
	s := &sharer{w: w, parts: map[partKey]*part{}, at: map[*source.Node]*part{}}
	s.addRoots(keep)
	s.addParts()
	for _, r := range s.roots {
		s.visit(r, r.node, r.draft.name)
	}
	s.nameParts()
	for _, p := range s.order {
		if p.name != "" && p.shared == nil {
			s.replace(p)
		}
		if p.shared != nil {
			w.order = append(w.order, p.name)
		}
	}
	for _, r := range s.roots {
		if defs := r.node.Get(r.keyword); defs != nil {
			defs.Members = slices.DeleteFunc(defs.Members, func(m source.Member) bool { return s.part(r, m.Value, m.Key).name != "" })
			r.node.Members = slices.DeleteFunc(r.node.Members, func(m source.Member) bool { return m.Key == r.keyword && len(defs.Members) == 0 })
		}
	}
}

// A sharer finds the parts that top-level schemas have in common.
type sharer struct {
	w     *writer
	roots []*shareRoot
	// shapes numbers the shapes of the document, and parts contains the part for each shape.
	shapes *schema.Shapes
	parts  map[partKey]*part
	// order lists the parts in the order of the document. at maps the schemas of the places to their parts.
	order []*part
	at    map[*source.Node]*part
}

// A shareRoot is a top-level schema: a shared schema of the document, or a schema of an event type.
type shareRoot struct {
	draft   *draft
	node    *source.Node
	dialect string
	// keyword is the keyword of the definitions, or empty.
	keyword string
}

// A partKey identifies a shape in a dialect. definition is the name of the definition that has it, or empty.
type partKey struct {
	dialect    string
	number     int
	definition string
}

// A part is a schema that occurs in one or more places and may become a shared schema.
type part struct {
	definition string
	places     []place
	// refs lists the references to the definition.
	refs []*source.Node
	// name is the name of the shared schema, or empty if the part does not become one. The document may already contain
	// the shared schema.
	name   string
	shared *draft
}

// A place is an occurrence of a part. label is the name of the definition, or of the member that contains the schema.
// holder is the label of the object with that member, or empty.
type place struct {
	root          *shareRoot
	node          *source.Node
	holder, label string
	isInline      bool
}

const sharedPrefix = "#/schemas/"

// addRoots adds the top-level schemas of the document, except those from an event file. It also omits schemas that
// cannot be taken apart: they depend on an $id, or a reference leads to their inside.
func (s *sharer) addRoots(keep map[*draft]bool) {
	inside := map[string]bool{} // shared schemas with such references
	drafts := slices.DeleteFunc(s.w.allDrafts(), func(d *draft) bool { return keep[d] || d.isExact })
	for _, d := range drafts {
		for _, n := range d.schemas() {
			EachReference(n, func(ref *source.Node) {
				if pointer, ok := strings.CutPrefix(ref.Text, sharedPrefix); ok {
					name, _, isInside := strings.Cut(pointer, "/")
					inside[name] = inside[name] || isInside
				}
			})
		}
	}
	for _, d := range drafts {
		for _, n := range d.schemas() {
			r := &shareRoot{draft: d, node: n, dialect: n.Word("$schema")}
			for _, k := range schematree.DefinitionKeywords {
				if n.Get(k) != nil {
					r.keyword = k
				}
			}
			if !(d.shared && inside[d.name]) && !(s.w.doc.Published && r.dialect != "") && s.isDivisible(r) {
				s.roots = append(s.roots, r)
			}
		}
	}
}

// isDivisible reports whether all references of a root are to its definitions or to shared schemas.
func (s *sharer) isDivisible(r *shareRoot) bool {
	ok := r.node.Kind == source.Object
	walk(r.node, func(n *source.Node) {
		for _, m := range n.Members {
			ok = ok && (schema.IsName(m) || !slices.Contains([]string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor"}, m.Key))
		}
		for _, ref := range schema.References(n) {
			_, def := r.target(ref)
			ok = ok && (def != nil || strings.HasPrefix(ref.Text, sharedPrefix) && !s.w.doc.Published)
		}
	})
	return ok
}

// target returns the definition to which a reference leads, or nil.
func (r *shareRoot) target(ref *source.Node) (name string, def *source.Node) {
	name, ok := strings.CutPrefix(ref.Text, "#/"+r.keyword+"/")
	if !ok || !eventName.MatchString(name) {
		return "", nil
	}
	return name, r.node.Get(r.keyword).Get(name)
}

// addParts adds the shared schemas of the document and the definitions. An inline object with the same shape belongs to
// the same part.
func (s *sharer) addParts() {
	s.numberShapes()
	for _, r := range s.roots {
		if r.draft.shared && schema.IsShareable(r.node) {
			p := s.part(r, r.node, "")
			p.name = cmp.Or(p.name, r.draft.name)
		}
	}
	for _, r := range s.roots {
		for _, m := range r.node.MembersAt(r.keyword) {
			p, inline := s.part(r, m.Value, m.Key), partKey{r.dialect, s.shapes.Number(m.Value), ""}
			s.parts[inline] = cmp.Or(s.parts[inline], p)
		}
		EachReference(r.node, func(ref *source.Node) {
			if name, def := r.target(ref); def != nil {
				p := s.part(r, def, name)
				p.refs = append(p.refs, ref)
			}
		})
	}
}

// numberShapes numbers the shapes of all schemas. Definitions are equal if they have equal names and content, and refer
// to equal definitions. numberShapes therefore divides the definitions until the number of shapes remains the same.
func (s *sharer) numberShapes() {
	targets, classes := map[*source.Node]*source.Node{}, map[*source.Node]int{}
	for _, r := range s.roots {
		EachReference(r.node, func(ref *source.Node) { _, targets[ref] = r.target(ref) })
	}
	for count := -1; ; {
		s.shapes = schema.NewShapes(s.w.doc.Published, func(ref *source.Node) string {
			return ref.Text + " " + strconv.Itoa(classes[targets[ref]])
		})
		next, distinct := map[*source.Node]int{}, map[int]bool{}
		for _, r := range s.roots {
			for _, m := range r.node.MembersAt(r.keyword) {
				next[m.Value] = s.shapes.Number(m.Value)
				distinct[next[m.Value]] = true
			}
		}
		if len(distinct) == count {
			return
		}
		count, classes = len(distinct), next
	}
}

// part returns the part for a schema. definition is its name if it is a definition.
func (s *sharer) part(r *shareRoot, n *source.Node, definition string) *part {
	key := partKey{r.dialect, s.shapes.Number(n), definition}
	if s.parts[key] == nil {
		s.parts[key] = &part{definition: definition}
	}
	return s.parts[key]
}

// typeKeywords lists the keywords whose subschemas get types in generated code. The subschemas of allOf are merged into
// one type.
var typeKeywords = strings.Fields("properties patternProperties additionalProperties items prefixItems anyOf oneOf allOf")

// visit adds the places in a schema. It visits the content of a repeated part once.
func (s *sharer) visit(r *shareRoot, n *source.Node, label string) {
	for _, ref := range schema.References(n) {
		if name, def := r.target(ref); def != nil && s.at[def] == nil && s.add(s.part(r, def, name), place{r, def, "", name, false}) {
			s.visit(r, def, name)
		}
	}
	schematree.Each(schematree.Any, n, func(keyword, name string, inner *source.Node) {
		if inner.Kind != source.Object || !slices.Contains(typeKeywords, keyword) {
			return
		}
		at := place{r, inner, "", label, true}
		if name != "" {
			at.holder, at.label = label, name
		}
		if keyword == "items" {
			at.label += "_item"
		}
		if s.w.doc.Published || r.draft.isOwn || keyword == "allOf" || !schema.IsShareable(inner) || s.add(s.part(r, inner, ""), at) {
			s.visit(r, inner, at.label)
		}
	})
}

// add adds a place and reports whether the content of the part is new.
func (s *sharer) add(p *part, at place) bool {
	if len(p.places) == 0 {
		s.order = append(s.order, p)
	}
	p.places = append(p.places, at)
	s.at[at.node] = p
	return p.name == "" && len(p.places) == 1 || s.w.doc.Published
}

// eachInner calls f for the parts in the schema of a part and the definitions to which it refers.
func (s *sharer) eachInner(p *part, f func(*part)) {
	at := p.places[0]
	walk(at.node, func(n *source.Node) {
		if inner := s.at[n]; inner != nil && n != at.node {
			f(inner)
		}
		for _, ref := range schema.References(n) {
			if name, def := at.root.target(ref); def != nil {
				f(s.part(at.root, def, name))
			}
		}
	})
}

// schema returns a copy of the schema of a part as a shared schema.
func (p *part) schema() *source.Node {
	n := *p.places[0].node
	if dialect := p.places[0].root.node.Member("$schema"); dialect != nil && n.Kind == source.Object && n.Get("$schema") == nil {
		n.Members = append([]source.Member{*dialect}, n.Members...)
	}
	return &n
}

// replace makes a shared schema of a part, and replaces the part with references to it.
func (s *sharer) replace(p *part) {
	to := s.w.shared[p.name]
	if to == nil {
		to = &draft{name: p.name, shared: true, at: p.places[0].root.draft.at, node: p.schema()}
		s.w.shared[p.name], p.shared = to, to
	}
	description := to.node.Word("description")
	for _, ref := range p.refs {
		ref.Text = sharedPrefix + p.name
	}
	for _, at := range p.places {
		ref := Reference(sharedPrefix + p.name)
		if text := at.node.Get("description"); text != nil && text.Text != description {
			yaml.Set(ref, "description", text)
		}
		if at.isInline {
			*at.node = *ref
		}
	}
}

// EachReference calls f for all references in a schema and its subschemas.
func EachReference(n *source.Node, f func(ref *source.Node)) {
	for _, ref := range schema.References(n) {
		f(ref)
	}
	schematree.Each(schematree.Any, n, func(_, _ string, inner *source.Node) { EachReference(inner, f) })
}

// walk calls f for n and all its descendants.
func walk(n *source.Node, f func(*source.Node)) {
	f(n)
	for _, m := range n.Members {
		walk(m.Value, f)
	}
	for _, item := range n.Items {
		walk(item, f)
	}
}
