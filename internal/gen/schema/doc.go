// Package schema loads event files. It reads them, checks them against the rules of the format and of JSON Schema,
// resolves $ref within and across files, and writes the published form of a schema.
//
// Start with [Load]. A set that it returns without an error diagnostic is well formed: every $ref resolves, every
// schema is valid in its dialect, and every x-match connects an argument to an existing place.
package schema
