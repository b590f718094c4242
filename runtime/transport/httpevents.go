package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// serveModernEvents answers an extension call in the stateless revision. If the request does not pass the SDK's checks,
// the SDK refuses it.
func (h *handler) serveModernEvents(w http.ResponseWriter, r *http.Request, p *postBody, g *port.Guest) {
	who, ok := h.acceptedCaller(r, p.env)
	if !ok {
		h.passToSDK(h.stateless, w, r, p)
		return
	}
	a := &callResponse{w: w, id: bytes.Clone(p.env.id), modern: true}
	c := h.newCall(r, p, a)
	c.Stateless, c.DeclaresExtension = true, who.declares
	c.meta, c.session = who.meta, h.tempSession(who.init, a)
	ctx := r.Context()
	if g != nil {
		ctx, c.Until = g.Context, g.Until
	}
	h.serveEvents(ctx, r, p, c, a, nil)
}

// acceptedCaller returns the caller of a call in the stateless revision and reports whether the SDK would accept the
// call.
func (h *handler) acceptedCaller(r *http.Request, env envelope) (who caller, ok bool) {
	if !isEvents(env.method) || env.method != r.Header.Get(headerMethod) || !env.isCall() || env.result != nil || env.error != nil {
		return caller{}, false
	}
	who, ok = h.route.statelessCaller(env.meta)
	return who, ok && who.init.ProtocolVersion == r.Header.Get(headerVersion)
}

// serveLegacyEvents answers an extension call in an older revision. The SDK refuses the call if the session does not
// exist or belongs to another caller. In a session, live allows the call to be cancelled.
func (h *handler) serveLegacyEvents(w http.ResponseWriter, r *http.Request, p *postBody, live *liveCall, g *port.Guest) {
	a := &callResponse{w: w, id: bytes.Clone(p.env.id)}
	c := h.newCall(r, p, a)
	if !h.sessioned {
		version := cmp.Or(r.Header.Get(headerVersion), defaultRevision)
		if !slices.Contains(h.route.facts().versions, version) {
			h.passToSDK(h.legacy, w, r, p)
			return
		}
		ctx, init := r.Context(), &mcp.InitializeParams{ProtocolVersion: version}
		if g != nil {
			ctx, c.Until, c.DeclaresExtension = g.Context, g.Until, g.DeclaresExtension
		}
		if c.DeclaresExtension {
			init.Capabilities = &mcp.ClientCapabilities{Extensions: map[string]any{wire.ExtensionID: map[string]any{}}}
		}
		c.session = h.tempSession(init, a)
		h.serveEvents(ctx, r, p, c, a, live)
		return
	}
	check := h.sendSubstitute(h.legacy, r, envelope{})
	ctx, over := context.WithCancel(r.Context())
	defer over()
	ss, leave := h.sessions.attachCall(r.Header.Get(headerSession), over)
	defer leave()
	principal, _ := h.authenticate(r)
	defer h.es.UntilEnd(httpSession(r), principal, over)() // the SDK ends a session only after its own calls
	switch {
	case live.gone.Load():
		writeEmptyStream(w)
	case !check.isAccepted():
		check.writeTo(w)
	case ss == nil:
		http.Error(w, "session not found", http.StatusNotFound)
	default:
		c.DeclaresExtension = declaresExtension(ss.InitializeParams())
		c.session = func(context.Context) (*mcp.ServerSession, func(), error) { return ss, func() {}, nil }
		h.serveEvents(ctx, r, p, c, a, live)
	}
}

// newCall creates the eventsCall of a request.
func (h *handler) newCall(r *http.Request, p *postBody, a *callResponse) *eventsCall {
	c := &eventsCall{extra: &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header, CloseSSEStream: func(mcp.CloseSSEStreamArgs) {}}}
	c.Method, c.Params, c.ID, c.CanStream = p.env.method, p.env.params, a.id, canFlush(a.w)
	return c
}

// tempSession returns a function that starts a temporary session for the middleware of a sessionless call.
func (h *handler) tempSession(init *mcp.InitializeParams, a *callResponse) func(context.Context) (*mcp.ServerSession, func(), error) {
	return func(ctx context.Context) (*mcp.ServerSession, func(), error) {
		return newTempSession(ctx, h.srv, init, a.send)
	}
}

// serveEvents answers a call. The context is derived from the request's and is also cancelled when the session ends.
func (h *handler) serveEvents(ctx context.Context, r *http.Request, p *postBody, c *eventsCall, a *callResponse, live *liveCall) {
	if st := h.answerEvents(ctx, r, c, a, live); st != nil {
		request := r.Context()
		if ctx != request {
			defer context.AfterFunc(ctx, st.End)()
		}
		p.body, p.env, r.Body = nil, envelope{}, http.NoBody // do not keep the request's data during the stream
		w := &eventWriter{w: a.w, rc: http.NewResponseController(a.w), timeout: h.writeTimeout}
		w.prepare(r, a.stopMessages())
		h.carry(request, st, w, a.id, live)
	}
}

// answerEvents answers a call, or returns the stream that answers it.
func (h *handler) answerEvents(ctx context.Context, r *http.Request, c *eventsCall, a *callResponse, live *liveCall) port.Stream {
	defer c.reply.Finish()
	result, err := h.route.answerCall(ctx, c)
	gone := r.Context().Err() != nil
	if c.Stream != nil && gone {
		c.Stream.Close()
	}
	switch {
	case err == http.ErrAbortHandler:
		panic(http.ErrAbortHandler) // as middleware asked
	case live != nil && live.gone.Load():
		if !a.stopMessages() {
			writeEmptyStream(a.w)
		}
	case gone: // the client has disconnected
	case c.Stream != nil:
		return c.Stream
	case ctx.Err() != nil:
		http.Error(a.w, "session is closing", http.StatusNotFound)
	default:
		a.finish(result, err)
	}
	return nil
}

// carry writes a stream. It does not write the final result of a cancelled stream (D14).
func (h *handler) carry(request context.Context, st port.Stream, w *eventWriter, id json.RawMessage, live *liveCall) {
	final, err := st.Run(request, w)
	switch {
	case err == nil && (live == nil || !live.gone.Load()):
		_ = w.writeMessage(appendResponse(nil, id, "result", final)) // PUSH-8; a failure cannot be reported
	case err != nil && request.Err() == nil:
		h.log.LogAttrs(request, slog.LevelInfo, "events/stream: client cut off", slog.Any("error", err))
	}
}
