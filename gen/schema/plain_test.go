package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// plainSamples are values of every form that a keyword may ask for, and of forms that come near.
var plainSamples = []string{
	`true`, `false`, `null`, `0`, `7`, `-1`, `1.5`, `1e2`, `2.0`, `""`, `"string"`, `"integer"`, `"text"`, `"("`, `[]`, `["a"]`, `["a","a"]`, `[1]`, `["string"]`,
	`["string","null"]`, `["string","string"]`, `["a","b"]`, `["a",null]`, `[null,null]`, `[1,1.0]`, `["",null]`, `[{}]`, `[true]`, `[null]`, `{}`, `{"a":true}`, `{"a":{}}`, `{"a":1}`, `{"a":["b"]}`, `{"a":["b","b"]}`,
	`{"(":{}}`, `{"type":"string"}`, `{"type":"text"}`, `"#"`, `"#/$defs/A"`, `"#/$defs/a~1b"`, `"$a"`, `"~a"`, `".."`, `"-:"`, `"#/definitions/A"`, `"a.json#/x"`, `"//"`, `"//a_b"`, `"/x"`, `"%zz"`, `"#a#b"`, `"a:b"`, `"http://[x"`,
	`"https://json-schema.org/draft/2020-12/schema"`, `{"propertyName":"a"}`,
}

func parsePlain(t *testing.T, text string) *source.Node {
	t.Helper()
	n, found := source.Parse("schema", []byte(text))
	if n == nil || source.HasErrors(found) {
		t.Fatal(text, found)
	}
	return n
}

// checkPlain holds plain against the metaschema and returns what both say.
func checkPlain(t *testing.T, d *dialect, n *source.Node) (plain, valid bool) {
	t.Helper()
	meta, err := metaschemas[d]()
	if err != nil {
		t.Fatal(err)
	}
	err = meta.Validate(n.Value())
	if plain = d.plain(n); plain && err != nil {
		t.Errorf("%s: %s is plain, and its metaschema says %v", d.name, n.JSON(), err)
	}
	return plain, err == nil
}

// What is plain is valid by the metaschema: each keyword that it or the dialect knows, with each sample.
func TestPlainIsValid(t *testing.T) {
	for _, d := range []*dialect{draft2020, draft07} {
		meta, err := metaschemas[d]()
		if err != nil {
			t.Fatal(err)
		}
		keywords := slices.Concat(d.names, []string{"unheard-of", "x-other", "$unheard-of", "$recursiveRef", "$recursiveAnchor"})
		for k := range meta.Properties {
			keywords = append(keywords, k)
		}
		for _, part := range meta.AllOf { // of 2020-12: its vocabularies
			for k := range part.Ref.Properties {
				keywords = append(keywords, k)
			}
		}
		count := map[bool]int{}
		for _, k := range keywords {
			for _, sample := range plainSamples {
				for _, form := range []string{`{%q:%s}`, `{"properties":{"p":{%q:%s}}}`, `{"allOf":[{%q:%s}],"title":"t"}`} {
					plain, valid := checkPlain(t, d, parsePlain(t, fmt.Sprintf(form, k, sample)))
					if valid {
						count[plain]++
					}
				}
			}
		}
		if count[true] < count[false] {
			t.Errorf("%s: of what is valid %d are plain and %d are not", d.name, count[true], count[false])
		}
	}
}

// The same holds of schemas put together at random.
func TestPlainIsValidAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []*dialect{draft2020, draft07} {
		names := slices.Sorted(slices.Values(d.names))
		var schema func(depth int) string
		schema = func(depth int) string {
			var members []string
			for range r.IntN(4) {
				k := names[r.IntN(len(names))]
				v := plainSamples[r.IntN(len(plainSamples))]
				if depth > 0 && r.IntN(2) == 0 {
					switch d.keywords[k].shape {
					case schemaMap, schemaOrNames:
						v = `{"m":` + schema(depth-1) + `}`
					case schemaList:
						v = `[` + schema(depth-1) + `]`
					case oneSchema, schemaOrList:
						v = schema(depth - 1)
					}
				}
				if !slices.ContainsFunc(members, func(m string) bool { return strings.HasPrefix(m, fmt.Sprintf("%q:", k)) }) {
					members = append(members, fmt.Sprintf("%q:%s", k, v))
				}
			}
			return `{` + strings.Join(members, ",") + `}`
		}
		plain := 0
		for range 20_000 {
			if is, _ := checkPlain(t, d, parsePlain(t, schema(3))); is {
				plain++
			}
		}
		if plain < 1000 {
			t.Errorf("%s: only %d of the schemas were plain", d.name, plain)
		}
	}
}

// The JSON Schema suite and GitHub's schemas, and most of them are plain.
func TestPlainOfSuites(t *testing.T) {
	for d, dir := range map[*dialect]string{draft2020: "draft2020-12", draft07: "draft7"} {
		files, err := filepath.Glob("../testdata/json-schema-suite/tests/" + dir + "/*.json")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		count := map[bool]int{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var cases []struct{ Schema json.RawMessage }
			if err := json.Unmarshal(text, &cases); err != nil {
				t.Fatal(file, err)
			}
			for _, c := range cases {
				plain, _ := checkPlain(t, d, parsePlain(t, string(c.Schema)))
				count[plain]++
			}
		}
		if count[true] < count[false] {
			t.Errorf("%s: of the suite's schemas %d are plain and %d are not", d.name, count[true], count[false])
		}
	}
	text, err := os.ReadFile("../provider/github/webhooks.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	n := parsePlain(t, string(text))
	plain := 0
	definitions := n.Get("definitions").Members
	for _, m := range definitions {
		if is, _ := checkPlain(t, draft07, m.Value); is {
			plain++
		}
	}
	if plain < len(definitions)*9/10 {
		t.Errorf("of GitHub's %d definitions only %d are plain", len(definitions), plain)
	}
}
