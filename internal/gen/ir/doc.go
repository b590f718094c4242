// Package ir is the typed model between event files and Go code. It holds the Go type of each schema, the name of
// every identifier and the published parts of each event.
//
// Start with [Build]. It returns a [Package] whose declarations only need to be printed. This package chooses all
// names. [GoName] is the rule, and each package scope, struct and enum declares its names once, so that collisions
// are reported with both places. A name depends only on its event or schema, except for names of helpers, which yield
// to others.
package ir
