// Package importer writes event files for the event types of a live server or a document. Packages asyncapi, openapi
// and schemadir read documents.
//
// Start with [Write]. It does not change the schemas that a server publishes. A server generated from the file
// therefore publishes equal descriptors, and a client generated from it does not detect drift. Definitions that the
// server copied into several schemas become one shared schema. Write omits event types that the generator does not
// support, and reports why in a diagnostic.
package importer
