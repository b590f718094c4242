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
	// MaxAnswer is how much of an answer's body is read, in bytes (SSRF-2).
	MaxAnswer = 8 << 10

	maxHeader = 16 << 10
	// drainTime is how long [Guard.Send] reads on for the connection's sake.
	drainTime = time.Second
)

// An Answer is what an endpoint answered. Nothing of it may be shown to a subscriber but the
// category of its status (ERR-1).
type Answer struct {
	// Status is the HTTP status code; redirects are reported like any other.
	Status int
	// Header is for the caller's own use, such as Retry-After and Cache-Control.
	Header http.Header
	// Body is the body up to MaxAnswer bytes; nil from [Guard.Send].
	Body []byte
	// Truncated tells that the body was longer.
	Truncated bool
}

// Category is the category of the answer's status, "" for success.
func (a *Answer) Category() wire.Category { return wire.CategoryOfStatus(a.Status) }

// Send makes a request of whose answer only the status matters, such as a delivery. The body is read to
// MaxAnswer bytes or for a second, so that the connection can be used again, and thrown away; an error
// while it is read is no error of Send.
//
// Errors are of type [*Error], or [*URLError] for a request that may not be made, or the caller's
// own context.Canceled.
func (g *Guard) Send(req *http.Request) (*Answer, error) {
	return g.do(req, func(_ context.Context, resp *http.Response, _ *Answer) error {
		t := time.AfterFunc(drainTime, func() { resp.Body.Close() })
		defer t.Stop()
		// Reading one byte more than the bound finds the end of a body of exactly that size.
		_, _ = io.CopyN(io.Discard, resp.Body, MaxAnswer+1)
		return nil
	})
}

// Fetch makes a request whose answer is read, such as a challenge or a well-known document. An
// answer whose body does not arrive in time is an error. Errors are those of [Guard.Send].
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
	// An endpoint that answers because the connection is being closed on it has not answered.
	if err := ctx.Err(); err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if err := read(ctx, resp, a); err != nil {
		return nil, classify(ctx, StageExchange, err)
	}
	return a, nil
}

// maxShared is how often a request is made again after another one has closed its connection.
const maxShared = 3

// roundTrip makes the request. The transport by itself follows no redirect and keeps no cookie. But it hands a
// connection on a moment before the request on it returns, and a request that is given up in that moment closes the
// connection under its next user, who is told that it was itself given up (net/http, persistConn.cancelRequest). Who
// was not is served again.
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
