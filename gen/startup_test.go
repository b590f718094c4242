package gen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// Every combination of an event type's keys generates without a diagnostic if and only if a server registers it without
// options, with webhooks where its delivery has them. A rule that only one of the two enforces fails this test, and the
// rule's text is the same in both. The diagnostic is a warning if an option of the registration removes the fault.
func TestWhatStartsIsGenerated(t *testing.T) {
	type object = map[string]any
	var servers [2]*server.Server
	for i := range servers {
		var o server.Options
		if i == 1 {
			o.Webhooks = webhooks.New(webhooks.Options{})
		}
		s, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
		servers[i] = s
	}
	names := []string{"a", "a.b-c_D9", strings.Repeat("n", wire.MaxEventName), strings.Repeat("n", wire.MaxEventName+1), "", "a b", "ä"}
	deliveries := [][]string{nil, {"poll"}, {"push"}, {"webhook"}, {"poll", "push"}, {"poll", "webhook"}, {"push", "webhook"}, {"poll", "push", "webhook"}, {"push", "mail"}, {"mail"}}
	input, payload := object{"type": "object", "additionalProperties": false}, object{"type": "object", "properties": object{"id": object{"type": "string"}}, "required": []string{"id"}}
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	generated := 0
	for _, source := range []events.Source{events.SourceEmit, events.SourceCheck, events.SourceBoth} {
		for _, delivery := range deliveries {
			for _, name := range names {
				for _, stability := range []string{"stable", "experimental"} {
					for _, replay := range []bool{true, false} {
						event := object{"name": name, "description": "D.", "inputSchema": input, "payloadSchema": payload, "source": source, "replay": replay, "stability": stability}
						info := events.Info{Name: name, Description: "D.", InputSchema: encode(input), PayloadSchema: encode(payload), Source: source, Delivery: delivery, NoReplay: !replay}
						if delivery != nil {
							event["delivery"] = delivery
						}
						file := encode(object{"version": 1, "events": []any{event}})
						_, found := schema.Load([]string{"e.json"}, schema.Options{ReadFile: func(string) ([]byte, error) { return file, nil }})
						s := servers[0]
						if slices.Contains(delivery, "webhook") {
							s = servers[1]
						}
						err := registerAny(s, info)
						if err == nil {
							err = s.Remove(name)
							generated++
						}
						if failed := len(found) > 0; failed != (err != nil) {
							t.Fatalf("%s\ngenerate: %v\nregister: %v", file, found, err)
						}
						for _, rule := range wire.EventRules {
							typ := wire.EventType{Name: name, Delivery: delivery, Checked: source != events.SourceEmit, NoReplay: !replay}
							if slices.Contains(delivery, "mail") || !rule.Broken(&typ) {
								continue
							}
							typ.PollsHeld = true
							option := !rule.Broken(&typ)
							said := slices.ContainsFunc(found, func(d diagnostic.Diagnostic) bool {
								return d.Message == rule.Fault && d.Hint == rule.Remedy && (d.Severity == diagnostic.Warning) == option
							})
							if !said || err == nil || len(found) == 1 && !strings.Contains(err.Error(), fmt.Sprintf("%s (%s)", rule.Fault, rule.Remedy)) {
								t.Fatalf("%s\ngenerate: %v\nregister: %v\nwant: %s (%s)", file, found, err, rule.Fault, rule.Remedy)
							}
						}
					}
				}
			}
		}
	}
	if generated == 0 {
		t.Error("no combination registers")
	}
}

// registerAny registers an event type by its source.
func registerAny(s *server.Server, info events.Info) error {
	type value = json.RawMessage
	typ := events.Type[value, value]{Info: info}
	check := server.Check[value, value](func(context.Context, value, string) (p events.Page[value], err error) { return p, nil })
	switch info.Source {
	case events.SourceCheck:
		return server.RegisterCheck(s, typ, check, server.Hooks[value, value]{})
	case events.SourceBoth:
		_, err := server.RegisterBoth(s, typ, check, server.Hooks[value, value]{})
		return err
	}
	_, err := server.Register(s, typ, server.Hooks[value, value]{})
	return err
}
