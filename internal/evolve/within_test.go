package evolve

import (
	"encoding/json"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// Q9: every text of a format is one of those that it is said to lie within.
func TestFormatsWithin(t *testing.T) {
	samples := []string{
		"", "a", "a.b", "example.com", "xn--mnchen-3ya.de", "xn--X", "a_b", "-a", "a-", "1.2.3.4", "ab--cd", "A.EXAMPLE",
		"a@b", "a@example.com", `"a b"@example.com`, "a@[127.0.0.1]", "a@[IPv6:::1]", "ä@example.com", "a@-b",
		"http://example.com/a?b#c", "urn:isbn:1", "//a/b", "/a", "#f", "?q", "a:b", "http://[::1]/", "http://a/%zz", "http://a/ b", "http://ä/", "mailto:a@b",
	}
	compile := func(format string) *validate.Schema {
		s, err := validate.Compile(json.RawMessage(`{"type":"string","format":` + format + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for inner, outers := range widerFormats {
		for _, outer := range outers {
			in, out, valid := compile(inner), compile(outer), 0
			for _, s := range samples {
				if in.ValidateValue(s) != nil {
					continue
				}
				valid++
				if err := out.ValidateValue(s); err != nil {
					t.Errorf("%q is valid as %s and not as %s: %v", s, inner, outer, err)
				}
			}
			if valid < 3 {
				t.Errorf("%s: %d samples", inner, valid)
			}
		}
	}
}
