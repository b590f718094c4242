package waittool

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A key identifies an event type and its arguments in a cursor of the wait tool.
type key [8]byte

func keyOf(a *topic.Arguments) (k key) {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(a.Of.Name)))
	h.Write(n[:])
	h.Write([]byte(a.Of.Name))
	h.Write(a.Canonical())
	copy(k[:], h.Sum(nil))
	return k
}

// cursorVersion is the first byte of a cursor of the wait tool.
const cursorVersion = 0x81 // no version of a wire.Cursor

// maxCursor is the maximum length of a cursor of the wait tool, in bytes.
const maxCursor = maxWaited * (topic.MaxCursor + 16) * 2

var encoding = base64.RawURLEncoding.Strict()

// cursorOf returns the JSON encoding of a cursor that combines the cursors of a call's event types. Each cursor is
// stored with its key, so the next call can have different event types or a different order. The cursor is kept short
// because models copy it.
func cursorOf(keys []key, each []polling.Answer) []byte {
	b := []byte{cursorVersion}
	for i, k := range keys {
		var text string
		if json.Unmarshal(each[i].Cursor, &text) != nil || text == "" {
			continue // a type without replay has no cursor
		}
		b = append(b, k[:]...)
		raw, err := encoding.DecodeString(text) // as wire.Cursor writes them
		if err != nil {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(raw)))
		b = append(b, raw...)
	}
	return frame.AppendString(nil, encoding.EncodeToString(b))
}

// positions holds the cursors contained in a cursor of the wait tool.
type positions map[key]string

// lookup returns the cursor from which an event type continues, or nil to start now. If the arguments are new, lookup
// returns the earliest cursor of the event type. Occurrences might then be repeated, but none are missed. The cursor of
// a check is valid only for its arguments. With other arguments it is stale, which is reported to the caller (CUR-7).
func (p positions) lookup(k key, name uint32) *string {
	if at, ok := p[k]; ok {
		return &at
	}
	var place *string
	var earliest uint64
	for _, at := range p {
		if c, err := topic.ParseCursor(at); err == nil && c.Name == name && (place == nil || c.Position < earliest) {
			place, earliest = &at, c.Position
		}
	}
	return place
}

// parseCursor parses a cursor of the wait tool. For any other string, lost is true. The wait then starts now, and the
// result reports that events might have been missed (CUR-7).
func parseCursor(text *string) (at positions, lost bool) {
	if text == nil {
		return nil, false
	}
	if len(*text) > maxCursor || strings.ContainsAny(*text, "\r\n") {
		return nil, true
	}
	b, err := encoding.DecodeString(*text)
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return nil, true
	}
	at = positions{}
	for b = b[1:]; len(b) > 0; {
		var k key
		if copy(k[:], b) < len(k) {
			return nil, true
		}
		b = b[len(k):]
		raw, rest, ok := takeBytes(b)
		if !ok || len(at) == maxWaited {
			return nil, true
		}
		at[k], b = encoding.EncodeToString(raw), rest
	}
	return at, false
}

// takeBytes reads length-prefixed bytes.
func takeBytes(b []byte) (taken, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}
