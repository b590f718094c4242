package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// eventServers contains the mcp.Servers that serve events, as values of type weak.Pointer[mcp.Server].
var eventServers sync.Map

// claimServer records that srv serves events. It returns an error if srv already serves them. A nil srv is ignored.
func claimServer(srv *mcp.Server) (release func(), err error) {
	if srv == nil {
		return func() {}, nil
	}
	key := weak.Make(srv)
	if _, taken := eventServers.LoadOrStore(key, struct{}{}); taken {
		return nil, errors.New("this mcp.Server already serves events: register all event types with the Server that the first call returned, " +
			"or make another mcp.Server")
	}
	runtime.AddCleanup(srv, func(key weak.Pointer[mcp.Server]) { eventServers.Delete(key) }, key)
	return func() { eventServers.Delete(key) }, nil
}

// install registers the events/* methods and the middleware with the mcp.Server.
func (s *Server) install() error {
	s.addMiddleware(s.middleware)
	for _, method := range []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe} {
		err := mcp.AddReceivingCustomMethod(s.mcp, method, func(ctx context.Context, _ *mcp.ServerSession, p *rawParams) (*rawResult, error) {
			return s.serve(ctx, method, p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ServerRequest[*rawParams]:
			if r.Params == nil {
				r.Params = &rawParams{} // the SDK's accessors need params
			}
			r.Params.Request = r
		case *mcp.CallToolRequest, *mcp.GetPromptRequest, *mcp.ReadResourceRequest, *mcp.CompleteRequest: // answered by the author's handlers
			ctx = s.withCaller(ctx, req.GetExtra())
		}
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *mcp.InitializeResult:
			port.Begin(ctx, req.GetSession())
			return &initializeResult{r, s.capabilities(false), s}, nil
		case *mcp.DiscoverResult:
			return &discoverResult{r, s.capabilities(true), s}, nil
		case *mcp.ListToolsResult:
			return s.tools.Shown(ctx, req, r), nil
		}
		return res, nil
	}
}

// errRevision is returned if middleware changes the revision that a request follows. The carrier has already chosen
// the form of the response.
var errRevision = &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
	Message: "InternalError: middleware changed " + mcp.MetaKeyProtocolVersion + " in _meta of the request, which determines the form of its response: leave it unchanged"}

// serve handles every events/* method. Carried is set if the call comes from a carrier. All other calls come from the
// SDK's transports, which cannot carry a stream. Whatever middleware has replaced is used: the method, the params, the
// context and the token.
func (s *Server) serve(ctx context.Context, method string, p *rawParams) (*rawResult, error) {
	if p == nil || p.Request == nil {
		return nil, errors.New("the params of " + method + " did not pass the middleware of mcpe-gen: pass on the params that were received")
	}
	raw, err := p.Encode()
	if err != nil {
		return nil, err
	}
	r := port.Request{Method: method, Params: raw, Stateless: p.Request.ProtocolVersion() >= wire.RevisionStateless,
		DeclaresExtension: declaresExtension(p.Request)}
	if c := p.Carried; c != nil {
		version, _ := p.Meta[mcp.MetaKeyProtocolVersion].(string)
		if c.Stateless != (version >= wire.RevisionStateless) {
			return nil, errRevision
		}
		r.ID, r.Stateless, r.CanStream, r.AfterReply, r.Until = c.ID, c.Stateless, c.CanStream, c.AfterReply, c.Until
	}
	r.Principal, r.Expires = s.authenticate(ctx, p.Request.Extra)
	if p.Carried != nil && method == wire.MethodStream && r.CanStream {
		return s.acceptStream(ctx, r, p.Carried)
	}
	res, err := portAdapter{s}.Call(ctx, r)
	if err != nil {
		return nil, err
	}
	return newRawResult(res), nil
}

// declaresExtension reports whether the caller declared the extension (CAP-3). It reads capabilities that were received
// with the request without the SDK's ClientCapabilities, which encodes and decodes them.
func declaresExtension(r *mcp.ServerRequest[*rawParams]) (declared bool) {
	if received, ok := r.Params.Meta[mcp.MetaKeyClientCapabilities].(map[string]any); ok {
		extensions, _ := received["extensions"].(map[string]any)
		_, declared = extensions[wire.ExtensionID]
	} else if capabilities := r.ClientCapabilities(); capabilities != nil {
		_, declared = capabilities.Extensions[wire.ExtensionID]
	}
	return declared
}

// acceptStream opens the stream for a call and passes it to the carrier. If middleware repeats the call, the carrier
// uses the last stream.
func (s *Server) acceptStream(ctx context.Context, r port.Request, c *port.Carried) (*rawResult, error) {
	st, err := portAdapter{s}.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	if c.Stream != nil {
		c.Stream.Close()
	}
	c.Stream = &streamOf{Stream: st, values: context.WithoutCancel(ctx)}
	res, ok := c.Accepted.(*rawResult)
	if !ok {
		res = newRawResult(json.RawMessage(`{}`))
		c.Accepted = res
	}
	return res, nil
}

