package ir

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// A Package is the complete model of one run.
type Package struct {
	Name  string
	Files []*File
	// Ingress lists the services whose webhooks become events of the package, sorted by name.
	Ingress []*Ingress

	builder *builder // used by [Package.Describe]
}

// An Ingress is one service whose webhooks become events.
type Ingress struct {
	// Name is the name of the type, such as GitHubIngress.
	Name     string
	Provider provider.Provider
	Events   []*Event
}

// A File is the model of one event file.
type File struct {
	Path, Stem string
	// Import is the import path of the package that declares the types of the file; empty if this package does.
	Import string
	Events []*Event
	Tasks  []*Task
	// Conversation is nil if the file has no conversation.
	Conversation *Conversation
	// Decls holds the types of the file's shared schemas. Nested types follow the type that contains them.
	Decls []*Decl
}

// An Event is one event type.
type Event struct {
	Schema *schema.Event
	// Prefix is the prefix of the event's names, such as IncidentCreated.
	Prefix string
	// NameConst is the constant for the event's name. EventAlias and SubscriptionType are short names for the types
	// that a client receives and holds. Each is empty if the package declares something else with that name.
	NameConst, EventAlias, SubscriptionType string
	// Arguments and Payload are the declarations XArguments and XPayload.
	Arguments, Payload *Decl
	// Decls are Arguments, Payload and the types nested in them.
	Decls []*Decl
	// InputSchema and PayloadSchema are the published schemas, and Fingerprint identifies both (EVOL-4).
	InputSchema, PayloadSchema *published.Schema
	Fingerprint                string
	// Tool is the event's read tool, nil if tools are not emitted.
	Tool *Tool
}

// A Task is one tool that works in the background.
type Task struct {
	Schema *schema.Task
	// Prefix is the prefix of the task's names, such as WriteReport.
	Prefix string
	// Arguments, Update and Result are the declarations XTaskArguments, XTaskUpdate and XTaskResult.
	Arguments, Update, Result *Decl
	// Decls holds these three and the types nested in them.
	Decls []*Decl
	// InputSchema, UpdateSchema and ResultSchema are the published schemas.
	InputSchema, UpdateSchema, ResultSchema *published.Schema
}

// A Conversation is the server's part in the conversation.
type Conversation struct {
	Schema *schema.Conversation
	// Context is the structured context, nil if the author describes no members.
	Context *Decl
	// Decls are Context and the types nested in it.
	Decls []*Decl
}

// A Tool is the read tool of an event type: the names that determine its descriptor.
type Tool struct {
	Name, Cursor, MaxEvents, Wait, Quiet, Since string
	// Custom reports whether the author named the tool or its arguments.
	Custom bool
}

// A Form is the kind of declaration of a [Decl].
type Form int

// The forms of declarations.
const (
	// Alias is `type X = T`.
	Alias Form = iota
	// Defined is `type X T`: a slice or map that contains itself, or a union variant that is not an object.
	Defined
	// Struct is an object.
	Struct
	// Enum is a named scalar with constants.
	Enum
	// Union is a struct around a sealed interface.
	Union
	// Holder is a struct around a value whose type has methods: a variant of a union.
	Holder
)

var formNames = [...]string{"alias", "defined", "struct", "enum", "union", "holder"}

// String returns the word that the inspect command prints.
func (f Form) String() string { return formNames[f] }

// A Decl is one declared Go type.
type Decl struct {
	Name string
	Form Form
	// Role describes the type in its doc comment, such as "the payload of incident.created".
	Role string
	Doc  Doc
	// At is the range of the schema.
	At source.Range

	// Type is the target of an Alias or Defined, or the value of a Holder. Why explains why it stays JSON although
	// nothing requests that; otherwise empty.
	Type *Type
	Why  string
	// Of is the union for which a Defined or Holder was made.
	Of *Decl
	// Fields and Extra belong to a Struct. Extra is the type of members without a field, nil if they are not kept.
	Fields []*Field
	Extra  *Type
	// Accessors requests methods that return the defaults of fields.
	Accessors bool
	// Base and Values belong to an Enum. Open reports whether other values are valid.
	Base   Kind
	Values []Value
	Open   bool
	// Tag, Literal and Variants belong to a Union. Tag is the discriminator of tagged variants. Literal reports
	// whether the tags are JSON texts instead of strings.
	Tag      string
	Literal  bool
	Variants []Variant
	// VariantType is the interface that variants implement, and UnknownType the type of other values.
	VariantType, UnknownType string
}

// A Doc is the author's documentation.
type Doc struct {
	Text       string
	Deprecated bool
}

// A Field is one member of a [Struct].
type Field struct {
	Name, JSON string
	Doc        Doc
	At         source.Range
	// Required and Nullable come from the schema. Type is the Go type that follows from them, and OmitZero reports
	// whether encoding omits the zero value.
	Required, Nullable bool
	Base, Type         *Type
	OmitZero           bool
	// Why explains why the member stays JSON although nothing requests that; otherwise empty.
	Why string
	// Const is the Go constant or literal that fills a required member with one possible value, empty if that is Go's
	// zero value.
	Const string
	// Default is the schema's default as JSON, empty if absent.
	Default json.RawMessage
	// DefaultConst is the Go constant or literal of the default, if an accessor is possible.
	DefaultConst string
}

// A Value is one constant of an [Enum].
type Value struct {
	Name string
	// JSON is the value as the schema writes it.
	JSON json.RawMessage
	// Literal is the Go literal.
	Literal string
}

// A Variant is one alternative of a [Union]. If there are several object variants, an object is identified by its tag
// or by a member that only it requires. All other variants are identified by their JSON type.
type Variant struct {
	// JSON is the JSON type of its values: string, number, boolean, array, object.
	JSON string
	// Tagged reports whether it has a Tag: a string, or JSON text if the union's Literal is set.
	Tagged bool
	Tag    string
	// Has is the identifying member, empty without one.
	Has  string
	Decl *Decl
}

// Told returns the property that identifies the variants of a union: tag, member or type. With type, the objects may
// still be identified by tag or member.
func (d *Decl) Told() string {
	told := "type"
	for i, v := range d.Variants {
		by := "type"
		switch {
		case v.Tagged:
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

// A Kind is the shape of a [Type].
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

// A Type is a use of a Go type.
type Type struct {
	Kind Kind
	// Elem is the element type of a Slice, Map, Pointer or Optional.
	Elem *Type
	// Go is the type of External.
	Go GoType
	// Decl is the declaration of Named.
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

// RawMessage is the type of values that stay raw JSON.
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

// maxAliases limits chains of aliases. finishAlias reports cycles.
const maxAliases = 1000

// IsRaw reports whether t is json.RawMessage, which can hold null.
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
