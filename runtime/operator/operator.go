// Package operator defines the operator's view of a server. An operator can inspect event types, connections and
// webhook subscriptions, pause, replay and end subscriptions, send errors and gaps to subscribers, and watch
// occurrences live. server.Server.Admin returns an [Admin], which package admin serves as a JSON API and a console.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// ErrUnderWay is returned by [Admin.SendAgain] while a request to send the occurrence is pending. It is also returned if
// the caller has not seen the last attempt.
var ErrUnderWay = errors.New("operator: already in progress")

// WithActor returns a context for calls to an [Admin] on behalf of an actor. The attempts that result from such a call
// record the first 256 bytes of the actor's name ([Attempt.AskedBy]). The default name is "operator".
func WithActor(ctx context.Context, name string) context.Context { return actor.With(ctx, name) }

// WithKey returns a context for a call to an [Admin] that may be repeated. If the latest request of the same kind for the
// subscription has the key, the call returns its number and requests nothing. [Admin.Test] derives the event id from the
// key, so a repeated call emits nothing.
func WithKey(ctx context.Context, key string) context.Context { return actor.WithKey(ctx, key) }

// Admin is the operator's view of a server's subscriptions. It does not check permissions, so any caller can perform
// any action. Its methods are safe for concurrent use and return events.ErrNotFound for an unknown subscription. To act
// on many subscriptions, list them with [Admin.Find] and act on each of them. Releases may add methods, because only
// this module implements the interface. See SRV-8.
//
// Resume, Replay, EndReplay, SendAgain and End store a request in the subscription's record and return its number. The
// process that delivers to the subscription performs the request later, even if a process crashes, but then perhaps
// twice. [Admin.Get] shows the outcome: see [WebhookInfo.Requests].
type Admin interface {
	// List returns up to limit webhook subscriptions from the store with ids greater than after, sorted by id.
	List(ctx context.Context, after string, limit int) ([]WebhookInfo, error)

	// Find returns up to limit webhook subscriptions from the store that match the filter, sorted by id. It examines up
	// to 10,000 subscriptions, so a page can have fewer than limit, or none, even if more pages follow. If
	// Filter.Failing is set, Find examines all subscriptions and sorts them by how long they have been failing, longest
	// first. next is the after parameter for the next page, or "" on the last page. If after is malformed, Find returns
	// events.ErrInvalidParams.
	Find(ctx context.Context, f Filter, after string, limit int) (found []WebhookInfo, next string, err error)

	// Endpoints summarizes the webhook subscriptions that match the filter by host, or by URL if the filter specifies a
	// host. It returns up to limit endpoints with names greater than after, and examines all subscriptions.
	Endpoints(ctx context.Context, f Filter, after string, limit int) (found []Endpoint, next string, err error)

	// Get returns the stored webhook subscription with the given id.
	Get(ctx context.Context, id string) (WebhookInfo, error)

	// Lookup returns the webhook subscription with the given key.
	Lookup(ctx context.Context, k SubscriptionKey) (WebhookInfo, error)

	// State returns the state of a webhook subscription, or [StateAbsent] if the subscription is unknown.
	State(ctx context.Context, id string) (State, error)

	// Failing returns the number of failing webhook subscriptions, and up to limit of them. See
	// [WebhookInfo.Failing]. It examines all subscriptions.
	Failing(ctx context.Context, limit int) (Failures, error)

	// Freshness returns the age of the figures of other processes, and which of them are missing. [Filter].Late and
	// MinBehind do not select subscriptions whose figures are missing.
	Freshness(ctx context.Context) Freshness

	// Subscribe creates or refreshes a subscription whose callback was verified by other means. It returns the id. The
	// callback is recorded as verified, so a handshake never takes place. Subscribe checks the form of the URL, the
	// arguments and the quotas, but not authorization and visibility. See VER-1.
	Subscribe(ctx context.Context, r SubscribeRequest) (id string, err error)

	// Pause stops the deliveries of a webhook subscription until Unpause is called. The pause survives restarts and
	// refreshes by the subscriber: only an operator can end it. In the meantime, the subscription can expire, retries
	// do not age, and deliveryStatus reports the subscription as not active. Pausing a paused subscription has no
	// effect.
	Pause(ctx context.Context, id string) error

	// Unpause continues the deliveries from where they stopped. Occurrences that the log has dropped in the meantime
	// are signaled as a gap. A suspended subscription remains suspended.
	Unpause(ctx context.Context, id string) error

	// Resume reactivates a suspended webhook subscription, like a refresh. See HOOK-5.
	Resume(ctx context.Context, id string) (number uint64, err error)

	// Replay redelivers the occurrences after a cursor, up to and including the position last; 0 means no end.
	// Occurrences that are in neither the log nor the upstream service are signaled as a gap. Occurrences after last
	// are delivered as before, and pending occurrences before the cursor remain pending.
	//
	// Replay returns events.ErrInvalidParams if the cursor is malformed, was issued for another type or other
	// arguments, or is beyond the head. It returns events.ErrUnsupported for a type without replay, and if last is not
	// zero for a type with a check, which has no positions. If Replay returns an error, the subscription continues as
	// before. See SRV-8.
	Replay(ctx context.Context, id, cursor string, last store.Position) (number uint64, err error)

	// EndReplay stops a replay that is in progress. Occurrences that had been delivered before the replay are no longer
	// resent. All others are delivered as before. The request replaces a replay that has not begun. EndReplay returns
	// events.ErrNotFound if no replay is in progress or pending, and for a type with a check whose replay has begun.
	EndReplay(ctx context.Context, id string) (number uint64, err error)

	// Locate finds the cursor to start a replay of an event type at a point. It returns events.ErrInvalidParams for a
	// point after the head, and events.ErrNotFound for an unknown event id. It returns events.ErrUnsupported for a type
	// without replay, and for a type with a check, because no log contains the occurrences that checks find.
	Locate(ctx context.Context, event string, p Point) (Beginning, error)

	// End ends one webhook subscription with a terminated envelope. A nil error means Forbidden. To end all
	// subscriptions of a principal, use server.Server.Revoke.
	End(ctx context.Context, id string, e *events.Error) (number uint64, err error)

	// Attempts returns the recorded attempts to deliver to a webhook subscription, the latest first. The most recent
	// attempts may be missing because they have not yet been stored. The list is empty if Options.Store does not keep
	// attempts.
	Attempts(ctx context.Context, id string) ([]Attempt, error)

	// Abandoned returns up to limit occurrences that were abandoned between two times. since is inclusive and until is
	// exclusive; a zero time means no limit. The result covers the subscriptions that match the filter, sorted by id,
	// with the oldest occurrence of each subscription first. It includes only occurrences with attempts that are still
	// kept, and omits those with a pending retry. Abandoned examines up to 10,000 subscriptions, so a page can have
	// fewer than limit, or none, even if more pages follow. next is the after parameter for the next page, or "" on the
	// last page. If after is a subscription's id, the page starts after that subscription. If after is malformed, or
	// since is in the future or not before until, Abandoned returns events.ErrInvalidParams.
	Abandoned(ctx context.Context, f Filter, since, until time.Time, after string, limit int) (found []Abandoned, next string, err error)

	// Between returns up to limit occurrences between two times, with the results of their deliveries. since is
	// inclusive. until is exclusive, and zero means now. An empty event means all types. Between returns
	// events.ErrInvalidParams if since is in the future or not before until, or after is malformed. It returns
	// events.ErrNotFound for an unknown type and for a type with a check.
	Between(ctx context.Context, event string, since, until time.Time, after string, limit int) (Window, error)

	// Latency samples the response times of the endpoints of subscriptions that match the filter.
	Latency(ctx context.Context, f Filter) (LatencySample, error)

	// Why explains why a webhook subscription is delayed. The result includes when the next attempt is due and when an
	// occurrence will be lost.
	Why(ctx context.Context, id string) (Delay, error)

	// SendAgain requests one attempt to deliver an occurrence that has recorded attempts, regardless of their outcome.
	// The new attempt is recorded like any other. The endpoint receives the occurrence with the same webhook-id. The
	// attempt replaces a pending retry. Otherwise, the subscription's watermark and state do not change. If another
	// attempt is in flight, no attempt is made. The request includes the occurrences of a pending request, at most 64.
	// SendAgain returns events.ErrNotFound if no attempt is recorded, and [ErrUnderWay] while a request to send the
	// occurrence is pending. A non-zero seen is the At of the latest attempt that the caller knows. If there is a later
	// attempt, SendAgain returns ErrUnderWay, so that two operators who react to the same failure send only once.
	SendAgain(ctx context.Context, id, eventID string, seen time.Time) (number uint64, err error)

	// Test emits an occurrence for one webhook subscription, so that its subscriber can check whether it arrives. It
	// returns the event id, which begins with "test_". The occurrence is like any other, with retries and attempts, but
	// has "io.github.mcpe-gen/test": true in its _meta. data is its payload. If it does not match the event type's
	// payloadSchema, Test returns events.ErrInvalidParams. If the payload does not match the subscription's arguments,
	// the occurrence is not delivered, as [Admin.Deliveries] shows. For a type with a log that does not accept emitted
	// occurrences, Test returns events.ErrUnsupported.
	Test(ctx context.Context, id string, data json.RawMessage) (eventID string, err error)

	// Note appends an entry to the audit log, which the store keeps for 90 days and up to 100,000 entries. An Admin
	// does not add entries on its own: package admin calls Note for the actions that it handles.
	Note(ctx context.Context, e AuditEntry) error

	// Audit returns up to limit entries of the audit log that match the filter, the latest first. The entries precede
	// the position before; 0 starts at the end of the log. Audit examines up to 10,000 entries, so a page can have
	// fewer than limit, or none, even if more pages follow. next is the before parameter for the next page, or 0 on the
	// last page.
	Audit(ctx context.Context, f AuditFilter, before store.Position, limit int) (found []AuditEntry, next store.Position, err error)

	// RaiseError sends the error as notifications/events/error on the target's streams, which remain open. Webhooks do
	// not have such a signal. RaiseError returns the number of streams. If several processes share the store,
	// RaiseError, RaiseGap, Terminate and RevokePrincipal apply to all of them, but return the number for this process
	// only (REP-13). See PUSH-5.
	RaiseError(ctx context.Context, t Target, e *events.Error) (int, error)

	// RaiseGap signals to the target's subscriptions that occurrences before a new cursor may be missing. Streams
	// receive another active notification with truncated set to true, and webhooks receive a gap envelope. RaiseGap
	// returns the number of subscriptions. A type without replay cannot have gaps, so RaiseGap returns
	// events.ErrUnsupported without sending a signal (CUR-7). See PUSH-7, HOOK-7.
	RaiseGap(ctx context.Context, t Target) (int, error)

	// Terminate ends the target's live subscriptions with the error. A nil error means Forbidden. Streams receive a
	// terminated notification, and webhooks receive an envelope. Terminate returns the number of subscriptions. If the
	// target is a type, the type remains closed until Reopen, or until it is registered again in a running process. In
	// the meantime, requests for it return the same error after the mode check. If processes can share the store, a
	// restart does not open the type.
	Terminate(ctx context.Context, t Target, e *events.Error) (int, error)

	// Reopen ends the termination of an event type in all processes. Ended subscriptions do not return.
	Reopen(ctx context.Context, event string) error

	// RevokePrincipal is server.Server.Revoke for operators. It returns the number of subscriptions in this process.
	RevokePrincipal(ctx context.Context, principal string, names ...string) (int, error)

	// Connections returns the open streams and the pollers with unexpired leases, sorted by id. Of another process it
	// returns up to 100. Freshness.Missing also explains which connections are missing.
	Connections(ctx context.Context) ([]Connection, Freshness)

	// Connection returns a connection of this process, without Behind. It returns events.ErrNotFound if the connection
	// has ended.
	Connection(id string) (Connection, error)

	// EndConnection ends a stream with the error, or ends a poller's lease. A nil error means Forbidden. The poller can
	// still poll afterwards. If the connection has already ended, EndConnection returns events.ErrNotFound.
	EndConnection(id string, e *events.Error) error

	// EventTypes returns the registered event types, sorted by name.
	EventTypes(ctx context.Context) []EventType

	// EventType returns the registered event type with the given name.
	EventType(ctx context.Context, name string) (EventTypeInfo, error)

	// Tail returns a [Tail] that begins at the current end of an event type's log. If event is empty, it covers all
	// logs. If the type is unknown, Tail returns events.ErrNotFound.
	Tail(event string) (Tail, error)

	// FindOccurrences searches the log of an event type, or all logs if event is empty, for an event id. It reads
	// backward from the heads and examines up to 100,000 entries. whole reports whether all entries were examined.
	FindOccurrences(ctx context.Context, event, eventID string) (found []Occurrence, whole bool, err error)

	// Occurrence returns the occurrence at a position of an event type's log, or events.ErrNotFound.
	Occurrence(ctx context.Context, event string, p store.Position) (Occurrence, error)

	// Deliveries returns the outcome of an occurrence at up to limit webhook subscriptions. It covers subscriptions
	// with ids greater than after that match the occurrence or have a recorded attempt. A call examines 1,000
	// subscriptions, so found can be empty even if next is not.
	Deliveries(ctx context.Context, event string, p store.Position, after string, limit int) (found []Delivery, next string, err error)

	// Cluster returns the state of the processes that share the store. It returns events.ErrUnsupported if only one
	// process uses the store.
	Cluster(ctx context.Context) (Cluster, error)

	// Rejected returns up to limit rejected outbox occurrences with ids greater than after, sorted by id. Rejected
	// occurrences are not delivered. The result is empty if the store does not have an outbox. See REP-20.
	Rejected(ctx context.Context, after int64, limit int) ([]Rejected, error)

	// PutBack returns a rejected occurrence to the outbox, as if it had just been emitted. If the id is unknown, it
	// returns events.ErrNotFound.
	PutBack(ctx context.Context, id int64) error

	// Drop deletes a rejected occurrence. If the id is unknown, it returns events.ErrNotFound.
	Drop(ctx context.Context, id int64) error

	// AllowOrigin allows callbacks to one exact origin, such as http://127.0.0.1:9000, until revoke is called. The
	// address is not checked, and the scheme need not be https. Callbacks must still be verified (SRV-8). AllowOrigin
	// returns an error if origin contains more than a scheme, host and port.
	AllowOrigin(origin string) (revoke func(), err error)
}
