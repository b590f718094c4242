package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Each line of a file is a JSON object whose last member is the checksum of the preceding text:
//
//	{"kind":"cursor","key":"k","value":{"cursor":"c"},"sum":"1a2b3c4d"}
const (
	sumMember = `,"sum":"`
	sumEnd    = `"}`
	sumSize   = len(sumMember) + 8 + len(sumEnd)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of a text as eight hexadecimal digits.
func Checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) }

// encode returns v as a line. The JSON of v must be an object with members.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1]
	return append(text, sumMember+Checksum(text)+sumEnd+"\n"...), nil
}

// cutChecksum returns the object in a line without the checksum, and reports whether the line has a checksum. It
// returns an error if the checksum does not match.
func cutChecksum(text []byte) (object []byte, sealed bool, err error) {
	at := len(text) - sumSize
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(sumMember)) || !bytes.HasSuffix(text, []byte(sumEnd)) {
		return text, false, nil
	}
	if sum := text[at+len(sumMember):]; string(sum[:8]) != Checksum(text[:at]) {
		return nil, true, errors.New("the checksum does not match")
	}
	return append(bytes.Clone(text[:at]), '}'), true, nil
}

// decode returns the entry in a line. A line may lack a checksum if a person wrote it. Such a line must have exactly
// the members of an entry, so damage cannot turn a line with a checksum into a line without one.
func decode(text []byte) (e Entry, err error) {
	object, _, err := cutChecksum(bytes.TrimSpace(text))
	if err != nil {
		return Entry{}, err
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Entry{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Entry{}, errors.New("something follows the object")
	}
	return e, nil
}
