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
	// ErrNoEvents is returned by calls to a server that does not advertise events in either form. Nothing was sent to
	// it. See CAP-2.
	ErrNoEvents = errors.New("client: server does not advertise events")
	// ErrClosed ends calls and iterations when the Client is closed. See CLI-8.
	ErrClosed = errors.New("client: closed")
	// ErrSessionLost ends subscriptions whose session is lost and whose transport cannot reconnect; see [Dial].
	ErrSessionLost = errors.New("client: session lost")
	// ErrKeyInUse is returned by Subscribe if a live subscription has the cursor key; choose another with
	// [WithCursorKey].
	ErrKeyInUse = errors.New("client: cursor key is in use")
	// ErrTooLarge is wrapped by errors about messages larger than [Options].MaxMessage.
	ErrTooLarge = errors.New("client: larger than Options.MaxMessage")
)

// Final reports whether err, yielded by [TypedSubscription.Events], is the iteration's last item. It is false for nil
// and for errors between events: a [GapError], a [RecoverableError], a [PayloadError] or a [CommitError].
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

// Reasons for reconnecting, which the application never sees as errors.
var (
	errStreamEnded = errors.New("client: stream ended")
	errOverflow    = errors.New("client: subscriber fell behind its stream")
	errSilent      = errors.New("client: no frame within two heartbeats")
	errFinished    = errors.New("client: subscription ended")
	errUserClosed  = errors.New("client: subscription closed")
)

// errIterating is yielded to a second concurrent iteration of one subscription.
var errIterating = errors.New("client: subscription is already being iterated")

// A NoActorError reports that an event type names no actor, so the server cannot exclude events by actor. See [NotBy]
// and ACTOR-2.
type NoActorError struct {
	// Event is the event type's name.
	Event string
}

// Error names the event type.
func (e *NoActorError) Error() string {
	return fmt.Sprintf("client: event type %s names no actor, so NotBy cannot leave out events; subscribe without it", e.Event)
}

// A NoCompatibleDeliveryModeError reports that the server does not offer an event type in a usable mode. If a mode was
// forced, only that one is usable. See CLI-1.
type NoCompatibleDeliveryModeError struct {
	// Event is the event type's name.
	Event string
	// Offered lists the modes in the type's descriptor.
	Offered []string
	// Supported lists the modes that the client may use: the forced mode, if the client supports it.
	Supported []string

	forced string // the forced mode; "" for none
}

// Error names both sets, and the problem with a forced mode.
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

// An unknownEventError reports that the server's list lacks an event type.
type unknownEventError struct {
	event string
	has   []string
	err   error // the NotFound
}

// maxNames is how many event types an error names.
const maxNames = 20

func (e *unknownEventError) Error() string {
	has := "none"
	if n := len(e.has); n > 0 {
		has = strings.Join(e.has[:min(n, maxNames)], ", ")
		if n > maxNames {
			has += fmt.Sprintf(" and %d more", n-maxNames)
		}
	}
	return fmt.Sprintf("client: the server has no event type %q; it has %s", e.event, has)
}

func (e *unknownEventError) Unwrap() error { return e.err }

// A TerminatedError ends a subscription that the server ended or refuses to continue. It unwraps to the server's
// [events.Error]. See CLI-7.
type TerminatedError struct {
	// Event is the event type's name.
	Event string
	// Err is the server's reason.
	Err error
}

// Error returns the event name and the reason.
func (e *TerminatedError) Error() string {
	return fmt.Sprintf("client: subscription to %s terminated: %v", e.Event, e.Err)
}

// Unwrap returns Err.
func (e *TerminatedError) Unwrap() error { return e.Err }

// A GapError is yielded between events if occurrences may be missing there. Either the server could not replay
// everything after the last cursor, or the client was disconnected from a type without replay. The iteration continues
// after it. See CLI-2.
type GapError struct {
	// Event is the event type's name.
	Event string
	// Cursor is the cursor from which delivery continues, "" if unknown.
	Cursor string
}

// Error returns the event name.
func (e *GapError) Error() string {
	return fmt.Sprintf("client: %s: gap: events may be missing before this point", e.Event)
}

// A RecoverableError is yielded between events when the server reports a failure that does not end the subscription.
// The iteration continues after it. See PUSH-5.
type RecoverableError struct {
	// Event is the event type's name.
	Event string
	// Err is the reported failure.
	Err error
}

// Error returns the event name and the reported failure.
func (e *RecoverableError) Error() string {
	return fmt.Sprintf("client: %s: server reports: %v", e.Event, e.Err)
}

// Unwrap returns Err.
func (e *RecoverableError) Unwrap() error { return e.Err }

// A PayloadError is yielded instead of an occurrence that does not decode into the subscription's types. The iteration
// continues after it.
type PayloadError struct {
	// Occurrence is the received occurrence; Raw holds the payload.
	Occurrence events.Occurrence
	// Err is the decoding error.
	Err error
}

// Error returns the event name, the eventId and the decoding error.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("client: %s %s: %v", e.Occurrence.Name, e.Occurrence.ID, e.Err)
}

// Unwrap returns Err.
func (e *PayloadError) Unwrap() error { return e.Err }

// A CommitError is yielded when the cursor store fails to commit. The iteration continues, and the next commit includes
// this one. See CLI-6.
type CommitError struct {
	// Key is the cursor key.
	Key string
	// Err is the store's error.
	Err error
}

