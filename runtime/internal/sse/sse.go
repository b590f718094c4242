// Package sse cuts the text of an event stream into events and replaces their data. It serves handlers that stand
// between a server and its clients, which pass on the events of any server.
package sse

import (
	"bytes"
	"slices"
)

// The text of an event stream.
const (
	// ContentType is its media type.
	ContentType = "text/event-stream"
	// Head and Tail enclose the data of an event.
	Head = "data: "
	Tail = "\n\n"
	// Comment is ignored by clients.
	Comment = ":" + Tail
)

// ends are the texts that end an event: the end of its last line and an empty line.
var ends = [][]byte{[]byte("\n\n"), []byte("\r\n\r\n"), []byte("\r\r")}

// Cut returns the first event of b, with the empty line that ends it, and the text after it. If b does not contain a
// whole event, ok is false.
func Cut(b []byte) (event, rest []byte, ok bool) {
	at := len(b) + 1
	for _, end := range ends {
		if i := bytes.Index(b, end); i >= 0 {
			at = min(at, i+len(end))
		}
	}
	if at > len(b) {
		return nil, b, false
	}
	return b[:at], b[at:], true
}

// lines calls f with each line of an event, without its end.
func lines(event []byte, f func(line []byte)) {
	for line := range bytes.FieldsFuncSeq(event, func(c rune) bool { return c == '\n' || c == '\r' }) {
		f(line)
	}
}

var dataField = []byte("data:")

// Data returns the data of an event. Several data lines are joined by newlines. The result may share memory with event.
func Data(event []byte) (data []byte) {
	n := 0
	lines(event, func(line []byte) {
		value, ok := bytes.CutPrefix(line, dataField)
		if !ok {
			return
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if n++; n == 1 {
			data = value[:len(value):len(value)]
			return
		}
		data = append(append(data, '\n'), value...)
	})
	return data
}

// Replace returns an event with other data, which must be a single line. The event's other lines remain.
func Replace(event, data []byte) []byte {
	out := make([]byte, 0, len(event)+len(data))
	lines(event, func(line []byte) {
		if !bytes.HasPrefix(line, dataField) {
			out = append(append(out, line...), '\n')
		}
	})
	return append(append(append(out, Head...), data...), Tail...)
}

// Message returns an event of type message, which contains a JSON-RPC message.
func Message(message []byte) []byte {
	b := make([]byte, 0, len(message)+32)
	b = append(b, "event: message\n"+Head...)
	return append(append(b, message...), Tail...)
}

// A Seam follows the text of an event stream. The zero value is the start of a stream.
type Seam struct {
	tail []byte // the last bytes
}

// Add adds text to the stream.
func (s *Seam) Add(text []byte) {
	s.tail = append(s.tail, text[max(0, len(text)-4):]...)
	s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)-4):]...)
}

// Between reports whether the text is empty or its last event is complete.
func (s *Seam) Between() bool {
	return len(s.tail) == 0 || slices.ContainsFunc(ends, func(end []byte) bool { return bytes.HasSuffix(s.tail, end) })
}
