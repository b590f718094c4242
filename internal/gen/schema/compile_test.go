package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
)

// compiles checks that a published schema stands by itself.
func compiles(t *testing.T, s json.RawMessage) *jsonschema.Schema {
	t.Helper()
	c, err := compile(s)
	if err != nil {
		t.Errorf("published schema does not compile: %v\n%s", err, s)
	}
	return c
}

func compile(s json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) { return pattern.Compile(p) })
	c.UseLoader(offline{})
	if err := c.AddResource("mem:///published", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:///published")
}

type offline struct{}

func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s leads out of the document", url)
}
