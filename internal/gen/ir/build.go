package ir

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/parallel"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Options configures [Build].
type Options struct {
	// Package is the name of the Go package.
	Package string
	// Formats maps the value of a format keyword to a Go type.
	Formats map[string]GoType
	// Unimportable returns why the generated package cannot use a type of another package, and a remedy. The reason
	// completes a sentence about the package. It is "" if the type can be used. If Unimportable is nil, all types can.
	Unimportable func(t GoType) (reason, remedy string)
	// Tools enables read tools and the checks for them.
	Tools bool
	// Imports maps the path of an event file to the import path of the package that declares its types.
	Imports map[*schema.File]string
}

// Build assigns a Go type to every schema of set and a name to every identifier. The package is valid only if no
// diagnostic has severity error.
func Build(set *schema.Set, o Options) (*Package, []source.Diagnostic) {
	b := &builder{
		set: set, opts: o,
		names: scope{}, clientNames: scope{},
		serverNames:      scope{"ReadTools": {what: "the function ReadTools"}},
		roots:            map[*source.Node]*root{},
		decls:            map[*source.Node]*Decl{},
		shapes:           map[*source.Node]*shape{},
		facts:            map[*source.Node]*facts{},
		kinds:            map[*source.Node]schematree.Types{},
		mergedSchemas:    map[string]*source.Node{},
		origin:           map[*source.Node]*source.Node{},
		unsatisfiable:    map[*source.Node]bool{},
		reportedVariants: map[*source.Node]bool{},
	}
	p := &Package{Name: o.Package, builder: b}
	for _, f := range set.Files {
		p.Files = append(p.Files, b.declareFile(f))
	}
	b.declareIngress(p)
	for _, r := range b.order {
		b.fillRoot(r)
	}
	b.finish()
	b.nameHelpers(p)
	b.foreignVariants(p)
	b.publish(p)
	return p, source.Sort(b.diags)
}

type builder struct {
	set   *schema.Set
	opts  Options
	diags []source.Diagnostic
	// names has the names of the types' package. serverNames and clientNames have those of the other two.
	names, serverNames, clientNames scope

	roots  map[*source.Node]*root
	order  []*root
	decls  map[*source.Node]*Decl
	shapes map[*source.Node]*shape
	facts  map[*source.Node]*facts
	kinds  map[*source.Node]schematree.Types
	// mergedSchemas caches merged schemas. origin maps each of them to the schema in the event file.
	mergedSchemas map[string]*source.Node
	origin        map[*source.Node]*source.Node
	// unsatisfiable caches whether schemas have no valid values. left is the set of variants reported as dropped.
	unsatisfiable, reportedVariants map[*source.Node]bool
	all                             []*Decl
	// pending lists the accessors to generate after the field types are known.
	pending []accessor
	// usesGoTypes reports whether the author chose a Go type with x-go-type or format. ignoreGoTypes disables them.
	usesGoTypes, ignoreGoTypes bool
}

// A root is a top-level schema: an entry of schemas, or a schema of an event, a task or the conversation. The names of
// nested types start with the name of the root, and their declarations follow the root's declaration.
type root struct {
	node *source.Node
	decl *Decl
	// declList collects the declarations of the root and its nested types.
	declList *[]*Decl
	// input reports whether the root is an inputSchema. shared reports whether it is an entry of schemas.
	input, shared bool
	// members maps a type name to the members and elements whose types would have that name.
	members map[string][]*source.Node
}

// A site is a place where a type is used. It contains the name and the role for the type's declaration.
type site struct {
	name, role string
	root       *root
}

// below returns the site of n, a part of the values at s. The segment follows the name of s, unless n has an x-go-name.
func (s site) below(n *source.Node, segment, role string) site {
	return site{name: s.name + nameSegment(n, segment), role: role + " of " + s.name, root: s.root}
}

func (b *builder) report(d source.Diagnostic) { b.diags = append(b.diags, d) }

// declareFile declares all package-level names of f.
func (b *builder) declareFile(f *schema.File) *File {
	out := &File{Path: f.Path, Stem: f.Stem, Import: b.opts.Imports[f]}
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
		name := b.goName(s.Node, s.Name)
		b.declareName(b.names, name, "schema "+s.Name, s.NameRange)
		d := &Decl{Name: name, Role: "the shared type " + s.Name, Doc: docOf(s.Node), At: s.NameRange}
		b.addRoot(&root{node: s.Node, decl: d, declList: &out.Decls, shared: true})
	}
	return out
}

func (b *builder) declareEvent(e *schema.Event) *Event {
	prefix := GoName(e.Name)
	if e.GoName != "" {
		prefix = e.GoName
	}
	out := &Event{Schema: e, Prefix: prefix}
	arguments, payload := nameSegment(e.Input, prefix+"Arguments"), nameSegment(e.Payload, prefix+"Payload")
	b.declareNames(declared{"event " + e.Name, e.NameRange}, []string{arguments, payload},
		[]string{prefix + "Hooks", prefix + "Emitter", prefix + "Checker", prefix + "Yield", "Register" + prefix},
		[]string{prefix + "Subscription", "Subscribe" + prefix, "Handle" + prefix})
	out.Arguments = b.partRoot(&out.Decls, e.Input, arguments, "the arguments of "+e.Name, true)
	out.Payload = b.partRoot(&out.Decls, e.Payload, payload, "the payload of "+e.Name, false)
	if out.Payload.Doc.Text == "" {
		out.Payload.Doc.Text = e.Description
	}
	return out
}

