package admin

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What a pointer leads to is not shown, whatever stands there; all else is, as it was written.
func TestRedact(t *testing.T) {
	for _, c := range []struct {
		pointers   []string
		data, want string
	}{
		{nil, `{"a":1}`, `{"a":1}`},
		{[]string{"/a"}, `{"a":{"b":1},"c":12345678901234567890}`, `{"a":"[redacted]","c":12345678901234567890}`},
		{[]string{"/a/b", "/a/c"}, `{"a":{"b":1,"c":[1],"d":2}}`, `{"a":{"b":"[redacted]","c":"[redacted]","d":2}}`},
		{[]string{"/a/1/x"}, `{"a":[{"x":1},{"x":2}]}`, `{"a":[{"x":1},{"x":"[redacted]"}]}`},
		{[]string{"/a~1b/~0"}, `{"a/b":{"~":1}}`, `{"a/b":{"~":"[redacted]"}}`},
		{[]string{""}, `{"a":1}`, `"[redacted]"`},
		{[]string{"/a/b", "/x", "/a/-1", "/a/9"}, `{"a":[1]}`, `{"a":[1]}`},
		{[]string{"/a"}, `{"a":1,"a":2}`, `{"a":"[redacted]"}`},
		{[]string{"/a"}, `{"a":1`, ``},
		{[]string{"/a"}, ``, ``},
	} {
		r, err := readRedaction(c.pointers)
		if got := string(r.apply([]byte(c.data))); err != nil || got != c.want {
			t.Errorf("%q of %s: %s %v, want %s", c.pointers, c.data, got, err, c.want)
		}
	}
}

// SRV-8: what a page shows of a payload is bounded, whatever it is: a megabyte, nested as deeply as payloads may be, or
// of characters of several bytes. What is small is shown with lines.
func TestPagePayload(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat("[", 500) + strings.Repeat("0,", n) + "0" + strings.Repeat("]", 500)
	}
	for name, c := range map[string]struct {
		data string
		cut  bool
		want string // "" for any
	}{
		"a megabyte":         {`"` + strings.Repeat("a", 1<<20) + `"`, true, ""},
		"of long characters": {`"` + strings.Repeat("€", 1<<18) + `"`, true, ""},
		"deep and large":     {deep(1 << 19), true, ""},
		"deep and small":     {deep(1000), false, deep(1000)},
		"brackets in a text": {`{"a":"` + strings.Repeat(`[\"{`, 5000) + `"}`, false, "{\n  \"a\": \"" + strings.Repeat(`[\"{`, 5000) + "\"\n}"},
		"an object":          {`{"a":[1,{"b":2}]}`, false, "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ]\n}"},
	} {
		got := payload([]byte(c.data))
		if len(got.Text) > maxIndented || got.Shown > 0 != c.cut || c.cut && int(got.Shown) != len(got.Text) || !utf8.ValidString(got.Text) || c.want != "" && got.Text != c.want {
			t.Errorf("%s: %d bytes, of which %d are said to be shown", name, len(got.Text), got.Shown)
		}
	}
	if got := payload(nil); got.Text != "null" || got.Shown != 0 {
		t.Errorf("%+v", got)
	}
}
