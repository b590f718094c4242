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

// methodParams holds the parameters of an extension method. The type of body is declared in package wire. The SDK fills
// in the _meta.
type methodParams struct {
	mcp.ParamsBase
	body any
}

// MarshalJSON encodes the members of body, followed by _meta.
func (p *methodParams) MarshalJSON() ([]byte, error) {
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

// A rawResult is the undecoded JSON result of an extension method. The SDK would end the session if it failed to decode
// a malformed result.
type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

// UnmarshalJSON stores a copy of data.
func (r *rawResult) UnmarshalJSON(data []byte) error {
	r.raw = append(r.raw[:0], data...)
	return nil
}

// installExtension registers the extension's methods with mc and declares the extension in every request that carries
// capabilities (CAP-3). It returns the handler beneath mc's other middleware. Only that handler can send
// subscriptions/listen.
func installExtension(mc *mcp.Client) (mcp.MethodHandler, error) {
	for _, method := range []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe} {
		if err := mcp.AddSendingCustomMethod[*methodParams, *rawResult](mc, method); err != nil {
			return nil, err
		}
	}
	var below mcp.MethodHandler
	mc.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		below = next
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			declareExtension(req.GetParams())
			if ctx.Value(unsentKey{}) != nil {
				return &rawResult{}, nil
			}
			return next(ctx, method, req)
		}
	})
	return below, nil
}

type unsentKey struct{}

// fillMeta fills in the _meta of p as the SDK does for its own calls. It sends nothing.
func (s *session) fillMeta(ctx context.Context, p *methodParams) error {
	_, err := mcp.CallCustomMethod[*methodParams, *rawResult](context.WithValue(ctx, unsentKey{}, true), s.cs, wire.MethodStream, p)
	return err
}

// declareExtension adds the extension to the capabilities in p. The capabilities are a parameter of initialize or,
// since revision 2026-07-28, part of _meta.
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
		raw, err := s.callExtension(ctx, method, body, c)
		answered <- answer{raw, err}
	}()
	select {
	case a := <-answered:
		if errors.As(a.err, new(*staleError)) {
			s.requireHandshake()
		}
		return a.raw, a.err
	case <-ctx.Done():
		return nil, c.contextError(ctx)
	}
}

// callExtension calls an extension method and returns its raw result.
func (s *session) callExtension(ctx context.Context, method string, body any, c *call) (json.RawMessage, error) {
	if !s.events {
		return nil, ErrNoEvents
	}
	c.method = method
	ctx, cancel := s.withSession(ctx)
	defer cancel()
	res, err := mcp.CallCustomMethod[*methodParams, *rawResult](withCall(ctx, c), s.cs, method, &methodParams{body: body})
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

// runStream sends a request whose response is a stream, passes the notifications to c.in, and returns the reason the
// stream ended. Over HTTP, the poster sends the request. Otherwise the notifications arrive through the connection's
// tap.
func (s *session) runStream(ctx context.Context, method string, p *methodParams, c *call) error {
	c.method = method
	ctx, cancel := s.withSession(ctx)
	defer cancel()
	if s.post != nil {
		return s.post.runStream(ctx, s, p, c)
	}
	if method != methodListen {
		if _, err := s.callExtension(ctx, method, p.body, c); err != nil {
			return err
		}
		return errStreamEnded
	}
	if err := s.fillMeta(ctx, p); err != nil {
		return err
	}
	// This send returns once the request is written.
	if _, err := s.send(withCall(ctx, c), method, &mcp.ClientRequest[*methodParams]{Session: s.cs, Params: p}); err != nil {
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

// errDeclined is returned if the server does not support the filter of a listen request.
var errDeclined = errors.New("client: the server declines " + methodListen)

// listen keeps a subscriptions/listen request open and returns the reason it ended. The agreed function receives the
// server's acknowledgment and reports whether it covers the request. If it does not, listen returns errDeclined.
func (c *Client) listen(ctx context.Context, s *session, p *methodParams, of *availability, agreed func(ack wire.Members) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own := newCall(newFrameQueue(s.board.shared))
	own.availability = of
	ended := make(chan error, 1)
	c.runInBackground(func() { ended <- s.runStream(ctx, methodListen, p, own) })
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
