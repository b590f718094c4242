package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// The generator takes the patterns that the runtime takes, and no others, wherever one may stand.
func TestPatternsAsTheRuntime(t *testing.T) {
	for _, p := range []string{`^[a-z]+$`, `^(?!x)\p{Lu}`, `(?<=a)b`, `^\u{1F600}$`, `(?=x)\u{110000}`, `(?'n'a)(?=x)\k'n'`,
		`(`, `[`, `*`, `(?=x)\p{Letter}`, `(?=x)a{2,1}`, `\c`} {
		text, _ := json.Marshal(p)
		for _, s := range []string{fmt.Sprintf(`{"pattern":%s}`, text), fmt.Sprintf(`{"patternProperties":{%s:{}}}`, text)} {
			_, err := validate.Compile(json.RawMessage(s))
			_, found := schema.Load([]string{"a.yaml"}, memory(map[string]string{"a.yaml": `{"version":1,"schemas":{"S":` + s + `}}`}))
			if (err == nil) != (len(found) == 0) {
				t.Errorf("%s: the runtime says %v, the generator %v", s, err, found)
			}
		}
	}
}
