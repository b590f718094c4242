// Package client receives the occurrences of MCP Events: it connects to a server, chooses a
// delivery mode, runs the poll, push or refresh loop of each subscription, connects again after any
// loss, and hands the application one iterator of typed events whatever the mode.
//
// Start with [Connect] over [HTTP] or [Command], then call a generated Subscribe function, or
// [Subscribe] with [Dynamic] for a type known by name only, and range over
// [TypedSubscription.Events]:
//
//	c, err := client.Connect(ctx, client.HTTP("https://example.com/mcp", nil), client.Options{})
//	sub, err := incidents.SubscribeIncidentCreated(ctx, c, incidents.IncidentCreatedArguments{})
//	for ev, err := range sub.Events() { … }
//
// Webhooks need an address that servers can reach: see [WebhookOptions].
//
// Payloads come from the server: they are untrusted input, and receiving one grants no right to
// act on it. [Options.Policy] is asked about each before the application sees it.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Options of a Client; the zero value is usable.
type Options struct {
	// Client is the SDK client to connect with; one without capabilities is made when nil. Connect
	// adds the extension's methods to it and a middleware that declares the extension (CAP-3), so
	// give each Connect a client of its own.
	Client *mcp.Client
	// ProtocolVersion is the revision to ask for; empty means the SDK's latest, with the legacy
	// handshake as fallback. See D4.
	ProtocolVersion string
	// Mode forces a delivery mode on all subscriptions: "webhook", "push" or "poll"; empty chooses
	// the first of these that both sides can do. See CLI-1.
	Mode string
	// Webhook makes webhook delivery possible; nil leaves it out. See CLI-5.
	Webhook *WebhookOptions
	// Cursors keeps cursors over restarts; nil keeps none. See CLI-6.
	Cursors clientstore.CursorStore
	// Policy is asked about each new occurrence before the application sees it; an error withholds
	// it, which is logged and counted in [Status]. It runs in the subscription's own goroutine, so
	// it must not close the subscription or the client.
	Policy func(ctx context.Context, o events.Occurrence) error
	// OnCatalog is called with the server's event types after each refresh caused by list_changed
	// or by time. It must not block. See CLI-9.
	OnCatalog func([]Descriptor)
	// OnDrift is called when generated types differ from what the server publishes, once for
	// each difference of a subscription. It must not block. See CLI-9.
	OnDrift func(Drift)

	// PollFloor is the shortest wait between polls; 0 means 1 s. See CLI-3.
	PollFloor time.Duration
	// LongPoll asks the server to hold a poll that long when there is nothing to return; 0 does
	// not ask. See POLL-9.
	LongPoll time.Duration
	// MaxEvents caps the occurrences of one poll; 0 leaves it to the server. See POLL-4.
	MaxEvents int64
	// Heartbeat is the interval assumed between heartbeats of a stream until they show their own, and
	// the longest that is believed; 0 means 30 s. A stream without any frame for twice that is dead
	// (CLI-4).
	Heartbeat time.Duration
	// CallTimeout bounds connecting and every call but streams; 0 means 30 s. A held poll gets
	// LongPoll on top.
	CallTimeout time.Duration
	// Relist is how often the catalog is read again when the server does not notify of changes; 0 means 5 min.
	// When it does, the catalog is read at every sixth of these times. See CLI-9.
	Relist time.Duration
	// Backoff spaces reconnections.
	Backoff Backoff
	// WaitForServer makes Connect and Subscribe wait for a server that is away or not able now, until
	// their context is done, instead of failing. A refusal is an error at once. Each try of Connect is
	// logged; a subscription that waits is in [Client.Subscriptions], with the reason in LastError. See
	// CLI-12.
	WaitForServer bool
	// Buffer is how many occurrences a subscription holds that the application has not asked for;
	// 0 means 64.
	Buffer int
	// MaxMessage bounds one message of the server in bytes, unpacked: a JSON body, an SSE event or a
	// line of a process; also all pages of events/list together, and the payloads that one
	// subscription holds for the application, beyond the last. 0 means 32 MiB. What is larger is an
	// error that wraps [ErrTooLarge].
	MaxMessage int64
	// RecentIDs is how many eventIds a subscription remembers for deduplication; 0 means 4,096.
	// See CLI-2.
	RecentIDs int
	// Logger receives what happens behind the iterators; nil means slog.Default().
	Logger *slog.Logger
}

