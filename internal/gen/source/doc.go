// Package source parses event files and configuration files into trees of nodes with positions, and defines the
// diagnostics for these positions.
//
// Start with [Parse], which reads YAML (and therefore JSON) into a [Node]. Every later stage of the generator reports
// a [Diagnostic] with the [Range] of such a node. [Codes] lists all diagnostics of the generator, and [Write] prints
// diagnostics.
package source
