package typescript_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// The comment about rounding stands at values with such a number alone, whatever their texts contain.
func TestRoundedNumbers(t *testing.T) {
	for value, want := range map[string]bool{
		`"phone_number"`: false, `["number", 1]`: false, `{"number": 0.1}`: false, `9007199254740991`: false, `"12345678901234567890"`: false,
		`12345678901234567890`: true, `["number", -9007199254740993]`: true, `{"n": [1e400]}`: true,
	} {
		for _, of := range []model.Type{
			{Kind: model.Const, Value: json.RawMessage(value)},
			{Kind: model.Enum, Base: "json", Values: []model.Value{{Value: json.RawMessage(value)}, {Value: json.RawMessage("true")}}},
		} {
			p := &model.Package{Name: "p", Types: []model.Definition{{Name: "T", Role: "a value", Type: of}}}
			typescript.Name(p)
			out, err := typescript.Emit(plugin.Request{Version: model.Version, Packages: []*model.Package{p}})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(out.Files[0].Text, "JavaScript rounds it"); got != want {
				t.Errorf("%s %s: the comment about rounding is there: %t, want %t", of.Kind, value, got, want)
			}
		}
	}
}
