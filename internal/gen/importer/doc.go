// Package importer writes event files for existing event types of a live server or a document (packages asyncapi,
// openapi and schemadir read documents).
//
// Start with [Write]. It keeps the published schemas of a server unchanged. A server generated from the file
// therefore advertises equal descriptors, and a client generated from it finds no drift. Definitions that the server
// copied into several schemas become one shared schema. Write omits event types that the generator cannot use, with a
// diagnostic that gives the reason.
package importer