// Error returns the key and the store's error.
func (e *CommitError) Error() string {
	return fmt.Sprintf("client: committing cursor %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *CommitError) Unwrap() error { return e.Err }

// An AnswerError reports that the client cannot use the server's response to a call. The response is not a JSON-RPC
// message, not a result of the method, or larger than allowed. Subscribe and List return the error; later the client
// retries the call, and if that fails too the iteration yields the error once in a [RecoverableError].
type AnswerError struct {
	// Method is the called method.
	Method string
	// Err says why the response is unusable. Its text may quote the response and is untrusted.
	Err error
}

// Error returns the method and the problem.
func (e *AnswerError) Error() string { return fmt.Sprintf("client: answer to %s: %v", e.Method, e.Err) }

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// A sizeError reports that something was larger than Options.MaxMessage.
type sizeError struct {
	what  string
	limit int64
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("%s is larger than %d bytes (Options.MaxMessage)", e.what, e.limit)
}

func (e *sizeError) Unwrap() error { return ErrTooLarge }

func errTooLarge(what string, limit int64) error { return &sizeError{what, limit} }

// A DescriptorError reports an entry of events/list that cannot be read; the other entries are used. See LIST-2.
type DescriptorError struct {
	// Event is the entry's name, "" if it has no readable name.
	Event string
	// Err says why the entry cannot be read.
	Err error

	index int // the entry's index in the list, from 0
}

// Error returns the index, the name and the problem.
func (e *DescriptorError) Error() string {
	return fmt.Sprintf("client: entry %d of %s, %q: %v", e.index, wire.MethodList, e.Event, e.Err)
}

// Unwrap returns Err.
func (e *DescriptorError) Unwrap() error { return e.Err }

// A staleError is a response that shows that the call is invalid, or that the server is no longer the one of the
// handshake: it was restarted or upgraded. A fresh handshake shows which.
type staleError struct{ err error }

func (e *staleError) Error() string   { return e.err.Error() }
func (e *staleError) Unwrap() []error { return []error{ErrSessionLost, e.err} }

// sameAs reports whether the earlier error had the same status or code.
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

// staleCodes are codes of the SDK and of JSON-RPC for requests of a revision that the server does not know, and for
// invalid requests.
var staleCodes = map[int64]bool{-32600: true, -32020: true, -32021: true, -32022: true}

// A StatusError is an HTTP response to an events call that is not a JSON-RPC message.
type StatusError struct {
	// Status is the HTTP status code.
	Status int

	text string // the start of the body; untrusted
	at   string // the URL without secrets; "" unless it may be wrong
}

// Error returns the status and the start of the body, which is untrusted.
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

// statusOf returns the error for a response with that body.
func statusOf(resp *http.Response, body []byte) *StatusError {
	e := &StatusError{Status: resp.StatusCode, text: clipped(body)}
	if resp.StatusCode == http.StatusNotFound && resp.Request != nil {
		at := *resp.Request.URL
		at.User, at.RawQuery, at.Fragment = nil, "", ""
		e.at = at.String()
	}
	return e
}

// A reasonError explains in plain words why the SDK could not connect, and replaces the SDK's error.
type reasonError struct {
	reason string
	errs   []error
}

func (e *reasonError) Error() string   { return e.reason }
func (e *reasonError) Unwrap() []error { return e.errs }

// misdirected reports whether the server may no longer be the one of the handshake. A restarted server does not know
// the session and, with SDKs of other languages, may answer with another status than 404; a server of another release
// may not know the revision, or expects other headers.
func (e *StatusError) misdirected() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// permanent reports whether a retry is pointless.
func (e *StatusError) permanent() bool {
	switch e.Status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// A waitError is a failure with the server's Retry-After.
type waitError struct {
	err   error
	after time.Duration
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// errorOf converts an error object on the wire to a typed error, in either family of codes (D2). An unknown code leaves
// Kind zero.
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

// shuttingDown reports whether the server refuses the call because it is shutting down. Another server may answer soon.
func shuttingDown(e *events.Error) bool {
	var data struct {
		Reason string `json:"reason"`
	}
	return e.Kind == wire.Internal && wire.Decode(e.Data, &data) == nil && data.Reason == wire.ReasonShuttingDown
}

// callError translates an error that the SDK returned for a call of the extension.
func callError(ctx context.Context, sess *session, c *call, err error) error {
	if ctx.Err() != nil {
		return c.over(ctx)
	}
	if cause := c.reason(); cause != nil {
		return cause
	}
	shared := sess.board.shared
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc) && !shared:
		return refusalOf(rpc)
	case errors.As(err, &rpc):
		refusal := errorOf(rpc.Code, rpc.Message, rpc.Data)
		if shuttingDown(refusal) {
			sess.lose()
			return fmt.Errorf("%w: %w", ErrSessionLost, refusal)
		}
		return refusal
	case sessionGone(err, shared):
		sess.lose()
		if loss := sess.board.loss(); loss != ErrSessionLost {
			return loss
		}
		return fmt.Errorf("%w: %w", ErrSessionLost, err)
	}
	return err
}

// over returns why a call ended with its context. If the response to this call caused the loss of the session, it
// returns that response's error.
func (c *call) over(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.As(c.cause, new(*staleError)) && errors.Is(context.Cause(ctx), ErrSessionLost) {
		return c.cause
	}
	return context.Cause(ctx)
}

// sessionGone reports whether err means that no further call on the session can succeed. The end of a shared connection
// does; the end of one HTTP request does not.
func sessionGone(err error, shared bool) bool {
	gone := []error{mcp.ErrConnectionClosed, mcp.ErrSessionMissing}
	if shared {
		gone = append(gone, io.EOF, io.ErrClosedPipe, io.ErrUnexpectedEOF)
	}
	return slices.ContainsFunc(gone, func(g error) bool { return errors.Is(err, g) })
}
