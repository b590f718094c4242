// Package server adds events to an MCP server that uses the official SDK. It maintains a log for each event type,
// handles events/list, events/poll and events/stream, and delivers to the webhooks that clients register with
// events/subscribe.
//
// Start with [New]. Generated code calls [Register], [RegisterCheck] or [RegisterBoth] with the author's [Hooks].
// [Options.Webhooks] enables webhooks, and operators manage them with [operator.Admin]. Package transport serves the MCP
// server over HTTP, stdio and in memory.
//
// Internally, every consumer of an event type is a reader with a position (packages internal/topic and internal/reading).
// Occurrences are in the type's log, or are found by a check (package internal/feed). Streams and followers (package
// internal/streaming) and held polls (package internal/polling) read in a topic.Loop. The file parts.go connects the
// server to its parts: package internal/webhooks/subscriber manages webhook subscriptions, package
// internal/webhooks/delivery runs their readers, and package internal/operators/operate implements the actions of
// operators and authors. docs/packages.md has a map of the packages.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/history"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/lease"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/listeners"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/waittool"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A Server serves its registered event types on one mcp.Server. It is safe for concurrent use.
type Server struct {
	options Options
	mcp     *mcp.Server
	own     atomic.Uint64 // the code of mcp's handler while it has only this module's middleware; otherwise 0

	closing chan struct{}
	running sync.WaitGroup // feeds

	registering sync.Mutex       // one registration at a time
	schemas     validate.Library // shared by the event types

	mu        sync.Mutex
	closed    bool
	types     map[string]*eventType
	order     []*eventType          // in the order of events/list
	retired   map[string]*eventType // removed types; their logs continue if they are registered again
	lastOrder uint64
	changed   [2]bool // whether a carrier delivers listChanged: legacy, stateless

	listeners listeners.Set[func()] // for changes of the list

	access      *access.Gate
	members     lease.Members
	leases      lease.Leases
	streams     *streaming.Streams
	memoryUsage memoryUsage
	parts       part.Service
	log         fault.Log
	tools       waittool.Tools
	history     *history.Memory
	lockCheck   lockCheck
	writes      writeHealth
	// stopObserving ends the reports of current values to options.Telemetry.
	stopObserving func()

	port *port.Port // for carriers and adapters
}

// New adds events to srv by registering the events/* methods and one receiving middleware. Register event types before
// srv runs. A later registration is a runtime change (LIST-5).
//
// An mcp.Server can serve the events of only one Server, because the SDK cannot remove methods and middleware. Calling
// New again for the same mcp.Server returns an error, even after Shutdown. Packages that add event types to one
// mcp.Server must share the Server.
func New(srv *mcp.Server, o Options) (*Server, error) {
	if srv == nil {
		return nil, errors.New("server.New: no mcp.Server given")
	}
	if o.Outbox != nil {
		if _, ok := o.Store.(engine.Shared); !ok {
			return nil, errors.New("server.New: Options.Outbox needs an Options.Store that several processes can share (engine.Shared)")
		}
		if _, ok := o.Outbox.(engine.Shared); ok {
			return nil, errors.New("server.New: Options.Outbox is a store, and a store relays only to its own logs: set it as Options.Store, or use the result of pgoutbox.Outbox.Relay")
		}
	}
	s, err := startServer(srv, o)
	if err != nil {
		return nil, fmt.Errorf("server.New: %w", err)
	}
	return s, nil
}

// startServer builds a server with its metrics and installs it in srv. If it fails, srv is unchanged.
func startServer(srv *mcp.Server, o Options) (_ *Server, err error) {
	release, err := claimServer(srv)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	s, err := build(srv, o)
	if err != nil {
		return nil, err
	}
	s.stopObserving = s.options.Telemetry.Observe(observedKinds, s.observe)
	if srv == nil {
		return s, nil
	}
	if err := s.install(); err != nil {
		return nil, errors.Join(err, s.Shutdown(context.Background()))
	}
	return s, nil
}

