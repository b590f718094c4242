package admin

import "testing"

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
