// Package schema loads event files. It checks them against the rules of the format and of JSON Schema. It also resolves
// $ref within and across files, and returns the published form of a schema.
//
// Start with [Load]. If it does not report an error diagnostic, every $ref in the set can be resolved, every schema is
// valid in its dialect, and every x-match refers to an existing payload value.
package schema