// build creates a server. srv is nil if the server only emits events.
func build(srv *mcp.Server, o Options) (*Server, error) {
	s := &Server{options: o.withDefaults(), mcp: srv, closing: make(chan struct{}),
		types: map[string]*eventType{}, retired: map[string]*eventType{}}
	s.log.Logger = s.options.Logger
	s.history = history.Of(s.options.Store, s.now, func(old, now wire.Descriptor) ([]string, string) { return s.parts.Changes(old, now) })
	s.tools.Options = waittool.Options{Host: toolHost{s}, MCP: srv, Log: &s.log, MaxWait: s.options.MaxToolWait, MaxParams: s.options.MaxParams,
		Private: s.options.Visible != nil}
	s.memoryUsage.limits = s.options.MemoryQuota
	s.access = &access.Gate{Visible: s.options.Visible, Authorize: s.options.Authorize, OfType: authorizeHook,
		Heard: func() bool { return s.parts.Heard() }, Log: &s.log}
	s.members.Host, s.leases.Members = leaseHost{s.access, s}, &s.members
	s.streams = streaming.New(streaming.Options{Members: &s.members, Access: s.access, Wrote: countFrames, Heartbeat: s.options.Heartbeat,
		Reauthorize: s.options.Reauthorize, MaxStreams: s.options.MaxStreams, Log: &s.log})
	s.port = &port.Port{Hub: new(port.Hub), Inside: portAdapter{s}}
	var err error
	if s.parts, err = s.newParts(context.Background()); err != nil {
		return nil, err
	}
	if err = s.parts.Join(); err != nil {
		return nil, err
	}
	return s, nil
}

// now returns the current time for calculating the timestamps and ages of occurrences. On a shared store, it uses the
// store's clock (REP-8).
func (s *Server) now() time.Time { return s.parts.Now().UTC() }

// isShared reports whether other processes can use the store.
func (s *Server) isShared() bool {
	_, ok := s.options.Store.(engine.Shared)
	return ok
}

// An eventType is a named event type with its log and its current registration.
type eventType struct {
	server *Server
	name   string
	order  uint64       // unique place in the list
	topic  *topic.Topic // of emitted occurrences; nil for a check source

	feeds feed.Feeds // of its check

	held atomic.Int64 // held polls

	mu  sync.Mutex
	def *definition // nil once removed

	terminated *eventtype.Closing // non-nil if an operator closed the type
}

// Topic implements [feed.Host].
func (et *eventType) Topic() *topic.Topic { return et.topic }

func (et *eventType) Begin() (done func(), ok bool) {
	return et.server.running.Done, et.server.addCheckCall()
}

func (et *eventType) Log() *fault.Log { return &et.server.log }

// Head returns the position of the newest entry in the type's log.
func (et *eventType) Head() (head store.Position) {
	if et.topic != nil {
		_, head = et.topic.Bounds()
	}
	return head
}

// current returns the current definition, or nil if the type was removed.
func (et *eventType) current() *definition {
	et.mu.Lock()
	defer et.mu.Unlock()
	return et.def
}

// register adds d as a new type, or redefines the type with the same name.
func (s *Server) register(d *definition) (*eventType, error) {
	s.registering.Lock()
	defer s.registering.Unlock()
	s.mu.Lock()
	et := s.types[d.info.Name]
	back := s.retired[d.info.Name]
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("registering event %q: %w", d.info.Name, events.ErrClosed)
	}
	d.Clock = s.now
	switch {
	case et != nil:
		return et, s.redefine(et, d)
	case back != nil && back.sameSource(d):
		return back, s.revive(back, d)
	}
	et = &eventType{server: s, name: d.info.Name, def: d}
	et.feeds.Init(et, feed.Bounds{Calls: s.options.Checks.Calls, CallsEach: s.options.Checks.CallsPerPrincipal, Checks: s.options.Checks.PerPrincipal})
	et.feeds.Adopt(d.check)
	if d.emits {
		logs := s.options.Store
		apart := d.info.NoReplay && !s.isShared()
		if apart {
			logs = memory.New() // a log that is never replayed need not outlive the process
		}
		asked := s.newStoreRecorder()
		lo, err := d.options.retention.logOptions(logs.Durable())
		if err != nil {
			return nil, fmt.Errorf("registering event %q: %w", d.info.Name, err)
		}
		s.warnOfRetention(d.info.Name, lo.MaxAge)
		et.topic, err = topic.Open(&d.Type, topic.Options{Slots: recordSlots, Apart: apart, Kept: d.logBounds(lo, logs.Durable()), Asked: asked, Strange: s.newCursorWarning(d.info.Name, logs.Durable()), Damaged: s.newDamageLogger(d.info.Name),
			Open: func(appended func([]store.Entry)) (store.EventLog, error) {
				lo.Appended = appended
				return logs.OpenLog(context.Background(), d.info.Name, lo)
			}})
		if err != nil {
			return nil, fmt.Errorf("registering event %q: opening its log: %w", d.info.Name, err)
		}
	}
	m, err := s.loadHistory(d, et.topic)
	if err != nil {
		return nil, fmt.Errorf("registering event %q: %w", d.info.Name, err)
	}
	if err := s.restore(et, d, m); err != nil {
		return nil, fmt.Errorf("registering event %q: %w", d.info.Name, err)
	}
	s.addType(et)
	return et, nil
}

