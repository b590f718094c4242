// Package client subscribes to the events of an MCP server and delivers them to the application through iterators.
//
// A client connects to a server, chooses a delivery mode, runs the poll, push or refresh loop of each subscription, and
// reconnects after every loss of the connection. In every mode, the application iterates over typed events.
//
// Start with [Connect] over [HTTP] or [Command], then call a generated Subscribe function, or
// [Subscribe] with [Dynamic] for a type known only by name, and range over
// [TypedSubscription.Events]:
//
//	c, err := client.Connect(ctx, client.HTTP("https://example.com/mcp", nil), client.Options{})
//	sub, err := incidents.SubscribeIncidentCreated(ctx, c, incidents.IncidentCreatedArguments{})
//	for ev, err := range sub.Events() { … }
//
// Webhooks require an address that servers can reach. See [WebhookOptions].
//
// Payloads are untrusted input from the server, and receiving a payload does not authorize any action. [Options.Policy]
// checks each one before the application sees it.
package client

import (
	"cmp"
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
	// Client is the SDK client to connect with; nil means a client without capabilities. Connect adds the extension's
	// methods and a middleware that declares the extension (CAP-3), so use a separate client for each call to Connect.
	Client *mcp.Client
	// ProtocolVersion is the protocol revision to request. If empty, it is the SDK's latest revision, with the legacy
	// handshake as a fallback. See D4.
	ProtocolVersion string
	// Mode is the delivery mode of all subscriptions: "webhook", "push" or "poll". If empty, the client chooses the
	// first of these that both sides support. See CLI-1.
	Mode string
	// Webhook configures webhook delivery; nil disables it. See CLI-5.
	Webhook *WebhookOptions
	// Cursors stores cursors across restarts; if nil, they are not stored. See CLI-6.
	Cursors clientstore.CursorStore
	// Policy checks each new occurrence before the application sees it. If it returns an error, the occurrence is
	// withheld, logged and counted in [Status]. Policy runs in the subscription's goroutine, so it must not close the
	// subscription or the client.
	Policy func(ctx context.Context, o events.Occurrence) error
	// OnCatalog is called with the server's event types after each refresh caused by list_changed or Relist. It must
	// not block. See CLI-9.
	OnCatalog func([]Descriptor)
	// OnDrift is called when a generated type differs from the published type, once per difference and subscription. It
	// must not block. See CLI-9.
	OnDrift func(Drift)

	// PollFloor is the minimum interval between polls; 0 means 1 s. See CLI-3.
	PollFloor time.Duration
	// LongPoll is how long the server should wait for events before it answers an empty poll; 0 disables long polling.
	// See POLL-9.
	LongPoll time.Duration
	// MaxEvents limits the number of occurrences per poll; if 0, the server chooses the limit. See POLL-4.
	MaxEvents int64
	// Heartbeat is the heartbeat interval assumed until a stream's interval is measured; 0 means 30 s. It is also the
	// longest interval accepted. A stream that sends no frame for twice the interval is considered dead (CLI-4).
	Heartbeat time.Duration
	// CallTimeout is the timeout for connecting and for every call except streams; 0 means 30 s. The timeout for a poll
	// is longer by LongPoll.
	CallTimeout time.Duration
	// Relist is how often the catalog of a server without change notifications is read; 0 means 5 min. The catalogs of
	// other servers are read every 6×Relist. See CLI-9.
	Relist time.Duration
	// Backoff configures the waits between attempts to reconnect.
	Backoff Backoff
	// WaitForServer makes Connect and Subscribe wait for an unavailable server until their context is done, instead of
	// failing. A refusal is returned immediately. Connect logs each attempt. [Client.Subscriptions] includes a waiting
	// subscription, with the reason in LastError. See CLI-12.
	WaitForServer bool
	// Buffer is the number of occurrences that a subscription buffers for the application; 0 means 64.
	Buffer int
	// MaxMessage is the size limit of a message from the server in bytes; 0 means 32 MiB, after decompression. A
	// message is a JSON body, an SSE event or a line of output from a process. The limit also applies to the total size
	// of all pages of events/list, and to the total size of the payloads that a subscription buffers for the
	// application, excluding the last one. A larger message causes an error that wraps [ErrTooLarge].
	MaxMessage int64
	// RecentIDs is the number of eventIds that a subscription remembers for deduplication; 0 means 4,096. See CLI-2.
	RecentIDs int
	// Logger logs background work; nil means slog.Default().
	Logger *slog.Logger
}

