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

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/listeners"
)

// HubOptions configures a [Hub]. The zero value is ready to use.
type HubOptions struct {
	// Consents stores the user's consents. The default is an empty store from [NewConsents].
	Consents Consents
	// Timeout is how long the hub waits for a server's answer. The default is 500 ms. See CONV-4.
	Timeout time.Duration
	// MaxTimeouts is the number of consecutive timeouts after which the hub skips a server for the duration of Rest.
	// The defaults are 3 and 1 min. See CONV-4.
	MaxTimeouts int
	Rest        time.Duration
	// MaxServerBytes and MaxBytes limit the injected text from one server and from all servers, excluding the marks.
	// The defaults are 4 KiB and 16 KiB (CONV-6).
	MaxServerBytes, MaxBytes int
	// AssistantResponses enables [Hub.AssistantResponse]. See CONV-8.
	AssistantResponses bool
	// Logger logs errors and timeouts, but never messages; nil means slog.Default().
	Logger *slog.Logger
}

// ServerOptions configures one server of a [Hub].
type ServerOptions struct {
	// Priority determines the order of the injected contributions. Higher values come first. Servers with equal
	// priority are ordered by name. See CONV-6.
	Priority int
	// Notify sends messages as notifications and receives the answers, for servers that do not support requests.
	Notify *Answers
}

// A Hub sends the messages of a conversation to the servers with the user's consent and merges their answers. It is
// safe for concurrent use.
type Hub struct {
	options HubOptions

	mu      sync.Mutex
	servers map[string]*member
}

// A member is a server in the hub.
type member struct {
	name       string
	session    *mcp.ClientSession
	options    ServerOptions
	capability Capability
	breaker    breaker

	inFlight listeners.Set[context.CancelFunc]

	mu      sync.Mutex
	lastErr error
}

// NewHub returns a hub without servers.
func NewHub(o HubOptions) *Hub {
	if o.Consents == nil {
		o.Consents = NewConsents()
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Timeout = cmp.Or(max(o.Timeout, 0), 500*time.Millisecond)
	o.MaxTimeouts = cmp.Or(max(o.MaxTimeouts, 0), 3)
	o.Rest = cmp.Or(max(o.Rest, 0), time.Minute)
	o.MaxServerBytes = cmp.Or(max(o.MaxServerBytes, 0), 4<<10)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), 16<<10)
	return &Hub{options: o, servers: map[string]*member{}}
}

// ErrNotDeclared is returned by [Hub.Add] if the server does not declare the capability.
var ErrNotDeclared = errors.New("conversation: the server does not declare " + CapabilityKey)

// Install registers the methods of the protocol with a client. Call it once, before the client connects.
func Install(c *mcp.Client) error {
	for _, method := range []string{MethodUserMessage, MethodAssistantResponse} {
		if err := mcp.AddSendingCustomMethod[*messageParams, *answerResult](c, method); err != nil {
			return fmt.Errorf("conversation: %w", err)
		}
	}
	return nil
}

// Add adds a session under the user's name for the server. Consents refer to this name. Call [Install] on the session's
// client before it connects. Add replaces an existing session with the same name.
func (h *Hub) Add(name string, session *mcp.ClientSession, o ServerOptions) error {
	if name == "" {
		return errors.New("conversation: a server needs a name")
	}
	c, ok := capabilityOf(session.InitializeResult())
	if !ok {
		return fmt.Errorf("%w (%s)", ErrNotDeclared, name)
	}
	m := &member{name: name, session: session, options: o, capability: c,
		breaker: breaker{limit: h.options.MaxTimeouts, rest: h.options.Rest}}
	h.mu.Lock()
	old := h.servers[name]
	h.servers[name] = m
	h.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	return nil
}

// capabilityOf returns the server's capability. The SDK preserves unknown capabilities only in experimental, so servers
// mirror the capability there.
func capabilityOf(init *mcp.InitializeResult) (c Capability, ok bool) {
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

// Remove removes a server and cancels messages in flight to it.
func (h *Hub) Remove(name string) {
	h.mu.Lock()
	m := h.servers[name]
	delete(h.servers, name)
	h.mu.Unlock()
	if m != nil {
		m.cancel()
	}
}

// Revoke revokes the user's consent for a server and cancels messages in flight to it. The hub discards late answers.
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

// Reset closes a server's circuit breaker, so the hub no longer skips the server. See CONV-4.
func (h *Hub) Reset(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.servers[name]; m != nil {
		m.breaker.reset()
	}
}

// A Status describes the state of a server in the hub.
type Status struct {
	Server     string
	Capability Capability
	Priority   int
	// Approved reports whether the user has given consent for the server.
	Approved bool
	// Timeouts is the number of consecutive messages that the server did not answer in time. LeftOutUntil is the time
	// until which the hub skips the server; zero if it does not skip it.
	Timeouts     int
	LeftOutUntil time.Time
	// LastError is the error of the last message, or nil.
	LastError error
}

// Servers returns the status of each server in the order of the injected contributions.
func (h *Hub) Servers(ctx context.Context) ([]Status, error) {
	var all []Status
	for _, m := range h.ordered() {
		_, approved, err := h.options.Consents.Consent(ctx, m.name)
		if err != nil {
			return nil, fmt.Errorf("read consent for %s: %w", m.name, err)
		}
		s := Status{Server: m.name, Capability: m.capability, Priority: m.options.Priority, Approved: approved}
		s.Timeouts, s.LeftOutUntil = m.breaker.openState()
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

func (m *member) cancel() {
	for cancel := range m.inFlight.All() {
		cancel()
	}
}
