package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
	"github.com/mcpe-gen/mcpe-gen/internal/toolargs"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

const (
	// maxTypes is the maximum number of event types to list per server. maxSchema is the maximum size of each schema.
	maxTypes  = 200
	maxSchema = 4 << 10
)

// A listedType is an event type in the result of events_list.
type listedType struct {
	Server      string          `json:"server"`
	Event       string          `json:"event"`
	Description string          `json:"description,omitempty"`
	Arguments   string          `json:"arguments"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Joins       bool            `json:"joinsBursts,omitempty"`
	Allowed     bool            `json:"allowed"`
}

// A listedServer is a server whose event types could not be listed completely.
type listedServer struct {
	Server  string `json:"server"`
	Problem string `json:"problem"`
}

func (g *guest) list(ctx context.Context, in struct{ Server string }) (any, error) {
	servers := g.e.c.Servers
	if in.Server != "" {
		s, ok := g.e.c.Server(in.Server)
		if !ok {
			return nil, g.unknownServer(in.Server)
		}
		servers = []config.Server{s}
	}
	types := make([][]listedType, len(servers))
	problems := make([]error, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { types[i], problems[i] = g.listServer(ctx, s.Name) })
	}
	asking.Wait()
	out := struct {
		Notice   string         `json:"notice"`
		Types    []listedType   `json:"types"`
		Problems []listedServer `json:"problems,omitempty"`
	}{Notice: notice, Types: []listedType{}}
	for i, s := range servers {
		out.Types = append(out.Types, types[i]...)
		if problems[i] != nil {
			out.Problems = append(out.Problems, listedServer{s.Name, plain.Text(plain.Cut(problems[i].Error(), maxText))})
		}
	}
	return out, nil
}

func (g *guest) unknownServer(name string) error {
	var names []string
	for _, s := range g.e.c.Servers {
		names = append(names, s.Name)
	}
	return fmt.Errorf("server: there is no %q; the servers are %s", name, strings.Join(names, ", "))
}

// catalog returns the event types of a server.
func (g *guest) catalog(ctx context.Context, server string) ([]client.Descriptor, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	defer context.AfterFunc(g.e.ctx, cancel)()
	c, err := g.e.servers[server].client(ctx)
	if err != nil {
		return nil, err
	}
	return c.List(ctx)
}

func (g *guest) listServer(ctx context.Context, name string) ([]listedType, error) {
	catalog, err := g.catalog(ctx, name)
	if err != nil {
		return nil, err
	}
	var all []listedType
	for _, d := range catalog {
		if len(all) == maxTypes {
			return all, fmt.Errorf("it has %d event types; only %d are shown", len(catalog), maxTypes)
		}
		all = append(all, g.listed(name, d))
	}
	return all, nil
}

func (g *guest) listed(server string, d client.Descriptor) listedType {
	coalesce, err := wire.CoalesceOf(d.Meta)
	k := listedType{Server: server, Event: plain.Cut(d.Name, maxText), Description: plain.Cut(d.Description, maxText),
		Arguments: plain.Cut(peer.DescribeArguments(d.InputSchema), maxText), Joins: coalesce != nil && err == nil, Allowed: g.e.c.Allowed(server, d.Name)}
	if len(d.InputSchema) <= maxSchema {
		k.InputSchema = d.InputSchema
	}
	return k
}

type subscribeParams struct {
	Server, Event string
	Arguments     json.RawMessage
	QuietSeconds  *int
}

func (g *guest) subscribe(ctx context.Context, in subscribeParams) (any, error) {
	if _, ok := g.e.c.Server(in.Server); !ok {
		return nil, g.unknownServer(in.Server)
	}
	allowed := g.e.c.Allowed(in.Server, in.Event)
	var catalog []client.Descriptor
	if !allowed || len(in.Arguments) > 0 {
		catalog, _ = g.catalog(ctx, in.Server) // without it, the server refuses what is wrong
	}
	i := slices.IndexFunc(catalog, func(d client.Descriptor) bool { return d.Name == in.Event })
	if i >= 0 {
		in.Arguments = toolargs.Decode(catalog[i].InputSchema, in.Arguments)
	}
	form, ok := config.Canonical(in.Arguments)
	if !ok {
		return nil, errors.New("arguments: they must be a JSON object without repeated names")
	}
	s := config.Subscription{Server: in.Server, Event: in.Event, Arguments: form, Mode: "auto"}
	if in.QuietSeconds != nil {
		s.Coalesce = &config.Coalesce{Off: *in.QuietSeconds == 0, QuietSeconds: *in.QuietSeconds}
	}
	if g.e.feed(feedID(s)) == nil && !allowed {
		if len(catalog) > 0 && i < 0 {
			return nil, fmt.Errorf("event: %w", unknownEvent(in.Server, in.Event, catalog))
		}
		return nil, fmt.Errorf("event: the configuration of the bridge does not allow subscriptions to %s of %s; its owner can add it to \"allow\"", in.Event, in.Server)
	}
	f, was, err := g.e.subscribe(ctx, s)
	if err != nil {
		return nil, err
	}
	return struct {
		Notice       string          `json:"notice"`
		Was          bool            `json:"subscribedAlready,omitempty"`
		Subscription subscriptionRow `json:"subscription"`
	}{notice, was, g.row(f)}, nil
}

// unknownEvent returns the error for an event type that is not in a server's catalog.
func unknownEvent(server, event string, catalog []client.Descriptor) *refusal {
	names := make([]string, len(catalog))
	for i, d := range catalog {
		names[i] = d.Name
	}
	return &refusal{fmt.Sprintf("%s has no event type %q%s", server, event, suggest.EventTypes(event, names))}
}

func (g *guest) unsubscribe(_ context.Context, in struct{ Subscription string }) (any, error) {
	f, err := g.feedOf(in.Subscription)
	if err != nil {
		return nil, err
	}
	if !f.agents {
		return nil, fmt.Errorf("subscription: %s is of the bridge's configuration, and only its owner ends it", f.id)
	}
	if err := g.e.unsubscribe(f); err != nil {
		return nil, err
	}
	return map[string]any{"unsubscribed": f.id}, nil
}

// feedOf returns the feed that a call refers to.
func (g *guest) feedOf(id string) (*feed, error) {
	if f := g.e.feed(id); f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("subscription: there is no %q; events_subscriptions shows them", plain.Cut(id, 64))
}

// A subscriptionRow is a subscription in the result of events_subscriptions.
type subscriptionRow struct {
	Subscription string          `json:"subscription"`
	Server       string          `json:"server"`
	Event        string          `json:"event"`
	Arguments    json.RawMessage `json:"arguments"`
	MadeBy       string          `json:"madeBy"`
	State        phase           `json:"state"`
	Problem      string          `json:"problem,omitempty"`
	Mode         string          `json:"mode,omitempty"`
	Joins        bool            `json:"joinsBursts,omitempty"`
	Received     int             `json:"receivedSinceStart"`
	Gaps         int             `json:"gapsSinceStart,omitempty"`
	Unread       int             `json:"unread"`
	// WakesPaused is the time at which wakes were paused because they seemed to form a loop.
	WakesPaused time.Time `json:"wakesPausedSince,omitzero"`
}

func (g *guest) row(f *feed) subscriptionRow {
	st := f.status()
	r := subscriptionRow{Subscription: f.id, Server: f.sub.Server, Event: f.sub.Event, Arguments: f.sub.Arguments, MadeBy: "configuration",
		State: st.phase, Mode: st.mode, Joins: st.joins, Received: st.added, Gaps: st.gaps, Unread: g.reader.Count(subscriptionFilter(f.id)), WakesPaused: f.breaker.pausedSince()}
	if f.agents {
		r.MadeBy = "agent"
	}
	if st.problem != nil {
		r.Problem = plain.Text(plain.Cut(st.problem.Error(), maxText))
	}
	return r
}

// resume ends the pauses of all wakes at the user's request.
func (g *guest) resume(context.Context, json.RawMessage) (any, error) {
	var out resumeResult
	for _, f := range g.e.sortedFeeds() {
		if f.resume("the user says so") {
			out.Resumed = append(out.Resumed, f.name())
		}
	}
	return out, nil
}

// A resumeResult lists the subscriptions whose wakes were resumed.
type resumeResult struct {
	Resumed []string `json:"resumed"`
}

// subscriptionFilter returns a filter for the batches of a subscription. If subscription is "", it returns nil, which
// accepts all batches.
func subscriptionFilter(subscription string) func(*inbox.Batch, inbox.Mark) bool {
	if subscription == "" {
		return nil
	}
	return func(b *inbox.Batch, _ inbox.Mark) bool { return b.Subscription == subscription }
}

func (g *guest) subscriptions(context.Context, json.RawMessage) (any, error) {
	type inboxRow struct {
		Unread int    `json:"unread"`
		Limit  int    `json:"limit"`
		Full   bool   `json:"full"`
		Note   string `json:"note,omitempty"`
	}
	type bridgeRow struct {
		PID     int    `json:"pid"`
		Windows int    `json:"windows"`
		Note    string `json:"note,omitempty"`
	}
	out := struct {
		Notice        string            `json:"notice"`
		Subscriptions []subscriptionRow `json:"subscriptions"`
		Inbox         inboxRow          `json:"inbox"`
		Bridge        bridgeRow         `json:"bridge"`
	}{Notice: notice, Subscriptions: []subscriptionRow{}}
	for _, f := range g.e.sortedFeeds() {
		out.Subscriptions = append(out.Subscriptions, g.row(f))
	}
	box := g.e.state.box
	out.Inbox = inboxRow{Unread: g.reader.Count(nil), Limit: g.e.c.Limits.Inbox}
	if n := box.Waiting(); n > 0 {
		out.Inbox.Full = true
		out.Inbox.Note = fmt.Sprintf("The inbox is full: %d subscriptions wait until something is read. Servers keep events for a limited time.", n)
	}
	out.Bridge = bridgeRow{PID: os.Getpid(), Windows: g.h.windowCount()}
	if g.differs {
		out.Bridge.Note = "This window was started with another configuration. That of the process above counts until it ends."
	}
	return out, nil
}
