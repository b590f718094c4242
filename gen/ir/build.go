package ir

import (
	"github.com/mcpe-gen/mcpe-gen/gen/internal/parallel"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// Options has the settings of a run beside its event files.
type Options struct {
	// Package is the name of the Go package.
	Package string
	// Formats maps a schema's format to the Go type of its values.
	Formats map[string]GoType
	// Tools asks for read tools and the checks that they need.
	Tools bool
}

// Build gives every schema of set its Go type and every identifier its name. The package is only
// usable when no diagnostic is an error.
func Build(set *schema.Set, o Options) (*Package, []source.Diagnostic) {
	b := &builder{
		set: set, opts: o,
		names:  scope{"ReadTools": {what: "the function ReadTools"}},
		roots:  map[*source.Node]*root{},
		decls:  map[*source.Node]*Decl{},
		shapes: map[*source.Node]*shape{},
		facts:  map[*source.Node]*facts{},
		kinds:  map[*source.Node]kinds{},
		joined: map[string]*source.Node{},
		origin: map[*source.Node]*source.Node{},
		dead:   map[*source.Node]bool{},
		left:   map[*source.Node]bool{},
	}
	p := &Package{Name: o.Package, builder: b}
	for _, f := range set.Files {
		p.Files = append(p.Files, b.declareFile(f))
	}
	b.ingress(p)
	for _, r := range b.order {
		b.fillRoot(r)
	}
	b.finish()
	b.yield(p)
	b.publish(p)
	return p, source.Sort(b.diags)
}

type builder struct {
	set    *schema.Set
	opts   Options
	diags  []source.Diagnostic
	names  scope
	roots  map[*source.Node]*root
	order  []*root
	decls  map[*source.Node]*Decl
	shapes map[*source.Node]*shape
	facts  map[*source.Node]*facts
	kinds  map[*source.Node]kinds
	// joined are the schemas that were made of several, origin says where such a one comes from.
	joined map[string]*source.Node
	origin map[*source.Node]*source.Node
	// dead remembers which schemas no value satisfies, left which variants were left out for it.
	dead, left map[*source.Node]bool
	all        []*Decl
	// pending are the accessors whose fields await their types.
	pending []accessor
	// plain says that Go types of the author's choice, by x-go-type or format, count for nothing.
	plain bool
}

// A root is a schema that has a name by itself: an entry of schemas, or one of an event, a task or the
// conversation. The types nested in it are named after it and printed after it.
type root struct {
	node *source.Node
	decl *Decl
	// into collects the declarations of the root and all that is nested in it.
	into *[]*Decl
	// input is set for inputSchema, shared for an entry of schemas.
	input, shared bool
	// members are the nodes of members and elements by the name that their type would have.
	members map[string][]*source.Node
}

// A site is where a type is needed: what its declaration would be called and said to be.
type site struct {
	name, role string
	root       *root
}

func (b *builder) report(d source.Diagnostic) { b.diags = append(b.diags, d) }

// declareFile enters the names of everything that f declares at package level.
func (b *builder) declareFile(f *schema.File) *File {
	out := &File{Path: f.Path, Stem: f.Stem}
	for _, e := range f.Events {
		out.Events = append(out.Events, b.declareEvent(e))
	}
	for _, t := range f.Tasks {
		out.Tasks = append(out.Tasks, b.declareTask(t))
	}
	if f.Conversation != nil {
		out.Conversation = b.declareConversation(f.Conversation)
	}
	for _, s := range f.Schemas {
		name := goName(s.Node, s.Name)
		b.declare(b.names, name, "schema "+s.Name, s.NameRange)
		d := &Decl{Name: name, Role: "the shared type " + s.Name, Doc: docOf(s.Node), At: s.NameRange}
		b.addRoot(&root{node: s.Node, decl: d, into: &out.Decls, shared: true})
	}
	return out
}

func (b *builder) declareEvent(e *schema.Event) *Event {
	prefix := GoName(e.Name)
	if e.GoName != "" {
		prefix = e.GoName
	}
	out := &Event{Schema: e, Prefix: prefix}
	arguments, payload := segment(e.Input, prefix+"Arguments"), segment(e.Payload, prefix+"Payload")
	// All names are taken whatever is emitted, so that emitting more never makes a collision.
	for _, name := range []string{
		arguments, payload, prefix + "Hooks", prefix + "Emitter", prefix + "Checker",
		"Register" + prefix, "Subscribe" + prefix, "Handle" + prefix, "Check" + prefix,
	} {
		if !b.declare(b.names, name, "event "+e.Name, e.NameRange) {
			break
		}
	}
	out.Arguments = b.partRoot(&out.Decls, e.Input, arguments, "the arguments of "+e.Name, true)
	out.Payload = b.partRoot(&out.Decls, e.Payload, payload, "the payload of "+e.Name, false)
	if out.Payload.Doc.Text == "" {
		out.Payload.Doc.Text = e.Description
	}
	return out
}

// partRoot declares the type of a schema of an event, a task or the conversation.
func (b *builder) partRoot(into *[]*Decl, node *source.Node, name, role string, input bool) *Decl {
	d := &Decl{Name: name, Role: role, Doc: docOf(node), At: node.Range}
	b.addRoot(&root{node: node, decl: d, into: into, input: input})
	return d
}

func (b *builder) addRoot(r *root) {
	*r.into = append(*r.into, r.decl)
	b.all = append(b.all, r.decl)
	b.roots[r.node] = r
	b.decls[r.node] = r.decl
	b.order = append(b.order, r)
}

func (b *builder) fillRoot(r *root) {
	sh := b.shape(r.node)
	at := site{name: r.decl.Name, role: r.decl.Role, root: r}
	if !b.fill(r.decl, sh, at) {
		r.decl.Form = Alias
		r.decl.Type, r.decl.Why = b.plainType(sh, at), sh.why
	}
}

// typeOf returns the Go type of the values of node, null aside, declaring what it needs.
func (b *builder) typeOf(node *source.Node, at site) *Type {
	if d := b.decls[node]; d != nil {
		return &Type{Kind: Named, Decl: d}
	}
	sh := b.shape(node)
	switch sh.kind {
	case structShape, enumShape, unionShape:
		d := &Decl{Name: at.name, Role: at.role, Doc: docOf(node), At: keyRange(b.written(node))}
		b.decls[node] = d
		b.declare(b.names, d.Name, "the type of "+b.written(node).Pointer(), d.At)
		*at.root.into = append(*at.root.into, d)
		b.all = append(b.all, d)
		b.fill(d, sh, at)
		return &Type{Kind: Named, Decl: d}
	case arrayShape, mapShape:
		if b.holdsItselfUnnamed(node) {
			return b.selfHolding(node, at)
		}
	}
	return b.plainType(sh, at)
}

// nullType wraps t for a place that may also be null and has no field around it.
func (b *builder) nullType(node *source.Node, at site) *Type {
	t := b.typeOf(node, at)
	if b.nullable(node) {
		return &Type{Kind: Pointer, Elem: t}
	}
	return t
}

// fill makes d declare what sh needs a declaration for; false when it needs none.
func (b *builder) fill(d *Decl, sh *shape, at site) bool {
	switch sh.kind {
	case structShape:
		d.Form = Struct
		b.fillStruct(d, sh, at)
	case enumShape:
		d.Form = Enum
		b.fillEnum(d, sh)
	case unionShape:
		d.Form = Union
		b.fillUnion(d, sh, at)
	default:
		return false
	}
	return true
}

// plainType is the type of a shape that needs no declaration.
func (b *builder) plainType(sh *shape, at site) *Type {
	switch sh.kind {
	case scalarShape:
		return &Type{Kind: sh.base}
	case externalShape:
		return &Type{Kind: External, Go: sh.goType}
	case refShape:
		return b.refType(sh)
	case arrayShape:
		return &Type{Kind: Slice, Elem: b.elementType(sh.elem, at, "Item", "an element of ")}
	case mapShape:
		return &Type{Kind: Map, Elem: b.elementType(sh.elem, at, "Value", "a value of ")}
	}
	// The shape was reported as an error; nothing of this is printed.
	return &Type{Kind: External, Go: RawMessage}
}

// publish adds what goes on the wire: the schemas, their fingerprint and the read tools.
func (b *builder) publish(p *Package) {
	if source.HasErrors(b.diags) {
		return
	}
	var all []*Event
	for _, f := range p.Files {
		all = append(all, f.Events...)
	}
	faults := make([]error, len(all))
	parallel.Do(len(all), func(i int) {
		e := all[i]
		e.InputSchema, e.PayloadSchema = b.set.Shared(e.Schema.Input), b.set.Shared(e.Schema.Payload)
		e.Fingerprint, faults[i] = b.set.Fingerprint(e.InputSchema, e.PayloadSchema)
	})
	tools := scope{}
	for i, e := range all {
		if faults[i] != nil {
			// Whatever has no canonical form was refused when it was read.
			b.report(source.New("MCPE130", e.Schema.NameRange, "%s cannot be fingerprinted: %v", e.Schema.Name, faults[i]))
		}
		if b.opts.Tools {
			e.Tool = b.tool(e, tools)
		}
	}
	b.sizes(all)
	b.publishTasks(p, tools)
}

// written returns the schema in an event file that n was made of.
func (b *builder) written(n *source.Node) *source.Node {
	for b.origin[n] != nil {
		n = b.origin[n]
	}
	return n
}

// keyRange is where the name of node stands.
func keyRange(node *source.Node) source.Range {
	_, at := node.Key()
	return at
}

func docOf(n *source.Node) Doc {
	var d Doc
	if t := n.Get("description"); t != nil {
		d.Text = t.Text
	} else if t := n.Get("title"); t != nil {
		d.Text = t.Text
	}
	d.Deprecated = n.Get("deprecated").True()
	return d
}