// A Client is a connection to one server, with its live subscriptions. Its methods are safe for concurrent use.
type Client struct {
	opts           Options
	transport      mcp.Transport
	mcp            *mcp.Client
	send           mcp.MethodHandler // below the SDK client's other middleware
	log            *slog.Logger
	ctx            context.Context // ends with Close
	cancel         context.CancelCauseFunc
	wg             sync.WaitGroup
	catalog        catalog
	observers      observers
	availabilities availabilities
	// authorizing is a semaphore that is held during an OAuth authorization.
	authorizing chan struct{}
	webhooks    *webhookState // nil if not configured
	// ending is cancelled before ctx, so subscriptions can still unsubscribe over the session.
	ending context.Context
	endAll context.CancelCauseFunc
	subsWG sync.WaitGroup // the subscriptions; wg counts all goroutines
	// closeGrace is how long an orderly close may take. Only tests set it.
	closeGrace time.Duration

	mu     sync.Mutex
	sess   *session
	events bool // some session supported events
	again  *reconnection
	subs   map[*subscription]struct{}
	keys   map[string]struct{}
	nextID int
}

// Connect opens a session over t. The context applies only while connecting; the client remains open until Close. The
// client replaces a lost session if t was returned by [HTTP], [Command] or [Dial], or is an
// *mcp.StreamableClientTransport. Other transports support only one session. Connect succeeds even if the server has no
// events; calls then return [ErrNoEvents]. If the server responds with HTTP status 401 or 403, the error states that
// the server refused the credentials, and wraps a [StatusError].
func Connect(ctx context.Context, t mcp.Transport, o Options) (*Client, error) {
	o.setDefaults()
	if err := checkURL(t); err != nil {
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
	send, err := installExtension(c.mcp)
	if err != nil {
		w.close()
		return nil, err
	}
	c.send = send
	c.catalog.init()
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.ending, c.endAll = context.WithCancelCause(c.ctx)
	s, err := c.openFirst(ctx)
	if err != nil {
		c.cancel(ErrClosed)
		w.close()
		return nil, err
	}
	c.mu.Lock()
	c.sess = s
	c.startWatch(s)
	c.mu.Unlock()
	return c, nil
}

// openFirst opens the first session. With WaitForServer, it retries while the server is unavailable.
func (c *Client) openFirst(ctx context.Context) (*session, error) {
	between := backoffState{Backoff: c.opts.Backoff}
	for {
		s, err := c.tryOpenFirst(ctx)
		if err == nil || !c.opts.WaitForServer || !isTemporary(err, isRedialable(c.transport)) {
			return s, err
		}
		pause := retryPause(err, &between)
		c.log.Warn("waiting for the server", "err", err, "pause", pause)
		if cause := sleep(ctx, pause); cause != nil {
			return nil, newWaitedError(cause, err)
		}
	}
}

// tryOpenFirst makes one attempt to open the first session.
func (c *Client) tryOpenFirst(ctx context.Context) (*session, error) {
	if c.opts.WaitForServer {
		// If this server hangs, another may answer.
		bound, cancel := c.connectContext(ctx)
		defer cancel()
		ctx = bound
	}
	s, err := c.connect(ctx, true)
	if isUnreachable(err) {
		// Some servers crash on unknown requests.
		if s, err = c.connect(ctx, false); err == nil {
			c.log.Warn("no answer to server/discover, connected with the handshake of older revisions")
		}
	}
	return s, err
}

// defaultMessage is the default of Options.MaxMessage.
const defaultMessage = 32 << 20

func (o *Options) setDefaults() {
	o.PollFloor = cmp.Or(max(o.PollFloor, 0), time.Second)
	o.Heartbeat = cmp.Or(max(o.Heartbeat, 0), 30*time.Second)
	o.CallTimeout = cmp.Or(max(o.CallTimeout, 0), 30*time.Second)
	o.Relist = cmp.Or(max(o.Relist, 0), 5*time.Minute)
	o.Backoff.setDefaults()
	o.LongPoll = max(o.LongPoll, 0)
	o.Buffer = cmp.Or(max(o.Buffer, 0), 64)
	o.MaxMessage = cmp.Or(max(o.MaxMessage, 0), defaultMessage)
	o.RecentIDs = cmp.Or(max(o.RecentIDs, 0), 4096)
	o.Logger = cmp.Or(o.Logger, slog.Default())
}

// runInBackground runs f in a goroutine that Close waits for. The caller must itself be such a goroutine, or hold mu
// while ctx is not done, because Close may otherwise already be waiting.
func (c *Client) runInBackground(f func()) { c.wg.Go(f) }

// Session returns the SDK's session, for everything except events. After a session is lost, Session continues to return
// it until the client has reconnected.
func (c *Client) Session() *mcp.ClientSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sess.cs
}

