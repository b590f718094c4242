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

	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Errors for use with errors.Is.
var (
	// ErrNoEvents is returned by calls if the server does not advertise events. The call was not sent.
	// See CAP-2.
	ErrNoEvents = errors.New("client: server does not advertise events: its capabilities have neither events nor io.modelcontextprotocol/events")
	// ErrClosed is returned by calls and yielded by iterations after the Client has been closed. See CLI-8.
	ErrClosed = errors.New("client: closed")
	// ErrSessionLost ends a subscription if its session is lost and the transport cannot reconnect; see [Dial].
	ErrSessionLost = errors.New("client: session lost")
	// ErrKeyInUse is returned by Subscribe if a live subscription uses the same cursor key. Use [WithCursorKey] to set
	// another.
	ErrKeyInUse = errors.New("client: cursor key is in use")
	// ErrTooLarge is wrapped by the errors for messages larger than [Options].MaxMessage.
	ErrTooLarge = errors.New("client: larger than Options.MaxMessage")
)

// Final reports whether err, as yielded by [TypedSubscription.Events], ends the iteration. It returns false for nil and
// for errors between events: a [GapError], a [RecoverableError], a [PayloadError] or a [CommitError].
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

// Internal errors that end a leg or a subscription. The application never receives them.
var (
	errStreamEnded = errors.New("client: stream ended")
	errOverflow    = errors.New("client: subscriber fell behind its stream")
	errSilent      = errors.New("client: no frame within two heartbeats")
	errFinished    = errors.New("client: subscription ended")
	errUserClosed  = errors.New("client: subscription closed")
)

// errIterating is yielded if a subscription is already being iterated.
var errIterating = errors.New("client: subscription is already being iterated")

// A NoActorError reports that an event type does not declare an actor, so the server cannot exclude events by actor.
// See [NotBy] and ACTOR-2.
type NoActorError struct {
	// Event is the event type's name.
	Event string
}

// Error returns a message with the event type's name.
func (e *NoActorError) Error() string {
	return fmt.Sprintf("client: event type %s names no actor, so NotBy cannot leave out events; subscribe without it", e.Event)
}

// A NoCompatibleDeliveryModeError reports that the server offers an event type only in modes that the client cannot
// use. If a mode was forced, the client can use only that mode. See CLI-1.
type NoCompatibleDeliveryModeError struct {
	// Event is the event type's name.
	Event string
	// Offered lists the modes in the type's descriptor.
	Offered []string
	// Supported lists the modes that the client supports. If one of them was forced, it is the only element.
	Supported []string

	forced string // the forced mode; "" for none
}

// Error returns a message with both lists and the problem with a forced mode.
func (e *NoCompatibleDeliveryModeError) Error() string {
	msg := fmt.Sprintf("client: no compatible delivery mode for %s: ", e.Event)
	switch {
	case e.forced == "" || slices.Contains(e.Supported, e.forced):
	case e.forced == wire.ModeWebhook:
		msg += "webhook needs Options.Webhook; "
	default:
		msg += fmt.Sprintf("unknown mode %q; ", e.forced)
	}
	return msg + fmt.Sprintf("offered [%s], supported [%s]", strings.Join(e.Offered, ", "), strings.Join(e.Supported, ", "))
}

// An unknownEventError reports that the server's list does not contain an event type.
type unknownEventError struct {
	event string
	has   []string
	err   error // the NotFound
}

func (e *unknownEventError) Error() string {
	return fmt.Sprintf("client: the server has no event type %q", e.event) + suggest.EventTypes(e.event, e.has)
}

func (e *unknownEventError) Unwrap() error { return e.err }

// A TerminatedError reports that the server ended a subscription or refuses to continue it. It unwraps to the server's
// [events.Error]. See CLI-7.
type TerminatedError struct {
	// Event is the event type's name.
	Event string
	// Err is the server's reason.
	Err error
}

// Error returns a message with the event name and the reason.
func (e *TerminatedError) Error() string {
	return fmt.Sprintf("client: subscription to %s terminated: %v", e.Event, e.Err)
}

// Unwrap returns Err.
func (e *TerminatedError) Unwrap() error { return e.Err }

