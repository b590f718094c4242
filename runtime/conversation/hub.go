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

// HubOptions configure a [Hub]; the zero value is usable.
type HubOptions struct {
	// Consents says what the user has approved; default [NewConsents], which has approved nothing.
	Consents Consents
	// Timeout is how long a server may take to answer; default 500 ms. See CONV-4.
	Timeout time.Duration
	// MaxTimeouts in a row leave a server out for Rest; defaults 3 and 1 min. See CONV-4.
	MaxTimeouts int
	Rest        time.Duration
	// MaxServerBytes and MaxBytes bound the injected text of one server and in all, without the
	// marks. The defaults are 4 KiB and 16 KiB (CONV-6).
	MaxServerBytes, MaxBytes int
	// AssistantResponses switches [Hub.AssistantResponse] on. See CONV-8.
	AssistantResponses bool
	// Logger receives errors and timeouts, never a message; default slog.Default().
	Logger *slog.Logger
}

// ServerOptions describe one server of a [Hub].
type ServerOptions struct {
	// Priority orders what is injected: higher first, equal ones by name. See CONV-6.
	Priority int
	// Notify sends messages as notifications, for servers that understand no request; their answer
	// comes back through [Answers].
	Notify *Answers
}

// A Hub sends the messages of a conversation to the servers that may see them and merges what they
// answer. It is safe for concurrent use.
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

// Install registers the protocol's methods with a client, once, before it connects.
func Install(c *mcp.Client) error {
	for _, method := range []string{MethodUserMessage, MethodAssistantResponse} {
		if err := mcp.AddSendingCustomMethod[*messageParams, *answerResult](c, method); err != nil {
			return fmt.Errorf("conversation: %w", err)
		}
	}
	return nil
}

// Add gives the hub a session under the name that the user knows the server by; consents are kept
// by it. The session's client must have been given to [Install]. A session of a name that is there
// already replaces it.
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

// declared reads the capability. The SDK keeps what stands below experimental only, which is why
// servers mirror it there.
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

// Remove takes a server out; messages under way to it are given up.
func (h *Hub) Remove(name string) {
	h.mu.Lock()
	m := h.servers[name]
	delete(h.servers, name)
	h.mu.Unlock()
	if m != nil {
		m.cancel()
	}
}

// Revoke takes the user's consent back, gives up what is under way to the server and makes sure
// that nothing it still answers is used.
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

// Reset closes the breaker of a server that was left out. See CONV-4.
func (h *Hub) Reset(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.servers[name]; m != nil {
		m.breaker.reset()
	}
}

// A Status tells how a server of the hub is doing.
type Status struct {
	Server     string
	Capability Capability
	Priority   int
	// Approved tells whether the user lets the server see anything.
	Approved bool
	// Timeouts is how many messages in a row it has not answered in time; LeftOutUntil is when it
	// is tried again, zero when it is not left out.
	Timeouts     int
	LeftOutUntil time.Time
	// LastError is what went wrong with the last message, nil when nothing did.
	LastError error
}

// Servers returns the hub's servers in the order in which they are injected.
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

// track remembers a call under way so that cancel can end it.
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
