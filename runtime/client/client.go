// Package client subscribes to the events of an MCP server and hands them to the application as iterators.
//
// A client connects to a server, chooses a delivery mode, runs the poll, push or refresh loop of each subscription and
// reconnects after any loss. The application sees one iterator of typed events, whatever the mode.
//
// Start with [Connect] over [HTTP] or [Command], then call a generated Subscribe function, or
// [Subscribe] with [Dynamic] for a type known only by name, and range over
// [TypedSubscription.Events]:
//
//	c, err := client.Connect(ctx, client.HTTP("https://example.com/mcp", nil), client.Options{})
//	sub, err := incidents.SubscribeIncidentCreated(ctx, c, incidents.IncidentCreatedArguments{})
//	for ev, err := range sub.Events() { … }
//
// Webhooks need an address that servers can reach: see [WebhookOptions].
//
// Payloads come from the server: they are untrusted input, and receiving one grants no right to act on it.
// [Options.Policy] checks each one before the application sees it.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// Options configures a Client. The zero value is usable.
type Options struct {
	// Client is the SDK client to connect with; nil means one without capabilities. Connect adds the extension's
	// methods to it and a middleware that declares the extension (CAP-3), so give each Connect a separate client.
	Client *mcp.Client
	// ProtocolVersion is the revision to request; empty means the SDK's latest, with the legacy handshake as fallback.
	// See D4.
	ProtocolVersion string
	// Mode forces one delivery mode on all subscriptions: "webhook", "push" or "poll". If empty, the client chooses the
	// first of these that both sides support. See CLI-1.
	Mode string
	// Webhook configures webhook delivery; nil disables it. See CLI-5.
	Webhook *WebhookOptions
	// Cursors stores cursors across restarts; nil stores none. See CLI-6.
	Cursors clientstore.CursorStore
	// Policy checks each new occurrence before the application sees it. An error withholds the occurrence, which is
	// logged and counted in [Status]. Policy runs in the subscription's goroutine, so it must not close the
	// subscription or the client.
	Policy func(ctx context.Context, o events.Occurrence) error
	// OnCatalog is called with the server's event types after each refresh that list_changed or Relist causes. It must
	// not block. See CLI-9.
	OnCatalog func([]Descriptor)
	// OnDrift is called when a generated type differs from the published one, once per difference and subscription. It
	// must not block. See CLI-9.
	OnDrift func(Drift)

	// PollFloor is the shortest wait between polls; 0 means 1 s. See CLI-3.
	PollFloor time.Duration
	// LongPoll is how long the server should hold a poll that has nothing to return; 0 does not request it. See POLL-9.
	LongPoll time.Duration
	// MaxEvents caps the occurrences of one poll; 0 leaves it to the server. See POLL-4.
	MaxEvents int64
	// Heartbeat is the heartbeat interval assumed until a stream shows its own, and the longest accepted; 0 means 30 s.
	// A stream without any frame for twice the interval is considered dead (CLI-4).
	Heartbeat time.Duration
	// CallTimeout bounds connecting and every call except streams; 0 means 30 s. A held poll gets LongPoll in addition.
	CallTimeout time.Duration
	// Relist is how often the catalog is read if the server does not notify of changes; 0 means 5 min. If it does, the
	// catalog is read every 6×Relist. See CLI-9.
	Relist time.Duration
	// Backoff spaces reconnections.
	Backoff Backoff
	// WaitForServer makes Connect and Subscribe wait for an unavailable server until their context is done, instead of
	// failing. A refusal is returned immediately. Each attempt of Connect is logged; a waiting subscription is listed
	// by [Client.Subscriptions], with the reason in LastError. See CLI-12.
	WaitForServer bool
	// Buffer is how many occurrences a subscription holds for the application; 0 means 64.
	Buffer int
	// MaxMessage bounds one message of the server; 0 means 32 MiB. The size counts after decompression. A message is a JSON body, an SSE event or a line of a process. The limit also applies to all pages of events/list together, and to
	// the payloads that one subscription holds for the application, not counting the last. Exceeding it is an error
	// that wraps [ErrTooLarge].
	MaxMessage int64
	// RecentIDs is how many eventIds a subscription remembers for deduplication; 0 means 4,096.
	// See CLI-2.
	RecentIDs int
	// Logger receives the log of background work; nil means slog.Default().
	Logger *slog.Logger
}

