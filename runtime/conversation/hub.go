package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// HubOptions configures a [Hub]; the zero value is usable.
type HubOptions struct {
	// Consents holds the user's consents; default [NewConsents], which is empty.
	Consents Consents
	// Timeout bounds the time in which a server must answer; default 500 ms. See CONV-4.
	Timeout time.Duration
	// MaxTimeouts bounds the timeouts in a row; after that many, the hub skips the server for Rest.
	// Defaults 3 and 1 min. See CONV-4.
	MaxTimeouts int
	Rest        time.Duration
	// MaxServerBytes and MaxBytes bound the injected text of one server and of all servers, without
	// the marks. The defaults are 4 KiB and 16 KiB (CONV-6).
	MaxServerBytes, MaxBytes int
	// AssistantResponses enables [Hub.AssistantResponse]. See CONV-8.
	AssistantResponses bool
	// Logger receives errors and timeouts, never a message; default slog.Default().
	Logger *slog.Logger
}

// ServerOptions configures one server of a [Hub].
type ServerOptions struct {
	// Priority orders the injected contributions: higher first, then by name. See CONV-6.
	Priority int
	// Notify sends messages as notifications, for servers that do not support requests. It also
	// receives their answers.
	Notify *Answers
}

// A Hub sends the messages of a conversation to the servers that may see them, and merges their
// answers. It is safe for concurrent use.
type Hub struct {
	options HubOptions

	mu      sync.Mutex
	servers map[string]*member
}

// A member is a server of the hub.
type member struct {
	name       string
	session    *mcp.ClientSession
	options    ServerOptions
	capability Capability
	breaker    breaker

	mu       sync.Mutex
	lastErr  error
	inFlight map[*context.CancelFunc]struct{}
}

// NewHub returns a hub without servers.
func NewHub(o HubOptions) *Hub {
	if o.Consents == nil {
		o.Consents = NewConsents()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Timeout = cmp.Or(max(o.Timeout, 0), 500*time.Millisecond)
	o.MaxTimeouts = cmp.Or(max(o.MaxTimeouts, 0), 3)
	o.Rest = cmp.Or(max(o.Rest, 0), time.Minute)
	o.MaxServerBytes = cmp.Or(max(o.MaxServerBytes, 0), 4<<10)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 16<<10)
	return &Hub{options: o, servers: map[string]*member{}}
}

// ErrNotDeclared is returned by [Hub.Add] for a server without the capability.
var ErrNotDeclared = errors.New("conversation: the server does not declare " + CapabilityKey)

// Install registers the protocol's methods with a client. Call it once, before the client connects.
func Install(c *mcp.Client) error {
	for _, method := range []string{MethodUserMessage, MethodAssistantResponse} {
		if err := mcp.AddSendingCustomMethod[*messageParams, *answerResult](c, method); err != nil {
			return fmt.Errorf("conversation: %w", err)
		}
	}
	return nil
}

// Add adds a session under the name by which the user knows the server. Consents refer to this
// name. Call [Install] on the session's client before it connects. Add replaces an existing session
// of the same name.
func (h *Hub) Add(name string, session *mcp.ClientSession, o ServerOptions) error {
	if name == "" {
		return errors.New("conversation: a server needs a name")
	}
	c, ok := declared(session.InitializeResult())
	if !ok {
		return fmt.Errorf("%w (%s)", ErrNotDeclared, name)
	}
	m := &member{name: name, session: session, options: o, capability: c,
		breaker: breaker{limit: h.options.MaxTimeouts, rest: h.options.Rest}, inFlight: map[*context.CancelFunc]struct{}{}}
	h.mu.Lock()
	old := h.servers[name]
	h.servers[name] = m
	h.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	return nil
}

// declared returns the server's capability. The SDK keeps only unknown capabilities below
// experimental, so servers mirror it there.
func declared(init *mcp.InitializeResult) (c Capability, ok bool) {
	if init == nil || init.Capabilities == nil {
		return c, false
	}
	v, ok := init.Capabilities.Experimental[CapabilityKey]
	if !ok {
		return c, false
	}
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return Capability{}, false
	}
	return c, c.OnUserMessage || c.OnAssistantResponse
}

// Remove removes a server and cancels its messages in flight.
func (h *Hub) Remove(name string) {
	h.mu.Lock()
	m := h.servers[name]
	delete(h.servers, name)
	h.mu.Unlock()
	if m != nil {
		m.cancel()
	}
}

// Revoke revokes the user's consent for a server and cancels its messages in flight. The hub
// discards any later answer.
func (h *Hub) Revoke(ctx context.Context, name string) error {
	err := h.options.Consents.Revoke(ctx, name)
	h.mu.Lock()
	m := h.servers[name]
	h.mu.Unlock()
	if m != nil {
		m.cancel()
	}
	return err
}

// Reset closes the circuit breaker of a server, so that the hub no longer skips it. See CONV-4.
func (h *Hub) Reset(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.servers[name]; m != nil {
		m.breaker.reset()
	}
}

// A Status is the state of one server of the hub.
type Status struct {
	Server     string
	Capability Capability
	Priority   int
	// Approved reports whether there is a consent for the server.
	Approved bool
	// Timeouts is the number of messages in a row without an answer in time. LeftOutUntil is the
	// time until which the hub skips the server; zero if it does not.
	Timeouts     int
	LeftOutUntil time.Time
	// LastError is the error of the last message, or nil.
	LastError error
}

// Servers returns the state of the hub's servers, in the order of their contributions.
func (h *Hub) Servers(ctx context.Context) ([]Status, error) {
	var all []Status
	for _, m := range h.ordered() {
		_, approved, err := h.options.Consents.Consent(ctx, m.name)
		if err != nil {
			return nil, fmt.Errorf("read consent for %s: %w", m.name, err)
		}
		s := Status{Server: m.name, Capability: m.capability, Priority: m.options.Priority, Approved: approved}
		s.Timeouts, s.LeftOutUntil = m.breaker.state()
		m.mu.Lock()
		s.LastError = m.lastErr
		m.mu.Unlock()
		all = append(all, s)
	}
	return all, nil
}

func (h *Hub) ordered() []*member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.servers), func(x, y *member) int {
		return cmp.Or(cmp.Compare(y.options.Priority, x.options.Priority), cmp.Compare(x.name, y.name))
	})
}

// track records a call in flight so that cancel can end it.
func (m *member) track(cancel context.CancelFunc) (done func()) {
	key := &cancel
	m.mu.Lock()
	m.inFlight[key] = struct{}{}
	m.mu.Unlock()
	return func() {
		m.mu.Lock()
		delete(m.inFlight, key)
		m.mu.Unlock()
		cancel()
	}
}

func (m *member) cancel() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cancel := range m.inFlight {
		(*cancel)()
	}
}
