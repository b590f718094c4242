package ir

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/gen/provider"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
)

// A Package is everything that one run writes.
type Package struct {
	Name  string
	Files []*File
	// Ingress are the services whose webhooks become events of the package, in the order of their names.
	Ingress []*Ingress

	builder *builder // what it was made by, for [Package.Describe]
}

// An Ingress is one service whose webhooks become events.
type Ingress struct {
	// Name is what the type is called, such as GitHubIngress.
	Name     string
	Provider provider.Provider
	Events   []*Event
}

// A File is the model of one event file.
type File struct {
	Path, Stem string
	Events     []*Event
	Tasks      []*Task
	// Conversation is nil when the file has none.
	Conversation *Conversation
	// Decls are the types of the file's shared schemas, nested ones after the one that holds them.
	Decls []*Decl
}

// An Event is one event type.
type Event struct {
	Schema *schema.Event
	// Prefix is the word that the names of the event begin with: IncidentCreated.
	Prefix string
	// NameConst, EventAlias and SubscriptionType are the constant of the event's name and the short names
	// of what a client receives and holds; empty where the package declares something else of that name.
	NameConst, EventAlias, SubscriptionType string
	// Arguments and Payload are the declarations XArguments and XPayload.
	Arguments, Payload *Decl
	// Decls are Arguments, Payload and the types nested in them.
	Decls []*Decl
	// InputSchema and PayloadSchema are what is published, Fingerprint identifies both (EVOL-4).
	InputSchema, PayloadSchema *published.Schema
	Fingerprint                string
	// Tool is the event's read tool, nil when tools are not emitted.
	Tool *Tool
}

// A Task is one tool that works in the background.
type Task struct {
	Schema *schema.Task
	// Prefix is the word that the names of the task begin with: WriteReport.
	Prefix string
	// Arguments, Update and Result are the declarations XTaskArguments, XTaskUpdate and XTaskResult.
	Arguments, Update, Result *Decl
	// Decls are those three and the types nested in them.
	Decls []*Decl
	// InputSchema, UpdateSchema and ResultSchema are what is published.
	InputSchema, UpdateSchema, ResultSchema *published.Schema
}

// A Conversation is the server's part in the conversation.
type Conversation struct {
	Schema *schema.Conversation
	// Context is the structured context, nil when the author has no members of its own.
	Context *Decl
	// Decls are Context and the types nested in it.
	Decls []*Decl
}

// A Tool is an event type's read tool: its name and those of its arguments, from which its descriptor follows.
type Tool struct {
	Name, Cursor, MaxEvents, Wait, Quiet, Since string
	// Custom says that the author named the tool or its arguments.
	Custom bool
}

// A Form says what a [Decl] declares.
type Form int

// The forms of declarations.
const (
	// Alias is `type X = T`.
	Alias Form = iota
	// Defined is `type X T`: a slice or map that holds itself, or a variant of a union that is no object.
	Defined
	// Struct is an object.
	Struct
	// Enum is a named scalar with constants.
	Enum
	// Union is a struct around a sealed interface.
	Union
	// Holder is a struct with a value of a type that has methods of its own: a variant of a union.
	Holder
)

var formNames = [...]string{"alias", "defined", "struct", "enum", "union", "holder"}

// String returns the word that inspect prints.
func (f Form) String() string { return formNames[f] }

// A Decl is one declared Go type.
type Decl struct {
	Name string
	Form Form
	// Role says what the type is for in the words of its doc comment, such as "the payload of
	// incident.created".
	Role string
	Doc  Doc
	// At is where the schema is written.
	At source.Range

	// Type is what an Alias or Defined stands for, or a Holder holds. Why says why it stays JSON without being
	// asked to; empty where it does not.
	Type *Type
	Why  string
	// Of is the union that a Defined or Holder was made for.
	Of *Decl
	// Fields and Extra belong to a Struct; Extra is the type of the members that the schema does
	// not name, nil when it keeps none.
	Fields []*Field
	Extra  *Type
	// Accessors asks for the methods that give a field's default.
	Accessors bool
	// Base and Values belong to an Enum. Open says that other values are valid.
	Base   Kind
	Values []Value
	Open   bool
	// Tag, Literal and Variants belong to a Union. Tag is the member that tells variants with tags
	// apart. Literal says that the tags are JSON texts rather than strings.
	Tag      string
	Literal  bool
	Variants []Variant
}

