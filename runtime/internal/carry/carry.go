// Package carry allows adapters of other protocols to use package client. It creates client subscriptions that receive
// events through a [Carrier] and gives access to their sessions. Package client sets the functions of this package, so
// they are not part of its API.
package carry

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var (
	// Via returns a client.SubscribeOption that receives events through a carrier instead of poll, push or webhook. c
	// is called once per subscription to create the carrier.
	Via func(c func() Carrier) any
	// Iterate yields the values passed to [Intake.Put] for a subscription created by [Client.Subscribe]. It yields
	// errors like the iteration of any other subscription.
	Iterate func(subscription any, yield func(v any, err error) bool)
	// Of returns the internals of a *client.Client.
	Of func(client any) Client
	// Repeatable returns a context for calls that can safely be repeated. Over HTTP, such calls are retried while no
	// server responds.
	Repeatable func(ctx context.Context) context.Context
)

// A Carrier receives occurrences for a subscription through another protocol than events/*; see [Via] and
// [Client.Subscribe].
type Carrier interface {
	// Mode returns the value of the subscription's Mode.
	Mode() string
	// Carry receives events over one session until ctx is done. It returns the reason why it ended, and is called with
	// a new session after the session is lost. If Carry returns an error before [Intake.Accepted] is called, Subscribe
	// returns it. A *client.TerminatedError ends the subscription. After any other error, Carry is retried.
	Carry(ctx context.Context, in Intake) error
}

// An Intake receives a [Carrier]'s events for its subscription.
type Intake interface {
	// Event returns the name of the subscription's event type, or the name given to [Client.Subscribe].
	Event() string
	// Arguments returns the subscription's arguments, nil for none.
	Arguments() json.RawMessage
	// Session returns the SDK's session.
	Session() *mcp.ClientSession
	// Stateless reports whether the session follows revision 2026-07-28 or later.
	Stateless() bool
	// Accepted records that the server has accepted the subscription. It reports whether that was already recorded.
	Accepted() (before bool)
	// Over reports whether the subscription itself has ended, not only the session.
	Over() bool
	// Take delivers one occurrence to the subscription. It blocks while the subscription's buffer is full.
	Take(ctx context.Context, o wire.Occurrence) error
	// Allowed counts an occurrence that is about to be passed to Put. It reports whether the application's policy
	// allows the occurrence.
	Allowed(ctx context.Context, o wire.Occurrence) bool
	// Put delivers a value of size bytes, which [Iterate] yields. It blocks while the subscription's buffer is full.
	Put(ctx context.Context, v any, size int64) error
	// Gap notifies the subscription that occurrences may be missing.
	Gap(ctx context.Context) error
	// Listen sends a subscriptions/listen request with key: true in its _meta and keeps it open on the session. The
	// request subscribes to the messages of a protocol, which are passed to callbacks registered with [Client.Observe].
	// Listen calls acknowledged once the server has accepted the request. It returns when the request ends.
	Listen(ctx context.Context, key string, acknowledged func()) error
}

// A Client gives access to the internals of a *client.Client.
type Client interface {
	// Subscribe creates a subscription without an event type and returns its *client.Subscription. about is its name in
	// logs and in its status. c must deliver everything with [Intake.Put] and [Intake.Gap].
	Subscribe(ctx context.Context, about string, c Carrier) (subscription any, err error)
	// Observe calls take for every notification with one of the given methods, on every carrier, until stop is called.
	// take is called on the session's read path and must not block.
	Observe(methods []string, take func(method string, params json.RawMessage)) (stop func())
	// BeforeClose registers f to be called before the client closes, while its session still works, unless stop is
	// called first. Close waits for f.
	BeforeClose(f func()) (stop func())
	// Live returns a working session of the SDK and whether it follows revision 2026-07-28 or later. If the last
	// session was lost, it reconnects.
	Live(ctx context.Context) (cs *mcp.ClientSession, stateless bool, err error)
}
