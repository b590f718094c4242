package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
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
			return s.readTool(ctx, &t, req)
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
		if !ok {
			shown.Tools = append(shown.Tools, t)
			continue
		}
		if s.options.Visible != nil {
			shown.CacheScope = "private"
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

// readTool answers one call; refusals are tool errors, so that a model can read them.
func (s *Server) readTool(ctx context.Context, t *readtool.Tool, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	principal, _ := s.authenticate(ctx, req.Extra)
	res, err := s.readNext(ctx, principal, t, req.Params.Arguments)
	if err != nil {
		s.log.Internal(ctx, "tool "+t.Tool.Name, err)
		o := fault.Object(err, wire.Sketch)
		text := o.Message
		if len(o.Data) > 0 {
			text += ": " + string(o.Data)
		}
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
	return &mcp.CallToolResult{StructuredContent: res, Content: []mcp.Content{&mcp.TextContent{Text: string(res)}}}, nil
}

func (s *Server) readNext(ctx context.Context, principal string, t *readtool.Tool, raw json.RawMessage) (json.RawMessage, error) {
	p, err := toolParams(t, raw)
	if err != nil {
		return nil, err
	}
	a, err := s.pollAnswer(ctx, principal, p)
	if err != nil {
		return nil, err
	}
	return a.encode(false), nil
}

// toolParams splits a tool's arguments into those of a poll and those of the event type.
func toolParams(t *readtool.Tool, raw json.RawMessage) (*wire.PollParams, error) {
	canonical, err := wire.Canonical(raw) // refuses duplicates before they are lost in a map
	if err != nil {
		return nil, fault.InvalidArguments(err)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(canonical, &members); err != nil {
		return nil, events.Invalid(events.FieldError{Message: "must be an object"})
	}
	p := &wire.PollParams{Name: t.Event}
	if v, ok := members[t.CursorArgument]; ok && v.Kind() != 'n' {
		var cursor string
		if json.Unmarshal(v, &cursor) != nil {
			return nil, events.Invalid(events.FieldError{Path: wire.Pointer(t.CursorArgument), Message: "must be a string or null"})
		}
		p.Cursor = &cursor
	}
	if v, ok := members[t.MaxEventsArgument]; ok && v.Kind() != 'n' {
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n < 1 {
			return nil, events.Invalid(events.FieldError{Path: wire.Pointer(t.MaxEventsArgument), Message: "must be an integer of at least 1"})
		}
		p.MaxEvents = &n
	}
	delete(members, t.CursorArgument)
	delete(members, t.MaxEventsArgument)
	if p.Arguments, err = json.Marshal(members); err != nil {
		return nil, events.Invalid(events.FieldError{Message: "is not valid JSON"})
	}
	return p, nil
}
