// Command lines writes a JSON Schema from standard input with one definition a line, sorted by name, so that what
// changes from version to version can be read. See `make providers`.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"os"
	"slices"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal("lines: ", err)
	}
}

func run(in io.Reader, out io.Writer) error {
	var doc struct {
		Schema      string                     `json:"$schema"`
		Definitions map[string]json.RawMessage `json:"definitions"`
		OneOf       json.RawMessage            `json:"oneOf"`
	}
	if err := json.NewDecoder(in).Decode(&doc); err != nil {
		return err
	}
	if len(doc.Definitions) == 0 || len(doc.OneOf) == 0 {
		return errors.New("standard input is no schema with definitions and oneOf")
	}
	var b bytes.Buffer
	compact := func(raw []byte) {
		_ = json.Compact(&b, raw) // it was decoded
	}
	text := func(s string) {
		quoted, _ := json.Marshal(s)
		b.Write(quoted)
	}
	b.WriteString(`{"$schema":`)
	text(doc.Schema)
	b.WriteString(",\n\"definitions\":{\n")
	for i, name := range slices.Sorted(maps.Keys(doc.Definitions)) {
		if i > 0 {
			b.WriteString(",\n")
		}
		text(name)
		b.WriteByte(':')
		compact(doc.Definitions[name])
	}
	b.WriteString("\n},\n\"oneOf\":")
	compact(doc.OneOf)
	b.WriteString("}\n")
	_, err := out.Write(b.Bytes())
	return err
}
