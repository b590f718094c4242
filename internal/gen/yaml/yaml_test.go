package yaml

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// What is written as YAML is read back as the JSON that it was made of, digit by digit.
func TestYAMLIsReadBackEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"top": drawValue(t, 4)})
		if err != nil {
			t.Fatal(err)
		}
		want, found := source.Parse("want", raw)
		if source.HasErrors(found) {
			t.Skip("not for an event file: ", found[0])
		}
		text := Block(want, 0)
		got, found := source.Parse("got", []byte(text))
		if len(found) > 0 {
			t.Fatalf("%v in\n%s", found, text)
		}
		if string(got.JSON()) != string(want.JSON()) {
			t.Fatalf("read back as\n%s\nnot\n%s\nfrom\n%s", got.JSON(), want.JSON(), text)
		}
	})
}

func drawValue(t *rapid.T, depth int) any {
	kinds := []string{"text", "word", "number", "bool", "null"}
	if depth > 0 {
		kinds = append(kinds, "object", "array", "object", "array")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return rapid.String().Draw(t, "text")
	case "word":
		return rapid.SampledFrom([]string{"", " ", "true", "Null", "~", "0x10", "1e3", "-", "- a", "a: b", "a #b", "a:", "#", "'", "it's", `"`, "a\nb", "a\nb\n",
			"a\n\nb\n\n", "\n a", " a\nb", "a\n b", "\ta\n\tb", "a\r\nb", "a\n \nb", "[a]", "{a}", "a, b", "!tag", "&anchor", "*alias", "%", "@", "`", "|", ">", "? a", "2027-03-01",
			"=", "<<", "---", "...", "---\na", "a\n---\nb", "a\n...\n", "\u0085", "\u2028", "\ufeff", "\u202e", "\U0001F600", "é: ü", "…", "$ref", ".inf", "1_000", "a\\b", "\x7f"}).Draw(t, "word")
	case "number":
		return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number"))
	case "bool":
		return rapid.Bool().Draw(t, "bool")
	case "object":
		m := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			key, _ := drawValue(t, 0).(string)
			m[key] = drawValue(t, depth-1)
		}
		return m
	case "array":
		a := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			a = append(a, drawValue(t, depth-1))
		}
		return a
	}
	return nil
}
