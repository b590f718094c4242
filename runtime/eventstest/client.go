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
	// Principal identifies the client to the server, as the user id in the SDK's token info. A Principal function of
	// the server takes precedence. Empty means an anonymous client.
	Principal string
}

// A Client is connected to a server in memory. In addition to the methods of [client.Client], it has methods that
// inject faults into the connection. They affect push and poll subscriptions of this client and of clients that
// connect by Transport. A poll subscription sees a fault in the response to its next poll.
type Client struct {
	*client.Client
	link *link
}

// NewClient returns a client of es and closes it when the test ends. Each change may edit the options before the
// client connects. es is a server of [NewServer] or of the program under test. The test must shut down the latter in a
// synctest bubble if it has webhooks or checks.
func NewClient(t testing.TB, es *server.Server, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Options: client.Options{Logger: logger(t), Backoff: client.Backoff{Min: 10 * time.Millisecond, Max: time.Second}}}
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

// Transport returns a transport over the same link to the server, for code under test that connects by itself.
func (c *Client) Transport() mcp.Transport { return c.link.transport() }

// Disconnect closes all connections. The server is unreachable until Reconnect.
func (c *Client) Disconnect() { c.link.lead(nil) }

// Reconnect allows new connections, which go to es. It closes the connections to the previous server. es may be the
// same server or a replacement, such as one on the same store with other schemas.
func (c *Client) Reconnect(es *server.Server) { c.link.lead(es) }

// Gap reports a gap to the subscriptions to an event type. It fails the test if it finds no subscription.
func (c *Client) Gap(event string) {
	c.link.t.Helper()
	c.link.trouble(event, trouble{gap: true})
}

// Inject delivers o unchanged to the subscriptions to the event type o.Name. It bypasses the server's log, the
// subscriptions' arguments and all checks, so that Raw may be a payload that does not decode, and ID the id of an
// event that was already delivered. An empty ID is replaced by a random one, and a zero Timestamp by the current time;
// without a Cursor, the position of the subscription does not change. Inject fails the test if it finds no
// subscription.
//
// A client skips an event if it remembers the ID (client.Options.RecentIDs). To process an event twice, call Consume
// or Subscribe a second time from a cursor before the event.
func (c *Client) Inject(o events.Occurrence) {
	c.link.t.Helper()
	c.link.trouble(o.Name, trouble{event: wireOccurrence(o)})
}

// Terminate ends the subscriptions to an event type with the reason err, like a server. For a client, Forbidden is
// final; after NotFound, it continues if the server still has the type. Terminate fails the test if it finds no
// subscription.
func (c *Client) Terminate(event string, err *events.Error) {
	c.link.t.Helper()
	c.link.trouble(event, trouble{end: wireError(err)})
}
