package schematree_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Each reference is given to the function once, in the order of the text; other text, and a schema with an $id,
// stays byte for byte.
func TestCopy(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"several", `{"$ref":"a","properties":{"$ref":{"$ref":"b"},"x":{"items":[{"$ref":"c"},true]}},"$defs":{"D":{"not":{"$ref":"d"}}}}`,
			`{"$ref":"a!","properties":{"$ref":{"$ref":"b!"},"x":{"items":[{"$ref":"c!"},true]}},"$defs":{"D":{"not":{"$ref":"d!"}}}}`},
		{"data", `{"const":{"$ref":"a"},"enum":[{"$ref":"b"}],"default":[{"$ref":"c"}],"required":["$ref"],"x":{"$ref":"d"}}`,
			`{"const":{"$ref":"a"},"enum":[{"$ref":"b"}],"default":[{"$ref":"c"}],"required":["$ref"],"x":{"$ref":"d!"}}`},
		{"a resource, whose $id may come last", `{"allOf":[{"items":{"$ref":"a"},"$id":"i"},{"$ref":"b"}]}`, `{"allOf":[{"items":{"$ref":"a"},"$id":"i"},{"$ref":"b!"}]}`},
		{"a mapping", `{"discriminator":{"propertyName":"$ref","mapping":{"x":"#a","n":"name","y":1}},"properties":{"discriminator":{"mapping":{"z":"b"}}}}`,
			`{"discriminator":{"propertyName":"$ref","mapping":{"x":"#a!","n":"name","y":1}},"properties":{"discriminator":{"mapping":{"z":"b"}}}}`},
		{"names of draft-07 beside schemas", `{"dependencies":{"a":["$ref"],"b":{"$ref":"b"}}}`, `{"dependencies":{"a":["$ref"],"b":{"$ref":"b!"}}}`},
		{"escapes", `{"\u0024ref":"\u0061\n","title":"\u00e9"}`, `{"\u0024ref":"a\n!","title":"\u00e9"}`},
		{"no string", `{"$ref":null,"items":{"$ref":["a"]}}`, `{"$ref":null,"items":{"$ref":["a"]}}`},
		{"a reference that stays", `{"items":{"$ref":"\u0073tay"}}`, `{"items":{"$ref":"\u0073tay"}}`},
		{"a name twice", `{"items":{"$ref":"a"},"items":{"$ref":"b"}}`, `{"items":{"$ref":"a!"},"items":{"$ref":"b!"}}`},
		{"a list", `[{"$ref":"a"},"$ref"]`, `[{"$ref":"a!"},"$ref"]`},
		{"no JSON", `{"$ref":"a","items":`, `{"$ref":"a","items":`},
		{"nothing", ``, ``},
	} {
		got := schematree.Copy(json.RawMessage(c.in), func(ref string) string {
			if ref == "stay" {
				return ref
			}
			return ref + "!"
		})
		if string(got) != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
