package asyncapi

import (
	"regexp"
	"strings"
)

// dialectOf returns the $schema URI for a schemaFormat of JSON Schema. For other formats and formats without a version,
// it returns "".
func dialectOf(format string) string {
	m := versionedFormat.FindStringSubmatch(strings.ToLower(format))
	switch {
	case m == nil:
		return ""
	case len(m[1]) > 2:
		return "https://json-schema.org/draft/" + m[1] + "/schema"
	}
	return "http://json-schema.org/draft-" + m[1] + "/schema#"
}

// versionedFormat matches a schemaFormat of JSON Schema with a version, such as
// application/schema+json;version=draft-07.
var versionedFormat = regexp.MustCompile(`^application/schema\+(?:json|yaml);\s*version="?(?:draft[-/])?(20\d\d-\d\d|\d\d)"?$`)

// isJSONSchema reports whether a schemaFormat is JSON Schema or the AsyncAPI variant of it.
func isJSONSchema(format string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(format), ";")
	switch kind {
	case "application/vnd.aai.asyncapi", "application/vnd.aai.asyncapi+json", "application/vnd.aai.asyncapi+yaml", "application/schema+json", "application/schema+yaml":
		return true
	}
	return false
}

// openAPIVersion returns the OpenAPI version in a schemaFormat, or "" for other formats.
func openAPIVersion(format string) string {
	m := openAPIFormat.FindStringSubmatch(strings.ToLower(format))
	if m == nil {
		return ""
	}
	return m[1]
}

// openAPIFormat matches a schemaFormat for OpenAPI 3, such as application/vnd.oai.openapi+json;version=3.0.0.
var openAPIFormat = regexp.MustCompile(`^application/vnd\.oai\.openapi(?:\+json|\+yaml)?;\s*version="?(3(?:\.\d+)*)"?$`)
