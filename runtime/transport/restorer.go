package transport

import (
	"bytes"
	"net/http"
)

// A restorer stands between the SDK and a response. It puts the ids back of which the SDK knows an
// alias, in single messages and in events, and gives an error for nobody its null id.
type restorer struct {
	http.ResponseWriter
	partial []byte // of an event
}

// Unwrap gives the SDK's response controller everything but writing.
func (w *restorer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write passes on what the SDK writes: one message, or any part of a stream of events.
func (w *restorer) Write(p []byte) (int, error) {
	switch mediaType(w.Header().Get("Content-Type")) {
	case contentTypeJSON:
		msg := restoreIDs(p)
		if env, ok := parseEnvelope(msg); ok && env.method == "" && env.id == nil {
			msg = append([]byte(`{"jsonrpc":"2.0","id":null,"error":`), env.error...)
			msg = append(msg, '}')
		}
		if _, err := w.ResponseWriter.Write(msg); err != nil {
			return 0, err
		}
		return len(p), nil
	case contentTypeEvents:
		return w.writeEvents(p)
	}
	return w.ResponseWriter.Write(p)
}

func (w *restorer) writeEvents(p []byte) (int, error) {
	data := p
	if len(w.partial) > 0 {
		data = append(w.partial, p...)
	}
	end := bytes.LastIndex(data, []byte(eventTail))
	if end < 0 {
		w.partial = append([]byte(nil), data...)
		return len(p), nil
	}
	end += len(eventTail)
	whole := data[:end]
	w.partial = append([]byte(nil), data[end:]...)
	if bytes.IndexByte(whole, aliasMark) >= 0 {
		whole = restoreEvents(whole)
	}
	if _, err := w.ResponseWriter.Write(whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

// restoreEvents puts the ids back in whole events.
func restoreEvents(events []byte) []byte {
	var out []byte
	for line := range bytes.Lines(events) {
		data, ok := bytes.CutPrefix(line, []byte(eventHead))
		if !ok {
			out = append(out, line...)
			continue
		}
		text := bytes.TrimRight(data, "\r\n")
		out = append(out, eventHead...)
		out = append(out, restoreIDs(text)...)
		out = append(out, data[len(text):]...)
	}
	return out
}
