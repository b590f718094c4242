package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An Injection holds the text that servers add to the model's prompt.
type Injection struct {
	// Text is the marked, escaped and size-limited text, or "" if no server added context. See CONV-6.
	Text string
	// Contributions holds the individual answers in the same order as Text.
	Contributions []Contribution
}

// A Contribution is the result of sending a message to one server.
type Contribution struct {
	Server string
	// Context and Structured are the unescaped, untrusted parts of the answer.
	Context    string
	Structured json.RawMessage
	// Truncated reports whether the text was truncated to its maximum size.
	Truncated bool
	// Err is the reason the server added no context. It is nil for an empty answer.
	Err error
}

// Errors in a [Contribution].
var (
	// ErrTimeout means that the server did not answer in time. A late answer is discarded.
	ErrTimeout = errors.New("conversation: no answer in time")
	// ErrLeftOut means that the hub temporarily skips the server because of timeouts.
	ErrLeftOut = errors.New("conversation: server is skipped for a while")
	// ErrRevoked means that the consent was revoked while the message was in flight.
	ErrRevoked = errors.New("conversation: consent was revoked")
	// ErrBadAnswer means that the answer violates the protocol.
	ErrBadAnswer = errors.New("conversation: server's answer is malformed")
)

// UserMessage concurrently sends a user's message to all approved servers that declare onUserMessage, and returns their
// contributions. A server that fails or is late adds nothing. UserMessage returns only errors from ctx and from the
// consents (CONV-4).
func (h *Hub) UserMessage(ctx context.Context, m Message) (*Injection, error) {
	return h.send(ctx, MethodUserMessage, m, func(c Capability, _ Consent) bool { return c.OnUserMessage })
}

// AssistantResponse is like [Hub.UserMessage], but sends a model response. It sends the response to servers that
// declare onAssistantResponse, if the user's consent includes it. It does nothing unless it is enabled in [HubOptions].
// See CONV-8.
func (h *Hub) AssistantResponse(ctx context.Context, m Message) (*Injection, error) {
	if !h.options.AssistantResponses {
		return &Injection{}, nil
	}
	return h.send(ctx, MethodAssistantResponse, m, func(c Capability, consent Consent) bool { return c.OnAssistantResponse && consent.AssistantResponses })
}

