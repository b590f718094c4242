// Package importer writes event files for event types that exist already: those of a live server,
// or those that an AsyncAPI document describes (package asyncapi reads that).
//
// Start with [Write]. The schemas stay as they are published, definitions in their own $defs
// included, so that a server generated from the file advertises equal descriptors and a client
// generated from it finds no drift. What the generator could not use is left out of the file, with
// a diagnostic that says why.
//
// The package makes no promise of compatibility.
package importer
