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

// Limits for repeated requests. A load balancer without health checks sends requests to a dead server until it removes
// that server from its list. A repeated request may reach a live server.
const (
	// freeRepeats is the number of repeats without a pause.
	freeRepeats = 2
	// repeatPause is the maximum pause before each later repeat.
	repeatPause = 80 * time.Millisecond
	// repeatPeriod is how long requests are repeated while no server answers.
	repeatPeriod = time.Second
	// repeatResetAfter is how long after the last failure a new repeatPeriod may start. It is longer than the pauses of
	// any retry loop.
	repeatResetAfter = 2 * time.Minute
)

// An unreachableError reports that no server answered. The connection was refused or broken, or the status was 502, 503
// or 504 without Retry-After.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

func isUnreachable(err error) bool { return errors.As(err, new(*unreachableError)) }

// wrapConnectionError wraps a connection error. The what argument describes the problem.
func wrapConnectionError(what string, err error) error {
	failed := fmt.Errorf("client: %s: %w", what, err)
	if isConnectionError(err) {
		return &unreachableError{failed}
	}
	return failed
}

// newUnreachableError returns an unreachableError if no server answered the request, and nil otherwise.
func newUnreachableError(resp *http.Response, err error) error {
	switch {
	case err != nil && isConnectionError(err):
		return &unreachableError{err}
	case err == nil && isUnreachableStatus(resp):
		return &unreachableError{&StatusError{Status: resp.StatusCode}}
	}
	return nil
}

func isUnreachableStatus(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return resp.Header.Get("Retry-After") == ""
	}
	return false
}

// isConnectionError reports whether the connection was refused or ended before the response.
func isConnectionError(err error) bool {
	for _, broken := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout() && !errors.As(err, new(*net.DNSError))
}

// An availability records whether any server answers a kind of request.
type availability struct {
	mu    sync.Mutex
	since time.Time // when requests began to go unanswered; zero while they are answered
	last  time.Time // the last unanswered request
}

// availabilities holds the availability records of a client. Each subscription also has a record, because a server may
// answer one subscription and refuse another with 503. Answers to the first must not make the second repeat its
// requests forever.
type availabilities struct {
	all availability // all requests
	own availability // requests outside subscriptions, such as events/list
}

// recordAnswer records that a server answered.
func (p *availability) recordAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// reset clears both records, so a new call by the application can repeat its requests.
func (p *availabilities) reset() {
	p.all.recordAnswer()
	p.own.recordAnswer()
}

// recordMiss records that no server answered and reports whether the request may be repeated.
func (p *availability) recordMiss() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.since.IsZero() || now.Sub(p.last) >= repeatResetAfter {
		p.since = now
	}
	p.last = now
	return now.Sub(p.since) < repeatPeriod
}

// isTemporary reports whether the error that prevented the first session or a subscription may be temporary. Either no
// server answered, or the server cannot serve the request at the moment.
func isTemporary(err error, redialable bool) bool {
	var status *StatusError
	var refusal *events.Error
	switch {
	case errors.Is(err, ErrClosed):
		return false
	case errors.Is(err, ErrSessionLost), isUnreachable(err):
		return redialable
	case errors.As(err, &status):
		return !status.isPermanent()
	case errors.As(err, &refusal):
		return refusal.Kind == wire.Internal || refusal.Kind == wire.UpstreamError || refusal.Kind == wire.ResourceExhausted
	}
	return errors.As(err, new(*waitError)) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(net.Error))
}

// retryPause returns the pause before the next attempt. It is at least as long as the server requested.
func retryPause(err error, between *backoffState) time.Duration {
	pause := between.next(isUnreachable(err))
	if asked := (*waitError)(nil); errors.As(err, &asked) {
		pause = max(pause, asked.after)
	}
	return pause
}

// newWaitedError combines the reason a wait for the server ended with the last error during that wait.
func newWaitedError(cause, last error) error {
	return fmt.Errorf("%w while waiting for the server: %w", cause, last)
}

type repeatKey struct{}

// withRepeatable returns a context for requests that are safe to send twice.
func withRepeatable(ctx context.Context) context.Context {
	return context.WithValue(ctx, repeatKey{}, true)
}

// mayRepeat reports whether sending a request twice has no further effect. This is true for extension requests, for the
// handshake, and for the GET of a session's standalone stream, but not for tool calls of the application.
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
	switch readRequestHead(req).Method {
	case methodDiscover, methodInitialize, methodInitialized, methodListen:
		return true
	}
	return false
}

// A repeater sends requests. While no server answers, it repeats requests that mayRepeat allows.
type repeater struct {
	base           http.RoundTripper
	availabilities *availabilities
}

func (r *repeater) RoundTrip(req *http.Request) (*http.Response, error) {
	of := &r.availabilities.own
	if own := callFrom(req.Context()); own != nil && own.availability != nil {
		of = own.availability
	}
	req = req.Clone(req.Context())
	useragent.Set(req.Header, useragent.Default())
	for n := 0; ; n++ {
		resp, err := r.base.RoundTrip(req)
		if newUnreachableError(resp, err) == nil {
			if err == nil {
				of.recordAnswer()
				r.availabilities.all.recordAnswer()
			}
			return resp, err
		}
		ours, anybody := of.recordMiss(), r.availabilities.all.recordMiss()
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

// A requestHead holds the ID and the method of a JSON-RPC request.
type requestHead struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// readRequestHead returns the ID and method of a POST request, read from a copy of its body.
func readRequestHead(req *http.Request) (h requestHead) {
	if req.GetBody == nil {
		return h
	}
	body, err := req.GetBody()
	if err != nil {
		return h
	}
	defer body.Close()
	if json.NewDecoder(body).Decode(&h) != nil {
		return requestHead{}
	}
	return h
}

// recordHandshake records an error if no server answered a handshake request, and clears the error otherwise. If strict
// is set and an error is recorded, the SDK must not fall back to an older revision, because it would create a session
// that only one replica knows.
func (b *tapState) recordHandshake(method string, gone error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shaking {
		b.handshakeErr = gone
		if method == methodDiscover {
			b.discoverErr = gone
		}
	}
}

// checkFallback returns an error if the handshake of an older revision must not be attempted.
func (b *tapState) checkFallback() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.discoverErr == nil || !b.strict {
		return nil
	}
	return fmt.Errorf("%s: %w", methodDiscover, b.discoverErr)
}
