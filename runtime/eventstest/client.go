package eventstest

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Options configure a [Client].
type Options struct {
	// Options are those of the client inside. NewClient presets Logger, which writes to the test's output, and Backoff,
	// which is short.
	client.Options
	// Principal is who the client is to the server, unless the server has a Principal function of its own: the user id
	// of the SDK's token info. Empty is nobody.
	Principal string
}

// A Client is connected to a server in memory. Its methods beside those of [client.Client] make trouble on the way
// between the two: for the subscriptions of this client and of those that connect by Transport, in the modes push and
// poll. To one that polls, trouble comes with the answer to its next poll.
type Client struct {
	*client.Client
	link *link
}

// NewClient returns a client of es, which is closed when the test ends; each change may edit the options before it
// connects. es is a server of [NewServer] or the one of the program under test, which remains for the test to shut
// down: in a bubble that is needed where it has webhooks or checks.
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

// Transport leads to the same server, over the same way, for code under test that connects by itself.
func (c *Client) Transport() mcp.Transport { return c.link.transport() }

// Disconnect cuts all connections. The server cannot be reached until Reconnect.
func (c *Client) Disconnect() { c.link.lead(nil) }

// Reconnect lets connections be made again, now to es: the server of before, or another one in its place, such as
// one on the same store with other schemas. Connections to the server of before are cut.
func (c *Client) Reconnect(es *server.Server) { c.link.lead(es) }

// Gap tells the subscriptions to an event type that occurrences may be missing. It fails the test when there are none.
func (c *Client) Gap(event string) {
	c.link.t.Helper()
	c.link.trouble(event, trouble{gap: true})
}

// Inject delivers o to the subscriptions to the event type o.Name, as it stands: past the server's log, the
// subscriptions' arguments and all checks, so that Raw may be a payload that does not decode, and ID that of an event
// which was delivered before. Empty, ID is made up and Timestamp is now; without a Cursor the subscription stays where it
// is. It fails the test when there are no such subscriptions.
//
// A client passes an event over whose ID it remembers (client.Options.RecentIDs). What runs over an event twice is a
// second Consume or Subscribe from a cursor before it.
func (c *Client) Inject(o events.Occurrence) {
	c.link.t.Helper()
	c.link.trouble(o.Name, trouble{event: wireOccurrence(o)})
}

// Terminate ends the subscriptions to an event type as a server does, with the reason err. A client takes Forbidden for
// the end; after NotFound it looks whether the server still has the type, and goes on if so. It fails the test when
// there are no such subscriptions.
func (c *Client) Terminate(event string, err *events.Error) {
	c.link.t.Helper()
	c.link.trouble(event, trouble{end: wireError(err)})
}
