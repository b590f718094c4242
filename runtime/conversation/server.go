package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fairsem"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A Handler answers the messages of a conversation. The type of the structured context is S. At least one function must
// be set. The server declares the functions that are set.
type Handler[S any] struct {
	// OnUserMessage is called for each user message. The context is cancelled when the client gives up. Use
	// server.PrincipalOf to get the caller. If the error is an *events.Error, it is sent to the caller. Other errors
	// are logged, and the caller receives an internal error.
	OnUserMessage func(ctx context.Context, m Message) (Answer[S], error)
	// OnAssistantResponse is called for each model response if the client sends them. See CONV-8.
	OnAssistantResponse func(ctx context.Context, m Message) (Answer[S], error)
}

// Options configures [Register]. The zero value is ready to use.
type Options struct {
	// MaxPending is the maximum number of notifications that are answered concurrently; default 64. A sender with a
	// pending notification gets another one only while fewer than half are pending. Further notifications are dropped.
	MaxPending int
	// NotificationTimeout is the timeout for answering a notification, because its sender cannot cancel it. The default
	// is 5 s.
	NotificationTimeout time.Duration
}

// A Server is the *server.Server to pass to [Register], which rejects any other type. Because it is an interface,
// client programs need not link package server.
type Server interface {
	Shutdown(ctx context.Context) error
}

// Register declares the capability and serves the protocol on es. It serves both requests and notifications. It answers
// notifications with conversation/context if the sender has a session. Call it once, before the server runs. A second
// call returns an error. See CONV-1, CONV-2.
func Register[S any](es Server, h Handler[S], o Options) error {
	if h.OnUserMessage == nil && h.OnAssistantResponse == nil {
		return errors.New("conversation: the handler has no function")
	}
	inside := portOf(es)
	if inside == nil {
		return fmt.Errorf("conversation: got a %T, want a *server.Server", es)
	}
	if err := inside.CheckAlone("conversation with context"); err != nil {
		return fmt.Errorf("conversation: %w", err)
	}
	o.MaxPending = cmp.Or(max(o.MaxPending, 0), 64)
	o.NotificationTimeout = cmp.Or(max(o.NotificationTimeout, 0), 5*time.Second)
	if err := inside.Claim("conversation with context"); err != nil {
		return fmt.Errorf("conversation: %w", err)
	}
	s := &service{es: inside, options: o}
	s.pending.Init(o.MaxPending, 0)
	for method, f := range map[string]func(context.Context, Message) (Answer[S], error){
		MethodUserMessage: h.OnUserMessage, MethodAssistantResponse: h.OnAssistantResponse,
	} {
		if f == nil {
			continue
		}
		handle := func(ctx context.Context, m Message) (*answer, error) { return callHandler(ctx, f, m) }
		if err := s.serve(method, handle); err != nil {
			return err
		}
	}
	inside.AdvertiseTopLevel(CapabilityKey, Capability{OnUserMessage: h.OnUserMessage != nil, OnAssistantResponse: h.OnAssistantResponse != nil})
	return nil
}

// portOf returns the port of es, or nil if es is not a *server.Server.
func portOf(es Server) *port.Port {
	if port.Of == nil {
		return nil // the program does not link package server
	}
	return port.Of(es)
}

// callHandler calls a function of a Handler and encodes its answer. It converts a panic to an error.
func callHandler[S any](ctx context.Context, f func(context.Context, Message) (Answer[S], error), m Message) (a *answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = nil, fmt.Errorf("conversation handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	out, err := f(ctx, m)
	if err != nil {
		return nil, err
	}
	a = &answer{}
	if out.Context != "" {
		a.Context = &out.Context
	}
	if out.Structured == nil {
		return a, nil
	}
	if a.StructuredContext, err = codec.Encode(out.Structured); err != nil {
		return nil, fmt.Errorf("encode structured context: %w", err)
	}
	// Report a malformed answer here, because a client would reject it.
	if _, _, _, err := decodeAnswer(a); err != nil {
		return nil, err
	}
	return a, nil
}

// A service is the state that the methods share.
type service struct {
	es      *port.Port
	options Options
	pending fairsem.Semaphore // notifications, by principal or session
}

func (s *service) serve(method string, handle func(context.Context, Message) (*answer, error)) error {
	err := mcp.AddReceivingCustomMethod(s.es.MCP(), method, func(ctx context.Context, ss *mcp.ServerSession, p *port.Params) (*answerResult, error) {
		principal, _ := s.es.Authenticate(ctx, p.Request.Extra)
		m, err := decodeMessage(p.Raw)
		if err != nil {
			return nil, jsonrpcError(events.NewError(wire.InvalidParams, err))
		}
		a, err := s.answerMessage(port.AsPrincipal(ctx, principal), m, handle)
		if err != nil {
			return nil, err
		}
		if version, _ := p.Meta[mcp.MetaKeyProtocolVersion].(string); version >= wire.RevisionStateless {
			a.ResultType = wire.ResultComplete
		}
		return &answerResult{answer: *a}, nil
	})
	if err != nil {
		return fmt.Errorf("conversation: %w", err)
	}
	s.es.OnNotification(method, func(ctx context.Context, n wire.Notification) { s.handleNotification(ctx, n, handle) })
	return nil
}

// answerMessage answers a message. The returned error can be sent to the client, because it contains no internal
// information.
func (s *service) answerMessage(ctx context.Context, m Message, handle func(context.Context, Message) (*answer, error)) (*answer, error) {
	a, err := handle(ctx, m)
	var e *events.Error
	switch {
	case err == nil:
		return a, nil
	case errors.As(err, &e):
		return nil, jsonrpcError(e)
	case ctx.Err() != nil: // the caller is gone
		return nil, jsonrpcError(events.NewError(wire.Internal, nil))
	}
	s.es.Logger().ErrorContext(ctx, "conversation: message not answered", "error", err)
	return nil, jsonrpcError(events.NewError(wire.Internal, nil))
}

func jsonrpcError(e *events.Error) error {
	return &jsonrpc.Error{Code: wire.Sketch.Code(e.Kind), Message: e.Kind.String(), Data: e.Data}
}

// handleNotification answers a notification in a separate goroutine. It drops the answer if the sender cannot be
// reached. Pending answers are cancelled when the server shuts down.
func (s *service) handleNotification(ctx context.Context, n wire.Notification, handle func(context.Context, Message) (*answer, error)) {
	release, ok := s.pending.TryAcquire(cmp.Or(n.Principal, n.Session))
	if !ok {
		s.es.Logger().WarnContext(ctx, "conversation: too many messages at once, one was dropped")
		return
	}
	go func() {
		defer release()
		ctx, cancel := context.WithTimeout(port.AsPrincipal(ctx, n.Principal), s.options.NotificationTimeout)
		defer cancel()
		go func() {
			select {
			case <-s.es.Closing():
				cancel()
			case <-ctx.Done():
			}
		}()
		m, err := decodeMessage(n.Params)
		if err != nil {
			return // a notification has no error to answer with
		}
		a, err := s.answerMessage(ctx, m, handle)
		if err != nil {
			return
		}
		params, err := json.Marshal(contextParams{MessageID: m.MessageID, answer: *a})
		if err != nil {
			return
		}
		if n.Session == "" || !s.es.Send(n.Session, wire.Message{Method: NotificationContext, Params: params}) {
			s.es.Logger().DebugContext(ctx, "conversation: cannot reach the sender of a notification")
		}
	}()
}
