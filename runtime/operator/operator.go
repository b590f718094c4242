// Package operator defines the operator's view of a server. An operator can look at event types, connections and
// webhook subscriptions, pause, replay and end them, send them errors and gaps, and follow occurrences live.
// server.Server.Admin returns an [Admin]; package admin serves it as a JSON API and a console.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrKeyReused is returned by [Admin.Once] if the key was used for a different request.
	ErrKeyReused = errors.New("operator: this key was used for something else")
	// ErrUnderWay is returned by [Admin.Once] while the first call with the key is in progress. If that call's process
	// died, whether the call had an effect is unknown. [Admin.SendAgain] returns it while another attempt to deliver
	// the occurrence is in flight, and if a later attempt exists than the caller has seen.
	ErrUnderWay = errors.New("operator: already in progress")
)

// An AcceptedError reports that an action on a webhook subscription is stored but still pending. The process that
// delivers to the subscription did not carry it out within the endpoint's timeout plus 5 s. That process, or its
// successor, still will: [WebhookInfo.Actions] has the time. Another call requests another action.
type AcceptedError struct {
	Subscription string
	Number       uint64 // of the action
}

func (e *AcceptedError) Error() string {
	return fmt.Sprintf("operator: action %d of subscription %s is accepted and not done yet", e.Number, e.Subscription)
}

// WithActor returns a context in which calls to an [Admin] are made in the name of an actor. The attempts that result
// from such a call record the first 256 bytes of the name ([Attempt.AskedBy]). The default name is "operator".
func WithActor(ctx context.Context, name string) context.Context { return actor.With(ctx, name) }

