package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A dispatcher answers the extension's calls on one carrier. The calls bypass the SDK's transports, but not the
// receiving middleware that the application added to the SDK's server.
type dispatcher struct {
	es      *port.Port
	callers callerCache
	facts   func() serverFacts
}

func newDispatcher(es *port.Port) *dispatcher {
	return &dispatcher{es: es, facts: sync.OnceValue(func() serverFacts { return readServerFacts(es.MCP()) })}
}

// An eventsCall is an extension call.
type eventsCall struct {
	port.Carried
	extra *mcp.RequestExtra
	meta  func() map[string]any // returns the decoded _meta of the params; nil if it is still to be decoded
	// session returns the call's session for middleware. It is valid until endSession is called.
	session func(context.Context) (ss *mcp.ServerSession, endSession func(), err error)
	reply   port.Reply
}

// isEvents reports whether a method belongs to the extension.
func isEvents(method string) bool {
	switch method {
	case wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe:
		return true
	}
	return false
}

// answerCall answers a call. If it accepts an events/stream call, it sets c.Stream and the result has no meaning. It
// returns errors from the method or from middleware unchanged, and an internal error if middleware panics.
func (rt *dispatcher) answerCall(ctx context.Context, c *eventsCall) (result json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, rt.panicked(ctx, c, v)
		}
	}()
	c.AfterReply = c.reply.Add
	if middleware := rt.es.Receiving(); middleware != nil {
		result, err = c.answerThroughMiddleware(ctx, middleware)
	} else {
		c.Principal, c.Expires = rt.es.Authenticate(ctx, c.extra)
		if c.Method == wire.MethodStream && c.CanStream {
			c.Stream, err = rt.es.Open(ctx, c.Request)
		} else {
			result, err = rt.es.Call(ctx, c.Request)
		}
	}
	if err == nil && c.Stateless && c.Stream == nil {
		result = addMeta(result, rt.facts().meta)
	}
	return result, err
}

// panicked returns the error for a call in which middleware has panicked. It writes the panic to the log of the
// http.Server, as net/http does, or to the server's own log if the call did not come over HTTP.
func (rt *dispatcher) panicked(ctx context.Context, c *eventsCall, v any) error {
	if c.Stream != nil {
		c.Stream.Close()
		c.Stream = nil
	}
	if v == http.ErrAbortHandler {
		return http.ErrAbortHandler
	}
	text, stack := fmt.Sprintf("mcp events: panic in %s: %v", c.Method, v), string(debug.Stack())
	srv, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	switch {
	case !ok:
		rt.es.Logger().ErrorContext(ctx, text, "stack", stack)
	case srv.ErrorLog != nil:
		srv.ErrorLog.Print(text, "\n", stack)
	default:
		log.Print(text, "\n", stack)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: wire.Internal.String()}
}

// answerThroughMiddleware passes a call to receiving middleware. The innermost handler is registered by package server.
func (c *eventsCall) answerThroughMiddleware(ctx context.Context, middleware mcp.MethodHandler) (json.RawMessage, error) {
	ss, endSession, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	defer endSession()
	var meta map[string]any
	if c.meta != nil {
		meta = c.meta()
	} else {
		meta = port.DecodeMeta(c.Params)
	}
	params := port.NewParams(c.Params, meta)
	params.Carried = &c.Carried
	res, err := middleware(ctx, c.Method, &mcp.ServerRequest[*port.Params]{Session: ss, Params: params, Extra: c.extra})
	var result json.RawMessage
	if err == nil {
		result, err = encodeResult(c.Method, res)
	}
	switch {
	case c.Stream == nil:
	case err != nil || res != c.Accepted: // middleware refuses the stream, or answers the call itself
		c.Stream.Close()
		c.Stream = nil
	case len(result) > len(`{}`):
		c.Stream = &amendedStream{c.Stream, result}
	}
	return result, err
}

// encodeResult encodes the result that middleware has returned. Every result of MCP is an object.
func encodeResult(method string, res mcp.Result) (json.RawMessage, error) {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(res); err != nil {
		return nil, err
	}
	result := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if !isObject(result) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
			Message: "InternalError: middleware returned the result " + wire.Shown(string(result)) + " for " + method + ": return an object or an error"}
	}
	return result, nil
}

// An amendedStream is a stream to whose final result middleware has added members.
type amendedStream struct {
	port.Stream
	added json.RawMessage
}

