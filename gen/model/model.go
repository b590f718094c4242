// Package model describes event types for generators of any language. It has the events of a package, and every type
// they use, both as JSON Schema and as data. `mcpe-gen inspect` prints a [Document], and a plugin receives its
// packages.
//
// Compatibility is promised: within a [Version], members may be added, but no member is changed or removed (MODEL-2).
// The model does not depend on Go: data for one language is below a member with the name of that language.
package model

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// Version is the version of the document. It increases when a member is removed or changes its meaning.
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

// A Package holds the descriptions of a set of event files.
type Package struct {
	// Name is the name of the Go package, which other languages may use too.
	Name string `json:"name"`
	// Sources lists the event files as they were given, including files that only a $ref reaches.
	Sources []string `json:"sources"`
	Events  []Event  `json:"events"`
	// Tasks lists the tools that work in the background.
	Tasks []Task `json:"tasks,omitempty"`
	// Conversation describes how the server takes part in the conversation.
	Conversation *Conversation `json:"conversation,omitempty"`
	// Types lists all named types. Types refer to each other by name.
	Types []Definition `json:"types"`
	// Defs holds the JSON Schemas. A $ref in them is a pointer into Defs, such as #/$defs/Person/properties/name. A
	// schema is complete together with these $defs.
	Defs map[string]json.RawMessage `json:"$defs"`
	// Overrides lists the changes that the configuration makes to third-party schemas.
	Overrides []Override `json:"overrides,omitempty"`
}

// An Event is one event type.
type Event struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Source says how events arise: emit, check or both.
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
	// Match holds the rules of x-match.
	Match []Match `json:"match,omitempty"`
	// Actor is the x-actor: the path in the payload, as in [Match], of the actor that caused the event.
	Actor string `json:"actor,omitempty"`
	// Coalesce says which events a consumer may merge.
	Coalesce *Coalesce `json:"coalesce,omitempty"`
	// From says which webhooks of a service become events.
	From *From `json:"from,omitempty"`
	// Tool is the read tool of the event type, absent if none is generated.
	Tool *Tool           `json:"tool,omitempty"`
	MCPE *MCPE           `json:"mcpe,omitempty"`
	Meta json.RawMessage `json:"_meta,omitempty"`
	Go   *GoNames        `json:"go,omitempty"`
	// Pos is the position of the name, as file:line:col. Every Pos in the model is the position of its owner.
	Pos string `json:"pos"`
}

// Deprecated names the replacement of an event type and the date of its removal.
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

// A Match is one rule of x-match: a member of the payload that a subscriber can filter by.
type Match struct {
	Argument string `json:"argument"`
	// Op is equal, in, glob, prefix, lt, lte, gt, gte, min or max. Not negates the rule.
	Op  string `json:"op"`
	Not bool   `json:"not,omitempty"`
	// Path is a JSON Pointer into the payload, with * for every element of an array. Places holds the schemas of the
	// values there.
	Path   string   `json:"path"`
	Places []string `json:"places"`
	Pos    string   `json:"pos"`
}

// A Coalesce is an x-coalesce: which events concern the same subject, and when a consumer may deliver them.
type Coalesce struct {
	// Key holds JSON Pointers into the payload. Events with equal values there concern the same subject.
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
	// Fields keeps the order of the event file; absent if the body is the payload.
	Fields []FromField `json:"fields,omitempty"`
}

// A FromField says where the value of a payload member comes from.
type FromField struct {
	Target string `json:"target"`
	Source string `json:"source"`
}

// A Tool is a read tool, with the names of its arguments.
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

// A Conversation describes how the server takes part in the conversation.
type Conversation struct {
	OnUserMessage       bool `json:"onUserMessage"`
	OnAssistantResponse bool `json:"onAssistantResponse"`
	// Context is the structured context; absent if the conversation has only memories.
	Context *Use   `json:"context,omitempty"`
	Pos     string `json:"pos"`
}

