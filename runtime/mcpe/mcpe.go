// Package mcpe serves MCPE 2025-01-01 on an event server. MCPE provides six tools that a model can use to subscribe to
// the same event types as MCP Events. Each Emit also sends notifications to MCPE subscribers.
//
// Start with [New], after server.New and before the server runs. No other call is required. [Options] sets the limits
// for clients and enables features that are off by default: handlers that run commands ([BashOptions]), post to
// webhooks ([WebhookOptions]) or call an agent ([AgentOptions]).
//
// The subscriber is the authenticated principal. For unauthenticated callers, it is the session. Notifications are sent
// to the session or, on revision 2026-07-28, to the principal's subscriptions/listen requests with
// "io.modelcontextprotocol/mcpe": true in their _meta. Use package transport to serve the MCP server over stdio,
// in-memory and io transports, Streamable HTTP or, with NewSSEHandler, HTTP+SSE. The SDK has no WebSocket transport.
// Without package transport, notifications cannot reach a session, and callers without a principal cannot subscribe.
//
// MCPE has no subscription arguments. The adapter subscribes to an event type with the arguments from
// [Options.Arguments], and rejects a type if its inputSchema requires other arguments. Visibility, authorization,
// Match, Transform and the subscription hooks apply as for a push subscription of the principal.
//
// Internally, a watch (watch.go) follows the event types that a principal's subscriptions match. It sends occurrences
// as realtime notifications (deliver.go), and passes them to the queues of scheduled deliveries (job.go) and to
// handlers (handle.go). An engine.Schedules stores the queues and subscriptions of principals.
package mcpe

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fairsem"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/schedules"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An Adapter serves MCPE on an event server. Its methods are safe for concurrent use.
type Adapter struct {
	es      *port.Port
	srv     *mcp.Server
	o       Options
	durable engine.Schedules // of principals
	passing engine.Schedules // of sessions, which end with the process
	tell    metrics
	kinds   map[string]runner // of handlers that are allowed

	ctx      context.Context // ends with Shutdown
	cancel   context.CancelFunc
	work     sync.WaitGroup
	handlers fairsem.Semaphore // by the key of the owner
	stops    []func()
	closed   sync.Once

	mu      sync.Mutex
	ending  bool
	subs    map[string]*subscription
	owners  map[string]*owner
	watches map[string]*watch // by principal
	heads   map[string]string // cursors of types that are new, until a watch has them
	known   map[string]bool   // types seen so far
	scope   string            // distinguishes the clientIds of sessions

	started time.Time
}

// New serves MCPE for the event types of es, including types that are registered later. It restores subscriptions from
// the store. The adapter stops when es shuts down or [Adapter.Shutdown] is called. Calling New again for es is an
// error.
func New(es *server.Server, o Options) (*Adapter, error) {
	if es == nil {
		return nil, errors.New("mcpe.New: no server given")
	}
	if err := port.Of(es).CheckAlone("MCPE"); err != nil {
		return nil, fmt.Errorf("mcpe.New: %w", err)
	}
	o.setDefaults()
	inside := port.Of(es)
	a := &Adapter{es: inside, srv: inside.MCP(), o: o, durable: o.Store, passing: schedules.New(),
		subs: map[string]*subscription{}, owners: map[string]*owner{}, watches: map[string]*watch{},
		heads: map[string]string{}, known: map[string]bool{}, scope: rand.Text(),
		started: time.Now(), tell: metrics{recorder: o.Telemetry}}
	a.handlers.Init(o.MaxHandlers, o.MaxHandlersPerClient)
	if a.durable == nil {
		a.durable = schedules.New()
	}
	var err error
	if a.kinds, err = a.runners(); err != nil {
		return nil, fmt.Errorf("mcpe.New: %w", err)
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if err := a.restore(a.ctx); err != nil {
		a.cancel()
		return nil, fmt.Errorf("mcpe.New: restoring subscriptions: %w", err)
	}
	if err := a.es.Claim("MCPE"); err != nil {
		a.cancel()
		return nil, fmt.Errorf("mcpe.New: %w", err)
	}
	a.es.AddListenKey(wire.MetaMCPE)
	a.es.Advertise(wire.MCPECapability, func(info *mcp.Implementation) any { return a.capabilities(info) })
	a.typesChanged()
	a.addTools()
	a.es.AddMiddleware(a.tailorTools)
	a.stops = append(a.stops, a.es.OnListChanged(a.typesChanged), a.es.OnOutlet(a.outletOpened))
	a.work.Go(func() {
		select {
		case <-a.es.Closing():
			a.stopAll()
		case <-a.ctx.Done():
		}
	})
	a.resumeAll()
	return a, nil
}

// Shutdown stops all deliveries and handlers and waits for them until ctx ends. If ctx ends first, the error wraps
// ctx.Err(). The store retains its data for the next start. After Shutdown, the tools return an internal error.
// Shutdown may be called more than once.
func (a *Adapter) Shutdown(ctx context.Context) error {
	a.stopAll()
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mcpe: waiting for deliveries and handlers: %w", ctx.Err())
	}
}

