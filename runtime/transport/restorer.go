package transport

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// A restorer stands between the SDK and a response. It puts the ids back of which the SDK knows an
// alias, in single messages and in events, and gives an error for nobody its null id.
type restorer struct {
	http.ResponseWriter
	partial []byte // of an event
	// unwanted is asked for each response in a stream, by the id of its call as the client wrote it, whether it is
	// left out; nil when none is.
	unwanted func(id json.RawMessage) bool
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
	if w.unwanted != nil || bytes.IndexByte(whole, aliasMark) >= 0 {
		whole = w.restoreEvents(whole)
	}
	if _, err := w.ResponseWriter.Write(whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

// restoreEvents puts the ids back in whole events, and leaves out those that nobody waits for.
func (w *restorer) restoreEvents(events []byte) []byte {
	var out []byte
	start := 0 // of the event in out
	wanted := true
	for line := range bytes.Lines(events) {
		data, ok := bytes.CutPrefix(line, []byte(eventHead))
		switch {
		case ok:
			text := bytes.TrimRight(data, "\r\n")
			msg := restoreIDs(text)
			wanted = wanted && !w.leavesOut(msg)
			out = append(append(append(out, eventHead...), msg...), data[len(text):]...)
		case len(bytes.TrimRight(line, "\r\n")) > 0:
			out = append(out, line...)
		case wanted:
			out = append(out, line...)
			start = len(out)
		default:
			out, wanted = out[:start], true
		}
	}
	return out
}

func (w *restorer) leavesOut(msg []byte) bool {
	if w.unwanted == nil {
		return false
	}
	env, ok := parseEnvelope(msg)
	return ok && env.method == "" && env.id != nil && w.unwanted(env.id)
}
