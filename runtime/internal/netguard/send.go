package netguard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const (
	// MaxAnswer is how many bytes of an answer's body are read (SSRF-2).
	MaxAnswer = 8 << 10

	maxHeader = 16 << 10
	// drainTime is how long [Guard.Send] keeps reading so that the connection can be reused.
	drainTime = time.Second
)

// An Answer is an endpoint's answer. Only the category of its status may be shown to a subscriber (ERR-1).
type Answer struct {
	// Status is the HTTP status code; redirects are reported like any other status.
	Status int
	// Header is for the caller's use, for example of Retry-After and Cache-Control.
	Header http.Header
	// Body is the body up to MaxAnswer bytes; nil from [Guard.Send].
	Body []byte
	// Truncated says whether the body was longer.
	Truncated bool
}

// Category returns the category of the answer's status, "" for success.
func (a *Answer) Category() wire.Category { return wire.CategoryOfStatus(a.Status) }

// Send makes a request, such as a delivery, whose status alone matters. It reads and discards the body up to MaxAnswer
// bytes or for a second, so that the connection can be reused. It ignores errors of that.
//
// Errors are an [*Error], a [*URLError] if the request is not allowed, or context.Canceled if the caller cancelled.
func (g *Guard) Send(req *http.Request) (*Answer, error) {
	return g.do(req, func(_ context.Context, resp *http.Response, _ *Answer) error {
		t := time.AfterFunc(drainTime, func() { resp.Body.Close() })
		defer t.Stop()
		// One byte more than the limit reaches the end of a body of exactly that size.
		_, _ = io.CopyN(io.Discard, resp.Body, MaxAnswer+1)
		return nil
	})
}

// Fetch makes a request whose body matters, such as a challenge or a well-known document. A body that does not arrive
// in time is an error. Errors are those of [Guard.Send].
func (g *Guard) Fetch(req *http.Request) (*Answer, error) {
	return g.do(req, func(ctx context.Context, resp *http.Response, a *Answer) error {
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

func (g *Guard) do(req *http.Request, read func(context.Context, *http.Response, *Answer) error) (*Answer, error) {
	if _, err := g.ParseURL(req.URL.String()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(req.Context(), g.o.Timeout)
	defer cancel()
	req = req.Clone(ctx)
	useragent.Set(req.Header, g.o.UserAgent)
	resp, err := g.roundTrip(req)
	if err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	defer resp.Body.Close()
	// A response that arrives while the connection is being closed does not count.
	if err := ctx.Err(); err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if err := read(ctx, resp, a); err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	return a, nil
}

// maxShared is how many times a request is made if other requests close its connection.
const maxShared = 3

// roundTrip makes the request. The transport itself does not follow redirects or keep cookies. But it reuses a
// connection slightly before the request on it returns, and cancelling that request then closes the connection under
// its next user, which fails as if it were cancelled itself (net/http, persistConn.cancelRequest). roundTrip retries a
// request that was not cancelled.
func (g *Guard) roundTrip(req *http.Request) (resp *http.Response, err error) {
	for range maxShared {
		resp, err = g.transport.RoundTrip(req.WithContext(listening(req.Context())))
		if err == nil || req.Context().Err() != nil ||
			!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*Error)) {
			break
		}
		if req.Body != nil {
			if req.GetBody == nil {
				break
			}
			body, bodyErr := req.GetBody()
			if bodyErr != nil {
				break
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
	}
	return resp, err
}
