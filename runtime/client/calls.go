package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const methodListen = "subscriptions/listen"

// params holds the parameters of any method of the extension. The body is a type of package wire, and the SDK fills in
// the _meta.
type params struct {
	mcp.ParamsBase
	body any
}

// MarshalJSON encodes the members of body, followed by _meta.
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

// A result is a raw JSON result. Only package wire decodes the extension's results, so a malformed result does not end
// the session.
type result struct {
	mcp.ResultBase
	raw json.RawMessage
}

// UnmarshalJSON stores a copy of data.
func (r *result) UnmarshalJSON(data []byte) error {
	r.raw = append(r.raw[:0], data...)
	return nil
}

// install registers the extension's methods with mc and declares the extension in every request that carries
// capabilities (CAP-3). It returns the handler below mc's other middleware, which can send subscriptions/listen.
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
			declareExtension(req.GetParams())
			if ctx.Value(unsentKey{}) != nil {
				return &result{}, nil
			}
			return next(ctx, method, req)
		}
	})
	return below, nil
}

type unsentKey struct{}

// fillMeta fills in the _meta of p as the SDK does for its own calls. It sends nothing.
func (s *session) fillMeta(ctx context.Context, p *params) error {
	_, err := mcp.CallCustomMethod[*params, *result](context.WithValue(ctx, unsentKey{}, true), s.cs, wire.MethodStream, p)
	return err
}

// declareExtension adds the extension to the capabilities in p. They are a parameter of initialize, or part of _meta
// since revision 2026-07-28.
func declareExtension(p mcp.Params) {
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

// call sends one request and returns its raw result. It returns as soon as ctx ends, even while the SDK is blocked
// writing to a peer that does not read.
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
		return nil, c.contextError(ctx)
	}
}

// do sends one request of the extension and returns its raw result.
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

// stream sends a request whose response is a stream. It passes the notifications to c.in and returns the reason the
// stream ended. Over HTTP, the poster sends the request. Otherwise the notifications arrive through the connection's
// tap.
func (s *session) stream(ctx context.Context, method string, p *params, c *call) error {
	c.method = method
	ctx, cancel := s.join(ctx)
	defer cancel()
	if s.post != nil {
		return s.post.stream(ctx, s, p, c)
	}
	if method != methodListen {
		if _, err := s.do(ctx, method, p.body, c); err != nil {
			return err
		}
		return errStreamEnded
	}
	if err := s.fillMeta(ctx, p); err != nil {
		return err
	}
	// This send returns once the request is written.
	if _, err := s.send(withCall(ctx, c), method, &mcp.ClientRequest[*params]{Session: s.cs, Params: p}); err != nil {
		return err
	}
	select {
	case <-c.gone:
		return errStreamEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listenParams holds the params of subscriptions/listen. The SDK's type does not include the filter.
type listenParams struct {
	Notifications map[string]bool `json:"notifications"`
}

// errDeclined reports that the server does not support the filter of a listen request.
var errDeclined = errors.New("client: the server declines " + methodListen)

// listen keeps a subscriptions/listen request open and returns the reason it ended. The agreed function receives the
// server's acknowledgment and reports whether it covers the request. If it does not, the error is errDeclined.
func (c *Client) listen(ctx context.Context, s *session, p *params, of *availability, agreed func(ack wire.Members) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own := newCall(newFrameQueue(s.board.shared))
	own.presence = of
	ended := make(chan error, 1)
	c.background(func() { ended <- s.stream(ctx, methodListen, p, own) })
	trust := s.board.trustContext()
	answer := time.NewTimer(c.opts.CallTimeout)
	defer answer.Stop()
	acknowledged := false
	take := func(f frame) error {
		own.in.release(f)
		if f.method != notificationListenAck || acknowledged {
			return nil
		}
		ack, err := wire.DecodeMembers(f.params)
		if acknowledged = err == nil && agreed(ack); !acknowledged {
			return errDeclined
		}
		answer.Stop()
		return nil
	}
	for {
		select {
		case f := <-own.in.frames:
			if err := take(f); err != nil {
				return err
			}
		case err := <-ended:
			for len(own.in.frames) > 0 { // they arrived before the end
				if err := take(<-own.in.frames); err != nil {
					return err
				}
			}
			return err
		case <-trust.Done():
			return errSilent
		case <-answer.C:
			return errTimeout(methodListen)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
