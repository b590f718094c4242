package ir

import (
	"encoding/json"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Describe returns the package as data for other languages (MODEL-1). It follows the rules for Go types. It also
// describes values without a Go type, such as values of several JSON types, tuples, and variants that no member
// distinguishes.
func (p *Package) Describe() *model.Package {
	plain := *p.builder
	plain.ignoreGoTypes, plain.opts.Formats, plain.diags = true, nil, nil // Build already reported its findings, in Go terms
	if plain.usesGoTypes {
		plain.shapes = map[*source.Node]*shape{}
	}
	d := &describer{
		builder: &plain, defs: plain.set.Definitions(), names: map[string]bool{},
		types: map[*source.Node]*model.Definition{}, active: map[*source.Node]bool{},
		out: &model.Package{Name: p.Name, Sources: []string{}, Events: []model.Event{}},
	}
	d.describe(p)
	return d.out
}

// A describer builds a [model.Package]. Its builder ignores Go types chosen by the author, and does not add
// declarations.
type describer struct {
	*builder
	out  *model.Package
	defs *schema.Definitions
	// names is the set of definition names. all lists the definitions, and types maps schemas to them. active is the set
	// of schemas that are being described.
	names  map[string]bool
	all    []*model.Definition
	types  map[*source.Node]*model.Definition
	active map[*source.Node]bool
}

func (d *describer) describe(p *Package) {
	for _, decl := range d.builder.all {
		d.names[decl.Name] = true
	}
	for _, r := range d.order {
		d.defs.Add(r.node, r.decl.Name)
	}
	var decls []*Decl
	for _, f := range p.Files {
		d.out.Sources = append(d.out.Sources, f.Path)
		for _, e := range f.Events {
			d.out.Events = append(d.out.Events, d.event(e))
			decls = append(decls, e.Decls...)
		}
		for _, t := range f.Tasks {
			d.out.Tasks = append(d.out.Tasks, model.Task{
				Name: t.Schema.Name, Title: t.Schema.Title, Description: t.Schema.Description,
				Arguments: d.use(t.Arguments), Update: d.use(t.Update), Result: d.use(t.Result),
				Go: &model.GoNames{Prefix: t.Prefix}, Pos: t.Schema.NameRange.Start.String(),
			})
			decls = append(decls, t.Decls...)
		}
		if c := f.Conversation; c != nil {
			d.out.Conversation = &model.Conversation{
				OnUserMessage: c.Schema.OnUserMessage, OnAssistantResponse: c.Schema.OnAssistantResponse, Pos: c.Schema.Range.Start.String(),
			}
			if c.Context != nil {
				use := d.use(c.Context)
				d.out.Conversation.Context = &use
			}
			decls = append(decls, c.Decls...)
		}
		decls = append(decls, f.Decls...)
	}
	decls = slices.DeleteFunc(decls, func(decl *Decl) bool { return decl.Of != nil }) // the union describes its variants
	for _, decl := range decls {
		d.add(decl.node, decl.Name, decl.Role, decl.Doc, decl.At)
	}
	for i, decl := range decls {
		d.describeDeclaration(d.all[i], decl)
	}
	d.out.Types = make([]model.Definition, len(d.all))
	for i, def := range d.all {
		d.out.Types[i] = *def
	}
	d.out.Defs = d.defs.All()
	for _, a := range d.set.Applied {
		d.out.Overrides = append(d.out.Overrides, model.Override{File: a.File, At: a.At, Does: a.Does(), Pos: a.Range.Start.String()})
	}
}

func (d *describer) use(decl *Decl) model.Use {
	return model.Use{Type: decl.Name, Schema: d.defs.Pointer(decl.node)}
}

var allModes = []string{"poll", "push", "webhook"}

func (d *describer) event(e *Event) model.Event {
	s := e.Schema
	out := model.Event{
		Name: s.Name, Description: s.Description, Source: s.Source, Delivery: s.Delivery, Replay: s.Replay, Stability: s.Stability,
		Fingerprint: e.Fingerprint, Arguments: d.use(e.Arguments), Payload: d.use(e.Payload),
		Deprecated: (*model.Deprecated)(s.Deprecated), Actor: s.Actor, MCPE: (*model.MCPE)(s.MCPE),
		Go: &model.GoNames{Prefix: e.Prefix}, Pos: s.NameRange.Start.String(),
	}
	if len(out.Delivery) == 0 {
		out.Delivery = allModes
	}
	if s.Meta != nil {
		out.Meta = s.Meta.JSON()
	}
	if e.Tool != nil {
		out.Tool = &model.Tool{Name: e.Tool.Name, Cursor: e.Tool.Cursor, MaxEvents: e.Tool.MaxEvents, WaitSeconds: e.Tool.Wait,
			QuietSeconds: e.Tool.Quiet, Since: e.Tool.Since}
	}
	for _, m := range s.Match {
		places := []string{}
		for _, n := range d.set.Places(s, m) {
			places = append(places, d.defs.Pointer(n))
		}
		out.Match = append(out.Match, model.Match{Argument: m.Argument, Op: m.Op, Not: m.Not, Path: m.Path, Places: places, Pos: m.Range.Start.String()})
	}
	if c := s.Coalesce; c != nil {
		_, at := s.Node.Get("x-coalesce").Key()
		out.Coalesce = &model.Coalesce{Key: c.Key, QuietSeconds: c.QuietSeconds, MaxSeconds: c.MaxSeconds, Keep: c.Keep, Pos: at.Start.String()}
	}
	if s.From != nil {
		out.From = &model.From{Provider: s.From.Provider, Event: s.From.Event, Action: s.From.Action, ID: s.From.ID}
		for _, f := range s.From.Fields {
			out.From.Fields = append(out.From.Fields, model.FromField{Target: f.Target, Source: f.Source})
		}
	}
	return out
}

// describeDeclaration completes the definition of a declared Go type.
func (d *describer) describeDeclaration(def *model.Definition, decl *Decl) {
	def.Go = &model.GoType{Name: decl.Name, Form: decl.Form.String()}
	if decl.Type != nil {
		def.Go.Type = decl.Type.String()
	}
	def.Type = d.valueDescription(decl.node, decl.Name)
	def.Type.Nullable = false // nullability belongs to each use, as in Go
	if def.Description == "" && def.Type.Kind != model.Ref {
		doc, _ := d.authorDoc(decl.node)
		def.Description = doc.Text
	}
	for i := range def.Type.Members {
		m := &def.Type.Members[i]
		if f := slices.IndexFunc(decl.Fields, func(f *Field) bool { return f.JSON == m.Name }); f >= 0 {
			m.Go = &model.GoMember{Name: decl.Fields[f].Name, Type: decl.Fields[f].Type.String()}
		}
	}
	for i := range def.Type.Values {
		if i < len(decl.Values) {
			def.Type.Values[i].Go = decl.Values[i].Name
		}
	}
}

// typeOf returns the description of a reference to n. name is the name for the definition if a new one is required.
func (d *describer) typeOf(n *source.Node, name string) model.Type {
	def, sh := d.types[n], d.shape(n)
	switch {
	case def != nil:
	case sh.kind == refShape:
		return d.referred(n, sh)
	case sh.kind == structShape || sh.kind == unionShape || d.active[n]:
		def = d.define(n, name)
		name = def.Name
		fallthrough
	default:
		if d.active[n] {
			break // the active call completes the definition
		}
		d.active[n] = true
		t := d.valueDescription(n, name)
		delete(d.active, n)
		if def = d.types[n]; def == nil {
			return t
		}
		def.Type = t
		def.Type.Nullable = false
	}
	return model.Type{Kind: model.Ref, Ref: def.Name, Nullable: d.isNullable(n)}
}

func (d *describer) referred(n *source.Node, sh *shape) model.Type {
	at, ok := d.siteOfTarget(sh.target.Node)
	if !ok {
		return model.Type{Kind: model.Any, Reason: backToItself}
	}
	t := d.typeOf(sh.target.Node, at.name)
	t.Nullable = t.Nullable || sh.allowsNull
	return t
}

// define adds a definition without a Go type. It appends a number to the name if the name is taken.
func (d *describer) define(n *source.Node, name string) *model.Definition {
	free := source.UniqueName(name, "_", d.names)
	at := d.originalOf(n)
	doc, _ := d.authorDoc(n)
	return d.add(n, free, "the type of "+at.Pointer(), doc, at.Range)
}

// add adds a definition without a type.
func (d *describer) add(n *source.Node, name, role string, doc Doc, at source.Range) *model.Definition {
	def := &model.Definition{
		Name: name, Role: role, Description: doc.Text, Deprecated: doc.Deprecated, Schema: d.defs.Pointer(d.originalOf(n)), Pos: at.Start.String(),
	}
	d.all, d.types[n] = append(d.all, def), def
	return def
}

// valueDescription returns the full description of the values of n.
func (d *describer) valueDescription(n *source.Node, name string) model.Type {
	sh := d.shape(n)
	var t model.Type
	switch sh.kind {
	case refShape:
		return d.referred(n, sh)
	case scalarShape:
		t = scalarType(sh)
	case enumShape:
		t = enumType(sh)
	case structShape:
		t = d.objectType(sh, name)
	case mapShape:
		t = d.mapType(sh, name)
	case arrayShape:
		t = d.arrayType(sh, name)
	case unionShape:
		t = d.unionType(n, sh.union, name)
	case neverShape:
		t = model.Type{Kind: model.Never}
	case externalShape:
		t = d.describeRaw(sh, name)
	default:
		t = model.Type{Kind: model.Any, Reason: "the schema cannot be typed"}
	}
	t.Nullable = sh.allowsNull && t.Kind != model.Any && t.Kind != model.Null
	return t
}

// authorDoc returns the author's documentation and default of n. If n has none, it returns those of a schema in its $ref
// or allOf.
func (d *describer) authorDoc(n *source.Node) (all Doc, def json.RawMessage) {
	for _, n := range schematree.Views(d.set, n, schematree.Unconditional) {
		doc := docOf(n)
		all.Deprecated = all.Deprecated || doc.Deprecated
		if all.Text == "" {
			all.Text = doc.Text
		}
		if value := n.Get("default"); value != nil && def == nil {
			def = value.JSON()
		}
	}
	return all, def
}
