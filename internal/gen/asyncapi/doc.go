// Package asyncapi converts between event files and AsyncAPI 3 documents.
//
// [Export] describes event types as channels that an application sends to, each with one message. AsyncAPI cannot
// express the arguments of a subscriber or the delivery of events. The channel extension x-mcp-event contains them, and
// [Read] restores them, so exporting and importing does not lose information. Read also accepts third-party documents.
//
// The package does not use the typed model, because a document contains the published JSON Schemas with the author's
// definition names. The typed model has Go names.
package asyncapi
