package eventstest

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Options configures a [Client].
type Options struct {
	// Options configures the embedded client. NewClient presets Logger, which writes to the test's output, and a short
	// Backoff.
	client.Options
	// Principal identifies the client to the server. It is the user ID in the SDK's token info. A Principal function of
	// the server takes precedence. If Principal is empty, the client is anonymous.
	Principal string
}

// A Client is a client with an in-memory connection to a server. In addition to the methods of [client.Client], it has
// methods that inject faults into the connection. Faults affect push and poll subscriptions of this client and of
// clients that connect with Transport. A poll subscription receives a fault in the response to its next poll.
type Client struct {
	*client.Client
	link *link
}

// NewClient returns a client that is connected to es. The client is closed when the test ends. The change functions can
// modify the options before the client connects. es is a server from [NewServer] or from the program under test. In a
// synctest bubble, the test must shut down a server from the program under test that has webhooks or checks.
func NewClient(t testing.TB, es *server.Server, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Options: client.Options{Logger: testLogger(t), Backoff: client.Backoff{Min: 10 * time.Millisecond, Max: time.Second}}}
	for _, f := range change {
		f(&o)
	}
	l := newLink(t, es, o.Principal)
	inner, err := client.Connect(t.Context(), l.transport(), o.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	return &Client{inner, l}
}

// Transport returns a transport to the same server, for code under test that creates its own client.
func (c *Client) Transport() mcp.Transport { return c.link.transport() }

// Disconnect closes all connections. The server is unreachable until Reconnect.
func (c *Client) Disconnect() { c.link.redirect(nil) }

// Reconnect allows new connections to es. It closes the connections to the previous server. es may be the same server
// or a replacement, such as a server with the same store and different schemas.
func (c *Client) Reconnect(es *server.Server) { c.link.redirect(es) }

// Gap reports a gap to all subscriptions to an event type. If the client has no such subscription, Gap fails the test.
func (c *Client) Gap(event string) {
	c.link.t.Helper()
	c.link.inject(event, fault{gap: true})
}

// Inject delivers o unchanged to all subscriptions to the event type o.Name. It bypasses the server's log, the
// subscriptions' arguments and all checks. Raw may be a payload that cannot be decoded, and ID may be the ID of an
// event that was already delivered. If ID is empty, Inject uses a random ID. If Timestamp is zero, it uses the current
// time. If Cursor is empty, the position of the subscription does not change. If the client has no subscription to the
// type, Inject fails the test.
//
// A client skips an event if it remembers the ID (client.Options.RecentIDs). To process an event twice, call Consume or
// Subscribe again with a cursor before the event.
func (c *Client) Inject(o events.Occurrence) {
	c.link.t.Helper()
	c.link.inject(o.Name, fault{event: wireOccurrence(o)})
}

// Terminate ends all subscriptions to an event type with the error err, as a server would. A client treats Forbidden as
// final. After NotFound, it continues if the server still has the type. If the client has no such subscription,
// Terminate fails the test.
func (c *Client) Terminate(event string, err *events.Error) {
	c.link.t.Helper()
	c.link.inject(event, fault{end: wireError(err)})
}
