// Package schema loads event files. It checks them against the rules of the format and of JSON Schema. It also resolves
// $ref within and across files, and returns the published form of a schema.
//
// Start with [Load]. A set that it returns without an error diagnostic is well formed. Every $ref can be resolved,
// every schema is valid in its dialect, and every x-match refers to an existing payload value.
package schema
