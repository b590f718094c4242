package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// AddReadTools registers on the mcp.Server one tool for each descriptor, which reads the next
// occurrences of its event type by cursor: events/poll for clients that know no events. Principal,
// visibility and authorization are those of a poll; tools/list leaves out the tools of types that
// are hidden from the caller or removed (LIST-4). The types must be registered before their tools:
// nothing is added when one is not, or when one descriptor is unusable.
func (s *Server) AddReadTools(tools ...readtool.Tool) error {
	if s.mcp == nil {
		return errors.New("adding read tools: a server that only emits serves no tools")
	}
	if missing := s.unregistered(tools); len(missing) > 0 {
		return fmt.Errorf("adding read tools: register the event types first; not registered: %s", strings.Join(missing, ", "))
	}
	for _, t := range tools {
		if err := checkTool(&t); err != nil {
			return fmt.Errorf("adding read tool %q: %w", t.Tool.Name, err)
		}
	}
	for _, t := range tools {
		descriptor := t.Tool
		s.reads.Store(descriptor.Name, t.Event)
		s.mcp.AddTool(&descriptor, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.answerTool(ctx, t.Tool.Name, req, func(ctx context.Context, principal string, req *mcp.CallToolRequest) (json.RawMessage, error) {
				return s.readNext(ctx, principal, &t, req)
			})
		})
	}
	return nil
}

// unregistered lists the events of tools that the server does not have. An empty name is checkTool's.
func (s *Server) unregistered(tools []readtool.Tool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []string
	for _, t := range tools {
		if s.types[t.Event] == nil && t.Event != "" && !slices.Contains(missing, t.Event) {
			missing = append(missing, t.Event)
		}
	}
	return missing
}

// shownTools is a page of tools/list without the read tools of event types that the caller cannot
// see (LIST-4). What is left depends on the caller, so no cache may give it to another.
func (s *Server) shownTools(ctx context.Context, req mcp.Request, page *mcp.ListToolsResult) *mcp.ListToolsResult {
	principal, _ := s.authenticate(ctx, req.GetExtra())
	shown := *page
	shown.Tools = make([]*mcp.Tool, 0, len(page.Tools)) // never null
	for _, t := range page.Tools {
		event, ok := s.reads.Load(t.Name)
		waits := t.Name == WaitTool && s.waits.Load()
		if !ok && !waits {
			shown.Tools = append(shown.Tools, t)
			continue
		}
		if s.options.Visible != nil {
			shown.CacheScope = "private"
		}
		if waits {
			shown.Tools = append(shown.Tools, s.describeWaitTool(ctx, principal, t))
			continue
		}
		if _, _, err := s.lookup(ctx, principal, event.(string)); err == nil {
			shown.Tools = append(shown.Tools, t)
		} else {
			s.log.Internal(ctx, "listing tool "+t.Name, err)
		}
	}
	return &shown
}

// checkTool refuses what the SDK would panic on and what could not work.
func checkTool(t *readtool.Tool) error {
	switch {
	case t.Event == "":
		return errors.New("it names no event")
	case t.Tool.Name == "":
		return errors.New("it has no name")
	case t.CursorArgument == "" || t.MaxEventsArgument == "" || t.CursorArgument == t.MaxEventsArgument:
		return errors.New("it needs two different argument names for cursor and maxEvents")
	case t.WaitArgument != "" && (t.WaitArgument == t.CursorArgument || t.WaitArgument == t.MaxEventsArgument):
		return errors.New("it needs another argument name for how long to wait")
	}
	b, err := json.Marshal(t.Tool.InputSchema)
	if err != nil {
		return fmt.Errorf("inputSchema: %w", err)
	}
	var in struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(b, &in); err != nil || in.Type != "object" {
		return errors.New(`inputSchema must be an object schema with "type": "object"`)
	}
	if t.Tool.OutputSchema != nil {
		if _, err := json.Marshal(t.Tool.OutputSchema); err != nil {
			return fmt.Errorf("outputSchema: %w", err)
		}
	}
	return nil
}

// readNext is a read tool.
func (s *Server) readNext(ctx context.Context, principal string, t *readtool.Tool, req *mcp.CallToolRequest) (json.RawMessage, error) {
	p, err := toolParams(t, req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	if p.TimeoutMs != nil {
		if wait := s.toolWait(topic.Milliseconds(*p.TimeoutMs)); wait > 0 {
			return s.waitForOne(ctx, principal, p, wait, req)
		}
		*p.TimeoutMs = 0
	}
	a, err := s.pollAnswer(ctx, principal, p)
	if err != nil {
		return nil, err
	}
	return a.encodeForTool(), nil
}

// waitForOne is a read tool that waits. Without a cursor it waits from now on, where a poll would return the cursor.
func (s *Server) waitForOne(ctx context.Context, principal string, p *wire.PollParams, wait time.Duration, req *mcp.CallToolRequest) (json.RawMessage, error) {
	ctx = hook.WithPrincipal(ctx, principal)
	q, err := s.toolPoll(ctx, principal, p, wait)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	w, _, err := s.await(ctx, []*pollRequest{q}, q.limit, began.Add(wait), s.progressOf(req, began, wait, []string{p.Name}))
	if err != nil {
		return nil, err
	}
	r := w.readers[0]
	a := pollAnswer{out: w.taken, cursor: r.a.cursor, truncated: w.truncated(), more: w.more(), nextPoll: q.args.def.options.nextPoll}
	if r.check != nil && r.check.NextPoll() > 0 {
		a.nextPoll = r.check.NextPoll()
	}
	return a.encodeForTool(), nil
}

// toolParams splits a tool's arguments into those of a poll and those of the event type. How long to wait is
// TimeoutMs, nil when the caller does not say.
func toolParams(t *readtool.Tool, raw json.RawMessage) (*wire.PollParams, error) {
	members, err := toolMembers(raw)
	if err != nil {
		return nil, err
	}
	p := &wire.PollParams{Name: t.Event}
	if p.Cursor, err = textArgument(members, t.CursorArgument); err != nil {
		return nil, err
	}
	if p.MaxEvents, err = limitArgument(members, t.MaxEventsArgument); err != nil {
		return nil, err
	}
	if t.WaitArgument != "" {
		seconds, err := waitArgument(members, t.WaitArgument)
		if err != nil {
			return nil, err
		}
		if seconds != nil {
			ms := *seconds * time.Second.Milliseconds()
			p.TimeoutMs = &ms
		}
	}
	if p.Arguments, err = json.Marshal(members); err != nil {
		return nil, events.Invalid(events.FieldError{Message: "is not valid JSON"})
	}
	return p, nil
}
