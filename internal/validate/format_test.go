package validate_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// Formats accept what their RFCs have and nothing else. The official test suite says the same of some
// hundred values (gen/suite_test.go); these are what people send.
func TestFormats(t *testing.T) {
	for format, values := range map[string]struct{ good, bad []string }{
		"uri": {
			[]string{"http://a.b/x?y=z#w", "urn:isbn:1", "http://[::1]:80/", "mailto:a@b.c", "http://a/%20", "a:", "http://[v1.x]/"},
			[]string{"http://a.b/x y", "http://a.b/<x>", "http://a.b/[x]", "//a.b", "/x", "", "http://a.b/é", "http://a.b/%2", "1a:b", "http://[1::2::3]/",
				"http://[fe80::1%25e]/", "http://a@b@c/", "http://a.b:port/", "http://a.b/x\n"},
		},
		"uri-reference": {[]string{"", "a/b", "?x", "#y", "//a.b/c", "/", "../x", "a:b"}, []string{"a b", "1:b", "é", "\"", "a\\b", "//a@b@c"}},
		"iri":           {[]string{"http://ä.é/ü?ß#ø"}, []string{"http://a b/", "é"}},
		"iri-reference": {[]string{"é", "#ü"}, []string{"\\", "é é"}},
		"email":         {[]string{"a@b.c", "a.b+c@d-e.f", "\"a b\"@c.d", "a@[1.2.3.4]", "a@[IPv6:::1]", "a@localhost"}, []string{"@b.c", "a", "a@", "a b@c.d", ".a@b.c", "a..b@c.d", "a.@b.c", "a@-b", "é@b.c", "a@[1.2.3]", strings.Repeat("a", 65) + "@b.c", "a@b@c"}},
		"idn-email":     {[]string{"é@ü.de", "a@b.c", "a@u\u0308.de"}, []string{"@ü.de", "a b@ü.de", "é"}},
		"ipv4":          {[]string{"1.2.3.4", "255.255.255.255"}, []string{"+1.2.3.4", "1.2.3", "01.2.3.4", "1.2.3.256", "1.2.3.4 ", "::1", "1.2.3.4/8", ""}},
		"hostname": {[]string{"a", "a-b.c", "1.2", "xn--bcher-kva.de"}, []string{"", "a.", "-a", "a-", "a_b", "a..b", strings.Repeat("a", 64), "bücher.de", "ab--c", "xn--", "xn--.a", "a.xn--",
			"xn--X", "xn--a-", "xn--a-yda", "xn--a-vbb", "xn--axb-ß-", strings.Repeat("a.", 127) + "a"}},
		"idn-hostname": {[]string{"bücher.de", "BÜCHER.de", "a.b", "例え。jp", "xn--bcher-kva.de", "\u13a0\u13a1", "ü--x", "क\u094d\u200cक", "l·l"},
			[]string{"a b", "ü-", "-ü", "ü.", "ü..a", "ü。", "\u302eü", strings.Repeat("ü", 60), "", "a\u05d0", "a\u0308", "\u0308a", "ﬁ", "ａ", "☃", "αl--x",
				"xn--Bücher-", "a·l", "क\u200cक", "\xff", strings.Repeat("ü.", 1<<20)}},
		"duration": {[]string{"P1Y2M3DT4H5M6S", "PT1M", "P2W"}, []string{"P", "PT", "P1Y2D", "PT1H2S", "P1W2D", "1Y", "P-1Y"}},
	} {
		s := compile(t, `{"format":"`+format+`"}`)
		for want, list := range map[bool][]string{true: values.good, false: values.bad} {
			for _, v := range list {
				raw, _ := json.Marshal(v)
				if got := check(t, s, string(raw)) == ""; got != want {
					t.Errorf("%s %q: %v", format, v, got)
				}
			}
		}
	}
}
