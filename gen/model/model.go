// Package model describes event types for generators of any language. It contains the events of a package and all types
// that they use, both as JSON Schema and as data. `mcpe-gen inspect` prints a [Document], and a plugin receives its
// packages.
//
// The model is stable: within a [Version], members may be added, but never changed or removed (MODEL-2). The model does
// not depend on Go. Language-specific data is in a member with the name of that language.
package model

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// Version is the version of the document. It is incremented when a member is removed or its meaning changes.
const Version = 1

//go:embed model.schema.json
var documentSchema []byte

// Schema returns the JSON Schema (2020-12) of a [Document]. See MODEL-2.
func Schema() []byte { return slices.Clone(documentSchema) }

// A Document is the output of `mcpe-gen inspect`.
type Document struct {
	Version  int        `json:"version"`
	Packages []*Package `json:"packages"`
}

// A Package describes the content of a set of event files.
type Package struct {
	// Name is the name of the Go package. Other languages may also use it.
	Name string `json:"name"`
	// Sources lists the event files as specified by the user, and other files that are targets of a $ref.
	Sources []string `json:"sources"`
	Events  []Event  `json:"events"`
	// Tasks lists the tools that run in the background.
	Tasks []Task `json:"tasks,omitempty"`
	// Conversation describes how the server takes part in the conversation.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Types lists all named types. A type refers to another type by name.
	Types []Definition `json:"types"`
	// Defs holds the JSON Schemas. A $ref in a schema is a pointer into Defs, such as #/$defs/Person/properties/name. A
	// schema is complete when combined with these $defs.
	Defs map[string]json.RawMessage `json:"$defs"`
	// Overrides lists the changes to third-party schemas in the configuration.
	Overrides []Override `json:"overrides,omitempty"`
}

// An Event describes an event type.
type Event struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Source is how events are produced: emit, check or both.
	Source string `json:"source"`
	// Delivery lists the delivery modes of the event type: poll, push, webhook.
	Delivery []string `json:"delivery"`
	Replay   bool     `json:"replay"`
	// Stability is stable or experimental.
	Stability  string      `json:"stability"`
	Deprecated *Deprecated `json:"deprecated,omitempty"`
	// Fingerprint identifies the two published schemas. See EVOL-4.
	Fingerprint string `json:"fingerprint"`
	Arguments   Use    `json:"arguments"`
	Payload     Use    `json:"payload"`
	// Match lists the rules of x-match.
	Match []Match `json:"match,omitempty"`
	// Actor is the x-actor: the payload path, as in [Match], of the actor that caused the event.
	Actor string `json:"actor,omitempty"`
	// Coalesce specifies which events a consumer may merge.
	Coalesce *Coalesce `json:"coalesce,omitempty"`
	// From specifies which webhooks of a service are emitted as events.
	From *From `json:"from,omitempty"`
	// Tool is the read tool of the event type. It is absent if no tool is generated.
	Tool *Tool           `json:"tool,omitempty"`
	MCPE *MCPE           `json:"mcpe,omitempty"`
	Meta json.RawMessage `json:"_meta,omitempty"`
	Go   *GoNames        `json:"go,omitempty"`
	// Pos is the position of the name, as file:line:col. Every Pos in the model is the position of the object that
	// contains it.
	Pos string `json:"pos"`
}

// Deprecated is the deprecation notice of an event type: its replacement and the date of its removal.
type Deprecated struct {
	ReplacedBy  string `json:"replacedBy,omitempty"`
	RemoveAfter string `json:"removeAfter,omitempty"`
}

// A Use refers to a type and to its JSON Schema.
type Use struct {
	// Type is the name of a [Definition].
	Type string `json:"type"`
	// Schema is a JSON Pointer in the form of a $ref.
	Schema string `json:"schema"`
}

// A Match is a rule of x-match: a member of the payload that a subscriber can filter by.
type Match struct {
	Argument string `json:"argument"`
	// Op is equal, in, glob, prefix, lt, lte, gt, gte, min or max. Not negates the rule.
	Op  string `json:"op"`
	Not bool   `json:"not,omitempty"`
	// Path is a JSON Pointer into the payload, in which * matches every element of an array. Places lists the schemas
	// of the values at the path.
	Path   string   `json:"path"`
	Places []string `json:"places"`
	Pos    string   `json:"pos"`
}