// A Doc is what the author wrote for readers.
type Doc struct {
	Text       string
	Deprecated bool
}

// A Field is one member of a [Struct].
type Field struct {
	Name, JSON string
	Doc        Doc
	At         source.Range
	// Required and Nullable are the schema's; Type is the Go type that follows from them, and
	// OmitZero says that its zero value is left out.
	Required, Nullable bool
	Base, Type         *Type
	OmitZero           bool
	// Why says why the member stays JSON without being asked to; empty where it does not.
	Why string
	// Const is the Go constant or literal that a required member with one possible value is filled with,
	// empty where that is Go's zero value.
	Const string
	// Default is the schema's default as JSON, empty when there is none.
	Default json.RawMessage
	// DefaultConst is the Go constant or literal of the default where an accessor is possible.
	DefaultConst string
}

// A Value is one constant of an [Enum].
type Value struct {
	Name string
	// JSON is the value as it stands in the schema.
	JSON json.RawMessage
	// Literal is the Go literal.
	Literal string
}

// A Variant is one alternative of a [Union]. An object is told from others by its tag, or by the member that it alone
// requires, where there are others; all else by its JSON type.
type Variant struct {
	// JSON is the JSON type of its values: string, number, boolean, array, object.
	JSON string
	// Tagged says that it has a Tag: a string, or JSON text when the union's Literal is set.
	Tagged bool
	Tag    string
	// Has is the member; empty where something else tells.
	Has  string
	Decl *Decl
}

// Told says what tells the variants of a union apart: tag, member or type, of which the last may leave objects to one
// of the others.
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
	// External is a type of the author's choice, json.RawMessage included.
	External
	Slice
	Map
	Pointer
	// Optional is the three-state events.Optional.
	Optional
	// Named is a declaration of the package.
	Named
	// Literal is the base of an enum whose values have no common Go type: a string that holds the
	// canonical JSON text of the value.
	Literal
)

// A Type is a use of a Go type.
type Type struct {
	Kind Kind
	// Elem is what a Slice, Map, Pointer or Optional is made of.
	Elem *Type
	// Go is the type of External.
	Go GoType
	// Decl is the declaration of Named.
	Decl *Decl
}

// A GoType is a Go type outside the generated package: import path and name, or a predeclared
// type without a path.
type GoType struct{ Path, Name string }

// String returns the form that x-go-type has.
func (g GoType) String() string {
	if g.Path == "" {
		return g.Name
	}
	return g.Path + "." + g.Name
}

// RawMessage is the type of values that are left as raw JSON.
var RawMessage = GoType{Path: "encoding/json", Name: "RawMessage"}

// Under returns t with aliases and defined types followed to what they stand for.
func (t *Type) Under() *Type {
	for range maxAliases {
		if t.Kind != Named || t.Decl.Form != Alias && t.Decl.Form != Defined || t.Decl.Type == nil {
			return t
		}
		t = t.Decl.Type
	}
	return t
}

// maxAliases bounds chains of aliases; a cycle is reported elsewhere.
const maxAliases = 1000

// IsRaw reports whether t is json.RawMessage, which holds null by itself.
func (t *Type) IsRaw() bool { u := t.Under(); return u.Kind == External && u.Go == RawMessage }

// Target returns the declaration that a chain of aliases ends at, nil when it ends elsewhere.
func (t *Type) Target() *Decl {
	if u := t.Under(); u.Kind == Named {
		return u.Decl
	}
	return nil
}

var scalarNames = map[Kind]string{
	String: "string", Bool: "bool", Int64: "int64", Float64: "float64", Bytes: "[]byte", Time: "events.Time", Literal: "string",
}

// String returns the type as Go code would spell it, imported types with their whole path.
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