// minOutboxRetention is how long a log should keep eventIds if its events come from a separate outbox. After a crash,
// the relay uses them to find the events that it has already appended.
const minOutboxRetention = time.Hour

// warnOfRetention logs a warning if a log does not keep eventIds for longer than minOutboxRetention.
func (s *Server) warnOfRetention(event string, age time.Duration) {
	if _, own := s.options.Outbox.(engine.Shared); s.options.Outbox == nil || own || age == 0 || age > minOutboxRetention {
		return
	}
	s.options.Logger.Warn("mcp events: events emitted in transactions may be duplicated after a crash unless the log retains them for more than an hour (Options.Retention)",
		"event", event, "maxAge", age)
}

// cursorWarningInterval is the minimum time between warnings about unknown cursors of an event type. It limits the
// warnings because any caller can invent a cursor.
const cursorWarningInterval = 10 * time.Minute

// newCursorWarning returns a function that logs a warning about cursors that a durable log did not issue. Such a cursor
// may indicate that the server uses a different account or file, or an older copy of the store (CUR-8).
// newCursorWarning returns nil if the log is not durable.
func (s *Server) newCursorWarning(event string, durable bool) func(what string, at store.Position) {
	if !durable {
		return nil
	}
	var next atomic.Int64 // time of the next warning, relative to began
	began := time.Now()
	return func(what string, at store.Position) {
		now, due := int64(time.Since(began)), next.Load()
		if now < due || !next.CompareAndSwap(due, now+int64(cursorWarningInterval)) {
			return
		}
		s.options.Logger.Warn("mcp events: a client sent a cursor that this store did not issue and restarts at the oldest event; check that the store is the right one and not an older copy",
			"event", event, "position", at, "cursor", what)
	}
}

// newDamageLogger returns a function that logs an error about unreadable entries in an event type's log.
func (s *Server) newDamageLogger(event string) func(first, last store.Position, err error) {
	return func(first, last store.Position, err error) {
		s.options.Logger.Error("mcp events: entries of a log are damaged; readers get a gap in their place (docs/one-process.md)",
			"event", event, "first", first, "last", last, "error", err)
	}
}

// logBounds converts the limits of d's log for the log kernel.
func (d *definition) logBounds(o store.LogOptions, durable bool) topic.Kept {
	k := topic.Kept{MaxAge: o.MaxAge, MaxCount: cmp.Or(o.MaxCount, math.MaxInt), Volatile: !durable}
	if o.MaxBytes > 0 {
		k.MaxCount = min(k.MaxCount, o.MaxBytes/(d.options.maxPayload+maxEntryOverhead)-1) // of the largest
	}
	return k
}

// maxEntryOverhead is the maximum size of an entry without its payload.
const maxEntryOverhead = 64 << 10

// recordSlots is the number of recent log entries that are cached in decoded and encoded form.
const recordSlots = 512

// addType adds et to the list of types and notifies the listeners.
func (s *Server) addType(et *eventType) {
	s.mu.Lock()
	s.lastOrder++
	et.order = s.lastOrder
	s.types[et.name] = et
	s.order = append(s.order, et)
	delete(s.retired, et.name)
	s.mu.Unlock()
	s.parts.Added(et)
	s.notifyListChanged()
}

