package ir

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
)

// A Package is the complete model of a generated package.
type Package struct {
	Name  string
	Files []*File
	// Ingress lists the services that send webhooks for events of the package, sorted by name.
	Ingress []*Ingress

	builder *builder // used by [Package.Describe]
}

// Events returns the event types of all files.
func (p *Package) Events() []*Event {
	var all []*Event
	for _, f := range p.Files {
		all = append(all, f.Events...)
	}
	return all
}

// An Ingress is a service that sends webhooks for events.
type Ingress struct {
	// Name is the name of the type, such as GitHubIngress.
	Name     string
	Provider provider.Provider
	Events   []*Event
}

// A File is the model of an event file.
type File struct {
	Path, Stem string
	// Import is the import path of the package that declares the types of the file. It is empty if the generated
	// package declares them.
	Import string
	Events []*Event
	Tasks  []*Task
	// Conversation is nil if the file has no conversation.
	Conversation *Conversation
	// Decls lists the types of the file's shared schemas. Nested types follow the type that contains them.
	Decls []*Decl
}

// An Event is an event type.
type Event struct {
	Schema *schema.Event
	// Prefix is the prefix of the event's identifiers, such as IncidentCreated.
	Prefix string
	// NameConst is the name of the constant for the event's name. EventAlias is the name of the type for received
	// events. A name is empty if another declaration already uses it.
	NameConst, EventAlias string
	// Arguments and Payload are the declarations XArguments and XPayload.
	Arguments, Payload *Decl
	// Decls lists Arguments, Payload and their nested types.
	Decls []*Decl
	// InputSchema and PayloadSchema are the published schemas. Fingerprint identifies them (EVOL-4).
	InputSchema, PayloadSchema *published.Schema
	Fingerprint                string
	// Tool is the event's read tool, or nil if read tools are not generated.
	Tool *Tool
}

// A Task is a background tool.
type Task struct {
	Schema *schema.Task
	// Prefix is the prefix of the task's identifiers, such as WriteReport.
	Prefix string
	// Arguments, Update and Result are the declarations XTaskArguments, XTaskUpdate and XTaskResult.
	Arguments, Update, Result *Decl
	// Decls lists Arguments, Update, Result and their nested types.
	Decls []*Decl
	// InputSchema, UpdateSchema and ResultSchema are the published schemas.
	InputSchema, UpdateSchema, ResultSchema *published.Schema
}

// A Conversation is the server's side of the conversation protocol.
type Conversation struct {
	Schema *schema.Conversation
	// Context is the declaration for the structured context, or nil if the author does not describe its members.
	Context *Decl
	// Decls lists Context and its nested types.
	Decls []*Decl
}

// A Tool is the read tool of an event type. All its names are set.
type Tool struct {
	toolschema.Names
	// InputSchema is the published inputSchema of the event type with the arguments of the tool.
	InputSchema json.RawMessage
}

// A Form is the kind of a declaration.
type Form int

// The forms of declarations.
const (
	// Alias is `type X = T`.
	Alias Form = iota
	// Defined is `type X T`. T is a slice or map that contains itself, or a union variant that is not an object.
	Defined
	// Struct is a struct for an object.
	Struct
	// Enum is a scalar type with constants.
	Enum
	// Union is a struct around a sealed interface.
	Union
	// Holder is a struct around a value of a type with methods. It is used for variants of a union.
	Holder
)

var formNames = [...]string{"alias", "defined", "struct", "enum", "union", "holder"}

// String returns the name of the form, as printed by the inspect command.
func (f Form) String() string { return formNames[f] }

// A Decl is a declaration of a Go type.
type Decl struct {
	Name string
	Form Form
	// Role describes the type in its doc comment, such as "the payload of incident.created".
	Role string
	Doc  Doc
	// At is the range of the schema.
	At   source.Range
	node *source.Node // nil for the variant of a union

	// Type is the target of an Alias or Defined, or the type of a Holder's value. Why explains why Type is raw JSON,
	// unless the author requested it.
	Type *Type
	Why  string
	// Of is the union whose variant a Defined or Holder represents.
	Of *Decl
	// Fields and Extra apply to a Struct. Extra is the type of members without a field, or nil if they are dropped.
	Fields []*Field
	Extra  *Type
	// Accessors reports whether to generate methods that return the defaults of fields.
	Accessors bool
	// Base, Values and Open apply to an Enum. Open reports whether other values are valid.
	Base   Kind
	Values []Value
	Open   bool
	// Tag, Literal and Variants apply to a Union. Tag is the discriminator of tagged variants. Literal reports whether
	// the tags are JSON text instead of strings.
	Tag      string
	Literal  bool
	Variants []Variant
	// VariantType is the name of the interface that variants implement. UnknownType is the name of the type for values
	// of unknown variants.
	VariantType, UnknownType string
}

