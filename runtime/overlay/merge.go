package overlay

import (
	"net/http"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// A merge returns the response to a call, given the response of next and its header, or nil to leave it unchanged.
type merge func(r *http.Request, call, said message, header http.Header) []byte

// serveMerged passes a call to next and changes its response.
func (h *handler) serveMerged(w http.ResponseWriter, r *http.Request, call message, f merge) {
	m := &mergeWriter{ResponseWriter: w, limit: h.maxAnswer, id: call.ID}
	m.merge = func(said message) []byte { return f(r, call, said, w.Header()) }
	defer func() {
		v := recover()
		if v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
		if m.finish(v != nil); m.missed != "" && r.Context().Err() == nil {
			h.log.WarnContext(r.Context(), "overlay: events were not added to an answer of the MCP server next to them", "method", call.Method, "reason", m.missed)
		}
	}()
	h.next.ServeHTTP(m, uncompressed(r))
}

// A mergeWriter is the response to a call whose JSON-RPC response is changed. It holds a JSON body, or one event of an
// event stream, up to a limit. Everything before and after the response passes through unchanged.
type mergeWriter struct {
	http.ResponseWriter
	merge  func(said message) []byte
	limit  int
	id     jsontext.Value // of the call
	state  mergeState
	status int // of a JSON body
	held   []byte
	missed string // why the response was not changed
}

type mergeState int

const (
	mergeBegins  mergeState = iota // nothing was written
	mergesJSON                     // holds the body
	mergesEvents                   // holds an event until it is complete
	mergePasses                    // passes on what is written
)

// Unwrap gives response controllers access to deadlines.
func (m *mergeWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// Flush implements [http.Flusher], which some servers require.
func (m *mergeWriter) Flush() { _ = m.FlushError() }

// FlushError flushes what is not held.
func (m *mergeWriter) FlushError() error {
	if m.state == mergeBegins || m.state == mergesJSON {
		return nil
	}
	return http.NewResponseController(m.ResponseWriter).Flush()
}

// WriteHeader chooses the state by the header. It holds the header of a JSON body.
func (m *mergeWriter) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		m.ResponseWriter.WriteHeader(status)
		return
	}
	if m.state != mergeBegins {
		return
	}
	coding, media := m.Header().Get("Content-Encoding"), mediaType(m.Header())
	switch {
	case coding != "" && coding != "identity":
		if m.state = mergePasses; status == http.StatusOK {
			m.missed = "it has the Content-Encoding " + wire.Shown(coding) + ", which the request did not accept"
		}
	case media == contentTypeJSON:
		m.state, m.status = mergesJSON, status
		return
	case media == sse.ContentType && status == http.StatusOK:
		m.state = mergesEvents
		m.Header().Del("Content-Length")
	default:
		m.state = mergePasses
	}
	m.ResponseWriter.WriteHeader(status)
}

func (m *mergeWriter) Write(p []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	if m.state == mergePasses {
		return m.ResponseWriter.Write(p)
	}
	m.held = append(m.held, p...)
	for m.state == mergesEvents {
		event, rest, ok := sse.Cut(m.held)
		if !ok || len(event) > m.limit {
			break
		}
		if said, ok := parse(sse.Data(event)); ok && said.isResponse() {
			m.state = mergePasses
			if changed := m.merge(said); changed != nil {
				event = sse.Replace(event, changed)
			}
		}
		if _, err := m.ResponseWriter.Write(event); err != nil {
			return 0, err
		}
		m.held = rest
	}
	if m.state == mergePasses || len(m.held) > m.limit {
		return len(p), m.release()
	}
	return len(p), nil
}

// release passes on what is held, and everything after it.
func (m *mergeWriter) release() error {
	if m.state != mergePasses {
		m.missed = "it has more than " + strconv.Itoa(m.limit) + " bytes"
	}
	if m.state == mergesJSON {
		m.ResponseWriter.WriteHeader(m.status)
	}
	m.state = mergePasses
	held := m.held
	if m.held = nil; len(held) == 0 {
		return nil
	}
	_, err := m.ResponseWriter.Write(held)
	return err
}

// finish completes the response after next has returned. If next has aborted the response, or has ended an event stream
// before the response, the client receives an error.
func (m *mergeWriter) finish(aborted bool) {
	const text = "InternalError: the MCP server next to events ended its answer before the response"
	failure := response(m.id, "error", errorValue(jsonrpc.CodeInternalError, text))
	switch {
	case m.state == mergesEvents:
		m.missed = "it ended before the response"
		_, _ = m.ResponseWriter.Write(sse.Message(failure))
	case m.state == mergePasses && aborted:
		panic(http.ErrAbortHandler) // as next has
	case aborted:
		m.missed = "it was aborted"
		m.Header().Del("Content-Length")
		writeError(m.ResponseWriter, http.StatusBadGateway, m.id, jsonrpc.CodeInternalError, text)
	case m.state == mergesJSON:
		m.finishJSON()
	}
}

