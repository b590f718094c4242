// Package operator is what an operator does with a server: look at event types, connections and webhook
// subscriptions, pause, replay and end them, tell them of errors and gaps, and follow what passes. server.Server.Admin
// gives an [Admin]; package admin serves it as a JSON API and a console.
package operator

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	// ErrKeyReused is returned by [Admin.Once] for a key under which something else was asked for.
	ErrKeyReused = errors.New("operator: this key was used for something else")
	// ErrUnderWay is returned by [Admin.Once] when the first call of a key has not ended, or its process
	// has died: whether it did anything is not known. [Admin.SendAgain] returns it while another attempt at
	// the occurrence is under way.
	ErrUnderWay = errors.New("operator: already in progress")
	// ErrUnanswered is returned by [Admin.SendAgain] and [Admin.EndReplay] when the process that delivers to the
	// subscription was asked and has not answered in 10 s. It may still do what it was asked for.
	ErrUnanswered = errors.New("operator: another process was asked and has not answered")
	// ErrBusy is returned by [Admin.Begin] while too many tasks run.
	ErrBusy = errors.New("operator: too many tasks are running")
)

// WithActor returns a context in which what an [Admin] is asked for is asked by that actor: the first 256 bytes of the name are
// kept with the attempts that follow from it ([Attempt.AskedBy]) and with tasks. Without one it is "operator".
func WithActor(ctx context.Context, name string) context.Context { return actor.With(ctx, name) }