// A Client is a connection to one server with its live subscriptions. Its methods are safe for
// concurrent use.
type Client struct {
	opts      Options
	transport mcp.Transport
	mcp       *mcp.Client
	send      mcp.MethodHandler // below the SDK client's other middleware
	log       *slog.Logger
	ctx       context.Context // ends with Close
	cancel    context.CancelCauseFunc
	wg        sync.WaitGroup
	catalog   catalog
	observers observers
	presences presences
	webhooks  *webhooks // nil without
	// ending ends the subscriptions, before ctx ends the session that they say goodbye over.
	ending context.Context
	endAll context.CancelCauseFunc
	subsWG sync.WaitGroup // the subscriptions; wg has everything
	// closeGrace is how long an orderly close may take; the constant, but for a test.
	closeGrace time.Duration

	mu     sync.Mutex
	sess   *session
	events bool // a session had them
	again  *attempt
	subs   map[*subscription]struct{}
	keys   map[string]struct{}
	nextID int
}

// Connect makes a session over t. ctx bounds only the connecting: the client lives until Close. A lost session is
// connected again when t comes from [HTTP], [Command] or [Dial] or is an *mcp.StreamableClientTransport; other
// transports serve one session. A server without events is no error here; calls then return [ErrNoEvents]. If the
// server answers with HTTP status 401 or 403, the error says that it refused the credentials and wraps a
// [StatusError].
func Connect(ctx context.Context, t mcp.Transport, o Options) (*Client, error) {
	o.setDefaults()
	if err := addressed(t); err != nil {
		return nil, err
	}
	w, err := newWebhooks(&o)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: o, webhooks: w, transport: t, mcp: o.Client, log: o.Logger, closeGrace: closeGrace,
		subs: map[*subscription]struct{}{}, keys: map[string]struct{}{}}
	if c.mcp == nil {
		c.mcp = mcp.NewClient(&mcp.Implementation{Name: "mcpe-gen", Version: "0.1"},
			&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	}
	send, err := install(c.mcp)
	if err != nil {
		w.close()
		return nil, err
	}
	c.send = send
	c.catalog.init()
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.ending, c.endAll = context.WithCancelCause(c.ctx)
	s, err := c.begin(ctx)
	if err != nil {
		c.cancel(ErrClosed)
		w.close()
		return nil, err
	}
	c.mu.Lock()
	c.sess = s
	c.follow(s)
	c.mu.Unlock()
	return c, nil
}

// begin makes the first session, and waits for a server that is away where the options say so.
func (c *Client) begin(ctx context.Context) (*session, error) {
	between := pauses{Backoff: c.opts.Backoff}
	for {
		s, err := c.greet(ctx)
		if err == nil || !c.opts.WaitForServer || !passes(err, redialable(c.transport)) {
			return s, err
		}
		pause := pauseAfter(err, &between)
		c.log.Warn("waiting for the server", "err", err, "pause", pause)
		if cause := sleep(ctx, pause); cause != nil {
			return nil, errWaited(cause, err)
		}
	}
}

// greet makes one try at a first session.
func (c *Client) greet(ctx context.Context) (*session, error) {
	if c.opts.WaitForServer {
		// A server that does not answer may be replaced by one that does.
		bound, cancel := c.bounded(ctx)
		defer cancel()
		ctx = bound
	}
	s, err := c.connect(ctx, true)
	if isAway(err) {
		// Some servers fall over what they do not know.
		if s, err = c.connect(ctx, false); err == nil {
			c.log.Warn("no answer to server/discover, connected with the handshake of older revisions")
		}
	}
	return s, err
}

// defaultMessage is Options.MaxMessage unless set.
const defaultMessage = 32 << 20

