package transport

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// A nullWriter is the response to a notification. If the SDK's response is an error without an ID, it adds the null ID.
type nullWriter struct{ http.ResponseWriter }

// Unwrap gives the SDK's response controller access to everything except writing.
func (w *nullWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *nullWriter) Write(p []byte) (int, error) {
	env, ok := envelope{}, false
	if mediaType(w.Header().Get("Content-Type")) == contentTypeJSON {
		env, ok = parseEnvelope(p)
	}
	if !ok || env.error == nil || env.id != nil {
		return w.ResponseWriter.Write(p)
	}
	if _, err := w.ResponseWriter.Write(appendResponse(nil, json.RawMessage(`null`), "error", env.error)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A cancelFilter is a ResponseWriter between the SDK and the response to a batch. It removes responses to cancelled
// calls.
type cancelFilter struct {
	http.ResponseWriter
	unwanted func(id json.RawMessage) bool
	partial  []byte // of an unfinished event
}

// Unwrap gives the SDK's response controller access to everything except writing.
func (s *cancelFilter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write writes output from the SDK, which is a message or any part of an event stream.
func (s *cancelFilter) Write(p []byte) (int, error) {
	if mediaType(s.Header().Get("Content-Type")) != contentTypeEvents {
		return s.ResponseWriter.Write(p)
	}
	s.partial = append(s.partial, p...)
	var out []byte
	for {
		event, rest, ok := bytes.Cut(s.partial, []byte(eventTail))
		if !ok {
			break
		}
		_, data, _ := bytes.Cut(event, []byte(eventHead))
		if env, ok := parseEnvelope(data); !ok || env.method != "" || env.id == nil || !s.unwanted(env.id) {
			out = append(append(out, event...), eventTail...)
		}
		s.partial = rest
	}
	if _, err := s.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