// A streamOf is a stream whose hooks receive the values of the context that middleware passed to the method.
type streamOf struct {
	port.Stream
	values context.Context
}

// Run implements [port.Stream].
func (st *streamOf) Run(ctx context.Context, c port.Carrier) (json.RawMessage, error) {
	return st.Stream.Run(valuesOf{ctx, st.values}, c)
}

// A valuesOf is a context with the values of another one, which is never done.
type valuesOf struct {
	context.Context
	values context.Context
}

// Value returns a value of the other context or, if it has none, of this one.
func (c valuesOf) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// rawParams preserves the exact bytes of the params.
type rawParams = port.Params

// rawResult is a complete result with the _meta members that the SDK adds.
type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage // an object; its _meta, if any, was moved to Meta
}

const metaMember = `"_meta":{`

func newRawResult(raw json.RawMessage) *rawResult {
	r := &rawResult{raw: raw}
	if !bytes.Contains(raw, []byte(metaMember)) {
		return r
	}
	var members map[string]json.RawMessage
	var meta map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["_meta"], &meta) != nil {
		return r
	}
	r.Meta = make(mcp.Meta, len(meta))
	for k, v := range meta {
		r.Meta[k] = v // keeps the digits of a numeric id
	}
	delete(members, "_meta")
	if b, err := json.Marshal(members); err == nil {
		r.raw = b
	}
	if len(meta) == 0 {
		r.Meta = nil
		r.raw = raw // {"_meta":{}} is unchanged
	}
	return r
}

// MarshalJSON writes the result with _meta last.
func (r *rawResult) MarshalJSON() ([]byte, error) {
	if r == nil || len(r.raw) < 2 {
		return []byte("{}"), nil
	}
	if len(r.Meta) == 0 {
		return r.raw, nil
	}
	meta, err := json.Marshal(map[string]any(r.Meta))
	if err != nil {
		return nil, fmt.Errorf("encoding _meta of a result: %w", err)
	}
	b := append(make([]byte, 0, len(r.raw)+len(meta)+16), r.raw[:len(r.raw)-1]...)
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(b, `"_meta":`...)
	b = append(b, meta...)
	return append(b, '}'), nil
}

// UnmarshalJSON decodes a result for callers within the process.
func (r *rawResult) UnmarshalJSON(b []byte) error {
	*r = *newRawResult(bytes.Clone(b))
	return nil
}

// initializeResult adds both forms of the events capability to the SDK's result (D1, CAP-1).
type initializeResult struct {
	*mcp.InitializeResult
	events json.RawMessage
	server *Server
}

func (r *initializeResult) MarshalJSON() ([]byte, error) {
	res := *r.InitializeResult
	res.Capabilities = r.server.port.WithExperimental(res.Capabilities, res.ServerInfo)
	return r.server.withCapability(&res, r.events)
}

type discoverResult struct {
	*mcp.DiscoverResult
	events json.RawMessage
	server *Server
}

func (r *discoverResult) MarshalJSON() ([]byte, error) {
	res := *r.DiscoverResult
	info, _ := res.Meta[mcp.MetaKeyServerInfo].(*mcp.Implementation)
	res.Capabilities = r.server.port.WithExperimental(res.Capabilities, info)
	return r.server.withCapability(&res, r.events)
}

func (s *Server) withCapability(result any, value json.RawMessage) ([]byte, error) {
	b, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	top, err := decodeObject(b)
	if err != nil {
		return nil, err
	}
	capabilities, err := decodeObject(top["capabilities"])
	if err != nil {
		return nil, err
	}
	extensions, err := decodeObject(capabilities["extensions"])
	if err != nil {
		return nil, err
	}
	others, err := s.port.TopLevel()
	if err != nil {
		return nil, err
	}
	maps.Copy(capabilities, others)
	capabilities[wire.CapabilityKey] = value
	extensions[wire.ExtensionID] = value
	if capabilities["extensions"], err = json.Marshal(extensions); err != nil {
		return nil, err
	}
	if top["capabilities"], err = json.Marshal(capabilities); err != nil {
		return nil, err
	}
	return json.Marshal(top)
}

// decodeObject decodes a JSON object into a map. It returns an empty map if raw is empty or null.
func decodeObject(raw json.RawMessage) (map[string]json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	if len(raw) == 0 {
		return m, nil
	}
	err := json.Unmarshal(raw, &m)
	if m == nil {
		m = map[string]json.RawMessage{} // it was null
	}
	return m, err
}
