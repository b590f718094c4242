package mcpe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/toolargs"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// A call is a client's tool call.
type call struct {
	caller port.Caller
	owner  *owner
	args   object
}

// addTools registers the tools without listing event types. tailorTools adds the types that each caller may see.
func (a *Adapter) addTools() {
	serve := map[string]func(context.Context, *call) (any, *refusal){
		wire.MCPEToolSubscribe: a.subscribe, wire.MCPEToolUnsubscribe: a.unsubscribe, wire.MCPEToolList: a.list,
		wire.MCPEToolPause: a.pause, wire.MCPEToolResume: a.resume, wire.MCPEToolUpdate: a.update,
	}
	for _, t := range a.tools(nil) {
		a.srv.AddTool(t, a.newHandler(t, serve[t.Name]))
	}
}

// refreshTools notifies clients that the event types listed by the tools have changed.
func (a *Adapter) refreshTools() {
	if a.ctx.Err() == nil {
		t := a.tools(nil)[0]
		a.srv.AddTool(t, a.newHandler(t, a.subscribe))
	}
}

// tailorTools is middleware that adds the event types that the caller may see to the descriptions of the tools
// (LIST-4).
func (a *Adapter) tailorTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		all, ok := res.(*mcp.ListToolsResult)
		if err != nil || !ok {
			return res, err
		}
		infos, err := a.visibleTypes(ctx, a.es.CallerOf(ctx, req).Principal)
		if err != nil {
			a.o.Logger.Error("mcpe: the visibility check of event types failed", "error", err)
			return res, nil
		}
		tailored := a.tools(infos)
		made := *all
		made.Tools = slices.Clone(all.Tools)
		for i, t := range made.Tools {
			if j := slices.IndexFunc(tailored, func(o *mcp.Tool) bool { return o.Name == t.Name }); j >= 0 {
				made.Tools[i] = tailored[j]
			}
		}
		return &made, nil
	}
}

// newHandler returns a tool handler that calls serve.
func (a *Adapter) newHandler(t *mcp.Tool, serve func(context.Context, *call) (any, *refusal)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := &call{caller: a.es.CallerOf(ctx, req)}
		var err *refusal
		if a.ctx.Err() != nil {
			return errorResult(t.Name, refuse(mcpewire.CodeInternal, "The server is shutting down.")), nil
		}
		if c.args, err = parseObject("", toolargs.Decode(t.InputSchema, req.Params.Arguments)); err != nil {
			return errorResult(t.Name, err), nil
		}
		if c.owner = a.ownerOf(c.caller); c.owner == nil {
			return errorResult(t.Name, refuse(mcpewire.CodeUnauthorized, "Subscriptions need an authenticated caller here, because the server cannot distinguish clients without a session.")), nil
		}
		c.caller.AfterReply(func() { a.bind(c.owner, c.caller) })
		result, err := serve(ctx, c)
		if err != nil {
			return errorResult(t.Name, err), nil
		}
		raw := encode(result)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(raw)}}, StructuredContent: raw}, nil
	}
}

// errorResult converts a refusal to a tool result (MCPE-TOOL-4).
func errorResult(tool string, err *refusal) *mcp.CallToolResult {
	content := struct {
		Success *bool            `json:"success,omitempty"`
		Error   mcpewire.Refusal `json:"error"`
	}{Error: err.Refusal}
	if tool == wire.MCPEToolUnsubscribe {
		content.Success = new(bool)
	}
	raw := encode(&content)
	said := []mcp.Content{&mcp.TextContent{Text: err.Message}}
	if content.Success != nil { // the original client reads success from the first text, even of an error
		said = append([]mcp.Content{&mcp.TextContent{Text: string(raw)}}, said...)
	}
	return &mcp.CallToolResult{IsError: true, Content: said, StructuredContent: raw}
}

func (a *Adapter) internal(doing string, err error) *refusal {
	a.o.Logger.Error("mcpe: "+doing+" failed", "error", err)
	return refuse(mcpewire.CodeInternal, "The server could not do that now.")
}

// findSubscription returns the subscription that a call specifies. For a subscription of another client, it returns the
// same error as for an unknown id (MCPE-ID-1). The caller holds a.mu.
func (a *Adapter) findSubscription(c *call) (*subscription, *refusal) {
	id, err := c.args.text("subscriptionId")
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = c.args.text("id"); err != nil {
			return nil, err
		}
	}
	if id == "" {
		return nil, invalidField("subscriptionId", "is required")
	}
	s := a.subs[id]
	if s == nil || s.owner != c.owner {
		return nil, refuse(mcpewire.CodeNotFound, "Subscription %.64q not found.", id)
	}
	return s, nil
}

// countActive counts the owner's active subscriptions. The caller holds a.mu.
func (o *owner) countActive() (n int) {
	for _, s := range o.subs {
		if s.status == wire.MCPEActive {
			n++
		}
	}
	return n
}

func (a *Adapter) limitReached() *refusal {
	return refuse(mcpewire.CodeLimitReached, "You have the maximum of %d active subscriptions; remove or pause one first.", a.o.MaxActive)
}