// partRoot adds the root for a schema of an event, a task or the conversation, and returns its declaration.
func (b *builder) partRoot(into *[]*Decl, node *source.Node, name, role string, input bool) *Decl {
	d := &Decl{Name: name, Role: role, Doc: docOf(node), At: node.Range}
	b.addRoot(&root{node: node, decl: d, declList: into, input: input})
	return d
}

func (b *builder) addRoot(r *root) {
	*r.declList = append(*r.declList, r.decl)
	b.all = append(b.all, r.decl)
	b.roots[r.node] = r
	b.decls[r.node], r.decl.node = r.decl, r.node
	b.order = append(b.order, r)
}

func (b *builder) fillRoot(r *root) {
	sh := b.shape(r.node)
	at := site{name: r.decl.Name, role: r.decl.Role, root: r}
	if b.fill(r.decl, sh, at) {
		return
	}
	r.decl.Form = Alias
	r.decl.Type, r.decl.Why = b.plainType(sh, at), sh.why
	switch {
	case !b.holdsItself(r.node):
	case b.hasReferenceCycle(r.node):
		b.report(source.New("MCPE214", r.decl.At, "%s refers to itself and describes no value", r.decl.Name).WithHint(selfHint))
		sh.kind = failedShape // one report for the whole cycle
	default:
		r.decl.Form = Defined
	}
}

// typeOf returns the Go type of the values of node, except null. It adds the required declarations.
func (b *builder) typeOf(node *source.Node, at site) *Type {
	if d := b.decls[node]; d != nil {
		return &Type{Kind: Named, Decl: d}
	}
	sh := b.shape(node)
	switch sh.kind {
	case structShape, enumShape, unionShape:
		d := &Decl{Name: at.name, Role: at.role, Doc: docOf(node), At: keyRange(b.originalOf(node)), node: node}
		b.decls[node] = d
		b.declareName(b.names, d.Name, "the type of "+b.originalOf(node).Pointer(), d.At)
		*at.root.declList = append(*at.root.declList, d)
		b.all = append(b.all, d)
		b.fill(d, sh, at)
		return &Type{Kind: Named, Decl: d}
	case arrayShape, mapShape:
		if b.holdsItselfUnnamed(node) {
			return b.declareSelfHolding(node, at)
		}
	}
	return b.plainType(sh, at)
}

// nullType returns the Go type of the values of node, including null. It is used for elements, because a field
// represents null separately.
func (b *builder) nullType(node *source.Node, at site) *Type {
	t := b.typeOf(node, at)
	if b.isNullable(node) {
		return &Type{Kind: Pointer, Elem: t}
	}
	return t
}

// fill completes the declaration d of a type with the shape sh. It returns false if the shape does not require a
// declaration.
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

// plainType returns the type of a shape that does not require a declaration.
func (b *builder) plainType(sh *shape, at site) *Type {
	switch sh.kind {
	case scalarShape:
		return &Type{Kind: sh.base}
	case externalShape:
		return &Type{Kind: External, Go: sh.goType}
	case refShape:
		return b.refType(sh)
	case arrayShape:
		return &Type{Kind: Slice, Elem: b.elementType(sh.elem, at, "Item", "an element")}
	case mapShape:
		return &Type{Kind: Map, Elem: b.elementType(sh.elem, at, "Value", "a value")}
	}
	// An error was reported for the shape, so this type is never printed.
	return &Type{Kind: External, Go: RawMessage}
}

// publish adds the published schemas, the fingerprints and the read tools.
func (b *builder) publish(p *Package) {
	if source.HasErrors(b.diags) {
		return
	}
	all := p.Events()
	faults := make([]error, len(all))
	parallel.Do(len(all), func(i int) {
		e := all[i]
		e.InputSchema, e.PayloadSchema = b.set.Shared(e.Schema.Input), b.set.Shared(e.Schema.Payload)
		e.Fingerprint, faults[i] = b.set.Fingerprint(e.InputSchema, e.PayloadSchema)
	})
	tools := scope{}
	for i, e := range all {
		if faults[i] != nil {
			// Schemas without a canonical form were rejected when they were read.
			b.report(source.New("MCPE130", e.Schema.NameRange, "%s cannot be fingerprinted: %v", e.Schema.Name, faults[i]))
		}
		if b.opts.Tools {
			e.Tool = b.readTool(e, tools)
		}
	}
	b.checkSizes(all)
	b.publishTasks(p, tools)
}

// originalOf returns the schema in an event file from which n was derived.
func (b *builder) originalOf(n *source.Node) *source.Node {
	for b.origin[n] != nil {
		n = b.origin[n]
	}
	return n
}

// keyRange returns the range of the name of node.
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
