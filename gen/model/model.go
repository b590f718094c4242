// Package model is what a generator of any language works from: the event types of a package, and every type of
// theirs as JSON Schema and as data. `mcpe-gen inspect` prints a [Document], and a plugin is sent its packages.
//
// Its compatibility is promised: within a [Version] members are added, and none is changed or removed (MODEL-2). It
// does not depend on Go: what concerns one language is below a member of that language's name.
package model

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// Version is that of the document. It grows when a member changes its meaning or goes.
const Version = 1

//go:embed model.schema.json
var documentSchema []byte

// Schema returns the JSON Schema (2020-12) of a [Document]. See MODEL-2.
func Schema() []byte { return slices.Clone(documentSchema) }

// A Document is one model.
type Document struct {
	Version  int        `json:"version"`
	Packages []*Package `json:"packages"`
}

// A Package is what some event files describe together.
type Package struct {
	// Name is the name of the Go package, which other languages may use too.
	Name string `json:"name"`
	// Sources are the event files, those that only a $ref reaches included, as they were given.
	Sources []string `json:"sources"`
	Events  []Event  `json:"events"`
	// Tasks are the tools that work in the background.
	Tasks []Task `json:"tasks,omitempty"`
	// Conversation is the server's part in the conversation.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Types are all types that have a name. A type refers to another by it.
	Types []Definition `json:"types"`
	// Defs are the JSON Schemas. A $ref of theirs is a pointer into Defs, as in #/$defs/Person/properties/name, so
	// that a schema stands by itself with these $defs beside it.
	Defs map[string]json.RawMessage `json:"$defs"`
	// Overrides are the changes that the configuration makes to the schemas of others.
	Overrides []Override `json:"overrides,omitempty"`
}

// An Event is one event type.
type Event struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Source says how occurrences arise: emit, check or both.
	Source string `json:"source"`
	// Delivery lists the modes that the event type allows: poll, push, webhook.
	Delivery []string `json:"delivery"`
	Replay   bool     `json:"replay"`
	// Stability is stable or experimental.
	Stability  string      `json:"stability"`
	Deprecated *Deprecated `json:"deprecated,omitempty"`
	// Fingerprint identifies the two published schemas. See EVOL-4.
	Fingerprint string `json:"fingerprint"`
	Arguments   Use    `json:"arguments"`
	Payload     Use    `json:"payload"`
	// Match are the rules of x-match.
	Match []Match `json:"match,omitempty"`
	// Coalesce says which events a consumer may join.
	Coalesce *Coalesce `json:"coalesce,omitempty"`
	// From says which webhooks of a service become occurrences.
	From *From `json:"from,omitempty"`
	// Tool is the event type's read tool, absent where none is generated.
	Tool *Tool           `json:"tool,omitempty"`
	MCPE *MCPE           `json:"mcpe,omitempty"`
	Meta json.RawMessage `json:"_meta,omitempty"`
	Go   *GoNames        `json:"go,omitempty"`
	// Pos is file:line:col of the name, as every Pos is of what it belongs to.
	Pos string `json:"pos"`
}

// Deprecated says by what and when an event type goes away.
type Deprecated struct {
	ReplacedBy  string `json:"replacedBy,omitempty"`
	RemoveAfter string `json:"removeAfter,omitempty"`
}

// A Use names a type and says where its JSON Schema is.
type Use struct {
	// Type is the name of a [Definition].
	Type string `json:"type"`
	// Schema is a pointer as a $ref has it.
	Schema string `json:"schema"`
}

// A Match is one rule of x-match: by which member of the payload a subscriber chooses.
type Match struct {
	Argument string `json:"argument"`
	// Op is equal, in, glob, prefix, min or max.
	Op string `json:"op"`
	// Path is a JSON Pointer into the payload, Places are the schemas of what is there.
	Path   string   `json:"path"`
	Places []string `json:"places"`
	Pos    string   `json:"pos"`
}

// A Coalesce is an x-coalesce: which events are about the same thing, and when a consumer may hand them over.
type Coalesce struct {
	// Key holds JSON Pointers into the payload. Events with equal values there are about the same thing.
	Key          []string `json:"key"`
	QuietSeconds int      `json:"quietSeconds"`
	MaxSeconds   int      `json:"maxSeconds"`
	// Keep is latest or all.
	Keep string `json:"keep"`
	Pos  string `json:"pos"`
}