// finishJSON writes a held JSON body.
func (m *mergeWriter) finishJSON() {
	out, status := m.held, m.status
	said, ok := parse(m.held)
	if !ok || !said.isResponse() {
		m.missed = "it is not a JSON-RPC response"
	} else if changed := m.merge(said); changed != nil {
		if out = changed; said.Error != nil {
			status = http.StatusOK
		}
	}
	m.Header().Set("Content-Length", strconv.Itoa(len(out)))
	m.ResponseWriter.WriteHeader(status)
	_, _ = m.ResponseWriter.Write(out)
}

// An object is a JSON object whose members are not decoded.
type object map[string]jsontext.Value

// objectOf returns the members of an object, or an empty object for any other value.
func objectOf(value jsontext.Value) object {
	o := object{}
	if value.Kind() != '{' || jsonv2.Unmarshal(value, &o, lenient) != nil {
		return object{}
	}
	return o
}

// encode returns the object as JSON.
func (o object) encode() jsontext.Value {
	b, _ := jsonv2.Marshal(o, jsonv2.Deterministic(true), lenient) // its values are valid JSON
	return b
}

// mergeCapability adds events to the capabilities in the response to initialize or server/discover, and tools if only
// the event server has some (CAP-1).
func (h *handler) mergeCapability(r *http.Request, call, said message, header http.Header) []byte {
	if said.Result.Kind() != '{' {
		return nil
	}
	modern, session := isModern(r), header.Get(wire.HeaderSessionID)
	if !modern && session != "" && call.declaresExtension() {
		h.sessions.declare(session)
	}
	value := jsontext.Value(h.es.Capabilities(modern))
	if !modern && session == "" { // no GET, on which list_changed would be sent
		without := objectOf(value)
		delete(without, "listChanged")
		value = without.encode()
	}
	result := objectOf(said.Result)
	capabilities := objectOf(result["capabilities"])
	extensions := objectOf(capabilities["extensions"])
	if capabilities[wire.CapabilityKey] != nil || extensions[wire.ExtensionID] != nil {
		h.warnOnce(r.Context(), "capability", "overlay: the MCP server next to events offers events too, which are hidden")
	}
	capabilities[wire.CapabilityKey], extensions[wire.ExtensionID] = value, value
	if capabilities["tools"] == nil && !h.noTools && len(h.toolNames()) > 0 {
		capabilities["tools"] = jsontext.Value(`{}`)
	}
	capabilities["extensions"] = extensions.encode()
	result["capabilities"] = capabilities.encode()
	return response(call.ID, "result", result.encode())
}

// mergeTools adds the tools of the event server to the first page of the response to tools/list, and removes tools of
// the same names from all pages.
func (h *handler) mergeTools(r *http.Request, call, said message, _ http.Header) []byte {
	var page struct {
		Cursor string `json:"cursor"`
	}
	call.params(&page)
	own := object{}
	if page.Cursor == "" {
		own = h.listTools(r, call)
	}
	if said.Error != nil {
		if len(own) == 0 || errorCode(said.Error) != jsonrpc.CodeMethodNotFound {
			return nil
		}
		return response(call.ID, "result", own.encode()) // next does not have tools
	}
	result := objectOf(said.Result)
	var all, others []jsontext.Value
	if result["tools"] == nil || jsonv2.Unmarshal(result["tools"], &others, lenient) != nil {
		return nil
	}
	if len(own) > 0 {
		_ = jsonv2.Unmarshal(own["tools"], &all, lenient)
		if string(own["cacheScope"]) == `"private"` {
			result["cacheScope"] = own["cacheScope"]
		}
	}
	names := h.toolNames()
	for _, tool := range others {
		name := message{Params: tool}.toolName()
		if !names[name] {
			all = append(all, tool)
			continue
		}
		h.warnOnce(r.Context(), "tool "+name, "overlay: a tool of the MCP server next to events is hidden, because a tool of events has its name", "tool", name)
	}
	result["tools"], _ = jsonv2.Marshal(slices.Concat([]jsontext.Value{}, all), lenient)
	return response(call.ID, "result", result.encode())
}

// listTools returns the event server's result of tools/list, with the tools that the caller may see. It returns an empty
// object if the server does not have tools.
func (h *handler) listTools(r *http.Request, call message) object {
	if len(h.toolNames()) == 0 {
		return object{}
	}
	asker := ownRequest(r)
	asker.Header.Set("Accept", contentTypeJSON+", "+sse.ContentType)
	asker.Header.Del("Origin") // next has accepted the page
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.own.ServeGuest(w, r, port.Guest{Context: r.Context()})
	})
	a, err := h.put(r.Context(), own, asker, newQuestion(methodToolsList, call, isModern(r)))
	if err != nil || a.message.Result == nil {
		h.log.WarnContext(r.Context(), "overlay: listing the tools of events", "error", err, "answer", wire.Shown(string(a.message.Error)))
		return object{}
	}
	return objectOf(a.message.Result)
}
