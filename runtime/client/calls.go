package client

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const methodListen = "subscriptions/listen"

// params are the params of any method of the extension: a shape of package wire, plus the _meta
// that the SDK fills in.
type params struct {
	mcp.ParamsBase
	body any
}

// MarshalJSON writes the members of body and then _meta.
func (p *params) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(p.body)
	if err != nil || len(p.Meta) == 0 {
		return body, err
	}
	meta, err := json.Marshal(p.Meta)
	if err != nil {
		return nil, err
	}
	out := body[:len(body)-1]
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"_meta":`...)
	return append(append(out, meta...), '}'), nil
}

// result keeps a result as it came, so that what the extension's results look like is decided in
// package wire only and a strange one is no failure of the session.
type result struct {
	mcp.ResultBase
	raw json.RawMessage
}

// UnmarshalJSON keeps a copy of data.
func (r *result) UnmarshalJSON(data []byte) error {
	r.raw = append(r.raw[:0], data...)
	return nil
}

// listenParams are those of subscriptions/listen with the filter that the SDK's own type lacks.
type listenParams struct {
	mcp.ParamsBase
	Notifications map[string]bool `json:"notifications"`
}

// install prepares mc: it may send the extension's methods, and it declares the extension in every
// request that carries capabilities (CAP-3). It returns the handler below mc's other middleware,
// by which subscriptions/listen is sent.
func install(mc *mcp.Client) (mcp.MethodHandler, error) {
	for _, method := range []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe} {
		if err := mcp.AddSendingCustomMethod[*params, *result](mc, method); err != nil {
			return nil, err
		}
	}
	var below mcp.MethodHandler
	mc.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		below = next
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			declare(req.GetParams())
			if c := callFrom(ctx); c != nil && req.GetParams() != nil {
				c.mu.Lock()
				c.meta = maps.Clone(req.GetParams().GetMeta())
				c.mu.Unlock()
			}
			return next(ctx, method, req)
		}
	})
	return below, nil
}

// declare adds the extension to the capabilities in p: those of initialize, or those that travel
// in _meta since 2026-07-28.
func declare(p mcp.Params) {
	if p == nil {
		return
	}
	if init, ok := p.(*mcp.InitializeParams); ok {
		if init.Capabilities != nil {
			init.Capabilities.AddExtension(wire.ExtensionID, nil)
		}
		return
	}
	meta := p.GetMeta()
	caps, ok := meta[mcp.MetaKeyClientCapabilities]
	if !ok {
		return
	}
	raw, err := json.Marshal(caps)
	if err != nil {
		return
	}
	var open map[string]any
	if json.Unmarshal(raw, &open) != nil || open == nil {
		return
	}
	extensions, _ := open["extensions"].(map[string]any)
	if extensions == nil {
		extensions = map[string]any{}
	}
	if _, ok := extensions[wire.ExtensionID]; ok {
		return
	}
	extensions[wire.ExtensionID] = map[string]any{}
	open["extensions"] = extensions
	meta[mcp.MetaKeyClientCapabilities] = open
}

// call is do for answers that come soon. It returns as soon as ctx ends, even while the SDK is
// stuck writing to a peer that does not read.
func (s *session) call(ctx context.Context, method string, body any, c *call) (json.RawMessage, error) {
	type answer struct {
		raw json.RawMessage
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		raw, err := s.do(ctx, method, body, c)
		answered <- answer{raw, err}
	}()
	select {
	case a := <-answered:
		if errors.As(a.err, new(*staleError)) {
			s.suspect()
		}
		return a.raw, a.err
	case <-ctx.Done():
		return nil, c.over(ctx)
	}
}

// do sends one request of the extension and returns its result as it came.
func (s *session) do(ctx context.Context, method string, body any, c *call) (json.RawMessage, error) {
	if !s.events {
		return nil, ErrNoEvents
	}
	c.method = method
	ctx, cancel := s.join(ctx)
	defer cancel()
	res, err := mcp.CallCustomMethod[*params, *result](withCall(ctx, c), s.cs, method, &params{body: body})
	if err != nil {
		return nil, callError(ctx, s, c, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result != nil {
		return c.result, nil
	}
	return res.raw, nil
}
