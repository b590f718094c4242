// Package importer writes event files for the event types of a live server or a document. Packages asyncapi, openapi
// and schemadir read documents.
//
// Start with [Write]. It keeps the published schemas of a server unchanged. A server generated from the file therefore
// publishes equal descriptors, and a client generated from it detects no drift. Definitions that the server copied into
// several schemas become one shared schema. Write omits event types that the generator cannot use, and reports the
// reason in a diagnostic.
package importer
