package mcpe

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// AgentOptions allow handlers that ask an agent. See MCPE-HAN-3.
type AgentOptions struct {
	// Handle is the host's agent. Nil leaves it to Sampling.
	Handle func(ctx context.Context, r AgentRequest) error
	// Sampling asks the subscriber's own model by MCP sampling, where its session's client can do
	// that, when there is no Handle or it returns [ErrUseSampling].
	Sampling bool
	// Sampled, when set, receives the text that the model answered; untrusted.
	Sampled func(ctx context.Context, r AgentRequest, answer string)
	// Timeout is the default for handlers that ask for none, MaxTimeout the longest; default 2 min
	// and 10 min.
	Timeout, MaxTimeout time.Duration
}

// ErrUseSampling is what AgentOptions.Handle returns to leave an event to sampling.
var ErrUseSampling = errors.New("mcpe: use sampling")

// An AgentRequest is an event on its way to an agent. What the subscriber and the event say is
// untrusted text.
type AgentRequest struct {
	// SubscriptionID and ClientID name the subscription and whose it is.
	SubscriptionID, ClientID string
	// Event is what happened; for a batch the synthetic event of type events.batch, whose Events are
	// beside it.
	Event  mcpewire.Event
	Events []mcpewire.Event
	// SystemPrompt, Model, Instructions, Tools and MaxTokens are the subscriber's wishes.
	SystemPrompt, Model, Instructions string
	Tools                             []string
	MaxTokens                         int64
}

type agent struct{ o AgentOptions }

const defaultTokens = 1024

func newAgent(o AgentOptions) (*agent, error) {
	if o.Handle == nil && !o.Sampling {
		return nil, errors.New("agent handlers are allowed, but neither Handle nor Sampling is set")
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.MaxTimeout <= 0 {
		o.MaxTimeout = 10 * time.Minute
	}
	return &agent{o}, nil
}

func (g *agent) timeout(h *mcpewire.Handler) time.Duration {
	if h.Timeout <= 0 {
		return min(g.o.Timeout, g.o.MaxTimeout)
	}
	return min(time.Duration(h.Timeout)*time.Millisecond, g.o.MaxTimeout)
}

func (g *agent) check(o object, h *mcpewire.Handler, _ bool) (err *refusal) {
	for name, into := range map[string]*string{"systemPrompt": &h.SystemPrompt, "model": &h.Model, "instructions": &h.Instructions} {
		if *into, err = o.text(name); err != nil {
			return err
		}
	}
	if h.Tools, _, err = o.texts("tools"); err != nil {
		return err
	}
	if len(h.Tools) > maxArgs {
		return invalid(o.path("tools"), "has %d values; at most %d are allowed", len(h.Tools), maxArgs)
	}
	h.MaxTokens, err = o.number("maxTokens", 0, 1, 1<<20)
	return err
}

func (g *agent) run(ctx context.Context, r *run) error {
	h := r.handler
	request := AgentRequest{SubscriptionID: r.subscription, ClientID: r.client, Event: r.event, Events: r.events,
		SystemPrompt: h.SystemPrompt, Model: h.Model, Instructions: h.Instructions, Tools: h.Tools, MaxTokens: h.MaxTokens}
	if g.o.Handle != nil {
		err := g.call(ctx, request)
		if !errors.Is(err, ErrUseSampling) || !g.o.Sampling {
			return err
		}
	}
	return g.sample(ctx, request, r.session)
}

// call runs the host's agent; one that ignores the end of its context is not waited for.
func (g *agent) call(ctx context.Context, request AgentRequest) error {
	done := make(chan error, 1)
	go func() { done <- safely(func() error { return g.o.Handle(ctx, request) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
