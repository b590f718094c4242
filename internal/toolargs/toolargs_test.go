package toolargs_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/toolargs"
)

const schema = `{"type":"object","properties":{
	"list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"count":{"type":"integer"},"args":{"type":"object"}}}},
	"pair":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"boolean"}},
	"count":{"type":"integer","maximum":5},
	"ratio":{"type":"number"},
	"flag":{"type":"boolean"},
	"text":{"type":"string"},
	"textOrCount":{"type":["integer","string"]},
	"nullable":{"type":["integer","null"]},
	"ref":{"$ref":"#/$defs/Count"},
	"refs":{"$ref":"#/$defs/Both"},
	"one":{"const":1},
	"some":{"enum":[1,2,true]},
	"mixed":{"enum":[1,"2"]},
	"either":{"anyOf":[{"type":"integer"},{"type":"null"}]},
	"eitherText":{"oneOf":[{"type":"array"},{"type":"string","maxLength":9}]},
	"open":{"anyOf":[{"properties":{"n":{"type":"integer"}},"required":["n"]},{"properties":{"m":{}}}]},
	"closed":{"anyOf":[{"properties":{"n":{"type":"integer"}},"additionalProperties":false},{"properties":{"m":{}},"additionalProperties":false}]},
	"both":{"allOf":[{"type":["string","integer"]},{"type":["integer","array"]}]},
	"map":{"type":"object","patternProperties":{"^t_":{"type":"string"}},"additionalProperties":{"type":"integer"}},
	"tree":{"$ref":"#/$defs/Tree"},
	"circle":{"$ref":"#/$defs/Circle"},
	"elsewhere":{"$ref":"other.json"},
	"resource":{"$id":"https://example.com/r","$ref":"#/$defs/Count"},
	"any":{},
	"must":{"type":"integer"}
},"required":["must"],"$defs":{"Count":{"type":"integer"},"Both":{"anyOf":[{"$ref":"#/$defs/Count"},{"type":"boolean"}]},
	"Tree":{"type":"object","properties":{"size":{"type":"integer"},"below":{"type":"array","items":{"$ref":"#/$defs/Tree"}}}},"Circle":{"$ref":"#/$defs/Circle"}},
"additionalProperties":false}`

// HOST-1: text that encodes what the schema wants is decoded once, and null of an optional argument is absent. All else stays
// byte for byte.
func TestDecode(t *testing.T) {
	for in, want := range map[string]string{
		`{"list":"[{\"name\":\"1\",\"count\":1}]"}`:              `{"list":[{"count":1,"name":"1"}]}`,
		`{"list":[{"name":"1","count":"1","args":"{\"a\":1}"}]}`: `{"list":[{"args":{"a":1},"count":1,"name":"1"}]}`,
		`{"list":["{\"count\":1}"]}`:                             `{"list":[{"count":1}]}`,
		`{"list":"[{\"count\":\"1\"}]"}`:                         `{"list":[{"count":"1"}]}`, // once
		`{"pair":["1","1","true"]}`:                              `{"pair":[1,"1",true]}`,
		`{"count":"3"}`:                                          `{"count":3}`,
		`{"count":" 3.0\n"}`:                                     `{"count":3.0}`,
		`{"count":"9"}`:                                          `{"count":9}`, // validation names the maximum
		`{"count":"3.5","flag":"true"}`:                          `{"count":"3.5","flag":true}`,
		`{"ratio":"1e2"}`:                                        `{"ratio":1e2}`,
		`{"ref":"1","refs":"true"}`:                              `{"ref":1,"refs":true}`,
		`{"one":"1","some":"2"}`:                                 `{"one":1,"some":2}`,
		`{"either":"1","both":"1"}`:                              `{"both":1,"either":1}`,
		`{"closed":{"n":"1"}}`:                                   `{"closed":{"n":1}}`,
		`{"map":{"a":"1","t_a":"1"}}`:                            `{"map":{"a":1,"t_a":"1"}}`,
		`{"tree":{"below":[{"below":[{"size":"1"}]}]}}`:          `{"tree":{"below":[{"below":[{"size":1}]}]}}`,
		`"{\"count\":1}"`:                                        `{"count":1}`,
		`{"flag":"true","text":"<&>"}`:                           `{"flag":true,"text":"<&>"}`,
		`{"count":null,"text":null,"must":1}`:                    `{"must":1}`,

		`{"count":"three"}`: "", `{"count":""}`: "", `{"count":"null"}`: "", `{"count":"[1]"}`: "", `{"flag":"1"}`: "", `{"flag":"True"}`: "",
		`{"count":"1 2"}`: "", `{"list":"[1"}`: "", `{"list":"{\"a\":1,\"a\":2}"}`: "", `{"ratio":"1e9999"}`: "",
		`{"text":"1"}`: "", `{"text":"[]"}`: "", `{"textOrCount":"1"}`: "", `{"eitherText":"[]"}`: "", `{"mixed":"1"}`: "", `{"open":{"n":"1"}}`: "",
		`{"elsewhere":"1"}`: "", `{"resource":"1"}`: "", `{"circle":"1"}`: "", `{"any":"1"}`: "", `{"other":"1"}`: "",
		`{"nullable":null,"either":null,"any":null}`: "", `{"must":null}`: "", `{"other":null}`: "", `{"list":[{"count":null}]}`: "",
		`{"count":3}`: "", `{"text":"x"}`: "", `[]`: "", `null`: "", ``: "", `{`: "", `{"count":"1","count":"2"}`: "",
	} {
		if want == "" {
			want = in
		}
		if got := string(toolargs.Decode(json.RawMessage(schema), json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, none := range []any{nil, json.RawMessage(`{`), map[string]any{}, func() {}} {
		if got := string(toolargs.Decode(none, json.RawMessage(`{"a":"1","b":null}`))); got != `{"a":"1","b":null}` {
			t.Errorf("%v: %s", none, got)
		}
	}
	if got := string(toolargs.Decode(map[string]any{"properties": map[string]any{"a": map[string]any{"type": "integer"}}}, json.RawMessage(`{"a":"1"}`))); got != `{"a":1}` {
		t.Error(got)
	}
}

// A schema whose alternatives all describe the next level does not multiply the work with each level of the arguments.
func TestDecodeIsBounded(t *testing.T) {
	const branches = `{"properties":{"next":{"$ref":"#"},"n":{"type":"integer"}}}`
	doubling := `{"anyOf":[` + strings.Repeat(branches+",", 9) + branches + `]}`
	deep := strings.Repeat(`{"next":`, 200) + `{"n":"1"}` + strings.Repeat("}", 200)
	if got := string(toolargs.Decode(json.RawMessage(doubling), json.RawMessage(deep))); got != deep {
		t.Errorf("%.200s", got)
	}
	if got := string(toolargs.Decode(json.RawMessage(doubling), json.RawMessage(`{"next":{"n":"1"}}`))); got != `{"next":{"n":1}}` {
		t.Error(got)
	}
	many := `{"list":[` + strings.Repeat(`{"count":"1"},`, 500) + `{"count":"` + strconv.Itoa(2) + `"}]}`
	if got := string(toolargs.Decode(json.RawMessage(schema), json.RawMessage(many))); strings.Contains(got, `"1"`) || !strings.HasSuffix(got, `{"count":2}]}`) {
		t.Errorf("%.200s", got)
	}
}
