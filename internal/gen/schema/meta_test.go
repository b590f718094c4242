package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// The generator merges the vocabularies of 2020-12. It must find every fault that the published metaschema finds.
func TestMergedVocabularies(t *testing.T) {
	meta, err := jsonschema.NewCompiler().Compile(schematree.Draft2020.URI)
	if err != nil {
		t.Fatal(err)
	}
	for _, keyword := range schematree.Draft2020.Keywords() {
		for _, text := range []string{`null`, `true`, `-1`, `"s p"`, `[]`, `[1]`, `["a", "a"]`, `{}`, `{"a": 1}`, `{"a": {"type": 1}}`, `{"type": 1}`} {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			want := meta.Validate(map[string]any{keyword: value})
			file := fmt.Sprintf("version: 1\nschemas:\n  T: {%q: %s}\nevents: []\n", keyword, text)
			if _, found := schema.Load([]string{"f.yaml"}, memory(map[string]string{"f.yaml": file})); want != nil && len(found) == 0 {
				t.Errorf("%s: %s has no finding; the metaschema says %v", keyword, text, want)
			}
		}
	}
}

// A validation visits a schema once, not once for each vocabulary: with seven visits, an event costs about 1,290 objects.
func TestObjectsPerEvent(t *testing.T) {
	const events = 200
	o := memory(map[string]string{"f.yaml": manyEvents(events)})
	if n := testing.AllocsPerRun(3, func() { schema.Load([]string{"f.yaml"}, o) }) / events; n > 1100 {
		t.Errorf("an event costs %.0f objects", n)
	}
}