// stopAll stops all work without waiting for it and prevents new work.
func (a *Adapter) stopAll() {
	a.closed.Do(func() {
		a.mu.Lock()
		a.ending = true
		for _, s := range a.subs {
			s.stopTimer()
		}
		a.mu.Unlock()
		a.cancel()
		for _, stop := range a.stops {
			stop()
		}
	})
}

// runInBackground runs f in a goroutine that Shutdown waits for. After Shutdown, it does nothing.
func (a *Adapter) runInBackground(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runInBackgroundLocked(f)
}

// runInBackgroundLocked is like runInBackground. The caller holds a.mu.
func (a *Adapter) runInBackgroundLocked(f func()) {
	if !a.ending {
		a.work.Go(f)
	}
}

// An owner is a client with subscriptions (MCPE-ID-1).
type owner struct {
	key       string // unique: "p " + principal, or "s " + session
	clientID  string
	principal string
	session   string // set if the owner is a session
	subs      map[string]*subscription
	bound     []string // its sessions, latest first
	limits    clientLimiters
}

// storeOf returns the store that contains the owner's subscriptions.
func (a *Adapter) storeOf(o *owner) engine.Schedules {
	if o.session != "" {
		return a.passing
	}
	return a.durable
}

// ownerOf returns the owner for a call, or nil if the call has neither a principal nor a session.
func (a *Adapter) ownerOf(c port.Caller) *owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case c.Principal != "":
		return a.principalOwner(c.Principal)
	case c.Stateless || c.Session == "":
		return nil
	}
	key := "s " + c.Session
	o := a.owners[key]
	if o == nil {
		o = a.newOwner(key)
		o.session = c.Session
		o.clientID = "session-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(a.scope+c.Session)).String()
		if ss := c.ServerSession; ss != nil {
			go func() { // the SDK's Wait cannot be abandoned
				_ = ss.Wait()
				a.removeSession(o)
			}()
		}
	}
	return o
}

// principalOwner returns the owner for a principal. The caller holds a.mu.
func (a *Adapter) principalOwner(principal string) *owner {
	key := "p " + principal
	o := a.owners[key]
	if o == nil {
		o = a.newOwner(key)
		o.principal, o.clientID = principal, principal
	}
	return o
}

func (a *Adapter) newOwner(key string) *owner {
	o := &owner{key: key, subs: map[string]*subscription{}, limits: a.o.newLimits()}
	a.owners[key] = o
	return o
}

// removeSession removes all subscriptions of a session that has ended.
func (a *Adapter) removeSession(o *owner) {
	a.mu.Lock()
	delete(a.owners, o.key)
	gone := slices.Collect(maps.Values(o.subs))
	a.mu.Unlock()
	for _, s := range gone {
		_ = a.remove(context.WithoutCancel(a.ctx), s)
	}
}

// bind records the session of a client's call so that notifications can be sent to it, and delivers pending events.
func (a *Adapter) bind(o *owner, c port.Caller) {
	a.mu.Lock()
	if c.Session != "" {
		kept := []string{c.Session}
		for _, session := range o.bound {
			if session != c.Session && a.es.Reachable(session) {
				kept = append(kept, session)
			}
		}
		o.bound = kept
	}
	a.flushLocked(o)
	a.mu.Unlock()
}

// outletOpened delivers the pending events of a peer that has reconnected.
func (a *Adapter) outletOpened(out port.Outlet) {
	if out.Session == "" && out.Key != wire.MetaMCPE {
		return
	}
	a.runInBackground(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if out.Session == "" {
			if o := a.owners["p "+out.Principal]; o != nil {
				a.flushLocked(o)
			}
			return
		}
		for _, o := range a.owners {
			if slices.Contains(o.bound, out.Session) {
				a.flushLocked(o)
			}
		}
	})
}

// newID returns a random UUID v4.
func newID() string { return uuid.NewString() }

// eventID returns the UUID v4 of an occurrence. It is the same for every delivery and recipient, so a client can
// recognize duplicates (MCPE-NOTE-2).
func eventID(event, sourceID string) string {
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(event+"\x00"+sourceID))
	id[6] = id[6]&0x0f | 0x40
	return id.String()
}

func stamp(t time.Time) string { return t.UTC().Format(wire.MCPETimestamp) }

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`{}`) // unreachable: v is made of strings, numbers and valid JSON
	}
	return b
}