// An Override is one change that the configuration makes to a schema.
type Override struct {
	File string `json:"file"`
	// At is a JSON Pointer from the root of the file.
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
	// Schema is a JSON Pointer in the form of a $ref. If the type combines several schemas, it points to the first.
	Schema string `json:"schema"`
	Type   Type   `json:"type"`
	// Go is absent if Go has no type for the value and keeps it as JSON.
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

// A Type describes a set of values. Its kind determines which other members are set.
type Type struct {
	Kind string `json:"kind"`
	// Nullable reports whether null is also a value.
	Nullable bool `json:"nullable,omitempty"`

	// Ref is the name of the definition that the ref refers to.
	Ref string `json:"ref,omitempty"`
	// Reason says why the type is any. Known lists types that apply to values of the same JSON type. For example, a
	// schema may describe objects and also allow other values.
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
	// Base is the type of the values of an enum: string, number, boolean or json. Values lists the known ones. An enum
	// is open: a later version of a server may send others.
	Base   string  `json:"base,omitempty"`
	Values []Value `json:"values,omitempty"`
	// AnyOther reports whether the schema also allows values of the base that the enum does not list.
	AnyOther bool `json:"anyOther,omitempty"`

	// Items are the elements of an array or the values of a map.
	Items *Type `json:"items,omitempty"`
	// Elements holds the first elements of a tuple, and Rest the type of further elements; absent means none are
	// allowed.
	Elements []Type      `json:"elements,omitempty"`
	Rest     *Type       `json:"rest,omitempty"`
	MinItems json.Number `json:"minItems,omitempty"`
	MaxItems json.Number `json:"maxItems,omitempty"`
	// UniqueItems reports whether the elements of an array or tuple must differ.
	UniqueItems bool `json:"uniqueItems,omitempty"`

	// Members holds the named members of an object. Extra is the type of all other members; absent if the schema does
	// not mention them or forbids them.
	Members []Member `json:"members,omitempty"`
	Extra   *Type    `json:"extra,omitempty"`
	// Patterns describes members without a name by the pattern of their names, if the schema does. Extra and Items
	// cover all of those members.
	Patterns []Pattern `json:"patterns,omitempty"`
	// Choices holds the oneOf and anyOf of an object. At least one variant of each choice applies. A variant is an
	// object with the members that it describes.
	Choices []Choice `json:"choices,omitempty"`
	// MinProperties and MaxProperties limit the number of members of an object or a map.
	MinProperties json.Number `json:"minProperties,omitempty"`
	MaxProperties json.Number `json:"maxProperties,omitempty"`

	// Variants holds the alternatives of a union. Discriminator is the member whose value selects the variant; absent
	// if the variants differ only in form.
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
	// Go is absent if the Go struct has no field for the member.
	Go  *GoMember `json:"go,omitempty"`
	Pos string    `json:"pos"`
}

// A Pattern describes the members whose names match it.
type Pattern struct {
	// Pattern is a regular expression, absent for members that match none of the others.
	Pattern string `json:"pattern,omitempty"`
	Type    Type   `json:"type"`
}

// A Choice is a oneOf or anyOf.
type Choice struct {
	Variants []Variant `json:"variants"`
}

// A Value is one value of an enum.
type Value struct {
	Value       json.RawMessage `json:"value"`
	Description string          `json:"description,omitempty"`
	// Go is the name of the constant, absent if the enum has no Go type.
	Go string `json:"go,omitempty"`
}

// A Variant is one alternative of a union.
type Variant struct {
	// Tags holds the discriminator values that select this variant.
	Tags []json.RawMessage `json:"tags,omitempty"`
	// Title is the schema's name for the variant: the last element of its $ref, or its title.
	Title string `json:"title,omitempty"`
	// Has is a member that only this variant has, if it tells the variant from other objects.
	Has  string `json:"has,omitempty"`
	Type Type   `json:"type"`
	// Go is the Go type that holds the variant, absent if it is the type of Type itself.
	Go string `json:"go,omitempty"`
}

// GoNames holds the prefix of the Go names of an event type or a task.
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
	// OrUnknown is the type that also holds variants with unknown tags. It is absent unless the type is a tagged union.
	OrUnknown string `json:"orUnknown,omitempty"`
}