// A GapError is yielded between events if occurrences may be missing. Either the server could not replay all
// occurrences after the last cursor, or the client was disconnected and the event type has no replay. The iteration
// continues. See CLI-2.
type GapError struct {
	// Event is the event type's name.
	Event string
	// Cursor is the cursor from which delivery continues, or "" if unknown.
	Cursor string
}

// Error returns a message with the event name.
func (e *GapError) Error() string {
	return fmt.Sprintf("client: %s: gap: events may be missing before this point", e.Event)
}

// A RecoverableError is yielded between events when the server reports a failure that does not end the subscription.
// The iteration continues. See PUSH-5.
type RecoverableError struct {
	// Event is the event type's name.
	Event string
	// Err is the reported failure.
	Err error
}

// Error returns a message with the event name and the reported failure.
func (e *RecoverableError) Error() string {
	return fmt.Sprintf("client: %s: server reports: %v", e.Event, e.Err)
}

// Unwrap returns Err.
func (e *RecoverableError) Unwrap() error { return e.Err }

// A PayloadError is yielded instead of an occurrence that cannot be decoded into the subscription's types. The
// iteration continues.
type PayloadError struct {
	// Occurrence is the received occurrence; Raw holds the payload.
	Occurrence events.Occurrence
	// Err is the decoding error.
	Err error
}

// Error returns a message with the event name, the eventId and the decoding error.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("client: %s %s: %v", e.Occurrence.Name, e.Occurrence.ID, e.Err)
}

// Unwrap returns Err.
func (e *PayloadError) Unwrap() error { return e.Err }

// A CommitError is yielded when the cursor store fails. The iteration continues, and the next commit includes the
// failed one. See CLI-6.
type CommitError struct {
	// Key is the cursor key.
	Key string
	// Err is the store's error.
	Err error
}

