package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// A waitKey names an event type with arguments in the cursor of the wait tool.
type waitKey [8]byte

func newWaitKey(q *pollRequest) (k waitKey) {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(q.et.name)))
	h.Write(n[:])
	h.Write([]byte(q.et.name))
	h.Write(q.args.Canonical())
	copy(k[:], h.Sum(nil))
	return k
}

// waitCursorVersion is the first byte of a cursor of the wait tool.
const waitCursorVersion = 0x81 // no version of a wire.Cursor

// maxWaitCursor bounds the text of one.
const maxWaitCursor = maxWaited * (topic.MaxCursor + 16) * 2

var waitEncoding = base64.RawURLEncoding.Strict()

// waitCursor joins the cursors of what a call waited for, each as JSON, as JSON. Each stands under its key, so
// that the next call may have the event types in another order, or others. It is kept short: models copy it.
func waitCursor(keys []waitKey, at map[waitKey][]byte) []byte {
	b := []byte{waitCursorVersion}
	for _, k := range keys {
		var text string
		if json.Unmarshal(at[k], &text) != nil || text == "" {
			continue // a type without replay has none
		}
		b = append(b, k[:]...)
		raw, err := waitEncoding.DecodeString(text) // as wire.Cursor writes them
		if err != nil {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(raw)))
		b = append(b, raw...)
	}
	return frame.AppendString(nil, waitEncoding.EncodeToString(b))
}

// parseWaitCursor reads the cursors in one of the wait tool. What is none of ours says lost: waiting starts now, and
// the caller hears that it may have missed something (CUR-7).
func parseWaitCursor(text *string) (at map[waitKey]string, lost bool) {
	if text == nil {
		return nil, false
	}
	if len(*text) > maxWaitCursor || strings.ContainsAny(*text, "\r\n") {
		return nil, true
	}
	b, err := waitEncoding.DecodeString(*text)
	if err != nil || len(b) == 0 || b[0] != waitCursorVersion {
		return nil, true
	}
	at = map[waitKey]string{}
	for b = b[1:]; len(b) > 0; {
		var k waitKey
		if copy(k[:], b) < len(k) {
			return nil, true
		}
		b = b[len(k):]
		raw, rest, ok := takeBytes(b)
		if !ok || len(at) == maxWaited {
			return nil, true
		}
		at[k], b = waitEncoding.EncodeToString(raw), rest
	}
	return at, false
}

// takeBytes takes bytes with their length before them.
func takeBytes(b []byte) (taken, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}
