package schema

import (
	"cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Set contains the event files that a call of [Load] has read.
type Set struct {
	// Files lists every file once. It starts with the given files, followed by files reached by $ref in the order of
	// discovery.
	Files []*File
	// Applied lists the overrides that changed a value, in the order of application.
	Applied []Applied
	// Formats contains the values that the keyword format has in the schemas.
	Formats map[string]bool

	// refs lists the mappings of URL prefixes to files, with the longest prefixes first.
	refs []mapping
	// places maps schema nodes to their places.
	places map[*source.Node]*place
	// files maps absolute paths to files, including unreadable files.
	files map[string]*openedFile
	// kinds caches the results of kindsOf.
	kinds map[*source.Node]kinds
	// published caches the published schemas.
	published *publications
}

// A File is an event file.
type File struct {
	// Path is the path that the user specified. For a file reached by $ref, it is the path in the $ref, joined to the
	// directory of the referring file.
	Path string
	// Stem is the base name of the generated file. It is the file name without extension, with directory names as a
	// prefix if several files have the same name.
	Stem string
	// Given reports whether the user specified the file. It is false for a file reached only by $ref.
	Given bool
	// Document reports whether the file is a plain JSON Schema. Such a file is reached only by $ref and has a single
	// entry, named after the file.
	Document bool
	Root     *source.Node
	// Package is the Go package that the file declares, or empty.
	Package string
	Schemas []*Entry
	Events  []*Event
	Tasks   []*Task
	// Conversation is nil if the file has no conversation.
	Conversation *Conversation

	named map[string]*Entry
	// faults lists the faults of the file's form.
	faults []source.Diagnostic
	// dialect is the dialect that the file declares for its schemas, or nil.
	dialect *schematree.Dialect
}

// An Entry is an entry in the schemas section of a file.
type Entry struct {
	Name      string
	File      *File
	Node      *source.Node
	NameRange source.Range
}

// An Event is an event type in the events section of a file.
type Event struct {
	File              *File
	Node              *source.Node
	Name, Description string
	NameRange         source.Range
	// Delivery lists the supported delivery modes. Empty means all modes.
	Delivery []string
	// Source is "emit", "check" or "both".
	Source string
	Replay bool
	// Stability is "stable" or "experimental".
	Stability string
	// Deprecated is nil if the event is not deprecated.
	Deprecated *Deprecated
	// MCPE is nil if the file has no settings for it.
	MCPE           *MCPE
	Input, Payload *source.Node
	// Meta is the _meta of the event, or nil if absent.
	Meta  *source.Node
	Match []MatchRule
	// Actor is the value of x-actor, or empty if absent. It is a JSON Pointer to the actor's name in the payload, with
	// the same syntax as MatchRule.Path. If it is set, the input schema contains the argument [wire.NotBy].
	Actor string
	// notBy is the x-match of the argument [wire.NotBy].
	notBy *source.Node
	// Private describes the payload members with x-private, or is nil.
	Private published.Private
	// Coalesce is the checked x-coalesce, or nil if absent. Its paths lead to scalars in the payload schema.
	Coalesce *wire.Coalesce
	// From describes how webhooks become events of this type. It is nil if the event has no `from:`.
	From *From
	// GoName is the value of x-go-name. Tool has those of x-tool-name and x-tool-args. Each is empty if absent.
	GoName string
	Tool   toolschema.Names
}

// ToolNames returns the names of the event's read tool, with the default for each that the author does not choose.
func (e *Event) ToolNames() toolschema.Names {
	return toolschema.Names{Name: cmp.Or(e.Tool.Name, toolschema.Name(e.Name)), ArgumentNames: e.Tool.ArgumentNames.WithDefaults()}
}

// Deprecated names the replacement of an event and the date of its removal.
type Deprecated struct {
	// ReplacedBy is an event name. RemoveAfter is a date, such as 2027-03-01. Each may be empty.
	ReplacedBy, RemoveAfter string
}

// MCPE contains the settings that an event has for the MCPE protocol.
type MCPE struct {
	Enabled  bool
	Priority string
	Tags     []string
}

// A MatchRule is a checked x-match. The input schema describes Argument, the payload schema describes the value at
// Path, and Op can compare their types.
type MatchRule struct {
	// Argument is the name of an argument. Path is a JSON Pointer into the payload, in which * matches every element of
	// an array.
	Argument, Path string
	// Op is equal, in, glob, prefix, lt, lte, gt, gte, min or max; Not negates it.
	Op    string
	Not   bool `json:",omitempty"` // checksums of exported documents cover the JSON of rules
	Range source.Range
}

// Words returns the operator for use in messages. If Not is set, the result is, for example, "not in".
func (m MatchRule) Words() string {
	if m.Not {
		return "not " + m.Op
	}
	return m.Op
}

// A From is the checked `from:` of an event. The payload schema describes its targets. If the bodies of the service are
// known, they contain its sources.
type From struct {
	// Provider is the name of the service in package provider. Event and Action filter its webhooks. An empty filter
	// matches any value.
	Provider, Event, Action string
	// ID is a JSON Pointer or header name that locates the delivery ID. It is used for services without a standard
	// location.
	ID string
	// Fields is nil if the whole body becomes the payload.
	Fields []FromField
	Range  source.Range
}

// A FromField copies a member of the webhook body to a member of the payload.
type FromField struct {
	// Target is a JSON Pointer into the payload, and Source is a JSON Pointer into the body. In both, * matches every
	// element of an array.
	Target, Source string
	// Nullable reports whether the payload allows null at Target.
	Nullable bool
}

// Options configures how [Load] reads files.
type Options struct {
	// ReadFile reads a file; nil means [source.ReadFile].
	ReadFile func(string) ([]byte, error)
	// Refs maps URL prefixes of remote schemas to local paths. A prefix that ends in a slash is mapped to a directory.
	Refs map[string]string
	// Formats lists custom formats with a Go type. Load does not report them as misspelled.
	Formats []string
	// Dialect is the default dialect for schemas: a name from [Dialects] or a $schema URI. Empty means 2020-12.
	Dialect string
	// Overrides lists changes to apply to files when they are read; nil means none.
	Overrides *Overrides
}

// A Target is the schema that a $ref refers to.
type Target struct {
	// Node is the schema itself.
	Node *source.Node
	// isLocal reports whether the target is within the same schema. Such a reference is also valid in the published
	// schema.
	isLocal bool
}
