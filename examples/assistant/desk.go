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
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// maxIncidents is the number of incidents that the desk remembers; it forgets the oldest.
const maxIncidents = 200

// A desk keeps the incidents and emits their events. It is the example's stand-in for an incident system: it starts
// empty, and numbers incidents from 1, at every start.
type desk struct {
	created  *assistant.IncidentCreatedEmitter
	resolved *assistant.IncidentResolvedEmitter
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
	if d.created, err = assistant.RegisterIncidentCreated(es, assistant.IncidentCreatedHooks{}); err != nil {
		return nil, err
	}
	if d.resolved, err = assistant.RegisterIncidentResolved(es, assistant.IncidentResolvedHooks{}); err != nil {
		return nil, err
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "raise_incident", Description: "Raises an incident and tells everybody who subscribed to incident.created. All arguments are optional."}, d.raise)
	mcp.AddTool(srv, &mcp.Tool{Name: "resolve_incident", Description: "Ends an incident and tells everybody who subscribed to incident.resolved."}, d.resolve)
	return d, nil
}

// raising are the arguments of raise_incident.
type raising struct {
	Title    string `json:"title,omitempty" jsonschema:"what is wrong; default: an unnamed incident"`
	Severity string `json:"severity,omitempty" jsonschema:"P1 (worst), P2, P3 or P4; default P2"`
	Service  string `json:"service,omitempty" jsonschema:"what is affected; default checkout"`
}

// raised is the result of raise_incident.
type raised struct {
	IncidentID string `json:"incidentId"`
}

// raise emits incident.created: one Emit for the clients of every protocol.
func (d *desk) raise(ctx context.Context, _ *mcp.CallToolRequest, in raising) (*mcp.CallToolResult, raised, error) {
	p := assistant.IncidentCreatedPayload{
		Title: cmp.Or(in.Title, "Unnamed incident"), Severity: assistant.Severity(cmp.Or(in.Severity, "P2")), Service: cmp.Or(in.Service, "checkout"),
		OpenedAt: events.NewTime(time.Now().UTC()),
	}
	if !p.Severity.Known() {
		return nil, raised{}, fmt.Errorf("severity %q is none of P1, P2, P3, P4", in.Severity)
	}
	d.mu.Lock()
	d.last++
	p.IncidentID = fmt.Sprintf("INC-%d", d.last)
	d.incidents = append(d.incidents, &incident{IncidentCreatedPayload: p})
	d.incidents = d.incidents[max(0, len(d.incidents)-maxIncidents):]
	d.mu.Unlock()
	if err := d.created.Emit(ctx, p); err != nil {
		d.unsaid(ctx, p.IncidentID, err)
	}
	return nil, raised{p.IncidentID}, nil
}

// resolving are the arguments of resolve_incident.
type resolving struct {
	IncidentID string `json:"incidentId,omitempty" jsonschema:"the incident; default the last one that is open"`
}

func (d *desk) resolve(ctx context.Context, _ *mcp.CallToolRequest, in resolving) (*mcp.CallToolResult, raised, error) {
	i, err := d.end(in.IncidentID)
	if err != nil {
		return nil, raised{}, err
	}
	if err := d.resolved.Emit(ctx, assistant.IncidentResolvedPayload{IncidentID: i, ResolvedAt: events.NewTime(time.Now().UTC())}); err != nil {
		d.unsaid(ctx, i, err)
	}
	return nil, raised{i}, nil
}

// unsaid logs that an event was not emitted. The tool has done its work and does not fail: a model that reads an error
// would repeat the work.
func (d *desk) unsaid(ctx context.Context, incident string, err error) {
	d.log.ErrorContext(ctx, "subscribers were not told of an incident", "incident", incident, "error", err)
}

// end marks an incident as resolved and returns its id.
func (d *desk) end(id string) (string, error) {
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

// all returns a copy of the incidents of a service, or of all if service is empty.
func (d *desk) all(service string) (all []incident) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.incidents {
		if service == "" || i.Service == service {
			all = append(all, *i)
		}
	}
	return all
}