// sameSource reports whether d has the same kind of source as the last registration (CUR-3). In that case, old cursors
// remain valid.
func (et *eventType) sameSource(d *definition) bool {
	et.mu.Lock()
	defer et.mu.Unlock()
	old := et.def
	return old == nil || old.emits == d.emits && (old.check == nil) == (d.check == nil) && old.info.NoReplay == d.info.NoReplay
}

// redefine replaces the definition of a registered type (EVOL-2, EVOL-3).
func (s *Server) redefine(et *eventType, d *definition) error {
	if !et.sameSource(d) {
		return fmt.Errorf("registering event %q again: source and replay cannot change in place; remove the type first", et.name)
	}
	old := et.current()
	m, err := s.loadHistory(d, et.topic)
	if err != nil {
		return fmt.Errorf("registering event %q again: %w", et.name, err)
	}
	if err := s.parts.Reopen(context.Background(), et); err != nil {
		return fmt.Errorf("registering event %q again: %w", et.name, err)
	}
	changes, _ := s.parts.Changes(old.descriptor(), d.descriptor())
	d.lineage, d.changed = old.lineage, ""
	if len(changes) > 0 {
		d.lineage, d.changed = old.lineage+1, changes[0]
	}
	et.adopt(d, slices.Contains(changes, fault.FeaturePayload) && !s.isShared())
	if err := s.parts.Redefined(et); err != nil {
		return fmt.Errorf("registering event %q again: %w", et.name, err)
	}
	s.saveSchemas(d, m)
	if len(changes) > 0 {
		s.streams.EndType(et, fault.SchemaChanged(changes[0]))
	} else {
		s.streams.Ring(et)
	}
	s.notifyListChanged()
	return nil
}

// adopt makes d current. If reset is true, existing log entries are not replayed, because they may be invalid under the
// new payloadSchema (OCC-1).
func (et *eventType) adopt(d *definition, reset bool) {
	et.mu.Lock()
	et.def = d
	stop := et.feeds.Adopt(d.check)
	et.mu.Unlock()
	if et.topic != nil {
		et.topic.Redefine(&d.Type, reset)
	}
	stop()
}

// revive re-registers a removed type. It continues to use the existing log, because a log is opened only once.
func (s *Server) revive(et *eventType, d *definition) error {
	m, err := s.loadHistory(d, et.topic)
	if err != nil {
		return fmt.Errorf("registering event %q again: %w", et.name, err)
	}
	if err := s.parts.Reopen(context.Background(), et); err != nil {
		return fmt.Errorf("registering event %q again: %w", et.name, err)
	}
	et.adopt(d, !s.isShared())
	if err := s.restore(et, d, m); err != nil {
		return fmt.Errorf("registering event %q again: %w", et.name, err)
	}
	s.addType(et)
	return nil
}

// Remove removes an event type and ends its live subscriptions with NotFound. It returns events.ErrNotFound if the name
// is unknown. See EVOL-1.
func (s *Server) Remove(name string) error {
	s.registering.Lock()
	defer s.registering.Unlock()
	s.mu.Lock()
	et := s.types[name]
	if et == nil {
		s.mu.Unlock()
		return fmt.Errorf("removing event %q: %w", name, fault.NotFound("event"))
	}
	delete(s.types, name)
	s.order = slices.DeleteFunc(s.order, func(o *eventType) bool { return o == et })
	s.retired[name] = et
	s.mu.Unlock()
	et.mu.Lock()
	et.def = nil
	stop := et.feeds.Adopt(nil)
	et.mu.Unlock()
	s.streams.EndType(et, fault.NotFound("event"))
	s.parts.Removed(et)
	if et.topic != nil {
		et.topic.SignalAll()
	}
	stop()
	s.leases.EndType(et)
	s.notifyListChanged()
	return nil
}

// eventTypes returns the registered types in the order used by events/list.
func (s *Server) eventTypes() []*eventType {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// eventType returns the registered type with the given name, or nil.
func (s *Server) eventType(name string) *eventType {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types[name]
}
