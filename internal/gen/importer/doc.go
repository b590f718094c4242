// Package importer writes event files for the event types of a live server or a document. Packages asyncapi, openapi
// and schemadir read documents.
//
// Start with [Write]. It does not change the schemas that a server publishes. A server generated from the file
// therefore publishes equal descriptors, and a client generated from it does not detect drift. Definitions that the
// server copied into several schemas become one shared schema. Write omits event types that the generator does not
// support, and reports why in a diagnostic.
//
// In third-party documents, Write also shares repeated objects, enumerations and unions; see [schema.IsShareable]. Two of
// them are equal if they have the same shape; see [schema.Shapes]. Sharing does not change which values are valid.
package importer