// Admin is the operator's view of a server's subscriptions. It knows no principal: whoever can
// call it may do everything. Its methods are safe for concurrent use; an unknown subscription is
// events.ErrNotFound. A release may add methods: only this module implements it. See SRV-8.
type Admin interface {
	// List returns up to limit webhook subscriptions with ids above after, in order of id, from the
	// store.
	List(ctx context.Context, after string, limit int) ([]WebhookInfo, error)

	// Find returns up to limit webhook subscriptions that the filter takes, from the store, in order of id. It looks at up
	// to 10,000: a page may hold fewer than limit, or none, and still have a next one. With Filter.Failing it looks at
	// all, and those that have failed for longest come first. next is the after of the page that follows, "" at the
	// end; an after that is none is events.ErrInvalidParams.
	Find(ctx context.Context, f Filter, after string, limit int) (found []WebhookInfo, next string, err error)

	// Endpoints sums up the webhook subscriptions that the filter takes, by host, or by URL where the filter names a host;
	// up to limit of them after a name. It looks at all subscriptions.
	Endpoints(ctx context.Context, f Filter, after string, limit int) (found []Endpoint, next string, err error)

	// Get returns the webhook subscription of an id, as the store has it.
	Get(ctx context.Context, id string) (WebhookInfo, error)

	// Lookup returns the webhook subscription of a key.
	Lookup(ctx context.Context, k SubscriptionKey) (WebhookInfo, error)

	// State tells the state of a webhook subscription; of an unknown one it is [StateAbsent].
	State(ctx context.Context, id string) (State, error)

	// Failing returns up to limit webhook subscriptions of this process that are suspended or whose last
	// attempt failed, those that have failed for longest first, and how many there are.
	Failing(ctx context.Context, limit int) (found []WebhookInfo, total int, err error)

	// Subscribe makes or refreshes a subscription whose callback has been verified by other means,
	// which is recorded: no handshake takes place, now or later. The URL's form, the arguments and
	// quotas are checked, authorization and visibility are not. It returns the id. See VER-1.
	Subscribe(ctx context.Context, r SubscribeRequest) (id string, err error)

	// Pause holds the deliveries of a webhook subscription back until Unpause, over restarts and
	// whatever the subscriber refreshes: only an operator ends it. Its expiry goes on, retries do not age,
	// and deliveryStatus says that it is not active. Pausing what is paused changes nothing.
	Pause(ctx context.Context, id string) error

	// Unpause lets the deliveries go on where they stood; what the log has forgotten meanwhile is
	// signalled as a gap. A suspension stays.
	Unpause(ctx context.Context, id string) error

	// Resume reactivates a suspended webhook subscription as a refresh does. See HOOK-5.
	Resume(ctx context.Context, id string) error

	// Replay delivers again everything after the cursor and up to a position, 0 for no end, as far as the log or the upstream
	// still has it; what it has not is signalled as a gap. What is after the position goes on as it was; a type that a check
	// feeds has no positions to end at (events.ErrUnsupported). What is unsettled before the cursor stays so. A check
	// is waited for up to 10 s. A cursor that is malformed, of another type, of other arguments or
	// beyond the head is events.ErrInvalidParams, a type without replay events.ErrUnsupported; after an
	// error nothing was sent and the subscription goes on as before. Where only storing the new start
	// failed, what it delivers again may already be on the way. See SRV-8.
	Replay(ctx context.Context, id, cursor string, last store.Position) error

	// EndReplay delivers nothing more of a replay that is under way: what had been delivered before it is delivered no more,
	// and all else goes on. events.ErrNotFound when none is, as after a restart, and for what a check feeds. One of another process
	// has ended when that one has answered, else it is [ErrUnanswered].
	EndReplay(ctx context.Context, id string) error

	// Locate finds the cursor from which a replay of an event type begins. A point after the head is
	// events.ErrInvalidParams, an event id that is not there events.ErrNotFound, a type without replay, or one that a
	// check feeds, events.ErrUnsupported: what checks find is in no log.
	Locate(ctx context.Context, event string, p Point) (Beginning, error)

	// End ends one webhook subscription with a terminated envelope; nil for Forbidden. For all of a
	// principal see [Server.Revoke].
	End(ctx context.Context, id string, e *events.Error) error

	// Attempts returns the kept attempts to deliver to a webhook subscription, the latest first. Those of
	// the last moments may not be stored yet. They are none where Options.Store keeps none.
	Attempts(ctx context.Context, id string) ([]Attempt, error)

	// SendAgain makes one attempt at an occurrence of which attempts are kept, whatever became of them,
	// and returns what it came to. The endpoint gets it under the same webhook-id. It takes the place of a
	// retry that waits; else the subscription's watermark and state do not change. Without such an attempt,
	// or when the log has the occurrence no more, it is events.ErrNotFound, and [ErrUnderWay] while another
	// attempt at it is under way.
	SendAgain(ctx context.Context, id, eventID string) (Attempt, error)

	// Test emits an occurrence for one webhook subscription alone, so that its subscriber sees whether one arrives, and
	// returns its event id, which begins with "test_". It is like any other, with retries and attempts, but for
	// "io.github.mcpe-gen/test": true in its _meta. data is its payload; one that does not fit the event type's payloadSchema
	// is events.ErrInvalidParams. Where the subscription's arguments do not take it nobody gets it, which
	// [Admin.Deliveries] shows. A type whose log cannot be emitted to is events.ErrUnsupported.
	Test(ctx context.Context, id string, data json.RawMessage) (eventID string, err error)

	// Preview returns how many subscriptions a Bulk would do now, of [BulkSend] how many occurrences.
	Preview(ctx context.Context, b Bulk) (int, error)

	// Begin begins a Bulk. It goes on in the background, in order of ids; other processes'
	// subscriptions are done too. A Bulk that is none is events.ErrInvalidParams, and [ErrBusy] means that 8 run.
	Begin(ctx context.Context, b Bulk) (Task, error)

	// Tasks returns the tasks of all processes that share the store, the latest first, and Task the one of an id or
	// events.ErrNotFound. Those of other processes are as they were some seconds ago.
	Tasks(ctx context.Context) ([]Task, error)

	// Task returns one of Tasks.
	Task(ctx context.Context, id string) (Task, error)

	// Cancel ends a task after the subscription that it is at, in another process some seconds later. What it has done
	// stays; one that has ended stays as it is.
	Cancel(ctx context.Context, id string) error

	// Note appends an entry to the audit log, which the store keeps for 90 days and up to 100,000 entries. The end of a
	// task is noted by itself; else nothing is: package admin notes what comes by it.
	Note(ctx context.Context, e AuditEntry) error

	// Audit returns up to limit entries of the audit log that the filter takes and that are before a position, 0 for its
	// end, the latest first. It looks at up to 10,000: a page may hold fewer than limit, or none, and still have a next
	// one. next is the before of the page that follows, 0 at the end.
	Audit(ctx context.Context, f AuditFilter, before store.Position, limit int) (found []AuditEntry, next store.Position, err error)

	// RaiseError sends the error as notifications/events/error on the target's streams, which stay open;
	// webhooks know no such signal. It returns the number of streams. On a store that processes share, this
	// and what follows is done in all of them, and the number is of this one (REP-13). See PUSH-5.
	RaiseError(ctx context.Context, t Target, e *events.Error) (int, error)

	// RaiseGap tells the target's subscriptions that occurrences may be missing before a cursor that
	// is new: streams by a fresh active with truncated true, webhooks by a gap envelope. It returns
	// the number of subscriptions. A type without replay has no gaps: it is events.ErrUnsupported,
	// and nobody is told anything (CUR-7). See PUSH-7, HOOK-7.
	RaiseGap(ctx context.Context, t Target) (int, error)

	// Terminate ends the target's live subscriptions with the error, nil for Forbidden: streams by
	// terminated, webhooks by an envelope. A type stays closed: until it is registered again its
	// methods answer the same error after the check of the mode. It returns the number of
	// subscriptions.
	Terminate(ctx context.Context, t Target, e *events.Error) (int, error)

	// RevokePrincipal is [Server.Revoke] for operators; it returns how many subscriptions there were in this
	// process.
	RevokePrincipal(ctx context.Context, principal string, names ...string) (int, error)

	// Connections returns who is connected: open streams and pollers whose lease runs, in order of their
	// ids.
	Connections() []Connection

	// Connection returns one of Connections, without Behind. One that has ended is events.ErrNotFound.
	Connection(id string) (Connection, error)

	// EndConnection ends a stream with the error, nil for Forbidden, or a poller's lease; the poller may
	// come again. One that has ended is events.ErrNotFound.
	EndConnection(id string, e *events.Error) error

	// EventTypes returns the registered event types in order of their names.
	EventTypes() []EventType

	// EventType returns the registered event type of a name.
	EventType(name string) (EventTypeInfo, error)

	// Activity returns what attempts to deliver by webhook came to in the last hour: all of this process, or those of an event
	// type, or to a host as [HostOf] names it; both are events.ErrInvalidParams. 512 event types and hosts are remembered, those
	// that were used last. In a cluster other processes have their own. Without webhook delivery it has no minutes. It does
	// not survive the process.
	Activity(event, host string) (Activity, error)

	// Tail begins at the present end of an event type's log, or of all. An unknown type is
	// events.ErrNotFound.
	Tail(event string) (Tail, error)

	// FindOccurrences looks for an event id in the log of an event type, or in those of all, from their heads back. It
	// looks at 100,000 entries at most: whole tells that these were all.
	FindOccurrences(ctx context.Context, event, eventID string) (found []Occurrence, whole bool, err error)

	// Occurrence returns the one at a position of an event type's log; events.ErrNotFound when it is not there.
	Occurrence(ctx context.Context, event string, p store.Position) (Occurrence, error)

	// Deliveries returns what became of an occurrence at up to limit webhook subscriptions with ids above after: those
	// that it matches, and those with a kept attempt. Whether it matches is known of this process's subscriptions. One
	// call looks at 1,000 subscriptions: it may find none and still have a next.
	Deliveries(ctx context.Context, event string, p store.Position, after string, limit int) (found []Delivery, next string, err error)

	// Cluster returns how the processes are that share the store; events.ErrUnsupported where one process has it alone.
	Cluster(ctx context.Context) (Cluster, error)

	// Rejected returns up to limit occurrences of transactions that were put aside, with ids above after, in
	// order: nobody gets them. A store without an outbox has none. See REP-20.
	Rejected(ctx context.Context, after int64, limit int) ([]Rejected, error)

	// PutBack lets an occurrence that was put aside be looked at again, as if it had just been emitted; Drop
	// deletes it. One that is not there is events.ErrNotFound.
	PutBack(ctx context.Context, id int64) error

	// Drop deletes an occurrence that was put aside. See PutBack.
	Drop(ctx context.Context, id int64) error

	// AllowOrigin allows callbacks on one exact origin, such as http://127.0.0.1:9000, until revoke is
	// called: its address is not judged and it need not be https. Verification stays (SRV-8). Anything
	// but scheme, host and port is refused.
	AllowOrigin(origin string) (revoke func(), err error)

	// Once calls do unless it was called under the same key within 10 minutes, and returns its outcome, that
	// of the first call when there was one. The store remembers it, for all processes that share it; a custom
	// store that is no [engine.Actions] leaves it to this process's memory. request says what is asked
	// for: another one under the same key is [ErrKeyReused]. When do fails nothing is remembered. An outcome
	// has at most [engine.MaxAction] bytes.
	Once(ctx context.Context, key string, request []byte, do func() (outcome []byte, err error)) (outcome []byte, err error)
}