// Error returns a message with the key and the store's error.
func (e *CommitError) Error() string {
	return fmt.Sprintf("client: committing cursor %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *CommitError) Unwrap() error { return e.Err }

// An AnswerError reports an unusable response to a call. The response is not a JSON-RPC message, is not a valid result
// of the method, or is too large. Subscribe and List return the error. After Subscribe has succeeded, the client
// retries the call instead. If the retries fail, the iteration yields the error once in a [RecoverableError].
type AnswerError struct {
	// Method is the called method.
	Method string
	// Err is the reason the response is unusable. Its text may quote the response and is untrusted.
	Err error
}

// Error returns a message with the method and the problem.
func (e *AnswerError) Error() string { return fmt.Sprintf("client: answer to %s: %v", e.Method, e.Err) }

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// A sizeError reports that a message exceeds Options.MaxMessage.
type sizeError struct {
	what  string
	limit int64
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("%s is larger than %d bytes (Options.MaxMessage)", e.what, e.limit)
}

func (e *sizeError) Unwrap() error { return ErrTooLarge }

func errTooLarge(what string, limit int64) error { return &sizeError{what, limit} }

// A DescriptorError reports an entry of events/list that cannot be decoded. Other entries are still used. See LIST-2.
type DescriptorError struct {
	// Event is the entry's name, or "" if it has no valid name.
	Event string
	// Err is the reason the entry cannot be decoded.
	Err error

	index int // the entry's index in the list, from 0
}

// Error returns a message with the index, the name and the problem.
func (e *DescriptorError) Error() string {
	return fmt.Sprintf("client: entry %d of %s, %q: %v", e.index, wire.MethodList, e.Event, e.Err)
}

// Unwrap returns Err.
func (e *DescriptorError) Unwrap() error { return e.Err }

// A staleError reports that a call is invalid, or that the server was restarted or upgraded since the handshake. A new
// handshake distinguishes the cases.
type staleError struct{ err error }

func (e *staleError) Error() string   { return e.err.Error() }
func (e *staleError) Unwrap() []error { return []error{ErrSessionLost, e.err} }

// sameAs reports whether e has the same status or code as the earlier error before.
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

// staleCodes are the codes with which the SDK and JSON-RPC reject invalid requests and unsupported protocol revisions.
var staleCodes = map[int64]bool{-32600: true, -32020: true, -32021: true, -32022: true}

// A StatusError reports an HTTP response to an events call that is not a JSON-RPC message.
type StatusError struct {
	// Status is the HTTP status code.
	Status int

	text string // the start of the body; untrusted
	at   string // the URL without secrets; "" unless it may be wrong
}

// Error returns a message with the status and the start of the body, which is untrusted.
func (e *StatusError) Error() string { return "client: " + e.said() }

func (e *StatusError) said() string {
	msg := fmt.Sprintf("HTTP status %d %s", e.Status, http.StatusText(e.Status))
	if e.at != "" {
		msg += " from " + e.at
	}
	if e.text != "" {
		msg += ": " + e.text
	}
	return msg
}

// newStatusError returns the error for a response with the given body.
func newStatusError(resp *http.Response, body []byte) *StatusError {
	e := &StatusError{Status: resp.StatusCode, text: clip(body)}
	if resp.StatusCode == http.StatusNotFound && resp.Request != nil {
		at := *resp.Request.URL
		at.User, at.RawQuery, at.Fragment = nil, "", ""
		e.at = at.String()
	}
	return e
}

// A reasonError replaces the text of an SDK error with a plain reason for the failure to connect.
type reasonError struct {
	reason string
	errs   []error
}

func (e *reasonError) Error() string   { return e.reason }
func (e *reasonError) Unwrap() []error { return e.errs }

// mayBeStale reports whether the server may have changed since the handshake. A restarted server does not know the
// session. SDKs for other languages may then respond with a status other than 404. A server of another release may not
// support the revision or may expect other headers.
func (e *StatusError) mayBeStale() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// isPermanent reports whether a retry cannot succeed.
func (e *StatusError) isPermanent() bool {
	switch e.Status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// A waitError wraps an error with the value of the server's Retry-After header.
type waitError struct {
	err   error
	after time.Duration
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// convertError converts a JSON-RPC error object to a typed error. It recognizes both families of codes (D2). If the
// code is unknown, Kind is zero.
func convertError(code int64, message string, data json.RawMessage) *events.Error {
	if message == "" {
		message = fmt.Sprintf("error %d without a message", code)
	}
	e := &events.Error{Code: code, Message: message, Data: data}
	if k, _, ok := wire.KindOf(code, message); ok {
		e.Kind = k
	}
	return e
}

// isShuttingDown reports whether the server refuses the call because it is shutting down. Another server may answer
// soon.
func isShuttingDown(e *events.Error) bool {
	var data struct {
		Reason string `json:"reason"`
	}
	return e.Kind == wire.Internal && wire.Decode(e.Data, &data) == nil && data.Reason == wire.ReasonShuttingDown
}

// callError translates an error that the SDK returned for a call to an extension method.
func callError(ctx context.Context, sess *session, c *call, err error) error {
	if ctx.Err() != nil {
		return c.contextError(ctx)
	}
	if cause := c.failureReason(); cause != nil {
		return cause
	}
	shared := sess.board.shared
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc) && !shared:
		return convertRefusal(rpc)
	case errors.As(err, &rpc):
		refusal := convertError(rpc.Code, rpc.Message, rpc.Data)
		if isShuttingDown(refusal) {
			sess.lose()
			return fmt.Errorf("%w: %w", ErrSessionLost, refusal)
		}
		return refusal
	case isSessionLost(err, shared):
		sess.lose()
		if loss := sess.board.lossError(); loss != ErrSessionLost {
			return loss
		}
		return fmt.Errorf("%w: %w", ErrSessionLost, err)
	}
	return err
}

// contextError returns the reason a call ended with its context. If the response to the call caused the loss of the
// session, it returns the error from that response.
func (c *call) contextError(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.As(c.cause, new(*staleError)) && errors.Is(context.Cause(ctx), ErrSessionLost) {
		return c.cause
	}
	return context.Cause(ctx)
}

// isSessionLost reports whether err means that no further call on the session can succeed. This is true if a shared
// connection has ended, but not if a single HTTP request has ended.
func isSessionLost(err error, shared bool) bool {
	gone := []error{mcp.ErrConnectionClosed, mcp.ErrSessionMissing}
	if shared {
		gone = append(gone, io.EOF, io.ErrClosedPipe, io.ErrUnexpectedEOF)
	}
	return slices.ContainsFunc(gone, func(g error) bool { return errors.Is(err, g) })
}