// A From is the `from:` of an event type.
type From struct {
	Provider string `json:"provider"`
	Event    string `json:"event,omitempty"`
	Action   string `json:"action,omitempty"`
	ID       string `json:"id,omitempty"`
	// Fields are in the order of the event file; absent where the body is the payload.
	Fields []FromField `json:"fields,omitempty"`
}

// A FromField says where a member of the payload comes from.
type FromField struct {
	Target string `json:"target"`
	Source string `json:"source"`
}

// A Tool is a read tool: its name and the names of its own arguments.
type Tool struct {
	Name         string `json:"name"`
	Cursor       string `json:"cursor"`
	MaxEvents    string `json:"maxEvents"`
	WaitSeconds  string `json:"waitSeconds"`
	QuietSeconds string `json:"quietSeconds"`
	Since        string `json:"since"`
}

// MCPE has the settings of an event type for the MCPE protocol.
type MCPE struct {
	Enabled  bool     `json:"enabled"`
	Priority string   `json:"priority,omitempty"`
	Tags     []string `json:"tags,omitempty"`
}

// A Task is one tool that works in the background.
type Task struct {
	Name        string   `json:"name"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Arguments   Use      `json:"arguments"`
	Update      Use      `json:"update"`
	Result      Use      `json:"result"`
	Go          *GoNames `json:"go,omitempty"`
	Pos         string   `json:"pos"`
}

// A Conversation is the server's part in the conversation.
type Conversation struct {
	OnUserMessage       bool `json:"onUserMessage"`
	OnAssistantResponse bool `json:"onAssistantResponse"`
	// Context is the structured context; absent where it has memories alone.
	Context *Use   `json:"context,omitempty"`
	Pos     string `json:"pos"`
}

// An Override is one change that the configuration makes.
type Override struct {
	File string `json:"file"`
	// At is a JSON Pointer from the top of the file.
	At string `json:"at"`
	// Does names the change: remove, replace, x-go-name NAME, x-go-type TYPE.
	Does string `json:"does"`
	Pos  string `json:"pos"`
}

// A Definition is a type with a name.
type Definition struct {
	Name string `json:"name"`
	// Role says what the type is for, as in "the payload of incident.created".
	Role        string `json:"role"`
	Description string `json:"description,omitempty"`
	Deprecated  bool   `json:"deprecated,omitempty"`
	// Schema is a pointer as a $ref has it. Where several schemas meet in the type it leads to the first.
	Schema string `json:"schema"`
	Type   Type   `json:"type"`
	// Go is absent where Go keeps the value as JSON, so that it has no type for it.
	Go  *GoType `json:"go,omitempty"`
	TS  *TSType `json:"ts,omitempty"`
	Pos string  `json:"pos"`
}

// The kinds of a [Type].
const (
	Any     = "any"
	Null    = "null"
	Never   = "never"
	Boolean = "boolean"
	Integer = "integer"
	Number  = "number"
	String  = "string"
	Const   = "const"
	Enum    = "enum"
	Array   = "array"
	Tuple   = "tuple"
	Map     = "map"
	Object  = "object"
	Union   = "union"
	Ref     = "ref"
)

// A Type describes values. Its kind says which other members it has.
type Type struct {
	Kind string `json:"kind"`
	// Nullable says that null is a value too.
	Nullable bool `json:"nullable,omitempty"`

	// Ref names the definition that a ref stands for.
	Ref string `json:"ref,omitempty"`
	// Reason says why any value may be there. Known are types of which the values of an any are, if they are of the
	// same JSON type: what the schema says about objects, say, where it allows other values too.
	Reason string `json:"reason,omitempty"`
	Known  []Type `json:"known,omitempty"`

	// Format, ContentEncoding, Pattern and the lengths belong to a string.
	Format          string      `json:"format,omitempty"`
	ContentEncoding string      `json:"contentEncoding,omitempty"`
	Pattern         string      `json:"pattern,omitempty"`
	MinLength       json.Number `json:"minLength,omitempty"`
	MaxLength       json.Number `json:"maxLength,omitempty"`
	// The bounds belong to an integer or a number.
	Minimum          json.Number `json:"minimum,omitempty"`
	Maximum          json.Number `json:"maximum,omitempty"`
	ExclusiveMinimum json.Number `json:"exclusiveMinimum,omitempty"`
	ExclusiveMaximum json.Number `json:"exclusiveMaximum,omitempty"`
	MultipleOf       json.Number `json:"multipleOf,omitempty"`

	// Value is the only value of a const.
	Value json.RawMessage `json:"value,omitempty"`
	// Base is what the values of an enum are, string, number, boolean or json, and Values those that are listed. An
	// enum is open: a later version of a server may send others.
	Base   string  `json:"base,omitempty"`
	Values []Value `json:"values,omitempty"`
	// AnyOther says that the schema allows, beside the values of an enum, any other one of the base.
	AnyOther bool `json:"anyOther,omitempty"`

	// Items are the elements of an array or the values of a map.
	Items *Type `json:"items,omitempty"`
	// Elements are the first elements of a tuple, Rest those behind them: none where it is absent.
	Elements []Type      `json:"elements,omitempty"`
	Rest     *Type       `json:"rest,omitempty"`
	MinItems json.Number `json:"minItems,omitempty"`
	MaxItems json.Number `json:"maxItems,omitempty"`
	// UniqueItems says that no element of an array or tuple is there twice.
	UniqueItems bool `json:"uniqueItems,omitempty"`

	// Members are those of an object. Extra is the type of members that have no name of their own; absent where the
	// schema says nothing about such, or forbids them.
	Members []Member `json:"members,omitempty"`
	Extra   *Type    `json:"extra,omitempty"`
	// Patterns tell those of an object or a map apart that have no name of their own, where the schema does; Extra and
	// Items hold all of them.
	Patterns []Pattern `json:"patterns,omitempty"`
	// Choices are what a schema says of an object beside its members, by oneOf or anyOf: at least one variant of each is
	// so. A variant is an object that has the members that it describes.
	Choices []Choice `json:"choices,omitempty"`
	// MinProperties and MaxProperties bound how many members an object or a map has.
	MinProperties json.Number `json:"minProperties,omitempty"`
	MaxProperties json.Number `json:"maxProperties,omitempty"`

	// Variants are those of a union. Discriminator is the member whose value tells them apart, absent where their
	// form does.
	Discriminator string    `json:"discriminator,omitempty"`
	Variants      []Variant `json:"variants,omitempty"`
}

// A Member is a named member of an object.
type Member struct {
	Name        string          `json:"name"`
	Required    bool            `json:"required"`
	Type        Type            `json:"type"`
	Default     json.RawMessage `json:"default,omitempty"`
	Description string          `json:"description,omitempty"`
	Deprecated  bool            `json:"deprecated,omitempty"`
	// Go is absent where the Go struct has no field for the member.
	Go  *GoMember `json:"go,omitempty"`
	Pos string    `json:"pos"`
}

// A Pattern describes the members whose names match it.
type Pattern struct {
	// Pattern is a regular expression, absent for members that match no other.
	Pattern string `json:"pattern,omitempty"`
	Type    Type   `json:"type"`
}

// A Choice is one oneOf or anyOf.
type Choice struct {
	Variants []Variant `json:"variants"`
}

// A Value is one value of an enum.
type Value struct {
	Value       json.RawMessage `json:"value"`
	Description string          `json:"description,omitempty"`
	// Go is the constant, absent where the enum has no Go type.
	Go string `json:"go,omitempty"`
}

// A Variant is one alternative of a union.
type Variant struct {
	// Tags are the values of the discriminator that mean this variant.
	Tags []json.RawMessage `json:"tags,omitempty"`
	// Title is what the schema calls the variant: the name that its $ref ends in, or its title.
	Title string `json:"title,omitempty"`
	// Has is the member that this variant alone has, where that tells it from other objects.
	Has  string `json:"has,omitempty"`
	Type Type   `json:"type"`
	// Go is the Go type that holds the variant, absent where that is the type's own.
	Go string `json:"go,omitempty"`
}

// GoNames says how the names of an event type or a task begin in Go.
type GoNames struct {
	Prefix string `json:"prefix"`
}

// A GoType is a declared Go type.
type GoType struct {
	Name string `json:"name"`
	// Form is alias, defined, struct, enum or union.
	Form string `json:"form"`
	// Type is what an alias or defined type stands for, with its import path.
	Type string `json:"type,omitempty"`
}

// A GoMember is a field of a Go struct.
type GoMember struct {
	Name string `json:"name"`
	// Type has the import path of a type of another package.
	Type string `json:"type"`
}

// A TSType is a TypeScript type.
type TSType struct {
	Name string `json:"name"`
	// OrUnknown is the type that holds variants of other tags too; absent where the type is no union with tags.
	OrUnknown string `json:"orUnknown,omitempty"`
}
