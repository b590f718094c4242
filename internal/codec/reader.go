package codec

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A Reader decodes one JSON text. The values it returns share memory with the text.
type Reader struct {
	*jsontext.Decoder
	text bytes.Buffer
}

var readers = sync.Pool{New: func() any { return &Reader{Decoder: jsontext.NewDecoder(new(bytes.Buffer))} }}

// NewReader returns a Reader from a pool, which keeps the memory for names and nesting. The caller must call Release.
func NewReader(text []byte, options ...jsontext.Options) *Reader {
	r := readers.Get().(*Reader)
	r.text = *bytes.NewBuffer(text)
	r.Reset(&r.text, options...)
	return r
}

// Release returns r to the pool. The values it has returned remain valid.
func (r *Reader) Release() {
	r.text = bytes.Buffer{}
	r.Reset(&r.text)
	readers.Put(r)
}

// Unquote returns the text of a JSON string. It shares memory with the string if that has no escapes. If ok is false,
// the string has an escape of an unpaired surrogate, which becomes U+FFFD.
func Unquote(quoted []byte) (text []byte, ok bool) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], true
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return text, err == nil
}
