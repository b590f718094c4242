// Package ir is the typed model between event files and Go code: which Go type each schema has,
// what every identifier is called, and what is published of each event.
//
// Start with [Build]; the result is a [Package] whose declarations only need to be printed. All
// naming happens here: [GoName] is the rule, and each package scope, struct and enum declares its
// names once, so that two equal ones are reported with both places. A name depends on nothing
// outside its own event or schema.
//
// The package makes no promise of compatibility.
package ir
