package server

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/toolargs"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/waittool"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// WaitTool is the name of the tool added by [Server.AddWaitTool].
const WaitTool = waittool.Name

// AddReadTools adds a tool to the mcp.Server for each descriptor. A tool reads the next occurrences of its event type
// after a cursor. It replaces events/poll for clients that do not support events. The principal, visibility and
// authorization are the same as for a poll. tools/list omits the tools of types that have been removed or are hidden
// from the caller (LIST-4). Register the types before calling AddReadTools. If a type is not registered or a descriptor
// is invalid, AddReadTools adds no tools.
func (s *Server) AddReadTools(tools ...readtool.Tool) error { return s.tools.AddRead(tools...) }

// AddWaitTool adds the tool [WaitTool] to the mcp.Server, for clients that do not support events. It waits for
// occurrences of several event types at once:
//
//	{events: [{name, arguments?}], cursor?, since?, waitSeconds?, quietSeconds?, maxEvents?} → {events, cursor, truncated, hasMore}
//
// One cursor covers all the types. The principal, visibility, authorization and quotas are the same as for a poll of
// each type. A call waits for 30 s by default, and for at most 55 s or Options.MaxToolWait. A caller with a progress
// token receives a progress notification every 10 s. The tool serves all types that offer poll, including types that
// are registered later. tools/list always includes it.
//
// If quietSeconds is set, a call continues to collect occurrences after the first until none arrives for that time or
// its wait ends. If since is set to a duration or a time, the call starts at that point in the past, limited by the
// retention of the logs. See COAL-3.
func (s *Server) AddWaitTool() error { return s.tools.AddWait() }

// AddToolsTo adds the read tools and the wait tool to an mcp.Server that was created for a request. These are the tools
// that AddReadTools and AddWaitTool have added so far. They behave as on the event server's mcp.Server. If a handler of
// package overlay serves the events, set its option NoTools.
func (s *Server) AddToolsTo(srv *mcp.Server) {
	s.tools.AddTo(srv)
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if page, ok := res.(*mcp.ListToolsResult); ok && err == nil {
				return s.tools.Shown(ctx, req, page), nil
			}
			return res, err
		}
	})
}

// A toolHost implements [waittool.Host].
type toolHost struct{ s *Server }

func (h toolHost) Caller(ctx context.Context, extra *mcp.RequestExtra) (context.Context, func()) {
	principal, _ := h.s.authenticate(ctx, extra)
	ctx, cancel := h.s.port.UntilGone(ctx, extra, principal)
	return hook.WithPrincipal(ctx, principal), cancel
}

func (h toolHost) Registered(event string) bool {
	return h.s.eventType(event) != nil
}

func (h toolHost) Sees(ctx context.Context, event string) error {
	_, _, err := h.s.lookup(ctx, hook.Principal(ctx), event)
	return err
}

func (h toolHost) Offers(ctx context.Context) (all []waittool.Offer) {
	for _, et := range h.s.eventTypes() {
		d := et.current()
		if d == nil || !d.offersPoll() {
			continue
		}
		ok, err := h.s.access.IsVisible(ctx, hook.Principal(ctx), et.name)
		if err != nil {
			h.s.log.Internal(ctx, "listing tool "+WaitTool, err)
		} else if ok {
			all = append(all, waittool.Offer{Name: et.name, Description: d.info.Description, InputSchema: d.inputSchema.JSON()})
		}
	}
	return all
}

func (h toolHost) Poll(ctx context.Context, p *wire.PollParams) (*polling.Answer, error) {
	return h.s.pollAnswer(ctx, p)
}

func (h toolHost) Check(ctx context.Context, p *wire.PollParams, wait time.Duration) (*polling.Request, error) {
	return h.s.pollRequest(ctx, p, func(d *definition) time.Duration {
		p.Arguments = toolargs.Decode(d.inputSchema.JSON(), p.Arguments)
		return wait
	})
}
