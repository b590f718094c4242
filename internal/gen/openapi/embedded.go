package openapi

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Schema converts an OpenAPI schema in a document of another format to JSON Schema. The diagnostics report changes in
// meaning. version is the OpenAPI version, such as 3.0.3. It does not change references.
func Schema(n *source.Node, version string) (*source.Node, []source.Diagnostic, error) {
	r := &reader{doc: n, top: n, isEmbedded: true, allowsSiblings: !strings.HasPrefix(version, "3.0")}
	out, err := r.convertSchema(n)
	return out, r.found, err
}
