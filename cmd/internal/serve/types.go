package serve

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// An eventType is an event type that the server serves.
type eventType struct {
	name string
	emit *server.Emitter[json.RawMessage]
	// samples are generated payloads.
	samples []json.RawMessage
}

// TypeOf returns an event type of an event file. Its arguments and payloads remain JSON. The type is for emitted
// events, regardless of its source.
func TypeOf(set *schema.Set, e *schema.Event) (events.Type[json.RawMessage, json.RawMessage], error) {
	input, payload := set.Shared(e.Input), set.Shared(e.Payload)
	info := events.Info{Name: e.Name, Description: e.Description, Delivery: e.Delivery, NoReplay: !e.Replay,
		InputSchema: input.JSON(), PayloadSchema: payload.JSON()}
	*published.Of(&info) = published.Description{Input: input, Payload: payload, Private: e.Private}
	for _, m := range e.Match {
		info.Match = append(info.Match, events.MatchRule{Argument: m.Argument, Path: m.Path, Op: events.MatchOp(m.Op), Not: m.Not})
	}
	t := events.Type[json.RawMessage, json.RawMessage]{Info: info}
	if e.Meta != nil {
		if err := json.Unmarshal(set.Published(e.Meta), &t.Meta); err != nil {
			return t, fmt.Errorf("%s: _meta: %w", e.Name, err)
		}
	}
	if t.Meta == nil && (e.Coalesce != nil || e.Actor != "") {
		t.Meta = map[string]any{}
	}
	if e.Coalesce != nil {
		t.Meta[wire.MetaCoalesce] = e.Coalesce
	}
	if e.Actor != "" {
		t.Meta[wire.MetaActor] = e.Actor
	}
	var err error
	t.Fingerprint, err = set.Fingerprint(input, payload)
	return t, err
}

// readTool returns the read tool of an event type with the names from its event file. It returns false if the type's
// arguments conflict with those of the tool.
func readTool(e *schema.Event, info events.Info) (readtool.Tool, bool) {
	n := e.ToolNames()
	input, err := toolschema.InputSchema(info.InputSchema, n.ArgumentNames)
	if err != nil {
		return readtool.Tool{}, false
	}
	tool := readtool.New(info, n.Name, n.Cursor, n.MaxEvents)
	tool.WaitArgument, tool.QuietArgument, tool.SinceArgument, tool.Tool.InputSchema = n.Wait, n.Quiet, n.Since, input
	return tool, true
}

// registerTypes registers all event types of the files except those without a usable delivery mode.
func (t *trial) registerTypes() error {
	for _, set := range t.o.Sets {
		for _, f := range set.Files {
			for _, e := range f.Events {
				if err := t.add(set, e); err != nil {
					return err
				}
			}
		}
	}
	if len(t.types) == 0 {
		return cli.Refusef("the event files have no event types that can be served")
	}
	// Add read tools for clients that do not support events.
	if err := t.es.AddReadTools(t.tools...); err != nil {
		return err
	}
	return t.es.AddWaitTool()
}

func (t *trial) add(set *schema.Set, e *schema.Event) error {
	if t.typesByName[e.Name] != nil {
		return cli.Refusef("%s: another file has the event type %s as well; serve only one of the two files", e.File.Path, e.Name)
	}
	typ, err := TypeOf(set, e)
	if err != nil {
		return err
	}
	if slices.Equal(typ.Delivery, []string{wire.ModeWebhook}) && t.o.Token == "" {
		t.warn("%s is left out: it is delivered by webhook only, which needs --http and --token", e.Name)
		return nil
	}
	var more []server.TypeOption
	if typ.NoReplay && slices.Contains(typ.Delivery, wire.ModePoll) {
		more = append(more, server.WithPollWithoutReplay())
	}
	s := &eventType{name: e.Name}
	if s.emit, err = server.Register(t.es, typ, server.Hooks[json.RawMessage, json.RawMessage]{}, more...); err != nil {
		return fmt.Errorf("%s: %w", e.File.Path, err)
	}
	if t.o.Sample > 0 {
		s.samples = t.samples.Values(set.Shared(e.Payload), maxSamples)
	}
	if t.o.Sample > 0 && len(s.samples) == 0 {
		t.warn("%s has no samples: none was found that fits its payloadSchema", e.Name)
	}
	if tool, ok := readTool(e, typ.Info); ok {
		t.tools = append(t.tools, tool)
	}
	t.types = append(t.types, s)
	t.typesByName[e.Name] = s
	return nil
}
