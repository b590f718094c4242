package plain

import (
	"encoding/json"
	"testing"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain é 日本": "plain é 日本",
		"\x1b[2J":          `\x1b[2J`,
		"a\r\n\tb":         `a\r\n\tb`,
		"\u009b\u202e\x7f": `\u009b\u202e\x7f`,
		"\u2028\U000e0001": `\u2028\U000e0001`,
		"\x9b\xff":         `\x9b\xff`,
		"\ufffd":           "\ufffd",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
	if got := Lines("a\n\tb\x1b"); got != "a\n\tb\\x1b" {
		t.Errorf("%q", got)
	}
}

func TestCut(t *testing.T) {
	const text = "aé日b"
	for most, want := range []string{"", "a", "a", "aé", "aé", "aé", "aé日", text, text} {
		if got := Cut(text, most); got != want {
			t.Errorf("%d bytes: %q, want %q", most, got, want)
		}
	}
}

// What is escaped in JSON means the same.
func TestJSON(t *testing.T) {
	for _, text := range []string{"\x7f\u009b\u202e\u2028\U000e0001 é", "x"} {
		raw, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		made := JSON(append(raw, '\n'))
		var back map[string]string
		if err := json.Unmarshal(made, &back); err != nil || back[text] != text {
			t.Errorf("%s: %v", made, err)
		}
		for _, r := range string(made) {
			if r != '\n' && Hidden(r) {
				t.Errorf("%U in %s", r, made)
			}
		}
	}
	if got := string(JSON([]byte("\"\x9b\""))); got != `"\ufffd"` {
		t.Error(got)
	}
}