// Admin is the operator's view of a server's subscriptions. It does not check permissions: any caller may do
// everything. Its methods are safe for concurrent use and return events.ErrNotFound for an unknown subscription. To act
// on many subscriptions, list them with [Admin.Find] and act on each. A release may add methods: only this module
// implements it. See SRV-8.
type Admin interface {
	// List returns up to limit webhook subscriptions from the store with ids greater than after, sorted by id.
	List(ctx context.Context, after string, limit int) ([]WebhookInfo, error)

	// Find returns up to limit webhook subscriptions from the store that match the filter, sorted by id. It examines up
	// to 10,000: a page may have fewer than limit, or none, although more pages follow. With Filter.Failing it examines
	// all, and the longest-failing come first. next is the after parameter of the next page, "" on the last one. A
	// malformed after is events.ErrInvalidParams.
	Find(ctx context.Context, f Filter, after string, limit int) (found []WebhookInfo, next string, err error)

	// Endpoints summarizes the webhook subscriptions that match the filter, by host. If the filter names a host, it
	// summarizes them by URL. It returns up to limit endpoints with names greater than after, and examines all
	// subscriptions.
	Endpoints(ctx context.Context, f Filter, after string, limit int) (found []Endpoint, next string, err error)

	// Get returns the webhook subscription with an id, as stored.
	Get(ctx context.Context, id string) (WebhookInfo, error)

	// Lookup returns the webhook subscription with a key.
	Lookup(ctx context.Context, k SubscriptionKey) (WebhookInfo, error)

	// State returns the state of a webhook subscription, [StateAbsent] for an unknown one.
	State(ctx context.Context, id string) (State, error)

	// Failing returns up to limit failing webhook subscriptions of this process, and their total number. These are
	// suspended, or their last attempt failed. The longest-failing come first.
	Failing(ctx context.Context, limit int) (found []WebhookInfo, total int, err error)

	// Subscribe creates or refreshes a subscription whose callback was verified by other means. It returns the id. The
	// verification is recorded: no handshake takes place, now or later. The URL's form, the arguments and quotas are
	// checked; authorization and visibility are not. See VER-1.
	Subscribe(ctx context.Context, r SubscribeRequest) (id string, err error)

	// Pause holds back the deliveries of a webhook subscription until Unpause. The pause outlasts restarts and the
	// subscriber's refreshes: only an operator ends it. The subscription still expires, retries do not age, and
	// deliveryStatus reports it as not active. Pausing a paused subscription changes nothing.
	Pause(ctx context.Context, id string) error

	// Unpause continues the deliveries from where they stopped. Occurrences that the log has dropped since are
	// signalled as a gap. A suspension stays.
	Unpause(ctx context.Context, id string) error

	// Resume reactivates a suspended webhook subscription, as a refresh does. See HOOK-5.
	Resume(ctx context.Context, id string) error

	// Replay redelivers the occurrences after a cursor, up to and including the position last; 0 means no end.
	// Occurrences that neither the log nor the upstream has are signalled as a gap. Occurrences after last are
	// delivered as before, and pending ones before the cursor stay pending. Replay waits up to 10 s for a check.
	//
	// A cursor that is malformed, belongs to another type or other arguments, or is beyond the head is
	// events.ErrInvalidParams. A type without replay is events.ErrUnsupported, and so is a non-zero last for a type
	// that a check feeds: it has no positions. After an error nothing was sent and the subscription continues as
	// before, with one exception: if only storing the new start failed, redeliveries may already be in flight. See
	// SRV-8.
	Replay(ctx context.Context, id, cursor string, last store.Position) error

	// EndReplay stops a replay that is under way. Occurrences that had been delivered before the replay are not sent
	// anymore; all others are delivered as before. Without a replay, as after a restart, and for a type that a check
	// feeds it returns events.ErrNotFound. If the process that runs the replay is slow to stop it, EndReplay returns an
	// [AcceptedError].
	EndReplay(ctx context.Context, id string) error

	// Locate finds the cursor from which a replay of an event type begins. A point after the head is
	// events.ErrInvalidParams, an unknown event id events.ErrNotFound. A type without replay, or fed by a check, is
	// events.ErrUnsupported: no log has the occurrences that checks find.
	Locate(ctx context.Context, event string, p Point) (Beginning, error)

	// End ends one webhook subscription with a terminated envelope; a nil error means Forbidden. To end all
	// subscriptions of a principal see server.Server.Revoke.
	End(ctx context.Context, id string, e *events.Error) error

	// Attempts returns the recorded attempts to deliver to a webhook subscription, the latest first. The most recent
	// ones may not be stored yet. The list is empty if Options.Store does not keep attempts.
	Attempts(ctx context.Context, id string) ([]Attempt, error)

	// Abandoned returns up to limit occurrences that were given up between two times. A zero time does not bound the
	// range: since is inclusive, until exclusive. It covers the subscriptions that match the filter, sorted by id, and
	// lists the oldest occurrence of each first, as far as attempts are kept. Occurrences with a retry due are left
	// out. It examines up to 10,000 subscriptions: a page may have fewer than limit, or none, although more pages
	// follow. next is the after parameter of the next page, "" on the last one; a subscription's id as after continues
	// after that subscription. A malformed after is events.ErrInvalidParams.
	Abandoned(ctx context.Context, f Filter, since, until time.Time, after string, limit int) (found []Abandoned, next string, err error)

	// Between returns up to limit occurrences between two times, with the results of their deliveries. since is
	// inclusive; until is exclusive, and zero means now. An empty event means all types. Times in the wrong order and a
	// malformed after are events.ErrInvalidParams. An unknown type, and a type that a check feeds, is
	// events.ErrNotFound.
	Between(ctx context.Context, event string, since, until time.Time, after string, limit int) (Window, error)

	// Latency samples how fast the endpoints of the subscriptions that match the filter answer.
	Latency(ctx context.Context, f Filter) (LatencySample, error)

	// Why explains why a webhook subscription is late. It returns when the next attempt is due and when an occurrence
	// is lost.
	Why(ctx context.Context, id string) (Delay, error)

	// SendAgain makes one attempt to deliver an occurrence that has recorded attempts, whatever their outcome. It
	// returns the new attempt. The endpoint gets the occurrence under the same webhook-id. The attempt replaces a
	// waiting retry; otherwise the subscription's watermark and state do not change. SendAgain returns
	// events.ErrNotFound without a recorded attempt or if the log no longer has the occurrence, and [ErrUnderWay] while
	// another attempt to deliver it is in flight. A non-zero seen is the At of the latest attempt that the caller
	// knows: if a later attempt exists, SendAgain returns ErrUnderWay, so that two operators who react to the same
	// failure send only once.
	SendAgain(ctx context.Context, id, eventID string, seen time.Time) (Attempt, error)

	// Test emits an occurrence for one webhook subscription, so that its subscriber can see whether it arrives. It
	// returns the event id, which begins with "test_". The occurrence is like any other, with retries and attempts, but
	// has "io.github.mcpe-gen/test": true in its _meta. data is its payload; if it does not match the event type's
	// payloadSchema, Test returns events.ErrInvalidParams. If the subscription's arguments do not match the payload,
	// nobody gets the occurrence, which [Admin.Deliveries] shows. A type whose log does not accept emitted occurrences
	// is events.ErrUnsupported.
	Test(ctx context.Context, id string, data json.RawMessage) (eventID string, err error)

	// Note appends an entry to the audit log, which the store keeps for 90 days and up to 100,000 entries. An Admin
	// does not write to it by itself: package admin notes the actions that it handles.
	Note(ctx context.Context, e AuditEntry) error

	// Audit returns up to limit entries of the audit log that match the filter, the latest first. They precede the
	// position before; 0 starts at the end of the log. It examines up to 10,000: a page may have fewer than limit, or
	// none, although more pages follow. next is the before parameter of the next page, 0 on the last one.
	Audit(ctx context.Context, f AuditFilter, before store.Position, limit int) (found []AuditEntry, next store.Position, err error)

	// RaiseError sends the error as notifications/events/error on the target's streams, which stay open. Webhooks have
	// no such signal. It returns the number of streams. If processes share the store, RaiseError, RaiseGap, Terminate
	// and RevokePrincipal act in all of them, and each returns the number in this process (REP-13). See PUSH-5.
	RaiseError(ctx context.Context, t Target, e *events.Error) (int, error)

	// RaiseGap signals to the target's subscriptions that occurrences before a new cursor may be missing. Streams get
	// another active notification with truncated true, webhooks a gap envelope. It returns the number of subscriptions.
	// A type without replay has no gaps: RaiseGap returns events.ErrUnsupported and signals nothing (CUR-7). See
	// PUSH-7, HOOK-7.
	RaiseGap(ctx context.Context, t Target) (int, error)

	// Terminate ends the target's live subscriptions with the error; nil means Forbidden. Streams get a terminated
	// notification, webhooks an envelope. It returns the number of subscriptions. A type stays closed: until it is
	// registered again, its methods return the same error after the check of the mode.
	Terminate(ctx context.Context, t Target, e *events.Error) (int, error)

	// RevokePrincipal is server.Server.Revoke for operators. It returns the number of subscriptions in this process.
	RevokePrincipal(ctx context.Context, principal string, names ...string) (int, error)

	// Connections returns the open streams, and the pollers whose lease has not expired, sorted by id.
	Connections() []Connection

	// Connection returns an element of Connections, without Behind. It returns events.ErrNotFound if the connection has
	// ended.
	Connection(id string) (Connection, error)

	// EndConnection ends a stream with the error, or a poller's lease. A nil error means Forbidden. The poller may poll
	// again. A connection that has ended is events.ErrNotFound.
	EndConnection(id string, e *events.Error) error

	// EventTypes returns the registered event types, sorted by name.
	EventTypes() []EventType

	// EventType returns the registered event type with a name.
	EventType(name string) (EventTypeInfo, error)

	// Activity returns the results of this process's webhook attempts in the last hour. They are those of an event
	// type, of a host as [HostOf] returns it, or of all if both are empty; setting both is events.ErrInvalidParams. The
	// process remembers the 512 most recently used event types and hosts, and forgets all when it ends; in a cluster
	// each process has its own. Without webhook delivery, Minutes is empty.
	Activity(event, host string) (Activity, error)

	// Tail returns a [Tail] that begins at the current end of an event type's log, or of all logs. An unknown type is
	// events.ErrNotFound.
	Tail(event string) (Tail, error)

	// FindOccurrences searches the log of an event type, or of all, for an event id. It reads backward from the heads
	// and examines up to 100,000 entries. whole reports whether these were all.
	FindOccurrences(ctx context.Context, event, eventID string) (found []Occurrence, whole bool, err error)

	// Occurrence returns the occurrence at a position of an event type's log, or events.ErrNotFound.
	Occurrence(ctx context.Context, event string, p store.Position) (Occurrence, error)

	// Deliveries returns the outcome of an occurrence at up to limit webhook subscriptions. It covers the ones with ids
	// greater than after that match the occurrence or have a recorded attempt. Only this process's subscriptions can be
	// matched. A call examines 1,000 subscriptions: it may find none and still return a next.
	Deliveries(ctx context.Context, event string, p store.Position, after string, limit int) (found []Delivery, next string, err error)

	// Cluster returns the state of the processes that share the store. It returns events.ErrUnsupported if only one
	// process uses the store.
	Cluster(ctx context.Context) (Cluster, error)

	// Rejected returns up to limit rejected outbox occurrences with ids greater than after, sorted by id. Nobody gets
	// these occurrences. A store without an outbox has none. See REP-20.
	Rejected(ctx context.Context, after int64, limit int) ([]Rejected, error)

	// PutBack returns a rejected occurrence to the outbox, as if it had just been emitted. An unknown id is
	// events.ErrNotFound.
	PutBack(ctx context.Context, id int64) error

	// Drop deletes a rejected occurrence. An unknown id is events.ErrNotFound.
	Drop(ctx context.Context, id int64) error

	// AllowOrigin allows callbacks to one exact origin, such as http://127.0.0.1:9000, until revoke is called. Its
	// address is not checked and it need not be https. Verification stays (SRV-8). AllowOrigin rejects anything but
	// scheme, host and port.
	AllowOrigin(origin string) (revoke func(), err error)

	// Once calls do and returns its outcome, unless the key was used in the last 10 minutes. Then it returns the
	// outcome of the first call. The store remembers outcomes for all processes that share it; with a custom store that
	// does not implement [engine.Actions] only this process's memory does. request describes the call: another request
	// with the same key is [ErrKeyReused]. If do fails, nothing is remembered. An outcome has at most
	// [engine.MaxAction] bytes.
	Once(ctx context.Context, key string, request []byte, do func() (outcome []byte, err error)) (outcome []byte, err error)
}
