package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Errors that callers compare with errors.Is.
var (
	// ErrNoEvents is returned by calls to a server that advertises events in neither form; nothing
	// was sent to it. See CAP-2.
	ErrNoEvents = errors.New("client: server does not advertise events")
	// ErrClosed ends what is still going on when the Client is closed. See CLI-8.
	ErrClosed = errors.New("client: closed")
	// ErrSessionLost ends subscriptions whose session is gone and whose transport cannot be
	// connected again; see [Dial].
	ErrSessionLost = errors.New("client: session lost")
	// ErrKeyInUse is returned by Subscribe for a cursor key that a live subscription has; choose
	// another with [WithCursorKey].
	ErrKeyInUse = errors.New("client: cursor key is in use")
	// ErrTooLarge is wrapped in what says that a server sent more than [Options].MaxMessage allows.
	ErrTooLarge = errors.New("client: larger than Options.MaxMessage")
)

// Final reports whether err, as an iteration of [TypedSubscription.Events] yields it, is its last item.
// It is false for nil and for what only stands between events: a [GapError], a [RecoverableError], a
// [PayloadError] or a [CommitError].
func Final(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.As(err, new(*TerminatedError)):
		return true
	}
	return !errors.As(err, new(*GapError)) && !errors.As(err, new(*RecoverableError)) &&
		!errors.As(err, new(*PayloadError)) && !errors.As(err, new(*CommitError))
}

// Reasons for connecting again that the application never sees as errors.
var (
	errStreamEnded = errors.New("client: stream ended")
	errOverflow    = errors.New("client: subscriber fell behind its stream")
	errSilent      = errors.New("client: no frame within two heartbeats")
	errFinished    = errors.New("client: subscription ended")
	errUserClosed  = errors.New("client: subscription closed")
)

// errIterating is yielded to a second concurrent iteration of one subscription.
var errIterating = errors.New("client: subscription is already being iterated")

// A NoCompatibleDeliveryModeError says that an event type is offered in none of the modes that the
// client can use, or not in the one that was asked for. See CLI-1.
type NoCompatibleDeliveryModeError struct {
	// Event is the event type's name.
	Event string
	// Offered are the modes in the type's descriptor.
	Offered []string
	// Supported are the modes that the client may use.
	Supported []string
}

// Error names both sets.
func (e *NoCompatibleDeliveryModeError) Error() string {
	return fmt.Sprintf("client: no compatible delivery mode for %s: offered [%s], supported [%s]",
		e.Event, strings.Join(e.Offered, ", "), strings.Join(e.Supported, ", "))
}

// A TerminatedError ends a subscription that the server ended or refuses to continue. It unwraps
// to the server's [events.Error]. See CLI-7.
type TerminatedError struct {
	// Event is the event type's name.
	Event string
	// Err is the server's reason.
	Err error
}

// Error gives the event name and the reason.
func (e *TerminatedError) Error() string {
	return fmt.Sprintf("client: subscription to %s terminated: %v", e.Event, e.Err)
}

// Unwrap returns Err.
func (e *TerminatedError) Unwrap() error { return e.Err }

// A GapError is yielded between events where occurrences may be missing: the server could not replay
// everything after the last cursor, or a type without replay was not listened to for a while. The
// iteration goes on after it. See CLI-2.
type GapError struct {
	// Event is the event type's name.
	Event string
	// Cursor is where delivery goes on, or "" when unknown.
	Cursor string
}

// Error gives the event name.
func (e *GapError) Error() string {
	return fmt.Sprintf("client: %s: gap: events may be missing before this point", e.Event)
}

// A RecoverableError is yielded between events when the server reported a failure that does not
// end the subscription; the iteration goes on after it. See PUSH-5.
type RecoverableError struct {
	// Event is the event type's name.
	Event string
	// Err is what the server reported.
	Err error
}

// Error gives the event name and what was reported.
func (e *RecoverableError) Error() string {
	return fmt.Sprintf("client: %s: server reports: %v", e.Event, e.Err)
}

// Unwrap returns Err.
func (e *RecoverableError) Unwrap() error { return e.Err }

// A PayloadError is yielded in place of an occurrence that does not decode into the subscription's
// types; the iteration goes on after it.
type PayloadError struct {
	// Occurrence is what was received; Raw holds the payload.
	Occurrence events.Occurrence
	// Err says what does not fit.
	Err error
}

// Error gives the event name, the eventId and what does not fit.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("client: %s %s: %v", e.Occurrence.Name, e.Occurrence.ID, e.Err)
}

// Unwrap returns Err.
func (e *PayloadError) Unwrap() error { return e.Err }

// A CommitError is yielded when the cursor store refused a commit; the iteration goes on, and the
// next commit includes this one. See CLI-6.
type CommitError struct {
	// Key is the cursor key.
	Key string
	// Err is the store's error.
	Err error
}

