package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// TicketHeader …
const TicketHeader = "X-Mcpe-Ticket"

type Server struct{ o Options }

func New(srv *mcp.Server, o Options) (*Server, error) { return &Server{o: o.withDefaults()}, nil }

type eventType struct{}
type definition struct{}

func (et *eventType) emit(ctx context.Context, targets []string, p any, o []events.EmitOption) error {
	return nil
}
func newDefinition[A, P any](s *Server, t events.Type[A, P], h Hooks[A, P], c Check[A, P], emits bool, o []TypeOption) (*definition, error) {
	return nil, nil
}
func (s *Server) register(d *definition) (*eventType, error) { return nil, nil }

type Stream struct{}

func (st *Stream) Run(ctx context.Context, c Carrier) (final json.RawMessage, err error) {
	return nil, nil
}
func (st *Stream) Close() {}

func (s *Server) Remove(name string) error                                        { return nil }
func (s *Server) Revoke(ctx context.Context, principal string, events ...string)  {}
func (s *Server) Recheck(ctx context.Context, principal string, events ...string) {}
func (s *Server) RefreshVisibility(ctx context.Context)                           {}
func (s *Server) Shutdown(ctx context.Context) error                              { return nil }
func (s *Server) Subscriptions() []Subscription                                   { return nil }
func (s *Server) AddReadTools(tools ...readtool.Tool) error                       { return nil }
func (s *Server) Call(ctx context.Context, r Request) (json.RawMessage, error)    { return nil, nil }
func (s *Server) Open(ctx context.Context, r Request) (*Stream, error)            { return nil, nil }
func (s *Server) Authenticate(ctx context.Context, extra *mcp.RequestExtra) (principal string, expires time.Time) {
	return "", time.Time{}
}
func (s *Server) Issue(id json.RawMessage, claim func(ctx context.Context, ss *mcp.ServerSession, st *Stream) (json.RawMessage, error)) (ticket string, release func()) {
	return "", nil
}
func (s *Server) OnListChanged(f func()) (stop func())        { return func() {} }
func (s *Server) Capabilities(stateless bool) json.RawMessage { return nil }
func (s *Server) SetListChanged(legacy, stateless bool)       {}
func (s *Server) Closing() <-chan struct{}                    { return nil }
