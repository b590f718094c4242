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
