package schema

import (
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Set is the event files of one run.
type Set struct {
	// Files holds every file once: the given ones in the given order, then those reached by $ref in
	// the order they were met.
	Files []*File
	// Applied are the overrides that had an effect, in the order in which they were made.
	Applied []Applied

	// refs are the beginnings of URLs that files stand for, longest first.
	refs []mapping
	// places knows the schema root and resource of every schema node.
	places map[*source.Node]*place
	// files holds the files by absolute path; read is false for those that could not be.
	files map[string]*opened
	// kinds remembers the JSON types that schemas allow.
	kinds map[*source.Node]kinds
	// published is what has been published of the schemas.
	published *publications
}

// A File is one event file.
type File struct {
	// Path is the path as the user gave it, or as the $ref that reached the file spells it below the
	// directory of the referring file.
	Path string
	// Stem names the generated file: the base name without its extension, behind the names of
	// directories where several files of the set have the same.
	Stem string
	// Given is false for a file that only a $ref reached.
	Given bool
	// Document is true for a file that is one plain JSON Schema, which only a $ref reaches. It has
	// one entry, named after the file.
	Document bool
	Root     *source.Node
	// Package is the Go package that the file asks for, empty when it does not.
	Package string
	Schemas []*Entry
	Events  []*Event
	Tasks   []*Task
	// Conversation is nil when the file has none.
	Conversation *Conversation

	named map[string]*Entry
	// dialect is that of its schemas, nil when the file does not say.
	dialect *dialect
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
	// Delivery holds the modes that the author restricts the type to; empty means no restriction.
	Delivery []string
	// Source is "emit", "check" or "both".
	Source string
	Replay bool
	// Stability is "stable" or "experimental".
	Stability string
	// Deprecated is nil when the event is not.
	Deprecated *Deprecated
	// MCPE is nil when the author says nothing about it.
	MCPE           *MCPE
	Input, Payload *source.Node
	// Meta is the event's _meta, nil when there is none.
	Meta  *source.Node
	Match []MatchRule
	// Coalesce is x-coalesce, checked: its places exist in the payload schema and hold scalars. It is nil when not given.
	Coalesce *wire.Coalesce
	// From says which webhooks of a service become occurrences, nil when none do.
	From *From
	// GoName is x-go-name, ToolName x-tool-name; the others are the argument names of x-tool-args. Each is empty when
	// not given.
	GoName, ToolName, ToolCursor, ToolMaxEvents, ToolWait, ToolQuiet, ToolSince string
}

// Deprecated says by what and when an event goes away.
type Deprecated struct {
	// ReplacedBy is an event name, RemoveAfter a date as in 2027-03-01; each may be empty.
	ReplacedBy, RemoveAfter string
}

// MCPE has the settings of an event for the MCPE protocol.
type MCPE struct {
	Enabled  bool
	Priority string
	Tags     []string
}

// A MatchRule is one x-match, checked: Argument exists in the input schema, Path in the payload
// schema, and their types fit Op.
type MatchRule struct {
	// Argument is a member of the arguments, Path a JSON Pointer into the payload.
	Argument, Path string
	// Op is equal, in, glob, prefix, min or max.
	Op    string
	Range source.Range
}

// A From is the `from:` of an event, checked: targets exist in the payload schema, and sources in the bodies of
// the service where those are known.
type From struct {
	// Provider is the service, as package provider names it. Event and Action are what a delivery must have, each
	// empty for any.
	Provider, Event, Action string
	// ID is where the id of a delivery is, for services that do not say: a JSON Pointer or the name of a header.
	ID string
	// Fields is nil when the body itself is the payload.
	Fields []FromField
	Range  source.Range
}

// A FromField takes one member of the payload from the body of a webhook.
type FromField struct {
	// Target is a JSON Pointer into the payload, Source one into the body, in which * is each element of an array.
	Target, Source string
	// Nullable says that the payload may be null there.
	Nullable bool
}

// Options tells [Load] how to reach files.
type Options struct {
	// ReadFile reads a file; nil means [source.ReadFile].
	ReadFile func(string) ([]byte, error)
	// Refs says which files stand for remote schemas: the beginning of a URL to the path that takes
	// its place. A beginning that ends in a slash stands for a directory.
	Refs map[string]string
	// Formats are formats of the author's own, which have a Go type: they are not misspelt.
	Formats []string
	// Dialect is that of schemas for which nothing else says one: a name of [Dialects] or a URI as in
	// $schema. Empty means 2020-12.
	Dialect string
	// Overrides change the files as they are read; nil means none.
	Overrides *Overrides
}

// A Target is what a $ref points at.
type Target struct {
	// Node is the schema itself.
	Node *source.Node
	// Entry is set when the reference names exactly an entry of a file's schemas.
	Entry *Entry
	// local tells that the reference is one of JSON Schema's own: it stays within its schema and
	// means the same wherever that is published.
	local bool
}