func (h *Hub) send(ctx context.Context, method string, msg Message, wants func(Capability, Consent) bool) (*Injection, error) {
	if msg.MessageID == "" {
		return nil, errors.New("conversation: a message needs an id")
	}
	var asked []*member
	var consents []Consent
	for _, m := range h.ordered() {
		consent, ok, err := h.options.Consents.Consent(ctx, m.name)
		if err != nil {
			return nil, fmt.Errorf("read consent for %s: %w", m.name, err)
		}
		if ok && wants(m.capability, consent) {
			asked, consents = append(asked, m), append(consents, consent)
		}
	}
	all := make([]Contribution, len(asked))
	memories := make([][]Memory, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() { all[i], memories[i] = h.ask(ctx, m, method, msg, consents[i]) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.merge(ctx, all, memories)
}

// ask sends the message to a server and returns its contribution and memories.
func (h *Hub) ask(ctx context.Context, m *member, method string, msg Message, consent Consent) (Contribution, []Memory) {
	c := Contribution{Server: m.name}
	var memories []Memory
	if !m.breaker.canSend() {
		c.Err = ErrLeftOut
		return c, nil
	}
	if !consent.History {
		msg.RecentHistory = nil
	}
	call, cancel := context.WithTimeout(ctx, h.options.Timeout)
	defer cancel()
	defer m.inFlight.Add(cancel)()
	a, err := m.exchange(call, method, msg)
	switch {
	case err == nil:
		m.breaker.recordAnswer()
		c.Context, c.Structured, memories, c.Err = decodeAnswer(a)
	case ctx.Err() != nil:
		m.breaker.recordAbandoned()
		c.Err = ctx.Err()
	case errors.Is(call.Err(), context.DeadlineExceeded):
		m.breaker.recordTimeout()
		c.Err = ErrTimeout
	case call.Err() != nil:
		m.breaker.recordAbandoned()
		c.Err = ErrRevoked
	default:
		m.breaker.recordAnswer()
		c.Err = err
	}
	if c.Err != nil && ctx.Err() == nil {
		h.options.Logger.Warn("conversation: server adds no context", "server", m.name, "error", c.Err)
	}
	m.mu.Lock()
	m.lastErr = c.Err
	m.mu.Unlock()
	return c, memories
}

// exchange sends a message as a request or as a notification, and waits for the answer.
func (m *member) exchange(ctx context.Context, method string, msg Message) (*answer, error) {
	if m.options.Notify != nil {
		return m.options.Notify.exchange(ctx, method, msg)
	}
	r, err := mcp.CallCustomMethod[*messageParams, *answerResult](ctx, m.session, method, &messageParams{Message: msg})
	if err != nil {
		return nil, err
	}
	return &r.answer, nil
}

// decodeAnswer validates and decodes an answer.
func decodeAnswer(a *answer) (context string, structured json.RawMessage, memories []Memory, err error) {
	if a.Context != nil {
		context = *a.Context
	}
	if len(a.StructuredContext) == 0 || string(a.StructuredContext) == "null" {
		return context, nil, nil, nil
	}
	var s Memories
	if err := wire.Decode(a.StructuredContext, &s); err != nil {
		return "", nil, nil, fmt.Errorf("%w: structuredContext: %w", ErrBadAnswer, err)
	}
	for i, m := range s.Memories {
		if err := m.check(); err != nil {
			return "", nil, nil, fmt.Errorf("%w: structuredContext.memories[%d]: %w", ErrBadAnswer, i, err)
		}
	}
	return context, a.StructuredContext, s.Memories, nil
}

func (m Memory) check() error {
	if math.IsNaN(m.Relevance) || m.Relevance < 0 || m.Relevance > 1 {
		return fmt.Errorf("relevance %v is not from 0 to 1", m.Relevance)
	}
	return nil
}

// merge merges the answers into one marked, bounded text. It checks the consents again and drops answers from servers
// for which the consent has been revoked.
func (h *Hub) merge(ctx context.Context, all []Contribution, memories [][]Memory) (*Injection, error) {
	var b strings.Builder
	room := h.options.MaxBytes
	for i := range all {
		c := &all[i]
		if _, ok, err := h.options.Consents.Consent(ctx, c.Server); err != nil {
			return nil, fmt.Errorf("read consent for %s: %w", c.Server, err)
		} else if !ok {
			*c = Contribution{Server: c.Server, Err: ErrRevoked}
			continue
		}
		raw := renderAnswer(c.Context, memories[i])
		if c.Err != nil || raw == "" {
			continue
		}
		var text string
		text, c.Truncated = escape(raw, min(room, h.options.MaxServerBytes))
		if text == "" {
			continue
		}
		room -= len(text)
		if b.Len() == 0 {
			b.WriteString(preamble)
		}
		opening, closing := markLines(c.Server)
		b.WriteString(opening)
		b.WriteString(text)
		b.WriteString(closing)
	}
	return &Injection{Text: b.String(), Contributions: all}, nil
}

// messageParams and answerResult are the params and the result of the protocol's methods in the SDK.
type messageParams struct {
	mcp.ParamsBase
	Message
}

type answerResult struct {
	mcp.ResultBase
	answer
}

// Decode decodes the structured context of a contribution into a type generated from a server's event file. It returns
// nil if the contribution has no structured context. Generated code calls it.
func Decode[S any](c Contribution) (*S, error) {
	if c.Structured == nil {
		return nil, nil
	}
	s := new(S)
	if err := json.Unmarshal(c.Structured, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	return s, nil
}
