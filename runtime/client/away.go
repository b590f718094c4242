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

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A balancer that does not check health gives requests to a dead server as long as that is in its list.
// Another try may meet one that lives.
const (
	// freeRepeats are made without a pause.
	freeRepeats = 2
	// repeatPause is the longest pause before each further one.
	repeatPause = 80 * time.Millisecond
	// repeatFor is how long requests are repeated while nobody answers them.
	repeatFor = time.Second
	// repeatAfresh is how long ago the last failure was when requests are repeated again: longer than the pauses
	// of whatever goes on trying.
	repeatAfresh = 2 * time.Minute
)

// An awayError says that nobody was there to answer: a refused or broken connection, or 502, 503 or 504
// without Retry-After.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

func isAway(err error) bool { return errors.As(err, new(*awayError)) }

// brokeOff says what an error of a connection was the end of.
func brokeOff(what string, err error) error {
	failed := fmt.Errorf("client: %s: %w", what, err)
	if unreachable(err) {
		return &awayError{failed}
	}
	return failed
}

// away says whether and how an exchange failed because nobody was there.
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

// unreachable reports whether a connection was refused, or ended before the answer.
func unreachable(err error) bool {
	for _, broken := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout() && !errors.As(err, new(*net.DNSError))
}

// A presence is what is known of whether anybody answers some requests.
type presence struct {
	mu    sync.Mutex
	since time.Time // since when nobody has; zero while somebody does
	last  time.Time // when nobody did last
}

// presences are those of one client. Each subscription has one more: where a server answers one subscription and
// refuses another with 503, the one must not keep the other repeating.
type presences struct {
	all presence // of whatever is asked
	own presence // of what is asked for no subscription, such as the list
}

// answered tells that somebody is there.
func (p *presence) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// renew makes a call of the application's as good as a first one.
func (p *presences) renew() {
	p.all.answered()
	p.own.answered()
}

// missed tells that nobody answered, and reports whether repeating may still help.
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

// passes reports whether what kept a first session or a subscription from beginning may pass: nobody is there, or is
// not able just now.
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

// pauseAfter is how long to wait for what may pass: as long as the server asks, at least.
func pauseAfter(err error, between *pauses) time.Duration {
	pause := between.next(isAway(err))
	if asked := (*waitError)(nil); errors.As(err, &asked) {
		pause = max(pause, asked.after)
	}
	return pause
}

// errWaited says why a wait for the server ended, and what it waited for.
func errWaited(cause, last error) error {
	return fmt.Errorf("%w while waiting for the server: %w", cause, last)
}

type repeatKey struct{}

// repeatable marks the requests of a call that may be made twice.
func repeatable(ctx context.Context) context.Context {
	return context.WithValue(ctx, repeatKey{}, true)
}

// mayRepeat reports whether a request may be made again without anything being done twice: those of the
// extension bear it, and so do the handshake and the GET of a session's standing stream, without which the session
// hears of nothing. A tool's call of the application may have been done.
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

// ask sends a request, and sends it again while nobody is there, where that is allowed. gone is how the
// last try failed so, nil when it did not.
func (t *httpTap) ask(req *http.Request, of *presence) (resp *http.Response, gone, err error) {
	for n := 0; ; n++ {
		resp, err = t.base.RoundTrip(req)
		if gone = away(resp, err); gone == nil {
			if err == nil {
				of.answered()
				t.presences.all.answered()
			}
			return resp, nil, err
		}
		ours, anybody := of.missed(), t.presences.all.missed()
		if !ours || !anybody || !mayRepeat(req) {
			return resp, gone, err
		}
		if n >= freeRepeats && sleep(req.Context(), repeatPause/2+rand.N(repeatPause/2)) != nil {
			return resp, gone, err
		}
		next := *req
		if req.GetBody != nil {
			var again error
			if next.Body, again = req.GetBody(); again != nil {
				return resp, gone, err
			}
		}
		if resp != nil {
			io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal)) // so that the connection is used again
			resp.Body.Close()
		}
		req = &next
	}
}

// The handshake's methods.
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
)

// A head is what tells a JSON-RPC request from others.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// headOf reads the head of a POST from its body's copy.
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

// handshake keeps whether the handshake met nobody. With strict, the SDK must not take that for a server
// of an older revision: it would make a session that one of the replicas knows.
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

// fallback is why a handshake of an older revision must not be tried, nil when it may.
func (b *board) fallback() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.undiscovered == nil || !b.strict {
		return nil
	}
	return fmt.Errorf("%s: %w", methodDiscover, b.undiscovered)
}