// A Client is a connection to one server, with its live subscriptions. Its methods are safe for concurrent use.
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
	// authorizing is held while the OAuth handler authorizes.
	authorizing chan struct{}
	webhooks    *webhooks // nil if not configured
	// ending is done before ctx, so that subscriptions can still unsubscribe over the session.
	ending context.Context
	endAll context.CancelCauseFunc
	subsWG sync.WaitGroup // the subscriptions; wg counts all goroutines
	// closeGrace is how long an orderly close may take. Only tests change it.
	closeGrace time.Duration

	mu     sync.Mutex
	sess   *session
	events bool // some session supported events
	again  *attempt
	subs   map[*subscription]struct{}
	keys   map[string]struct{}
	nextID int
}

// Connect opens a session over t. ctx bounds only the connecting: the client lives until Close. The client replaces a
// lost session if t comes from [HTTP], [Command] or [Dial] or is an *mcp.StreamableClientTransport; other transports
// serve one session. A server without events is not an error here; calls then return [ErrNoEvents]. If the server
// answers with HTTP status 401 or 403, the error says that it refused the credentials and wraps a [StatusError].
func Connect(ctx context.Context, t mcp.Transport, o Options) (*Client, error) {
	o.setDefaults()
	if err := addressed(t); err != nil {
		return nil, err
	}
	w, err := newWebhooks(&o)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: o, webhooks: w, transport: t, mcp: o.Client, log: o.Logger, closeGrace: closeGrace, authorizing: make(chan struct{}, 1),
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

// begin opens the first session. With WaitForServer it retries while the server is unavailable.
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

// greet makes one attempt to open the first session.
func (c *Client) greet(ctx context.Context) (*session, error) {
	if c.opts.WaitForServer {
		// If this server hangs, another may answer.
		bound, cancel := c.bounded(ctx)
		defer cancel()
		ctx = bound
	}
	s, err := c.connect(ctx, true)
	if isAway(err) {
		// Some servers crash on requests that they do not know.
		if s, err = c.connect(ctx, false); err == nil {
			c.log.Warn("no answer to server/discover, connected with the handshake of older revisions")
		}
	}
	return s, err
}

// defaultMessage is the default of Options.MaxMessage.
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

// background runs f in a goroutine that Close waits for. The caller is such a goroutine itself, or holds mu while ctx
// is alive, so that Close is not already waiting.
func (c *Client) background(f func()) { c.wg.Go(f) }

// Session returns the SDK's session, for everything except events. After a loss it returns the lost session until the
// client has reconnected.
func (c *Client) Session() *mcp.ClientSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sess.cs
}

// List returns the server's event types, from all pages in the server's order. It leaves out entries that it cannot
// read; [Client.Unreadable] returns them. See LIST-1.
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
		// The session may have been lost long ago; try once more with a fresh one.
	}
}

// Unreadable returns the entries that the last read of the server's list left out.
func (c *Client) Unreadable() []*DescriptorError {
	return c.catalog.leftOut()
}

// Close ends every subscription and then the session. Iterators end immediately with [ErrClosed]. Webhook subscriptions
// are unsubscribed, which takes a few seconds if the server does not answer. Close returns once all goroutines of the
// client have ended. See CLI-8.
//
// Close takes no context, so that it can be deferred: each step that waits for the server is bounded.
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

// HTTP returns a transport to a server's Streamable HTTP endpoint. hc may be nil; its Timeout, if any, does not apply
// to streams. Set OAuthHandler and other fields on the result as needed.
func HTTP(url string, hc *http.Client) *mcp.StreamableClientTransport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc}
}

// addressed returns an error for a URL that cannot be a server's, such as an empty one, so that the client does not
// wait for it.
func addressed(t mcp.Transport) error {
	web, ok := t.(*mcp.StreamableClientTransport)
	if !ok {
		return nil
	}
	// The text before "@" may contain a password, so it is not shown.
	if text := web.Endpoint; text != "" && !strings.Contains(text, "://") && !strings.ContainsAny(text, "@") {
		return fmt.Errorf("client: the server's URL %q has no scheme; begin it with http:// or https://", text)
	}
	u, err := url.Parse(web.Endpoint)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("client: the server's URL: %w", failed.Err) // without the URL's text, which may contain a password
	}
	if u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("client: the server's URL %q is not absolute", u.Redacted())
	}
	return nil
}

// Dial returns a transport that calls open for every session, so that a client can reconnect over any transport.
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

// redialable reports whether t can be connected more than once.
func redialable(t mcp.Transport) bool {
	switch t.(type) {
	case *dialed, *Process, *mcp.StreamableClientTransport:
		return true
	}
	return false
}

// Dynamic returns the event type called name with raw JSON as arguments and payloads, for programs without generated
// types.
func Dynamic(name string) events.Type[json.RawMessage, json.RawMessage] {
	return events.Type[json.RawMessage, json.RawMessage]{Info: events.Info{Name: name}}
}
