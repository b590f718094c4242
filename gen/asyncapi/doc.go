// Package asyncapi translates between event files and AsyncAPI 3 documents.
//
// [Export] describes event types as channels with one message each, which an application sends.
// AsyncAPI has no place for what a subscriber asks for and how events are delivered. The extension
// x-mcp-event of the channel has that, and [Read] restores it from there, so that an exported document is
// imported again without loss. Read also takes documents of others.
//
// It derives no types, and so does not read the model: a document holds the JSON Schemas as they are published,
// with the names that the author gave to definitions. Those of the model have the names of Go.
//
// The package makes no promise of compatibility.
package asyncapi