// Run implements [port.Stream].
func (st *amendedStream) Run(ctx context.Context, c port.Carrier) (json.RawMessage, error) {
	final, err := st.Stream.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	var members, own map[string]json.RawMessage
	if json.Unmarshal(st.added, &members) != nil || json.Unmarshal(final, &own) != nil {
		return final, nil
	}
	meta := members["_meta"]
	maps.Copy(members, own)
	if final, err = jsonv2.Marshal(members, jsonv2.Deterministic(true)); err == nil && meta != nil && own["_meta"] != nil {
		final = addMeta(final, meta)
	}
	return final, err
}

// errorValue returns an error as JSON, encoded as the SDK does.
func errorValue(err error) json.RawMessage {
	b, err := jsonrpc.EncodeMessage(&jsonrpc.Response{Error: err})
	if err != nil {
		return json.RawMessage(`{"code":-32603,"message":"Internal"}`) // its data is not JSON
	}
	return member(b, "error")
}

// httpStatus returns the HTTP status for an error in the stateless revision, as the SDK sets it (ERR-3).
func httpStatus(err error) int {
	var jerr *jsonrpc.Error
	if errors.As(err, &jerr) {
		switch jerr.Code {
		case jsonrpc.CodeMethodNotFound:
			return http.StatusNotFound
		case jsonrpc.CodeInvalidParams, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

// statelessCaller returns the caller of a stateless call. It returns false if the SDK would reject the call's _meta.
func (rt *dispatcher) statelessCaller(meta json.RawMessage) (who caller, ok bool) {
	who, ok = rt.callers.lookup(meta)
	return who, ok && who.init.ProtocolVersion >= wire.RevisionStateless && slices.Contains(rt.facts().versions, who.init.ProtocolVersion)
}

// serverFacts holds information about a server that the SDK sends only to clients.
type serverFacts struct {
	versions []string
	meta     json.RawMessage // an object that the SDK adds to the _meta of every result
}

// readServerFacts reads the facts about a server in a temporary session, bypassing all middleware.
func readServerFacts(srv *mcp.Server) serverFacts {
	facts := serverFacts{versions: mcp.SupportedProtocolVersions(), meta: json.RawMessage(`{}`)}
	bare := port.BareHandler() // past the middleware
	ctx := context.Background()
	ss, endSession, err := newTempSession(ctx, srv, nil, nil)
	if err != nil {
		return facts
	}
	defer endSession()
	res, _ := bare(ctx, methodInitialize, &mcp.ServerRequest[*mcp.InitializeParams]{Session: ss, Params: &mcp.InitializeParams{}})
	if r, ok := res.(*mcp.InitializeResult); ok && r.ServerInfo != nil {
		facts.meta, _ = json.Marshal(map[string]any{mcp.MetaKeyServerInfo: r.ServerInfo}) // it marshals strings, so it cannot fail
	}
	res, _ = bare(ctx, methodDiscover, &mcp.ServerRequest[*mcp.DiscoverParams]{Session: ss, Params: &mcp.DiscoverParams{}})
	if r, ok := res.(*mcp.DiscoverResult); ok {
		facts.versions = r.SupportedVersions
	}
	return facts
}

// addMeta adds the members of meta to the _meta of a result. Existing members take precedence, as in the SDK.
func addMeta(result, meta json.RawMessage) json.RawMessage {
	if len(meta) <= len(`{}`) || len(result) < len(`{}`) || result[0] != '{' {
		return result
	}
	var own json.RawMessage
	if bytes.Contains(result, []byte(`"_meta"`)) {
		own = member(result, "_meta")
	}
	if own != nil {
		var all map[string]json.RawMessage
		merged := map[string]json.RawMessage{}
		if json.Unmarshal(result, &all) != nil || json.Unmarshal(meta, &merged) != nil || json.Unmarshal(own, &merged) != nil {
			return result
		}
		all["_meta"], _ = jsonv2.Marshal(merged, jsonv2.Deterministic(true)) // its values are valid JSON, so it cannot fail
		out, _ := jsonv2.Marshal(all, jsonv2.Deterministic(true))
		return out
	}
	out := make(json.RawMessage, 0, len(result)+len(meta)+len(`,"_meta":`))
	out = append(out, result[:len(result)-1]...)
	if len(result) > len(`{}`) {
		out = append(out, ',')
	}
	out = append(out, `"_meta":`...)
	out = append(out, meta...)
	return append(out, '}')
}

// appendResponse appends a JSON-RPC response to b. The kind is "result" or "error".
func appendResponse(b []byte, id json.RawMessage, kind string, value json.RawMessage) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"`...)
	b = append(b, kind...)
	b = append(b, `":`...)
	b = append(b, value...)
	return append(b, '}')
}
