// Package carry lets the adapters of other protocols use package client. It creates client subscriptions that receive
// through a [Carrier], and gives access to their sessions. Package client sets the functions of this package, which
// keeps them out of its API.
package carry

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var (
	// Via returns the client.SubscribeOption for receiving through a carrier that c creates, instead of poll, push or
	// webhook. c is called for each subscription.
	Via func(c func() Carrier) any
	// Iterate yields the values that [Intake.Put] handed to a subscription of [Client.Subscribe], or errors like the
	// iteration of any subscription.
	Iterate func(subscription any, yield func(v any, err error) bool)
	// Of returns the internals of a *client.Client.
	Of func(client any) Client
	// Repeatable marks the requests of calls that may be made twice: over HTTP they are repeated while no server
	// answers.
	Repeatable func(ctx context.Context) context.Context
)

// A Carrier receives occurrences for a subscription through another protocol than events/*; see [Via] and
// [Client.Subscribe].
type Carrier interface {
	// Mode returns the value of the subscription's Mode.
	Mode() string
	// Carry receives over one session until ctx ends, and returns why it ended; it is called again after a loss.
	// Subscribe returns an error before [Intake.Accepted]. A *client.TerminatedError ends the subscription; after any
	// other error Carry is retried.
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
	// Accepted records that the server has accepted the subscription; it reports whether it had before.
	Accepted() (before bool)
	// Over reports whether the subscription itself has ended, not only the session.
	Over() bool
	// Take hands over one occurrence, and waits for room.
	Take(ctx context.Context, o wire.Occurrence) error
	// Allowed counts an occurrence that Put is about to hand over, and reports whether the application's policy allows
	// it.
	Allowed(ctx context.Context, o wire.Occurrence) bool
	// Put hands over a value of size bytes that [Iterate] yields, and waits for room.
	Put(ctx context.Context, v any, size int64) error
	// Gap reports to the subscription that occurrences may be missing.
	Gap(ctx context.Context) error
	// Listen keeps a subscriptions/listen request with key: true in its _meta open on the session. It asks for the
	// messages of a protocol, which [Client.Observe] then receives. It calls acknowledged when the server has agreed,
	// and returns when the request ends.
	Listen(ctx context.Context, key string, acknowledged func()) error
}

// A Client gives access to the internals of a *client.Client.
type Client interface {
	// Subscribe creates a subscription without an event type, and returns its *client.Subscription. about is its name
	// in logs and in its status. c hands everything over with [Intake.Put] and [Intake.Gap].
	Subscribe(ctx context.Context, about string, c Carrier) (subscription any, err error)
	// Observe calls take for every notification of one of the methods, on every carrier, until stop is called. take
	// runs on the session's read path and must not block.
	Observe(methods []string, take func(method string, params json.RawMessage)) (stop func())
	// BeforeClose calls f when the client is about to close, while its session still works, until stop is called. Close
	// waits for f.
	BeforeClose(f func()) (stop func())
	// Live returns a working session of the SDK, and whether it follows revision 2026-07-28 or later. It reconnects if
	// the last session was lost.
	Live(ctx context.Context) (cs *mcp.ClientSession, stateless bool, err error)
}
