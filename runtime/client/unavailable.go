package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Limits of repeated requests. A load balancer without health checks keeps sending requests to a dead server until it
// is removed from the balancer's list; a repeated request may reach a live one.
const (
	// freeRepeats is the number of repeats made without a pause.
	freeRepeats = 2
	// repeatPause is the longest pause before each later repeat.
	repeatPause = 80 * time.Millisecond
	// repeatFor is how long requests are repeated while no server answers.
	repeatFor = time.Second
	// repeatAfresh is how long after the last failure repeating may start over. It is longer than the pauses of any
	// retry loop.
	repeatAfresh = 2 * time.Minute
)

// An awayError reports that no server answered: the connection was refused or broke, or the status was 502, 503 or 504
// without Retry-After.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

func isAway(err error) bool { return errors.As(err, new(*awayError)) }

// brokeOff wraps a connection error. The argument what names the interrupted operation.
func brokeOff(what string, err error) error {
	failed := fmt.Errorf("client: %s: %w", what, err)
	if unreachable(err) {
		return &awayError{failed}
	}
	return failed
}

// away returns an awayError if no server answered the request, nil otherwise.
func away(resp *http.Response, err error) error {
	switch {
	case err != nil && unreachable(err):
		return &awayError{err}
	case err == nil && awayStatus(resp):
		return &awayError{&StatusError{Status: resp.StatusCode}}
	}
	return nil
}

func awayStatus(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return resp.Header.Get("Retry-After") == ""
	}
	return false
}

// unreachable reports whether the connection was refused, or ended before the response.
func unreachable(err error) bool {
	for _, broken := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout() && !errors.As(err, new(*net.DNSError))
}

// A presence records whether any server answers one kind of request.
type presence struct {
	mu    sync.Mutex
	since time.Time // when requests began to go unanswered; zero while they are answered
	last  time.Time // the last unanswered request
}

// presences are a client's. Each subscription also has a presence: if a server answers one subscription and refuses
// another with 503, the first must not keep the second repeating.
type presences struct {
	all presence // all requests
	own presence // requests outside subscriptions, such as events/list
}

// answered records that a server answered.
func (p *presence) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// renew resets the presences, so that a call of the application may repeat its requests like a first one.
func (p *presences) renew() {
	p.all.answered()
	p.own.answered()
}

// missed records that no server answered, and reports whether repeating may still help.
func (p *presence) missed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.since.IsZero() || now.Sub(p.last) >= repeatAfresh {
		p.since = now
	}
	p.last = now
	return now.Sub(p.since) < repeatFor
}

// passes reports whether the error that prevented a first session or a subscription may be temporary: no server
// answered, or it cannot serve the request at the moment.
func passes(err error, redialable bool) bool {
	var status *StatusError
	var refusal *events.Error
	switch {
	case errors.Is(err, ErrClosed):
		return false
	case errors.Is(err, ErrSessionLost), isAway(err):
		return redialable
	case errors.As(err, &status):
		return !status.permanent()
	case errors.As(err, &refusal):
		return refusal.Kind == wire.Internal || refusal.Kind == wire.UpstreamError || refusal.Kind == wire.ResourceExhausted
	}
	return errors.As(err, new(*waitError)) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(net.Error))
}

// pauseAfter returns the pause before the next attempt: at least as long as the server asked for.
func pauseAfter(err error, between *pauses) time.Duration {
	pause := between.next(isAway(err))
	if asked := (*waitError)(nil); errors.As(err, &asked) {
		pause = max(pause, asked.after)
	}
	return pause
}

// errWaited combines the cause that ended a wait for the server with the last error of the wait.
func errWaited(cause, last error) error {
	return fmt.Errorf("%w while waiting for the server: %w", cause, last)
}

type repeatKey struct{}

// repeatable marks the requests of a call as safe to send twice.
func repeatable(ctx context.Context) context.Context {
	return context.WithValue(ctx, repeatKey{}, true)
}

// mayRepeat reports whether a request can be sent twice without a second effect. Requests of the extension can, and so
// can the handshake and the GET of a session's standalone stream, which carries its notifications. A tool call of the
// application may have taken effect.
func mayRepeat(req *http.Request) bool {
	if req.Method == http.MethodGet {
		return true
	}
	if req.Method != http.MethodPost || req.GetBody == nil {
		return false
	}
	if callFrom(req.Context()) != nil || req.Context().Value(repeatKey{}) != nil {
		return true
	}
	switch headOf(req).Method {
	case methodDiscover, methodInitialize, methodInitialized, methodListen:
		return true
	}
	return false
}

// A repeater sends requests, and repeats them while no server answers if mayRepeat allows it.
type repeater struct {
	base      http.RoundTripper
	presences *presences
}

func (r *repeater) RoundTrip(req *http.Request) (*http.Response, error) {
	of := &r.presences.own
	if own := callFrom(req.Context()); own != nil && own.presence != nil {
		of = own.presence
	}
	req = req.Clone(req.Context())
	useragent.Set(req.Header, useragent.Default())
	for n := 0; ; n++ {
		resp, err := r.base.RoundTrip(req)
		if away(resp, err) == nil {
			if err == nil {
				of.answered()
				r.presences.all.answered()
			}
			return resp, err
		}
		ours, anybody := of.missed(), r.presences.all.missed()
		if !ours || !anybody || !mayRepeat(req) {
			return resp, err
		}
		if n >= freeRepeats && sleep(req.Context(), repeatPause/2+rand.N(repeatPause/2)) != nil {
			return resp, err
		}
		next := *req
		if req.GetBody != nil {
			var again error
			if next.Body, again = req.GetBody(); again != nil {
				return resp, err
			}
		}
		if resp != nil {
			io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal)) // so that the connection is reused
			resp.Body.Close()
		}
		req = &next
	}
}

// The methods of the handshake.
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
)

// A head is the part of a JSON-RPC request that identifies it.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// headOf reads the head of a POST from a copy of its body.
func headOf(req *http.Request) (h head) {
	if req.GetBody == nil {
		return h
	}
	body, err := req.GetBody()
	if err != nil {
		return h
	}
	defer body.Close()
	if json.NewDecoder(body).Decode(&h) != nil {
		return head{}
	}
	return h
}

// handshake records whether no server answered a request of the handshake. With strict, the SDK must not fall back to
// an older revision then: it would create a session that only one of the replicas knows.
func (b *board) handshake(method string, gone error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shaking {
		b.away = gone
		if method == methodDiscover {
			b.undiscovered = gone
		}
	}
}

// fallback returns why the handshake of an older revision must not be tried, or nil if it may.
func (b *board) fallback() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.undiscovered == nil || !b.strict {
		return nil
	}
	return fmt.Errorf("%s: %w", methodDiscover, b.undiscovered)
}
