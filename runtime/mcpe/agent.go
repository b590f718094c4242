package mcpe

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// AgentOptions configures handlers that call an AI agent. See MCPE-HAN-3.
type AgentOptions struct {
	// Handle calls the host's agent. If it is nil, only sampling is used.
	Handle func(ctx context.Context, r AgentRequest) error
	// Sampling allows MCP sampling with the subscriber's model. It is used if Handle is nil or returns
	// [ErrUseSampling]. It requires a session with a client that supports sampling.
	Sampling bool
	// Sampled is called with the model's answer, which is untrusted. It can be nil.
	Sampled func(ctx context.Context, r AgentRequest, answer string)
	// Timeout is the default timeout of a handler (default 2 min). MaxTimeout is its maximum timeout (default 10 min).
	Timeout, MaxTimeout time.Duration
}

// AgentOptions.Handle can return ErrUseSampling to let sampling handle the event.
var ErrUseSampling = errors.New("mcpe: use sampling")

// An AgentRequest asks an agent to handle an event. All text from the subscriber and the event is untrusted.
type AgentRequest struct {
	// SubscriptionID and ClientID identify the subscription and its client.
	SubscriptionID, ClientID string
	// Event is the event to handle. For a batch, it is a synthetic event of type events.batch, and Events contains the
	// events of the batch.
	Event  mcpewire.Event
	Events []mcpewire.Event
	// SystemPrompt, Model, Instructions, Tools and MaxTokens come from the subscriber's handler.
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
	o.Timeout = cmp.Or(max(o.Timeout, 0), 2*time.Minute)
	o.MaxTimeout = cmp.Or(max(o.MaxTimeout, 0), 10*time.Minute)
	return &agent{o}, nil
}

func (g *agent) timeout(h *mcpewire.Handler) time.Duration {
	return handlerTimeout(h, g.o.Timeout, g.o.MaxTimeout)
}

func (g *agent) check(o object, h *mcpewire.Handler, _ bool) (err *refusal) {
	for name, into := range map[string]*string{"systemPrompt": &h.SystemPrompt, "model": &h.Model, "instructions": &h.Instructions} {
		if *into, err = o.text(name); err != nil {
			return err
		}
	}
	if h.Tools, _, err = o.stringList("tools"); err != nil {
		return err
	}
	if len(h.Tools) > maxArgs {
		return invalidField(o.path("tools"), "has %d values; at most %d are allowed", len(h.Tools), maxArgs)
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
	return g.requestSampling(ctx, request, r.session)
}

// call calls the host's agent. It returns when ctx ends, even if the agent does not.
func (g *agent) call(ctx context.Context, request AgentRequest) error {
	done := make(chan error, 1)
	go func() { done <- recoverPanic(func() error { return g.o.Handle(ctx, request) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
