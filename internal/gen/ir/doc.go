// Package ir provides the typed model between event files and Go code. The model contains the Go type of each schema,
// the name of every identifier and the published schemas of each event.
//
// Start with [Build]. [Build] returns a [Package] of declarations that are ready to print. [Package.Describe] returns
// the model for other languages. A shape is the decision about the values of a schema, and the Go type and the
// description derive from it. Each kind of value has a file with its shape, Go type and description.
//
// This package chooses all names. [GoName] implements the naming rule. Each package, struct and enum has a scope of
// unique names, and diagnostics about collisions contain both positions. Except for helper types, a name depends only on
// its event or schema.
package ir
