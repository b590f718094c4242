package codec_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
)

var surrogates = map[string]string{
	`"\ud83d"`: `"\ufffd"`, `"a\uD83Db"`: `"a\ufffdb"`, `"\ude00"`: `"\ufffd"`, `"\ud83d\ude00"`: `"\ud83d\ude00"`, `"\ud83d\ud83d\ude00"`: `"\ufffd\ud83d\ude00"`,
	`"\ude00\ud83d"`: `"\ufffd\ufffd"`, `"\\ud83d"`: `"\\ud83d"`, `"\\\ud83d"`: `"\\\ufffd"`, `"\ud83d\n"`: `"\ufffd\n"`, `"\ud83d\u0041"`: `"\ufffd\u0041"`,
	`"plain"`: `"plain"`, `"\u00e9\""`: `"\u00e9\""`, ``: ``, `"\`: `"\`, `"\u`: `"\u`, `"\ud83`: `"\ud83`, `"\u+123"`: `"\u+123"`, `{"\udfff":["\ud800"]}`: `{"\ufffd":["\ufffd"]}`,
}

// The escape of a lone surrogate becomes that of U+FFFD and nothing else changes, not the text that it is made from.
func TestReplaceLoneSurrogates(t *testing.T) {
	for in, want := range surrogates {
		data := []byte(in)
		if got := string(codec.ReplaceLoneSurrogates(data)); got != want || string(data) != in {
			t.Errorf("%s: %s, want %s; it is now %s", in, got, want, data)
		}
	}
}

// Whatever encoding/json reads of valid UTF-8, the codec's reader reads with the same text.
func FuzzReplaceLoneSurrogates(f *testing.F) {
	for in := range surrogates {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var want, got string
		if !utf8.ValidString(in) || json.Unmarshal([]byte(in), &want) != nil {
			return
		}
		value := jsontext.Value(codec.ReplaceLoneSurrogates([]byte(in)))
		if !value.IsValid() {
			t.Fatalf("%q is not read: %q", in, value)
		}
		if err := json.Unmarshal(value, &got); err != nil || got != want {
			t.Errorf("%q is read as %q, want %q", in, got, want)
		}
	})
}
