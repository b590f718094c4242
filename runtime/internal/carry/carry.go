// Package carry lets the adapters of other protocols use package client: it makes a subscription of client that receives
// through a [Carrier], and gives the session below it. Package client sets the functions of this package, which keeps
// them out of its own API.
package carry

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var (
	// Via returns the client.SubscribeOption by which each subscription receives by a carrier that c makes,
	// instead of poll, push or webhook.
	Via func(c func() Carrier) any
	// Iterate yields what [Intake.Put] has handed over to a subscription of [Client.Subscribe], or an error
	// as the iteration of any subscription does.
	Iterate func(subscription any, yield func(v any, err error) bool)
	// Of returns the inside of a *client.Client.
	Of func(client any) Client
	// Repeatable marks the requests of calls that bear being made twice: over HTTP they are made again
	// when nobody is there to answer.
	Repeatable func(ctx context.Context) context.Context
)

// A Carrier brings occurrences to a subscription by another protocol than events/*; see [Via] and [Client.Subscribe].
type Carrier interface {
	// Mode is what the subscription's Mode returns.
	Mode() string
	// Carry receives over one session until ctx ends, and says why it ended; it is called again
	// after a loss. An error before [Intake.Accepted] is returned by Subscribe, a
	// *client.TerminatedError ends the subscription, and after any other there is another try.
	Carry(ctx context.Context, in Intake) error
}

// An Intake takes what a [Carrier] receives.
type Intake interface {
	// Event is the name of the subscription's event type, or what [Client.Subscribe] was told.
	Event() string
	// Arguments are the subscription's, nil for none.
	Arguments() json.RawMessage
	// Session is the SDK's session.
	Session() *mcp.ClientSession
	// Stateless tells that the session follows revision 2026-07-28 or later.
	Stateless() bool
	// Accepted tells that the server has accepted the subscription; it reports whether it had before.
	Accepted() (before bool)
	// Over reports whether the subscription itself has ended, and not only the session.
	Over() bool
	// Take hands over one occurrence; it waits for room.
	Take(ctx context.Context, o wire.Occurrence) error
	// Allowed counts an occurrence that Put is about to hand over, and reports whether the policy of
	// the application allows it.
	Allowed(ctx context.Context, o wire.Occurrence) bool
	// Put hands over a value of this many bytes that [Iterate] yields; it waits for room.
	Put(ctx context.Context, v any, size int64) error
	// Gap hands over that occurrences may be missing.
	Gap(ctx context.Context) error
	// Listen keeps a subscriptions/listen request open on the session that asks, by key: true in its
	// _meta, for the messages of a protocol, which [Client.Observe] then hears. It calls acknowledged
	// when the server has agreed, and returns when the request is over.
	Listen(ctx context.Context, key string, acknowledged func()) error
}

// A Client is the inside of a *client.Client.
type Client interface {
	// Subscribe makes a subscription that has no event type, and returns its *client.Subscription; about
	// is its name in logs and in its status. c hands everything over by [Intake.Put] and [Intake.Gap].
	Subscribe(ctx context.Context, about string, c Carrier) (subscription any, err error)
	// Observe calls take for every notification of one of the methods, on whatever carrier it comes,
	// until stop is called. take runs on the session's reading path: it must not block.
	Observe(methods []string, take func(method string, params json.RawMessage)) (stop func())
	// BeforeClose calls f when the client is about to close, while its session still works, until
	// stop is called. Close waits for f.
	BeforeClose(f func()) (stop func())
	// Live returns a working session of the SDK's, connecting again when the last one was lost, and
	// whether it follows revision 2026-07-28 or later.
	Live(ctx context.Context) (cs *mcp.ClientSession, stateless bool, err error)
}
