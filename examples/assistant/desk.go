package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant/assistantserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// maxIncidents is the maximum number of incidents on the desk. If there are more, the oldest are deleted.
const maxIncidents = 200

// A desk stores the incidents and emits their events. It simulates an incident system. At every start, it is empty and
// numbers incidents from 1.
type desk struct {
	created  *assistantserver.IncidentCreatedEmitter
	resolved *assistantserver.IncidentResolvedEmitter
	log      *slog.Logger

	mu        sync.Mutex
	incidents []*incident
	last      int
}

type incident struct {
	assistant.IncidentCreatedPayload
	over bool
}

// newDesk registers the event types and the tools.
func newDesk(srv *mcp.Server, es *server.Server, log *slog.Logger) (d *desk, err error) {
	d = &desk{log: log}
	if d.created, err = assistantserver.RegisterIncidentCreated(es, assistantserver.IncidentCreatedHooks{}); err != nil {
		return nil, err
	}
	if d.resolved, err = assistantserver.RegisterIncidentResolved(es, assistantserver.IncidentResolvedHooks{}); err != nil {
		return nil, err
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "raise_incident", Description: "Raises an incident and tells everybody who subscribed to incident.created. All arguments are optional."}, d.raise)
	mcp.AddTool(srv, &mcp.Tool{Name: "resolve_incident", Description: "Ends an incident and tells everybody who subscribed to incident.resolved."}, d.resolve)
	return d, nil
}

// raiseInput is the input of raise_incident.
type raiseInput struct {
	Title    string `json:"title,omitempty" jsonschema:"what is wrong; default: an unnamed incident"`
	Severity string `json:"severity,omitempty" jsonschema:"P1 (worst), P2, P3 or P4; default P2"`
	Service  string `json:"service,omitempty" jsonschema:"what is affected; default checkout"`
}

// incidentResult is the result of raise_incident and resolve_incident.
type incidentResult struct {
	IncidentID string `json:"incidentId"`
}

// raise emits incident.created. A single Emit reaches the clients of all protocols.
func (d *desk) raise(ctx context.Context, _ *mcp.CallToolRequest, in raiseInput) (*mcp.CallToolResult, incidentResult, error) {
	p := assistant.IncidentCreatedPayload{
		Title: cmp.Or(in.Title, "Unnamed incident"), Severity: assistant.Severity(cmp.Or(in.Severity, "P2")), Service: cmp.Or(in.Service, "checkout"),
		OpenedAt: events.NewTime(time.Now().UTC()),
	}
	if !p.Severity.Known() {
		return nil, incidentResult{}, fmt.Errorf("severity %q is none of P1, P2, P3, P4", in.Severity)
	}
	d.mu.Lock()
	d.last++
	p.IncidentID = fmt.Sprintf("INC-%d", d.last)
	d.incidents = append(d.incidents, &incident{IncidentCreatedPayload: p})
	d.incidents = d.incidents[max(0, len(d.incidents)-maxIncidents):]
	d.mu.Unlock()
	if err := d.created.Emit(ctx, p); err != nil {
		d.logEmitError(ctx, p.IncidentID, err)
	}
	return nil, incidentResult{p.IncidentID}, nil
}

// resolveInput is the input of resolve_incident.
type resolveInput struct {
	IncidentID string `json:"incidentId,omitempty" jsonschema:"the incident; default the last one that is open"`
}

func (d *desk) resolve(ctx context.Context, _ *mcp.CallToolRequest, in resolveInput) (*mcp.CallToolResult, incidentResult, error) {
	i, err := d.markResolved(in.IncidentID)
	if err != nil {
		return nil, incidentResult{}, err
	}
	if err := d.resolved.Emit(ctx, assistant.IncidentResolvedPayload{IncidentID: i, ResolvedAt: events.NewTime(time.Now().UTC())}); err != nil {
		d.logEmitError(ctx, i, err)
	}
	return nil, incidentResult{i}, nil
}

// logEmitError logs that an event was not emitted. The tool has succeeded and must not return an error, because a model
// would then repeat the call.
func (d *desk) logEmitError(ctx context.Context, incident string, err error) {
	d.log.ErrorContext(ctx, "subscribers were not told of an incident", "incident", incident, "error", err)
}

// markResolved marks an incident as resolved and returns its id.
func (d *desk) markResolved(id string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range slices.Backward(d.incidents) {
		if !i.over && (id == "" || i.IncidentID == id) {
			i.over = true
			return i.IncidentID, nil
		}
	}
	return "", errors.New("there is no such open incident")
}

// list returns a copy of the incidents of a service, or of all services if service is empty.
func (d *desk) list(service string) (all []incident) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.incidents {
		if service == "" || i.Service == service {
			all = append(all, *i)
		}
	}
	return all
}
