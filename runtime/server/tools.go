package server

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/waittool"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// WaitTool is the name of the tool that [Server.AddWaitTool] adds.
const WaitTool = waittool.Name

// AddReadTools registers on the mcp.Server one tool for each descriptor, which reads the next
// occurrences of its event type by cursor: events/poll for clients that do not support events. Principal,
// visibility and authorization are those of a poll; tools/list leaves out the tools of types that
// are hidden from the caller or removed (LIST-4). The types must be registered before their tools:
// nothing is added when one is not, or when one descriptor is unusable.
func (s *Server) AddReadTools(tools ...readtool.Tool) error { return s.tools.AddRead(tools...) }

// AddWaitTool registers on the mcp.Server one further tool for clients that do not support events, [WaitTool]. It waits
// for occurrences of several event types at once:
//
//	{events: [{name, arguments?}], cursor?, since?, waitSeconds?, quietSeconds?, maxEvents?} → {events, cursor, truncated, hasMore}
//
// One cursor stands for all the types. Principal, visibility, authorization and quotas are those of a poll of each.
// A call waits 30 s where it does not say how long, 55 s at most, and never longer than Options.MaxToolWait; a
// caller with a progress token hears every 10 s that it still waits. The tool serves the types that offer poll, also
// those that are registered later; it is in tools/list whatever types there are.
//
// With quietSeconds a call collects what follows the first occurrence until nothing has come for so long, within its
// wait. With since, a duration or a time, it begins in the past, as far as the logs go back. See COAL-3.
func (s *Server) AddWaitTool() error { return s.tools.AddWait() }

// A toolHost implements [waittool.Host].
type toolHost struct{ s *Server }

func (h toolHost) Caller(ctx context.Context, extra *mcp.RequestExtra) (context.Context, func()) {
	principal, _ := h.s.authenticate(ctx, extra)
	ctx, cancel := h.s.port.UntilGone(ctx, extra, principal)
	return hook.WithPrincipal(ctx, principal), cancel
}

func (h toolHost) Registered(event string) bool {
	return h.s.registered(event) != nil
}

func (h toolHost) Sees(ctx context.Context, event string) error {
	_, _, err := h.s.lookup(ctx, hook.Principal(ctx), event)
	return err
}

func (h toolHost) Offers(ctx context.Context) (all []waittool.Offer) {
	for _, et := range h.s.all() {
		d := et.current()
		if d == nil || !d.polls() {
			continue
		}
		ok, err := h.s.visible(ctx, hook.Principal(ctx), et.name)
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
	return h.s.pollRequest(ctx, p, func(*definition) time.Duration { return wait })
}
