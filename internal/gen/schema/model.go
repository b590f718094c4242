package schema

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Set holds the event files of one run.
type Set struct {
	// Files holds every file once: first the given files in their order, then files reached by $ref in the order of
	// discovery.
	Files []*File
	// Applied lists the overrides that had an effect, in the order of application.
	Applied []Applied

	// refs holds the URL prefixes that stand for files, longest first.
	refs []mapping
	// places holds the schema root and resource of every schema node.
	places map[*source.Node]*place
	// files holds the files by absolute path, including unreadable ones.
	files map[string]*opened
	// kinds caches the JSON types that schemas allow.
	kinds map[*source.Node]kinds
	// published caches the published schemas.
	published *publications
}

// A File is one event file.
type File struct {
	// Path is the path that the user gave. For a file reached by $ref it is the path in the $ref, below the directory
	// of the referring file.
	Path string
	// Stem is the base name of the generated file: the file name without its extension. If several files of the set
	// have the same name, names of directories precede it.
	Stem string
	// Given is false for a file that was reached only by $ref.
	Given bool
	// Document is true for a file that is a plain JSON Schema. Such a file is reached only by $ref and has one entry
	// with the name of the file.
	Document bool
	Root     *source.Node
	// Package is the Go package that the file declares, empty if it declares none.
	Package string
	Schemas []*Entry
	Events  []*Event
	Tasks   []*Task
	// Conversation is nil if the file has no conversation.
	Conversation *Conversation

	named map[string]*Entry
	// dialect is the dialect of its schemas, nil if the file declares none.
	dialect *schematree.Dialect
}

// An Entry is one member of a file's schemas.
type Entry struct {
	Name      string
	File      *File
	Node      *source.Node
	NameRange source.Range
}

// An Event is one element of a file's events.
type Event struct {
	File              *File
	Node              *source.Node
	Name, Description string
	NameRange         source.Range
	// Delivery lists the allowed modes; empty means all.
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
	// Meta is the _meta of the event, nil if absent.
	Meta  *source.Node
	Match []MatchRule
	// Actor is x-actor, a JSON Pointer to the name of the actor in the form of MatchRule.Path; empty if absent. If it
	// is set, the input schema has the argument [wire.NotBy].
	Actor string
	// notBy is the x-match of that argument.
	notBy *source.Node
	// Coalesce is the checked x-coalesce, nil if absent. Its places exist in the payload schema and hold scalars.
	Coalesce *wire.Coalesce
	// From says which webhooks of a service become events, nil if none do.
	From *From
	// GoName is x-go-name and ToolName is x-tool-name. The others are the argument names from x-tool-args. Each is
	// empty if absent.
	GoName, ToolName, ToolCursor, ToolMaxEvents, ToolWait, ToolQuiet, ToolSince string
}

// Deprecated names the replacement of an event and the date of its removal.
type Deprecated struct {
	// ReplacedBy is an event name. RemoveAfter is a date such as 2027-03-01. Each may be empty.
	ReplacedBy, RemoveAfter string
}

// MCPE has the settings of an event for the MCPE protocol.
type MCPE struct {
	Enabled  bool
	Priority string
	Tags     []string
}

// A MatchRule is a checked x-match. Argument exists in the input schema, Path in the payload schema, and their types
// suit Op.
type MatchRule struct {
	// Argument is a member of the arguments. Path is a JSON Pointer into the payload, with * for every element of an
	// array.
	Argument, Path string
	// Op is equal, in, glob, prefix, lt, lte, gt, gte, min or max; Not negates it.
	Op    string
	Not   bool `json:",omitempty"` // checksums of exported documents cover the JSON of rules
	Range source.Range
}

// Words returns the operator for messages, such as "not in" if Not is set.
func (m MatchRule) Words() string {
	if m.Not {
		return "not " + m.Op
	}
	return m.Op
}

// A From is the checked `from:` of an event. Its targets exist in the payload schema, and its sources in the bodies
// of the service if the bodies are known.
type From struct {
	// Provider is the name of the service in package provider. Event and Action filter deliveries; empty means any.
	Provider, Event, Action string
	// ID is the place of the delivery ID for services without a standard place: a JSON Pointer or a header name.
	ID string
	// Fields is nil if the body is the payload.
	Fields []FromField
	Range  source.Range
}

// A FromField copies a member of the webhook body to a member of the payload.
type FromField struct {
	// Target is a JSON Pointer into the payload, and Source is one into the body. In both, * stands for each element
	// of an array.
	Target, Source string
	// Nullable reports whether the payload allows null there.
	Nullable bool
}

// Options configures how [Load] reads files.
type Options struct {
	// ReadFile reads a file; nil means [source.ReadFile].
	ReadFile func(string) ([]byte, error)
	// Refs maps URL prefixes of remote schemas to local paths. A prefix that ends in a slash stands for a directory.
	Refs map[string]string
	// Formats lists the author's own formats, which have a Go type. Load does not report them as misspelled.
	Formats []string
	// Dialect is the dialect of schemas that do not declare one: a name from [Dialects] or a URI as in $schema. Empty
	// means 2020-12.
	Dialect string
	// Overrides change the files as they are read; nil means none.
	Overrides *Overrides
}

// A Target is the schema that a $ref refers to.
type Target struct {
	// Node is the schema itself.
	Node *source.Node
	// Entry is set if the reference names an entry of a file.
	Entry *Entry
	// local reports whether the reference stays within its schema. Such a reference means the same wherever the schema
	// is published.
	local bool
}