// List returns the event types from all pages of events/list, in the server's order. It omits entries that it cannot
// decode; [Client.Unreadable] returns them. See LIST-1.
func (c *Client) List(ctx context.Context) ([]Descriptor, error) {
	c.availabilities.reset()
	for again := isRedialable(c.transport); ; again = false {
		s, err := c.liveSession(ctx, false)
		if err != nil {
			return nil, err
		}
		if !s.events && again && c.hadEvents() {
			s.requireHandshake()
			continue
		}
		all, err := c.listEventTypes(ctx, s)
		if stale := (*staleError)(nil); !again && errors.As(err, &stale) {
			return nil, fmt.Errorf("client: %s: %w", wire.MethodList, stale.err)
		}
		if !again || !errors.Is(err, ErrSessionLost) {
			return all, err
		}
		// The session may have been lost long ago. Try once more with a new one.
	}
}

// Unreadable returns an error for each entry that the last read of the server's list could not decode.
func (c *Client) Unreadable() []*DescriptorError {
	return c.catalog.leftOut()
}

// Close ends all subscriptions and then the session. Iterators end immediately with [ErrClosed]. Close unsubscribes
// webhook subscriptions, which takes a few seconds if the server does not answer. It returns once all goroutines of the
// client have ended. See CLI-8.
//
// Close takes no context, so it can be deferred. Each step that waits for the server has a timeout.
func (c *Client) Close() error {
	c.observers.callBeforeClose()
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

// HTTP returns a transport for a server's Streamable HTTP endpoint. The HTTP client may be nil. Its Timeout, if any,
// does not apply to streams. Set OAuthHandler and other fields on the result as needed.
func HTTP(url string, hc *http.Client) *mcp.StreamableClientTransport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc}
}

// checkURL returns an error if the URL of t cannot belong to a server, for example because it is empty. The client then
// does not wait for the server.
func checkURL(t mcp.Transport) error {
	web, ok := t.(*mcp.StreamableClientTransport)
	if !ok {
		return nil
	}
	// Text before an "@" may contain a password, so it is not included in the error.
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

// Dial returns a transport that calls open for each session. With it, a client can reconnect over any transport.
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

// isRedialable reports whether t can be connected more than once.
func isRedialable(t mcp.Transport) bool {
	switch t.(type) {
	case *dialed, *Process, *mcp.StreamableClientTransport:
		return true
	}
	return false
}

// Dynamic returns the named event type with raw JSON arguments and payloads, for programs without generated types.
func Dynamic(name string) events.Type[json.RawMessage, json.RawMessage] {
	return events.Type[json.RawMessage, json.RawMessage]{Info: events.Info{Name: name}}
}