// Error gives the key and the store's error.
func (e *CommitError) Error() string {
	return fmt.Sprintf("client: committing cursor %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *CommitError) Unwrap() error { return e.Err }

// An AnswerError says that the server's answer to a call cannot be used: it is not a JSON-RPC message, not what
// the method returns, or larger than allowed. Subscribe and List return it; later the client asks again, and when
// that does not help the iteration yields it once in a [RecoverableError].
type AnswerError struct {
	// Method is the call.
	Method string
	// Err says what is wrong with the answer; its text may hold parts of it and is untrusted.
	Err error
}

// Error gives the method and what is wrong.
func (e *AnswerError) Error() string { return fmt.Sprintf("client: answer to %s: %v", e.Method, e.Err) }

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// A sizeError says what was larger than Options.MaxMessage.
type sizeError struct {
	what  string
	limit int64
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("%s is larger than %d bytes (Options.MaxMessage)", e.what, e.limit)
}

func (e *sizeError) Unwrap() error { return ErrTooLarge }

func errTooLarge(what string, limit int64) error { return &sizeError{what, limit} }

// A DescriptorError is an entry of events/list that cannot be read; the other entries are used.
// See LIST-2.
type DescriptorError struct {
	// Event is the entry's name, "" when it has none that can be read.
	Event string
	// Err says what is wrong with it.
	Err error

	index int // its place in the list, from 0
}

// Error gives the place, the name and what is wrong.
func (e *DescriptorError) Error() string {
	return fmt.Sprintf("client: entry %d of %s, %q: %v", e.index, wire.MethodList, e.Event, e.Err)
}

// Unwrap returns Err.
func (e *DescriptorError) Unwrap() error { return e.Err }

// A staleError is an answer that says that the call is bad, or that the server is not the one of the
// handshake any more: it was restarted, or is of another release. One fresh handshake tells which.
type staleError struct{ err error }

func (e *staleError) Error() string   { return e.err.Error() }
func (e *staleError) Unwrap() []error { return []error{ErrSessionLost, e.err} }

// sameAs reports whether the server said the same before.
func (e *staleError) sameAs(before error) bool {
	var status, status2 *StatusError
	var refusal, refusal2 *events.Error
	switch {
	case errors.As(e.err, &status) && errors.As(before, &status2):
		return status.Status == status2.Status
	case errors.As(e.err, &refusal) && errors.As(before, &refusal2):
		return refusal.Code == refusal2.Code
	}
	return false
}

// Codes of the SDK and of JSON-RPC that say that a request is not of the revision that the server knows, or is
// no request at all.
var staleCodes = map[int64]bool{-32600: true, -32020: true, -32021: true, -32022: true}

// A StatusError is an HTTP answer to an events call that is not a JSON-RPC message.
type StatusError struct {
	// Status is the HTTP status code.
	Status int

	text string // the beginning of the body; untrusted
}

// Error gives the status and the beginning of the body, which is untrusted.
func (e *StatusError) Error() string {
	msg := fmt.Sprintf("client: HTTP status %d %s", e.Status, http.StatusText(e.Status))
	if e.text != "" {
		msg += ": " + e.text
	}
	return msg
}

// A refusedError says that the server refused the caller, where the SDK says it by the way.
type refusedError struct {
	status *StatusError
	cause  error
}

func (e *refusedError) Error() string {
	msg := fmt.Sprintf("the server refused the credentials: HTTP status %d %s", e.status.Status, http.StatusText(e.status.Status))
	if e.status.text != "" {
		msg += ": " + e.status.text
	}
	return msg
}

func (e *refusedError) Unwrap() []error { return []error{e.status, e.cause} }

// permanent reports whether asking again is of no use.
func (e *StatusError) permanent() bool {
	switch e.Status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// A waitError carries a server's Retry-After along with the failure.
type waitError struct {
	err   error
	after time.Duration
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// errorOf makes the typed error of an error object on the wire, in either family of codes (D2). A
// code of no kind leaves Kind zero.
func errorOf(code int64, message string, data json.RawMessage) *events.Error {
	if message == "" {
		message = fmt.Sprintf("error %d without a message", code)
	}
	e := &events.Error{Code: code, Message: message, Data: data}
	if k, _, ok := wire.KindOf(code, message); ok {
		e.Kind = k
	}
	return e
}

// shuttingDown reports whether the server refuses because it is at its end. Another one may be there soon.
func shuttingDown(e *events.Error) bool {
	var data struct {
		Reason string `json:"reason"`
	}
	return e.Kind == wire.Internal && wire.Decode(e.Data, &data) == nil && data.Reason == wire.ReasonShuttingDown
}

// callError translates what the SDK returned for a call of the extension.
func callError(ctx context.Context, sess *session, c *call, err error) error {
	if ctx.Err() != nil {
		return c.over(ctx)
	}
	c.mu.Lock()
	cause, after := c.cause, c.retryAfter
	c.mu.Unlock()
	var rpc *jsonrpc.Error
	switch {
	case errors.As(cause, new(*staleError)):
		return cause
	case cause != nil:
		err = cause
	case errors.As(err, &rpc):
		refusal := errorOf(rpc.Code, rpc.Message, rpc.Data)
		switch err = refusal; {
		case shuttingDown(refusal) && sess.board.shared:
			sess.lose()
			return fmt.Errorf("%w: %w", ErrSessionLost, err)
		case shuttingDown(refusal):
			err = &awayError{err} // another one may be there
		case staleCodes[rpc.Code] && !sess.board.shared:
			return &staleError{err}
		}
	case sessionGone(err, sess.board.shared):
		sess.lose()
		if loss := sess.board.loss(); loss != ErrSessionLost {
			return loss
		}
		return fmt.Errorf("%w: %w", ErrSessionLost, err)
	}
	if after > 0 {
		return &waitError{err, after}
	}
	return err
}

// over is why a call ended with its context. That the session is lost must not hide that it was by this
// call's answer.
func (c *call) over(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.As(c.cause, new(*staleError)) && errors.Is(context.Cause(ctx), ErrSessionLost) {
		return c.cause
	}
	return context.Cause(ctx)
}

// sessionGone reports whether err says that no further call on the session can succeed. The end of
// a shared connection is that; the end of one HTTP request is not.
func sessionGone(err error, shared bool) bool {
	gone := []error{mcp.ErrConnectionClosed, mcp.ErrSessionMissing}
	if shared {
		gone = append(gone, io.EOF, io.ErrClosedPipe, io.ErrUnexpectedEOF)
	}
	return slices.ContainsFunc(gone, func(g error) bool { return errors.Is(err, g) })
}
