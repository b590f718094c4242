// Package source turns event files and configuration files into trees of nodes that know where
// they were written, and carries the diagnostics that speak about those places.
//
// Start with [Parse], which reads YAML (and so JSON) into a [Node]; every later stage of the
// generator reports a [Diagnostic] whose [Range] comes from such a node. [Codes] lists all
// diagnostics that the generator knows, [Write] prints them.
//
// The package makes no promise of compatibility.
package source
