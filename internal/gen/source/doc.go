// Package source parses event files and configuration files into trees of nodes with positions. It also defines the
// diagnostics of the generator.
//
// Start with [Parse], which reads YAML (and therefore JSON) into a [Node]. Later stages of the generator report a
// [Diagnostic] with the [Range] of a node. [Codes] lists all diagnostics of the generator, and [Write] prints
// diagnostics.
package source