// A Doc is the author's documentation.
type Doc struct {
	Text       string
	Deprecated bool
}

// A Field is a field of a [Struct].
type Field struct {
	Name, JSON string
	Doc        Doc
	At         source.Range
	// Required and Nullable are properties of the schema. Base is the type of the value. Type is the type of the field,
	// which also depends on Required and Nullable. OmitZero reports whether encoding omits the zero value.
	Required, Nullable bool
	Base, Type         *Type
	OmitZero           bool
	// Why explains why the member is raw JSON, unless the author requested it.
	Why string
	// Const is the Go constant or literal of a required member with only one valid value. It is empty if that value is
	// Go's zero value.
	Const string
	// Default is the default in the schema as JSON, or nil if absent.
	Default json.RawMessage
	// DefaultConst is the Go constant or literal of the default, if an accessor is possible.
	DefaultConst string
}

// A Value is a constant of an [Enum].
type Value struct {
	Name string
	// JSON is the value as written in the schema.
	JSON json.RawMessage
	// Literal is the Go literal.
	Literal string
}

// A Variant is an alternative of a [Union]. Several object variants are identified by a tag, or by a member that no
// other variant requires. Other variants are identified by their JSON type.
type Variant struct {
	// JSON is the JSON type of the values: string, number, boolean, array or object.
	JSON string
	// Tags lists the tags that select the variant: strings, or JSON text if the union's Literal is set.
	Tags []string
	// Has is the name of the identifying member, or empty.
	Has  string
	Decl *Decl
}

// Told returns "tag", "member" or "type", depending on how the variants of a union are identified. If it returns
// "type", object variants can still be identified by a tag or member.
func (d *Decl) Told() string {
	told := "type"
	for i, v := range d.Variants {
		by := "type"
		switch {
		case len(v.Tags) > 0:
			by = "tag"
		case v.Has != "":
			by = "member"
		}
		if i > 0 && by != told {
			return "type"
		}
		told = by
	}
	return told
}

// A Kind is the kind of a [Type].
type Kind int

// The kinds of types.
const (
	String Kind = iota
	Bool
	Int64
	Float64
	Bytes
	Time
	// External is a type chosen by the author, or json.RawMessage.
	External
	Slice
	Map
	Pointer
	// Optional is the three-state events.Optional.
	Optional
	// Named is a type declared in the package.
	Named
	// Literal is the base of an enum whose values have no common Go type: a string with the canonical JSON text of the
	// value.
	Literal
)

// A Type is a reference to a Go type.
type Type struct {
	Kind Kind
	// Elem is the element type of a Slice, Map, Pointer or Optional.
	Elem *Type
	// Go is the Go type of an External.
	Go GoType
	// Decl is the declaration of a Named.
	Decl *Decl
}

// A GoType is a Go type outside the generated package: an import path and a name, or a predeclared type without a
// path.
type GoType struct{ Path, Name string }

// String returns the type in the form of x-go-type.
func (g GoType) String() string {
	if g.Path == "" {
		return g.Name
	}
	return g.Path + "." + g.Name
}

// RawMessage is the type of values that remain raw JSON.
var RawMessage = GoType{Path: "encoding/json", Name: "RawMessage"}

// Under returns t with aliases and defined types resolved.
func (t *Type) Under() *Type {
	for range maxAliases {
		if t.Kind != Named || t.Decl.Form != Alias && t.Decl.Form != Defined || t.Decl.Type == nil {
			return t
		}
		t = t.Decl.Type
	}
	return t
}

// maxAliases limits the length of a chain of aliases. fillRoot reports cycles.
const maxAliases = 1000

// IsRaw reports whether t is json.RawMessage, which can represent null.
func (t *Type) IsRaw() bool { u := t.Under(); return u.Kind == External && u.Go == RawMessage }

// Target returns the declaration at the end of a chain of aliases, or nil if the chain ends at another type.
func (t *Type) Target() *Decl {
	if u := t.Under(); u.Kind == Named {
		return u.Decl
	}
	return nil
}

var scalarNames = map[Kind]string{
	String: "string", Bool: "bool", Int64: "int64", Float64: "float64", Bytes: "[]byte", Time: "events.Time", Literal: "string",
}

// String returns the type in Go syntax, with full import paths.
func (t *Type) String() string {
	switch t.Kind {
	case External:
		return t.Go.String()
	case Slice:
		return "[]" + t.Elem.String()
	case Map:
		return "map[string]" + t.Elem.String()
	case Pointer:
		return "*" + t.Elem.String()
	case Optional:
		return "events.Optional[" + t.Elem.String() + "]"
	case Named:
		return t.Decl.Name
	}
	return scalarNames[t.Kind]
}