// A Coalesce is an x-coalesce. It specifies which events concern the same subject and when a consumer can deliver them.
type Coalesce struct {
	// Key lists JSON Pointers into the payload. Events with equal values at these pointers concern the same subject.
	Key          []string `json:"key"`
	QuietSeconds int      `json:"quietSeconds"`
	MaxSeconds   int      `json:"maxSeconds"`
	// Keep is latest or all.
	Keep string `json:"keep"`
	Pos  string `json:"pos"`
}

// A From is the `from:` section of an event type.
type From struct {
	Provider string `json:"provider"`
	Event    string `json:"event,omitempty"`
	Action   string `json:"action,omitempty"`
	ID       string `json:"id,omitempty"`
	// Fields lists the fields in the order of the event file. It is absent if the body is the payload.
	Fields []FromField `json:"fields,omitempty"`
}

// A FromField specifies the source of the value of a payload member.
type FromField struct {
	Target string `json:"target"`
	Source string `json:"source"`
}

// A Tool is a read tool with the names of its arguments.
type Tool struct {
	Name         string `json:"name"`
	Cursor       string `json:"cursor"`
	MaxEvents    string `json:"maxEvents"`
	WaitSeconds  string `json:"waitSeconds"`
	QuietSeconds string `json:"quietSeconds"`
	Since        string `json:"since"`
}

// MCPE contains the settings of an event type for the MCPE protocol.
type MCPE struct {
	Enabled  bool     `json:"enabled"`
	Priority string   `json:"priority,omitempty"`
	Tags     []string `json:"tags,omitempty"`
}

// A Task is a tool that runs in the background.
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

// A Conversation describes how the server takes part in the conversation.
type Conversation struct {
	OnUserMessage       bool `json:"onUserMessage"`
	OnAssistantResponse bool `json:"onAssistantResponse"`
	// Context is the structured context. It is absent if the conversation has only memories.
	Context *Use   `json:"context,omitempty"`
	Pos     string `json:"pos"`
}

// An Override is a change to a schema in the configuration.
type Override struct {
	File string `json:"file"`
	// At is a JSON Pointer from the root of the file.
	At string `json:"at"`
	// Does is the change: remove, replace, x-go-name NAME or x-go-type TYPE.
	Does string `json:"does"`
	Pos  string `json:"pos"`
}

