package mcpe

import (
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/cron"
)

// A schema is a JSON Schema. Its members are encoded in sorted order, so equal schemas have the same encoding.
type schema map[string]any

func text(description string) schema { return schema{"type": "string", "description": description} }

func list(items schema, description string) schema {
	return schema{"type": "array", "items": items, "description": description}
}

func members(description string, properties schema, required ...string) schema {
	s := schema{"type": "object", "properties": properties}
	if description != "" {
		s["description"] = description
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func oneOf(values []string, description string) schema {
	return schema{"type": "string", "enum": values, "description": description}
}

// filterSchema returns the schema of a filter, including the types that the caller may see (MCPE-TOOL-1).
func filterSchema(infos []events.Info) schema {
	var known []any
	for _, info := range infos {
		known = append(known, schema{"const": info.Name, "description": info.Description})
	}
	for _, p := range wildcards(infos) {
		var names []string
		for _, info := range infos {
			if matchesType(p, info.Name) {
				names = append(names, info.Name)
			}
		}
		known = append(known, schema{"const": p, "description": "Every type that begins with " + strings.TrimSuffix(p, "*") + " - " + strings.Join(names, ", ")})
	}
	known = append(known, schema{"const": "*", "description": "Every type."},
		schema{"type": "string", "description": "Another type, or a prefix that ends in a dot and a star."})
	return members("Which events to receive: all given fields must match, any value within a field may. An absent or empty field matches everything.", schema{
		"eventTypes": list(schema{"anyOf": known}, "Event types, exact or with a trailing wildcard."),
		"tags":       list(schema{"type": "string"}, "Events with any of these tags."),
		"priority":   list(oneOf(priorities, ""), "Events of any of these priorities."),
	})
}

// wildcards returns all wildcards that match at least one type, in sorted order.
func wildcards(infos []events.Info) []string {
	var all []string
	for _, info := range infos {
		for i, c := range info.Name {
			if c == '.' && i > 0 {
				all = append(all, info.Name[:i+1]+"*")
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (a *Adapter) deliverySchema() schema {
	channels := a.o.channels()
	about := map[string]string{
		wire.MCPERealtime:  "realtime: each event immediately",
		wire.MCPECron:      "cron: collected, repeatedly by cronSchedule",
		wire.MCPEScheduled: "scheduled: collected, once at scheduledDelivery.deliverAt",
	}
	var lines []string
	for _, c := range channels {
		lines = append(lines, about[c])
	}
	zone := text("IANA time zone, such as Europe/Berlin; default UTC.")
	p := schema{"channels": list(oneOf(channels, ""), "How to deliver, one or more of: "+strings.Join(lines, "; ")+".")}
	if !a.o.WithoutCron {
		p["cronSchedule"] = members("When the channel cron delivers.", schema{
			"expression":           text("Five fields (minute hour day month weekday), six with seconds in front, or one of " + strings.Join(cron.Presets, " ") + "."),
			"timezone":             zone,
			"aggregateEvents":      schema{"type": "boolean", "description": "One notification for all events (default), or one for each."},
			"maxEventsPerDelivery": schema{"type": "integer", "minimum": 1, "description": "Largest number of events in one notification; default 100."},
		}, "expression")
	}
	if !a.o.WithoutScheduled {
		p["scheduledDelivery"] = members("When the channel scheduled delivers.", schema{
			"deliverAt":       schema{"type": "string", "format": "date-time", "description": "RFC 3339, with any offset."},
			"timezone":        zone,
			"description":     text("Purpose of the delivery."),
			"aggregateEvents": schema{"type": "boolean", "description": "One notification for all events (default), or one for each."},
			"autoExpire":      schema{"type": "boolean", "description": "The subscription expires after the delivery (default)."},
		}, "deliverAt")
	}
	return members("How events are delivered; absent means realtime.", p)
}

// handlerSchema returns the schema of the allowed handler kinds, or nil if none are allowed.
func (a *Adapter) handlerSchema() schema {
	var kinds []string
	for _, k := range []string{wire.MCPEBash, wire.MCPEWebhook, wire.MCPEAgent} {
		if a.kinds[k] != nil {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	p := schema{"type": oneOf(kinds, "An action for each event, in addition to the notification."),
		"timeout": schema{"type": "integer", "minimum": 0, "description": "Milliseconds."}}
	if b, ok := a.kinds[wire.MCPEBash].(*bash); ok {
		p["command"] = oneOf(slices.Clone(b.o.Allow), "For bash: the command, run without a shell.")
		p["args"] = list(schema{"type": "string"}, "For bash: its arguments.")
		p["cwd"] = text("For bash: working directory.")
		p["env"] = schema{"type": "object", "additionalProperties": schema{"type": "string"}, "description": "For bash: variables."}
		p["input"] = oneOf([]string{inputStdin, inputEnv, inputArgs}, "For bash: how it gets the event; default stdin.")
	}
	if a.kinds[wire.MCPEWebhook] != nil {
		p["url"] = schema{"type": "string", "format": "uri", "description": "For webhook: where events are posted."}
		p["headers"] = schema{"type": "object", "additionalProperties": schema{"type": "string"}, "description": "For webhook: headers of the request."}
	}
	if a.kinds[wire.MCPEAgent] != nil {
		p["systemPrompt"] = text("For agent.")
		p["model"] = text("For agent: the model to prefer.")
		p["instructions"] = text("For agent: what to do with the event.")
		p["tools"] = list(schema{"type": "string"}, "For agent: tools that it may use.")
		p["maxTokens"] = schema{"type": "integer", "minimum": 1, "description": "For agent."}
	}
	return members("An action that the server runs for each event; null means no action.", p, "type")
}

// changeSchema returns the schemas of the subscription members that a client can set.
func (a *Adapter) changeSchema(infos []events.Info) schema {
	p := schema{"filter": filterSchema(infos), "delivery": a.deliverySchema()}
	if !a.o.WithoutExpiration {
		p["expiresAt"] = schema{"type": []string{"string", "null"}, "format": "date-time", "description": "When the subscription expires; null means never."}
	}
	if h := a.handlerSchema(); h != nil {
		h["type"] = []string{"object", "null"}
		p["handler"] = h
	}
	return p
}

var subscriptionID = text("The id that events_subscribe returned.")

// tools returns the MCPE tools. Their descriptions list the event types that the caller may see (MCPE-TOOL-1).
func (a *Adapter) tools(infos []events.Info) []*mcp.Tool {
	id := members("", schema{"subscriptionId": subscriptionID}, "subscriptionId")
	updates := members("What to change.", a.changeSchema(infos))
	update := a.changeSchema(infos)
	update["subscriptionId"], update["updates"] = subscriptionID, updates
	yes, no := true, false
	tool := func(name, title, description string, input, output schema, hints mcp.ToolAnnotations) *mcp.Tool {
		hints.Title, hints.OpenWorldHint = title, &no
		return &mcp.Tool{Name: name, Title: title, Description: description, InputSchema: encode(input), OutputSchema: encode(output), Annotations: &hints}
	}
	all := []*mcp.Tool{
		tool(wire.MCPEToolSubscribe, "Subscribe to events",
			"Create a subscription to events of this server. Events then arrive as notifications until the subscription is removed or expires. Returns the subscription with its id.",
			members("", a.changeSchema(infos)), subscriptionSchema(), mcp.ToolAnnotations{DestructiveHint: &no}),
		tool(wire.MCPEToolUnsubscribe, "Unsubscribe from events", "Remove one of your subscriptions, with its pending events.",
			id, outcomeSchema(), mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true}),
		tool(wire.MCPEToolList, "List event subscriptions", "List your subscriptions, with the number of pending events and the next run of each.",
			members("", schema{"status": oneOf([]string{wire.MCPEActive, wire.MCPEPaused, wire.MCPEExpired}, "Only subscriptions with this status.")}),
			resultSchema(schema{"subscriptions": schema{"type": "array", "items": subscriptionSchema()}}), mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}),
		tool(wire.MCPEToolUpdate, "Change an event subscription", "Change the filter, delivery or expiry of one of your subscriptions. A given value replaces the old one completely; absent values stay unchanged.",
			members("", update, "subscriptionId"), subscriptionSchema(), mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true}),
	}
	if !a.o.WithoutPause {
		all = append(all,
			tool(wire.MCPEToolPause, "Pause an event subscription", "Stop delivery of one of your subscriptions. Realtime events are dropped while it is paused; collected ones are kept.",
				id, outcomeSchema(), mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true}),
			tool(wire.MCPEToolResume, "Resume an event subscription", "Continue the delivery of a paused subscription.",
				id, outcomeSchema(), mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true}))
	}
	return all
}

// resultSchema returns the schema of a tool's result. It does not require any members, because the result may contain
// only an error (MCPE-TOOL-2).
func resultSchema(properties schema) schema {
	properties["error"] = members("Why the call was refused.", schema{"code": schema{"type": "integer"}, "name": schema{"type": "string"},
		"message": schema{"type": "string"}, "retryAfterMs": schema{"type": "integer"}})
	return schema{"type": "object", "properties": properties}
}

func outcomeSchema() schema {
	return resultSchema(schema{"success": schema{"type": "boolean"}, "status": schema{"type": "string"}, "subscriptionId": schema{"type": "string"}})
}

func subscriptionSchema() schema {
	when := schema{"type": "string", "format": "date-time"}
	return resultSchema(schema{
		"id": schema{"type": "string", "format": "uuid"}, "subscriptionId": schema{"type": "string", "format": "uuid"},
		"clientId": schema{"type": "string"}, "filter": schema{"type": "object"}, "delivery": schema{"type": "object"}, "handler": schema{"type": "object"},
		"status":    oneOf([]string{wire.MCPEActive, wire.MCPEPaused, wire.MCPEExpired}, "Whether events are delivered."),
		"createdAt": when, "updatedAt": when, "expiresAt": when, "nextRun": when, "pendingEvents": schema{"type": "integer"},
		"warnings": list(schema{"type": "string"}, "Valid but probably unintended settings."),
	})
}
