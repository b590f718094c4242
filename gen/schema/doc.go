// Package schema loads event files: it reads them, checks them against the rules of the format and
// of JSON Schema, resolves $ref within and across files, and says what is published of a schema.
//
// Start with [Load]. What it returns without an error diagnostic is well formed: every $ref
// resolves, every schema is valid in its dialect, every x-match ties an argument to an existing place.
//
// The package makes no promise of compatibility.
package schema