// A Definition is a named type.
type Definition struct {
	Name string `json:"name"`
	// Role describes the use of the type, such as "the payload of incident.created".
	Role        string `json:"role"`
	Description string `json:"description,omitempty"`
	Deprecated  bool   `json:"deprecated,omitempty"`
	// Schema is a JSON Pointer in the form of a $ref. If the type combines several schemas, the pointer refers to the
	// first one.
	Schema string `json:"schema"`
	Type   Type   `json:"type"`
	// Go is absent if the value does not have a Go type and is stored as JSON.
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

// A Type describes a set of values. Kind determines which other members are set.
type Type struct {
	Kind string `json:"kind"`
	// Nullable reports whether null is also a valid value.
	Nullable bool `json:"nullable,omitempty"`

	// Ref is the name of the referenced definition.
	Ref string `json:"ref,omitempty"`
	// Reason explains why the kind is any. Known lists types for values of particular JSON types. For example, a schema
	// may describe objects and also accept other values.
	Reason string `json:"reason,omitempty"`
	Known  []Type `json:"known,omitempty"`

	// Format, ContentEncoding, Pattern and the lengths are for the kind string.
	Format          string      `json:"format,omitempty"`
	ContentEncoding string      `json:"contentEncoding,omitempty"`
	Pattern         string      `json:"pattern,omitempty"`
	MinLength       json.Number `json:"minLength,omitempty"`
	MaxLength       json.Number `json:"maxLength,omitempty"`
	// The bounds are for the kinds integer and number.
	Minimum          json.Number `json:"minimum,omitempty"`
	Maximum          json.Number `json:"maximum,omitempty"`
	ExclusiveMinimum json.Number `json:"exclusiveMinimum,omitempty"`
	ExclusiveMaximum json.Number `json:"exclusiveMaximum,omitempty"`
	MultipleOf       json.Number `json:"multipleOf,omitempty"`

	// Value is the only value of a const.
	Value json.RawMessage `json:"value,omitempty"`
	// Base is the type of an enum's values: string, number, boolean or json. Values lists the known ones. An enum is
	// open: a later version of a server may send other values.
	Base   string  `json:"base,omitempty"`
	Values []Value `json:"values,omitempty"`
	// AnyOther reports whether the schema also allows values of the base that are not in the enum.
	AnyOther bool `json:"anyOther,omitempty"`

	// Items is the type of the elements of an array or the values of a map.
	Items *Type `json:"items,omitempty"`
	// Elements lists the types of the first elements of a tuple. Rest is the type of further elements. If it is absent,
	// further elements are not allowed.
	Elements []Type      `json:"elements,omitempty"`
	Rest     *Type       `json:"rest,omitempty"`
	MinItems json.Number `json:"minItems,omitempty"`
	MaxItems json.Number `json:"maxItems,omitempty"`
	// UniqueItems reports whether the elements of an array or tuple must differ.
	UniqueItems bool `json:"uniqueItems,omitempty"`

	// Members lists the named members of an object. Extra is the type of all other members. It is absent if the schema
	// does not mention or does not allow such members.
	Members []Member `json:"members,omitempty"`
	Extra   *Type    `json:"extra,omitempty"`
	// Patterns describes unnamed members by patterns for their names. Extra and Items include the types of all of those
	// members.
	Patterns []Pattern `json:"patterns,omitempty"`
	// Choices lists each oneOf and anyOf of an object. At least one variant of each choice applies. A variant is an
	// object with the members that the variant's schema describes.
	Choices []Choice `json:"choices,omitempty"`
	// MinProperties and MaxProperties limit the number of members in an object or a map.
	MinProperties json.Number `json:"minProperties,omitempty"`
	MaxProperties json.Number `json:"maxProperties,omitempty"`

	// Variants lists the alternatives of a union. Discriminator is the member that selects the variant by its value. It
	// is absent if the variants differ only in form.
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
	// Private is set if the member has x-private. A server removes it unless the author's code discloses it.
	Private bool `json:"private,omitempty"`
	// Go is absent if the Go struct does not have a field for the member.
	Go  *GoMember `json:"go,omitempty"`
	Pos string    `json:"pos"`
}

// A Pattern describes the members with a matching name.
type Pattern struct {
	// Pattern is a regular expression. It is absent for members that match no other pattern.
	Pattern string `json:"pattern,omitempty"`
	Type    Type   `json:"type"`
}

// A Choice is a oneOf or anyOf.
type Choice struct {
	Variants []Variant `json:"variants"`
}

// A Value is a value of an enum.
type Value struct {
	Value       json.RawMessage `json:"value"`
	Description string          `json:"description,omitempty"`
	// Go is the name of the constant. It is absent if the enum does not have a Go type.
	Go string `json:"go,omitempty"`
}

// A Variant is an alternative of a union.
type Variant struct {
	// Tags lists the discriminator values that select this variant.
	Tags []json.RawMessage `json:"tags,omitempty"`
	// Title is the variant's name in the schema: the last element of its $ref, or its title.
	Title string `json:"title,omitempty"`
	// Has is the name of a member that identifies the variant, because only this variant has it.
	Has  string `json:"has,omitempty"`
	Type Type   `json:"type"`
	// Go is the Go type of the variant. It is absent if it is the Go type of Type.
	Go string `json:"go,omitempty"`
}

// GoNames contains the prefix of the Go names for an event type or a task.
type GoNames struct {
	Prefix string `json:"prefix"`
}

// A GoType is a declared Go type.
type GoType struct {
	Name string `json:"name"`
	// Form is alias, defined, struct, enum or union.
	Form string `json:"form"`
	// Type is the target of an alias or defined type, with its import path.
	Type string `json:"type,omitempty"`
}

// A GoMember is a field of a Go struct.
type GoMember struct {
	Name string `json:"name"`
	// Type is the type of the field, with the import path of its package.
	Type string `json:"type"`
}

// A TSType is a TypeScript type.
type TSType struct {
	Name string `json:"name"`
	// OrUnknown is the type that also includes variants with unknown tags. It is absent unless the type is a tagged
	// union.
	OrUnknown string `json:"orUnknown,omitempty"`
}