func (o *Options) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.PollFloor, time.Second)
	set(&o.Heartbeat, 30*time.Second)
	set(&o.CallTimeout, 30*time.Second)
	set(&o.Relist, 5*time.Minute)
	set(&o.Backoff.Min, time.Second)
	set(&o.Backoff.Max, time.Minute)
	o.LongPoll = max(o.LongPoll, 0)
	if o.Buffer <= 0 {
		o.Buffer = 64
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = defaultMessage
	}
	if o.RecentIDs <= 0 {
		o.RecentIDs = 4096
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// background runs f in a goroutine that Close waits for. It is called from such a goroutine or, so
// that Close cannot be waiting already, with mu held and ctx alive.
func (c *Client) background(f func()) { c.wg.Go(f) }

// Session returns the SDK's session, for everything that is not events. After a loss it is the
// lost one until the client has connected again.
func (c *Client) Session() *mcp.ClientSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sess.cs
}

// List asks the server for its event types, all pages in the server's order. Entries that cannot
// be read are left out; [Client.Unreadable] returns them. See LIST-1.
func (c *Client) List(ctx context.Context) ([]Descriptor, error) {
	c.presences.renew()
	for again := redialable(c.transport); ; again = false {
		s, err := c.live(ctx, false)
		if err != nil {
			return nil, err
		}
		if !s.events && again && c.hadEvents() {
			s.suspect()
			continue
		}
		all, err := c.list(ctx, s)
		if stale := (*staleError)(nil); !again && errors.As(err, &stale) {
			return nil, fmt.Errorf("client: %s: %w", wire.MethodList, stale.err)
		}
		if !again || !errors.Is(err, ErrSessionLost) {
			return all, err
		}
		// The session may have been lost long before; a fresh one is the call's due.
	}
}

// Unreadable returns the entries of the server's list that were left out when it was read last.
func (c *Client) Unreadable() []*DescriptorError {
	return c.catalog.leftOut()
}

// Close ends every subscription and then the session: the kill switch. Iterators end at once with
// [ErrClosed]; webhook subscriptions are unsubscribed, which takes a few seconds when the server
// does not answer. Close returns when nothing of the client runs any more. See CLI-8.
//
// It takes no context, so that a defer is enough: each step that waits for the server has a bound of its own.
func (c *Client) Close() error {
	c.observers.closing()
	c.mu.Lock()
	c.endAll(ErrClosed)
	c.mu.Unlock()
	c.subsWG.Wait()
	c.webhooks.close()
	c.mu.Lock()
	c.cancel(ErrClosed)
	c.mu.Unlock()
	c.wg.Wait()
	return nil
}

// HTTP returns a transport to a server's Streamable HTTP endpoint. hc may be nil; its Timeout, if any, is not
// applied to streams. Set OAuthHandler and other fields on the result as needed.
func HTTP(url string, hc *http.Client) *mcp.StreamableClientTransport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc}
}

// addressed refuses the URL of a server that nothing can be at, such as one that was left empty, which would be waited for.
func addressed(t mcp.Transport) error {
	web, ok := t.(*mcp.StreamableClientTransport)
	if !ok {
		return nil
	}
	u, err := url.Parse(web.Endpoint)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("client: the server's URL: %w", failed.Err) // without its text, which may have a password
	}
	if u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("client: the server's URL %q is not absolute", u.Redacted())
	}
	return nil
}

// Dial returns a transport that calls open for every session, so that a client can connect again over any
// transport.
func Dial(open func(context.Context) (mcp.Transport, error)) mcp.Transport { return &dialed{open} }

type dialed struct {
	open func(context.Context) (mcp.Transport, error)
}

func (d *dialed) Connect(ctx context.Context) (mcp.Connection, error) {
	t, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	return t.Connect(ctx)
}

// redialable reports whether t may be connected more than once.
func redialable(t mcp.Transport) bool {
	switch t.(type) {
	case *dialed, *Process, *mcp.StreamableClientTransport:
		return true
	}
	return false
}

// Dynamic describes the event type of that name for programs that know no types: arguments and
// payloads are raw JSON.
func Dynamic(name string) events.Type[json.RawMessage, json.RawMessage] {
	return events.Type[json.RawMessage, json.RawMessage]{Info: events.Info{Name: name}}
}
