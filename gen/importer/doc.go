// Package importer writes event files for event types that exist already: those of a live server, or
// those that a document describes (packages asyncapi, openapi and schemadir read these).
//
// Start with [Write]. The schemas of a server stay as they are published, so that a server generated
// from the file advertises equal descriptors and a client generated from it finds no drift; definitions
// that it copied into several of them become one shared schema again. What the generator could not use is
// left out of the file, with a diagnostic that says why.
//
// The package makes no promise of compatibility.
package importer
