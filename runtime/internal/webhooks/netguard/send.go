package netguard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const (
	// MaxAnswer is the maximum number of bytes that are read from the body of a response (SSRF-2).
	MaxAnswer = 8 << 10

	maxHeader = 16 << 10
	// drainTime is the maximum time that [Guard.Send] spends reading a body so that the connection can be reused.
	drainTime = time.Second
)

// An Answer is the response of an endpoint. Only the category of its status can be shown to a subscriber (ERR-1).
type Answer struct {
	// Status is the HTTP status code. The status of a redirect is returned like all other statuses.
	Status int
	// Header contains the response header, such as Retry-After and Cache-Control.
	Header http.Header
	// Body contains up to MaxAnswer bytes of the body. [Guard.Send] leaves it nil.
	Body []byte
	// Truncated reports whether the body was longer than MaxAnswer bytes.
	Truncated bool
}

// Category returns the category of the response's status, or "" for success.
func (a *Answer) Category() wire.Category { return wire.CategoryOfStatus(a.Status) }

// A Request is a request to an endpoint. Its default method is GET.
type Request struct {
	Method, URL string
	Header      http.Header // Send and Fetch add the User-Agent
	Body        []byte
}

// Send makes a request, such as a delivery, and returns the response without its body. It discards up to MaxAnswer
// bytes of the body, for at most a second, so that the connection can be reused. It ignores errors from reading the
// body.
//
// The error is an [*Error], a [*URLError] if the request is not allowed, or context.Canceled if the caller canceled the
// request.
func (g *Guard) Send(ctx context.Context, r Request) (*Answer, error) {
	return g.do(ctx, &r, func(_ context.Context, resp *http.Response, _ *Answer) error {
		if resp.Body == http.NoBody {
			return nil
		}
		t := time.AfterFunc(drainTime, func() { resp.Body.Close() })
		defer t.Stop()
		// One byte more than the limit reaches the end of a body of exactly that size.
		_, _ = io.CopyN(io.Discard, resp.Body, MaxAnswer+1)
		return nil
	})
}

// Fetch makes a request, such as a challenge or a request for a well-known document, and returns the response body. It
// returns an error if the body does not arrive in time. Otherwise, it returns the same errors as [Guard.Send].
func (g *Guard) Fetch(ctx context.Context, r Request) (*Answer, error) {
	return g.do(ctx, &r, func(ctx context.Context, resp *http.Response, a *Answer) error {
		body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(body) > MaxAnswer {
			body, a.Truncated = body[:MaxAnswer], true
		}
		a.Body = body
		return nil
	})
}

func (g *Guard) do(ctx context.Context, r *Request, read func(context.Context, *http.Response, *Answer) error) (*Answer, error) {
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > g.o.Timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.o.Timeout)
		defer cancel()
	}
	resp, err := g.roundTrip(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	// Ignore a response that arrives while the connection is being closed.
	if err := ctx.Err(); err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if err := read(ctx, resp, a); err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	return a, nil
}

// maxTries is the maximum number of attempts to make a request whose connection is closed by other requests.
const maxTries = 3

// roundTrip makes the request. The transport does not follow redirects or store cookies. However, it can reuse a
// connection shortly before the previous request on the connection returns. If the previous request is then canceled,
// the transport closes the connection, and the next request fails as if it had been canceled (net/http,
// persistConn.cancelRequest). Therefore, roundTrip retries requests that fail in this way without having been canceled
// by the caller.
func (g *Guard) roundTrip(ctx context.Context, r *Request) (*http.Response, error) {
	for try := 1; ; try++ {
		req, err := g.newRequest(ctx, r)
		if err != nil {
			return nil, err
		}
		resp, err := g.transport.RoundTrip(req)
		if err == nil {
			return resp, nil
		}
		if try == maxTries || ctx.Err() != nil ||
			!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*Error)) {
			return nil, classify(ctx, StageExchange, err)
		}
	}
}

// newRequest checks r and returns it for one try.
func (g *Guard) newRequest(ctx context.Context, r *Request) (*http.Request, error) {
	u, err := g.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(withTrace(ctx), r.Method, "", bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = u, u.Host
	if r.Header != nil {
		req.Header = r.Header
	}
	useragent.Set(req.Header, g.o.UserAgent)
	return req, nil
}
