package validate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

func compile(t testing.TB, schema string) *validate.Schema {
	t.Helper()
	s, err := validate.Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("compile %s: %v", schema, err)
	}
	return s
}

// check returns the field errors as "path message" lines, "" when valid.
func check(t testing.TB, s *validate.Schema, text string) string {
	t.Helper()
	err := s.Validate(json.RawMessage(text))
	if err == nil {
		return ""
	}
	var e *validate.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		t.Fatalf("%s: %v is not an Error with fields", text, err)
	}
	lines := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		lines[i] = strings.TrimSpace(f.Path + " " + f.Message)
	}
	return strings.Join(lines, "\n")
}

// InvalidParams carries a path and a short message for every leaf cause (ERR, section 2).
func TestFieldErrors(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"object"}`, `[]`, "is array, want object"},
		{`{"properties":{"a":{"type":"string"}}}`, `{"a":1}`, "/a is number, want string"},
		{`{"properties":{"a":{"type":["string","null"]}}}`, `{"a":true}`, "/a is boolean, want null or string"},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1e2}`, ""},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`, "/a is number, want integer"},
		{`{"properties":{"a/b":{"properties":{"c~":{"minimum":1}}}}}`, `{"a/b":{"c~":0}}`, "/a~1b/c~0 must be at least 1"},
		{`{"required":["a","b"]}`, `{}`, "/a is required\n/b is required"},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1,"A":2,"x":3}`, "/A is not allowed\n/x is not allowed"},
		{`{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"x":3}`, "/x is not allowed"},
		{`{"enum":["P1","P2"]}`, `"P9"`, `must be one of "P1", "P2"`},
		{`{"const":{"a":1}}`, `1`, `must be {"a":1}`},
		{`{"format":"date-time"}`, `"soon"`, "is not a valid date-time"},
		{`{"format":"date-time"}`, `"2016-12-31t23:59:60.123456789012z"`, ""},
		{`{"format":"email"}`, `"nobody"`, "is not a valid email"},
		{`{"format":"uuid"}`, `"x"`, "is not a valid uuid"},
		{`{"format":"uri"}`, `"://"`, "is not a valid uri"},
		{`{"format":"no-such-format"}`, `"x"`, ""},
		{`{"pattern":"^[a-z]+$"}`, `"A1"`, "does not match ^[a-z]+$"},
		{`{"maximum":9223372036854775807}`, `9223372036854775808`, "must be at most 9223372036854775807"},
		{`{"maximum":9223372036854775807}`, `9223372036854775807`, ""},
		{`{"exclusiveMinimum":0,"exclusiveMaximum":1}`, `0`, "must be more than 0"},
		{`{"exclusiveMinimum":0,"exclusiveMaximum":1}`, `1`, "must be less than 1"},
		{`{"multipleOf":0.1}`, `0.25`, "must be a multiple of 0.1"},
		{`{"multipleOf":0.1}`, `0.3`, ""},
		{`{"minLength":2,"maxLength":3}`, `"é"`, "must have at least 2 characters"},
		{`{"minLength":2,"maxLength":3}`, `"ééé"`, ""},
		{`{"maxLength":1}`, `"ab"`, "must have at most 1 characters"},
		{`{"minItems":1}`, `[]`, "must have at least 1 items"},
		{`{"maxItems":1}`, `[1,2]`, "must have at most 1 items"},
		{`{"items":{"type":"string"}}`, `["a",1,2]`, "/1 is number, want string\n/2 is number, want string"},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, "has equal items at 0 and 2"},
		{`{"contains":{"const":1}}`, `[2]`, "has no item of the required kind"},
		{`{"minProperties":1}`, `{}`, "must have at least 1 members"},
		{`{"maxProperties":0}`, `{"a":1}`, "must have at most 0 members"},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, "/ab is not an allowed name"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, "/b is required with a"},
		{`{"not":{"type":"string"}}`, `"x"`, "has a form that is excluded"},
		{`{"properties":{"a":false}}`, `{"a":1}`, "/a is not allowed"},
		{`{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`, "is number, want string or null"},
		{`{"anyOf":[{"minimum":5},{"multipleOf":2}]}`, `1`, "matches none of the alternatives"},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, "matches more than one of the alternatives"},
		{`{"allOf":[{"minimum":5},{"multipleOf":2}]}`, `1`, "must be a multiple of 2\nmust be at least 5"},
		{`{"$ref":"#/$defs/s","$defs":{"s":{"type":"string"}}}`, `1`, "is number, want string"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `["a",1]`, "has too many items"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"date-time"}}}`, `{"a":"x"}`, "/a is not a valid date-time"},
		{`true`, `{"anything":[]}`, ""},
		{`false`, `1`, "is not allowed"},
		{`{}`, `{"a":1,"a":2}`, "/a is a duplicate member"},
		{`{}`, `{"a":{"b":1e1001}}`, "/a/b has an exponent beyond ±1000"},
		{`{}`, `{"a":`, "/a is not valid JSON"},
		{`{}`, `{} {}`, "is not valid JSON"},
		{`{}`, ``, "is not valid JSON"},
		{`{}`, "{\"a\":\"\xff\"}", "/a is not valid JSON"},
	} {
		if got := check(t, compile(t, c.schema), c.value); got != c.want {
			t.Errorf("%s against %s\n got %q\nwant %q", c.value, c.schema, got, c.want)
		}
	}
}

// A value that is meant for one variant of a union is explained by that variant alone.
func TestUnionErrorsAreOfTheMeantVariant(t *testing.T) {
	s := compile(t, `{"oneOf":[
		{"properties":{"type":{"const":"card"},"number":{"type":"string"}},"required":["type","number"]},
		{"properties":{"type":{"const":"bank"},"iban":{"type":"string"}},"required":["type","iban"]}]}`)
	for value, want := range map[string]string{
		`{"type":"card","number":"4"}`: "",
		`{"type":"card"}`:              "/number is required",
		`{"type":"bank"}`:              "/iban is required",
		`{"type":"cash"}`:              "matches none of the alternatives",
	} {
		if got := check(t, s, value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
}

func TestDeepAndHugeValuesAreRefused(t *testing.T) {
	s := compile(t, `{}`)
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	if got := check(t, s, deep); !strings.Contains(got, "nested deeper than 512 levels") {
		t.Errorf("got %.200q", got)
	}
	wide := `[` + strings.TrimSuffix(strings.Repeat(`1,`, 200), ",") + `]`
	if got := check(t, compile(t, `{"items":{"type":"string"}}`), wide); strings.Count(got, "\n") != validate.MaxFields-1 {
		t.Errorf("%d lines", strings.Count(got, "\n")+1)
	}
}

func TestPatternsAreECMA262(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{`^(?!foo).*$`, `bar`, true},
		{`^(?!foo).*$`, `food`, false},
		{`(?<=a)b`, `ab`, true},
		{`(?<=a)b`, `b`, false},
		{`^(a)\1$`, `aa`, true},
		{`^(a)\1$`, `ab`, false},
		{`^\u0061$`, `a`, true},
		{`^\cA$`, "\x01", true},
		{`^\p{L}+$`, `é`, true},
		{`^[\d-]+$`, `1-2`, true},
		{`b`, `abc`, true},
		{`^$`, ``, true},
		{`^\/[a\-]b$`, `/-b`, true},
		{`^\s$`, "\u00a0", true},
		{`^\s$`, "\u000b", true},
		{`^.$`, "\r", false},
		{`^\p{Script=Greek}$`, "λ", true},
	} {
		schema, _ := json.Marshal(map[string]string{"pattern": c.pattern})
		value, _ := json.Marshal(c.value)
		if got := check(t, compile(t, string(schema)), string(value)) == ""; got != c.want {
			t.Errorf("%s on %q: %v", c.pattern, c.value, got)
		}
	}
}

// A pattern that would backtrack for ages refuses the value when its steps are used up.
func TestPatternTimeout(t *testing.T) {
	s := compile(t, `{"pattern":"^(?=a)(a+)+$"}`)
	if got := check(t, s, `"`+strings.Repeat("a", 40)+`!"`); got == "" {
		t.Error("accepted")
	}
}

func TestCompileErrors(t *testing.T) {
	for schema, want := range map[string]string{
		``:                                  "is not valid JSON",
		`{"type":"strin"}`:                  "/type",
		`{"type":"string","type":"number"}`: "/type: is a duplicate member",
		`{"minimum":"1"}`:                   "/minimum: is string, want number",
		`{"pattern":"("}`:                   "/pattern: is not a regular expression of ECMA-262: at character 1: the group ( is not closed",
		`{"patternProperties":{"\\Aa":{}}}`: "has no \\A; write ^a",
		`{"$ref":"https://example.com/other.json"}`:     "refers to another document, which is never loaded: https://example.com/other.json",
		`{"$ref":"file:///etc/passwd"}`:                 "never loaded: file:///etc/passwd",
		`{"$ref":"other.json#/a"}`:                      "never loaded: other.json",
		`{"$ref":"/etc/passwd"}`:                        "never loaded",
		`{"$schema":"https://example.com/my-dialect"}`:  "never loaded: https://example.com/my-dialect",
		`{"$id":"https://example.com/a","$ref":"b"}`:    "never loaded: https://example.com/b",
		`{"$ref":"#/$defs/none"}`:                       "/$defs/none",
		`{"$ref":"#nowhere"}`:                           "nowhere",
		`5`:                                             "want boolean or object",
		`{"properties":{"a":{"$dynamicRef":"x.json"}}}`: "never loaded",
	} {
		_, err := validate.Compile(json.RawMessage(schema))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", schema, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "mcpe:") {
			t.Errorf("%s: %v tells an internal address", schema, err)
		}
	}
}

func TestLocalReferences(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":"integer"}}}}}`,
		`{"$id":"https://example.com/a.json","type":"object","properties":{"next":{"$ref":"a.json"},"v":{"type":"integer"}}}`,
		`{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"integer"}}}`,
		`{"$dynamicAnchor":"node","type":"object","properties":{"next":{"$dynamicRef":"#node"},"v":{"type":"integer"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"$id":"#n","properties":{"next":{"$ref":"#n"},"v":{"type":"integer"}}}},"$ref":"#n"}`,
	} {
		s := compile(t, schema)
		if got := check(t, s, `{"next":{"next":{"v":"x"}}}`); got != "/next/next/v is string, want integer" {
			t.Errorf("%s: %q", schema, got)
		}
	}
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"pattern":"^(?!x)","type":"string"},"b":{"format":"date-time"}}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if s.Validate(json.RawMessage(`{"a":"y","b":"2026-11-20T08:00:00Z"}`)) != nil || s.Validate(json.RawMessage(`{"a":"x"}`)) == nil {
					t.Error("wrong verdict")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestDecodeKeepsNumbers(t *testing.T) {
	v, err := validate.Decode(json.RawMessage(`{"a":[1.0,123456789012345678901234567890],"b":null,"c":"\ud83d\ude00","d":true}`))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(v)
	if want := `{"a":[1.0,123456789012345678901234567890],"b":null,"c":"😀","d":true}`; string(text) != want {
		t.Errorf("got %s", text)
	}
}

func FuzzValidate(f *testing.F) {
	s := compile(f, benchSchema)
	f.Add(benchPayload)
	f.Add(`{"openedAt":"x","tags":[1,{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if got := check(t, s, text); got == "" && !json.Valid([]byte(text)) {
			t.Errorf("%q is valid", text)
		}
	})
}

const benchSchema = `{"type":"object","properties":{"incidentId":{"type":"string"},"severity":{"type":"string","enum":["P1","P2","P3","P4"]},"service":{"type":"string","maxLength":64},
	"reporter":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"}},"required":["id"]},"openedAt":{"type":"string","format":"date-time"},
	"count":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string"}}},"required":["incidentId","severity","openedAt"]}`

const benchPayload = `{"incidentId":"INC-20261120-0001","severity":"P1","service":"checkout-api","reporter":{"id":"user_1234","name":"Ann Example"},"openedAt":"2026-11-20T07:59:58.123Z","count":12,"tags":["payments","eu"]}`

func BenchmarkValidate(b *testing.B) {
	s := compile(b, benchSchema)
	raw := json.RawMessage(benchPayload)
	b.Run("raw", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Validate(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("value", func(b *testing.B) {
		v, err := validate.Decode(raw)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := s.ValidateValue(v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile(b, benchSchema)
	}
}

// The format uri-template is RFC 6570's: GitHub's payloads are full of {/path}.
func TestURITemplate(t *testing.T) {
	s := compile(t, `{"format":"uri-template"}`)
	for text, valid := range map[string]bool{
		"": true, "https://api.github.com/users/a/events{/privacy}": true, "{?q,page*,n:3}": true, "/a{+b.c}{;d}%20é": true,
		"{": false, "}": false, "{}": false, "{/}": false, "a b": false, "{a:0}": false, "%2": false, "{a b}": false, "<a>": false,
	} {
		raw, _ := json.Marshal(text)
		if err := s.Validate(raw); (err == nil) != valid {
			t.Errorf("%q: %v, want valid %v", text, err, valid)
		}
	}
}

// What is valid also decodes: a []byte is base64, and what it holds is nobody's concern.
func TestBase64(t *testing.T) {
	s := compile(t, `{"contentEncoding":"base64","contentMediaType":"application/json","contentSchema":{"type":"object"}}`)
	for text, valid := range map[string]bool{"": true, "YQ==": true, "aGVsbG8=": true, "YQ": false, "YR==": false, "!": false, "YQ==\n": false} {
		raw, _ := json.Marshal(text)
		err := s.Validate(raw)
		var decoded []byte
		if (err == nil) != valid {
			t.Errorf("%q: %v, want valid %v", text, err, valid)
		}
		if err := codec.Decode(raw, &decoded); valid && err != nil {
			t.Errorf("%q is valid and does not decode: %v", text, err)
		}
	}
	if err := s.Validate(json.RawMessage(`7`)); err != nil {
		t.Errorf("a number has no encoding: %v", err)
	}
}
