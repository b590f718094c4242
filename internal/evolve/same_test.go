package evolve_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// differences lists the changes of any category between two schemas, as arguments or as payloads.
func differences(feature, old, new string) string {
	of := func(schema string) wire.Descriptor {
		d := wire.Descriptor{InputSchema: json.RawMessage(anything), PayloadSchema: json.RawMessage(anything)}
		if feature == evolve.InputSchema {
			d.InputSchema = json.RawMessage(schema)
		} else {
			d.PayloadSchema = json.RawMessage(schema)
		}
		return d
	}
	return found(evolve.Differences(of(old), of(new)))
}

// Schemas that say the same are equal below keywords that cannot be compared, whatever their definitions are named and
// whether they are written in place (EVOL-3).
func TestRenamedAndInlinedDefinitions(t *testing.T) {
	const leaf = `{"type":"object","properties":{"x":{"type":"string","minLength":1}}}`
	around := map[string]string{
		"oneOf":            `{"type":"object","properties":{"u":{"oneOf":[{"properties":{"a":%[1]s}},{"properties":{"b":%[1]s}}]}},"$defs":{%[2]s}}`,
		"not":              `{"type":"object","properties":{"u":{"not":{"properties":{"a":%[1]s}}}},"$defs":{%[2]s}}`,
		"contains":         `{"type":"object","properties":{"u":{"type":"array","contains":{"items":[%[1]s]}}},"$defs":{%[2]s}}`,
		"dependentSchemas": `{"type":"object","dependentSchemas":{"a":{"properties":{"b":%[1]s}}},"$defs":{%[2]s}}`,
	}
	for keyword, schema := range around {
		forms := []string{
			fmt.Sprintf(schema, `{"$ref":"#/$defs/Old"}`, `"Old":`+leaf),
			fmt.Sprintf(schema, `{"$ref":"#/$defs/New","description":"New."}`, `"New":`+leaf),
			fmt.Sprintf(schema, `{"$ref":"#/$defs/A"}`, `"A":{"$ref":"#/$defs/B"},"B":`+strings.Replace(leaf, `{"type":"string","minLength":1}`, `{"$ref":"#/$defs/C"}`, 1)+`,"C":{"minLength":1,"type":"string"}`),
			fmt.Sprintf(schema, leaf, ``),
		}
		for i, old := range forms {
			for k, new := range forms {
				for _, feature := range []string{evolve.InputSchema, evolve.PayloadSchema} {
					if got := differences(feature, old, new); got != "" {
						t.Errorf("%s of %s, from form %d to %d: %s", feature, keyword, i, k, got)
					}
				}
			}
		}
		other := fmt.Sprintf(schema, `{"$ref":"#/$defs/New"}`, `"New":`+strings.Replace(leaf, "1", "2", 1))
		if got := differences(evolve.InputSchema, forms[0], other); got == "" {
			t.Errorf("%s: a definition that was renamed and changed is found equal", keyword)
		}
	}
}

// A definition that leads to itself is the same under another name, and not the same if it leads elsewhere (EVOL-3).
func TestRenamedRecursion(t *testing.T) {
	const schema = `{"type":"object","properties":{"u":{"not":{"$ref":"#/$defs/%[1]s"}}},"$defs":{"%[1]s":{"properties":{"next":{"$ref":"#/$defs/%[2]s"},"v":{"type":"string"}}},"Z":{"properties":{"v":{"type":"string"}}}}}`
	list, renamed, flat := fmt.Sprintf(schema, "A", "A"), fmt.Sprintf(schema, "B", "B"), fmt.Sprintf(schema, "A", "Z")
	if got := differences(evolve.InputSchema, list, renamed); got != "" {
		t.Errorf("renamed: %s", got)
	}
	if got := differences(evolve.InputSchema, list, flat); got == "" {
		t.Error("a list of any length and one of two are found equal")
	}
}