func (a *Adapter) subscribe(ctx context.Context, c *call) (any, *refusal) {
	r := c.owner.limits.subscribe.Reserve()
	if d := r.Delay(); d > 0 {
		r.Cancel()
		err := refuse(mcpewire.CodeInvalidParams, "Too many subscriptions at a time; try again in %v.", d.Round(time.Millisecond))
		err.Name, err.RetryAfterMs = wire.MCPERateLimited, max(d.Milliseconds(), 1)
		return nil, err
	}
	ch, err := a.parseChange(c.args, c.caller.Local)
	if err != nil {
		return nil, err
	}
	if ch.filter == nil {
		ch.filter = &mcpewire.Filter{}
	}
	if ch.plan == nil {
		if ch.plan, err = a.parseDelivery("delivery", nil); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	s := &subscription{id: newID(), owner: c.owner, filter: *ch.filter, handler: ch.handler, status: wire.MCPEActive,
		created: now, updated: now, expires: ch.expires, session: c.caller.Session}
	if s.session != "" {
		s.server = c.caller.ServerSession
	}
	a.mu.Lock()
	if c.owner.countActive() >= a.o.MaxActive || len(c.owner.subs) >= anyStatusFactor*a.o.MaxActive {
		a.mu.Unlock()
		return nil, a.limitReached()
	}
	rows, _ := s.setPlan(ch.plan, now)
	rows = append(rows, s.row())
	a.subs[s.id], c.owner.subs[s.id] = s, s
	a.mu.Unlock()
	if err := a.save(ctx, c.owner, rows, nil); err != nil {
		_ = a.remove(context.WithoutCancel(ctx), s)
		return nil, a.internal("storing a subscription", err)
	}
	warnings, err := a.watchFor(ctx, s, ch.filter)
	if err != nil {
		_ = a.remove(context.WithoutCancel(ctx), s)
		return nil, err
	}
	c.caller.AfterReply(func() { a.reveal(s) })
	a.mu.Lock()
	defer a.mu.Unlock()
	view := s.toWire()
	view.Warnings = append(view.Warnings, warnings...)
	return view, nil
}

// watchFor follows the types that a subscription's filter matches. It returns a refusal if the filter names a type that
// the caller may not follow. It skips such a type if only a wildcard matches it.
func (a *Adapter) watchFor(ctx context.Context, s *subscription, f *mcpewire.Filter) (warnings []string, _ *refusal) {
	principal := s.owner.principal
	err := a.reconcile(ctx, principal, f.EventTypes)
	var known *events.Error
	switch {
	case errors.As(err, &known) && known.Kind == wire.Forbidden:
		return nil, refuse(mcpewire.CodeUnauthorized, "You may not subscribe to all of these event types.")
	case errors.As(err, &known) && known.Kind == wire.InvalidParams:
		return nil, invalidField("filter.eventTypes", "one of these event types needs arguments, which MCPE cannot carry")
	case errors.As(err, &known):
		return nil, invalidField("filter.eventTypes", "one of these event types cannot be subscribed to")
	case err != nil:
		return nil, a.internal("following event types", err)
	}
	infos, bad := a.visibleTypes(ctx, principal)
	if bad != nil {
		return nil, a.internal("listing event types", bad)
	}
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Name
	}
	for _, p := range f.EventTypes {
		if !slices.ContainsFunc(infos, func(info events.Info) bool { return matchesType(p, info.Name) }) {
			warnings = append(warnings, "No event type matches "+p+" at present"+suggest.EventTypes(p, names)+".")
		}
	}
	return warnings, nil
}

func (a *Adapter) unsubscribe(ctx context.Context, c *call) (any, *refusal) {
	a.mu.Lock()
	s, err := a.findSubscription(c)
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := a.remove(ctx, s); err != nil {
		return nil, a.internal("removing a subscription", err)
	}
	return map[string]bool{"success": true}, nil
}

func (a *Adapter) list(ctx context.Context, c *call) (any, *refusal) {
	status, err := c.args.text("status")
	if err != nil {
		return nil, err
	}
	if status != "" && !slices.Contains([]string{wire.MCPEActive, wire.MCPEPaused, wire.MCPEExpired}, status) {
		return nil, invalidField("status", "%.32q is not one of active, paused, expired", status)
	}
	a.mu.Lock()
	var found []*subscription
	for _, s := range c.owner.subs {
		if status == "" || s.status == status {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(x, y *subscription) int { return cmp.Or(x.created.Compare(y.created), cmp.Compare(x.id, y.id)) })
	views := make([]*mcpewire.Subscription, len(found))
	keys, withdrawn := make([][]string, len(found)), make([][]string, len(found))
	for i, s := range found {
		v := s.toWire()
		var next time.Time
		for _, j := range s.jobs {
			keys[i] = append(keys[i], j.key)
			if !j.next.IsZero() && (next.IsZero() || j.next.Before(next)) {
				next = j.next
			}
		}
		if !next.IsZero() && s.status != wire.MCPEExpired {
			v.NextRun = stamp(next)
		}
		withdrawn[i] = slices.Clone(s.withdrawn)
		n := len(s.early)
		v.PendingEvents = &n
		views[i] = v
	}
	a.mu.Unlock()
	for i, v := range views {
		for _, key := range keys[i] {
			n, err := a.countPending(ctx, c.owner, key, withdrawn[i])
			if err != nil {
				return nil, a.internal("counting queued events", err)
			}
			*v.PendingEvents += n
		}
	}
	return map[string]any{"subscriptions": views}, nil
}
