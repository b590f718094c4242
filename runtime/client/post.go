package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/oauth2"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A poster sends the requests whose responses are streams: events/stream and subscriptions/listen. The SDK would drop
// the notifications in those streams. Each request has the session's ID, revision and token, as the SDK's own requests
// do.
type poster struct {
	client   http.Client
	endpoint string
	oauth    *authorizer // nil without OAuth
	limit    int64       // of one message
	timeout  time.Duration
	last     atomic.Int64 // the number in the last request's id
}

// runStream sends one request, passes the notifications in the response to c, and returns the reason the response
// ended. If the server refuses the request with status 401, 403 or 404, runStream renews the token or the session and
// resends the request.
func (p *poster) runStream(ctx context.Context, s *session, params *methodParams, c *call) error {
	if err := s.fillMeta(ctx, params); err != nil {
		return err
	}
	method, id := c.method, strconv.Quote("stream-"+strconv.FormatInt(p.last.Add(1), 10))
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	s.board.route(ctx, id, c)
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, text)
	ctx = withCall(ctx, c)
	defer func() {
		if ctx.Err() != nil && s.ctx.Err() == nil && s.cs.ID() != "" {
			p.cancelRequest(s, id)
		}
	}()
	resp, err := p.send(ctx, s, method, body)
	if err == nil && p.mayRenew(resp, id) {
		if err := p.renew(ctx, s, resp, c); err != nil {
			return err
		}
		c.method = method
		resp, err = p.send(ctx, s, method, body)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 && mediaType(resp) == typeSSE {
		return p.receive(ctx, s, resp, c, id)
	}
	if _, err := c.readResult(resp, id, s.cs.ID() != "", p.limit); err != nil {
		return err
	}
	return errStreamEnded
}

// send sends one request. The method must match the method in body.
func (p *poster) send(ctx context.Context, s *session, method string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", typeJSON)
	req.Header.Set("Accept", typeJSON+", "+typeSSE)
	req.Header.Set(wire.HeaderProtocolVersion, s.version())
	if s.stateless {
		req.Header.Set(wire.HeaderMethod, method)
	}
	if id := s.cs.ID(); id != "" {
		req.Header.Set(wire.HeaderSessionID, id)
	}
	if p.oauth != nil {
		token, err := p.oauth.authorizationHeader(ctx)
		if err != nil {
			return nil, fmt.Errorf("client: the token for %s: %w", method, err)
		}
		if token != "" {
			req.Header.Set("Authorization", token)
		}
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, wrapConnectionError("no connection", err)
	}
	return resp, nil
}

// mayRenew reports whether the token or the session may be the cause of a refusal.
func (p *poster) mayRenew(resp *http.Response, id string) bool {
	if isChallenge(resp) && p.oauth != nil {
		return true
	}
	return (isChallenge(resp) || resp.StatusCode == http.StatusNotFound) && !isAnswer(resp, id)
}

// isAnswer reports whether a refusal is a JSON-RPC response to the request with the given ID. It restores the body
// after reading it.
func isAnswer(resp *http.Response, id string) bool {
	body := readRefusal(resp)
	replaceBody(resp, body)
	r := parseResponse(body)
	return r != nil && idText(r.ID.Raw()) == id
}

// renew passes a challenge to the OAuth handler. After any other refusal, it calls events/list through the SDK, which
// detects whether the session has ended.
func (p *poster) renew(ctx context.Context, s *session, resp *http.Response, c *call) error {
	if p.oauth != nil && isChallenge(resp) {
		if err := p.oauth.Authorize(ctx, resp.Request, resp); err != nil {
			return fmt.Errorf("client: authorizing %s: %w", c.method, err)
		}
		return nil
	}
	resp.Body.Close()
	if !s.events {
		return nil // a listen request of another protocol
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout(wire.MethodList))
	defer cancel()
	_, err := s.call(ctx, wire.MethodList, wire.ListParams{}, c)
	return err
}

// receive passes the notifications in a response to c until the response ends, and returns the reason it ended.
func (p *poster) receive(ctx context.Context, s *session, resp *http.Response, c *call, id string) error {
	for blocks := newBlockReader(resp.Body, p.limit); ; {
		block, end := blocks.next()
		data := blockData(block)
		m, err := decodeMessage(data)
		switch m := m.(type) {
		case *jsonrpc.Request:
			if m.IsCall() {
				// The client would have to send a POST for each response (PUSH-9).
				return c.unusable(errors.New("a request, " + clip([]byte(m.Method)) + ", on a stream of events"))
			}
			s.board.handleNotification(ctx, frame{m.Method, m.Params}, c)
		case *jsonrpc.Response:
			if idText(m.ID.Raw()) == id {
				if err := convertRefusal(m.Error); err != nil {
					return err
				}
				return errStreamEnded
			}
		default:
			if len(data) > 0 && end == nil {
				return c.unusable(notMessage(err, data))
			}
		}
		if end != nil {
			return c.endError(end)
		}
	}
}

// cancelRequest sends a cancel notification to a server that uses sessions. In older protocol revisions, closing the
// connection does not cancel the request.
func (p *poster) cancelRequest(s *session, id string) {
	ctx, cancel := context.WithTimeout(s.ctx, closeGrace)
	defer cancel()
	const method = "notifications/cancelled"
	resp, err := p.send(ctx, s, method, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s}}`, method, id))
	if err == nil {
		resp.Body.Close()
	}
}

// An authorizer runs one authorization at a time, so concurrent refusals open only one browser window.
type authorizer struct {
	auth.OAuthHandler
	turn chan struct{} // of the client
}

// Authorize returns immediately if the token has changed since the request was sent.
func (a *authorizer) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		resp.Body.Close()
		return context.Cause(ctx)
	}
	if now, err := a.authorizationHeader(ctx); err == nil && now != "" && now != req.Header.Get("Authorization") {
		resp.Body.Close()
		return nil
	}
	return a.OAuthHandler.Authorize(ctx, req, resp)
}

// authorizationHeader returns the value of the Authorization header, or "" without a token. If the refresh token was
// refused, it also returns "" without an error, and the server then challenges the request.
func (a *authorizer) authorizationHeader(ctx context.Context) (string, error) {
	source, err := a.TokenSource(context.WithoutCancel(ctx)) // the source may outlive this request
	if err != nil || source == nil {
		return "", err
	}
	token, err := source.Token()
	switch refused := (*oauth2.RetrieveError)(nil); {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return "", nil
	case err != nil || token == nil:
		return "", err
	}
	return "Bearer " + token.AccessToken, nil
}
