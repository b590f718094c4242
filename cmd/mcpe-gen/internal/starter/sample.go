package starter

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// bodyFiles contains sample webhook bodies by service: SERVICE/EVENT.json or SERVICE/EVENT.ACTION.json. They are
// handwritten. They contain the members that the event types of the starter read, with realistic values.
//
//go:embed bodies
var bodyFiles embed.FS

// Sample returns the body of a webhook that is mapped to the first event type. It is one of bodyFiles if there is one.
// Otherwise, it contains a generated payload at the locations that `from:` specifies, with the members that the service
// adds around it.
func (s *Starter) Sample() ([]byte, error) {
	read := func(string) ([]byte, error) { return s.Content, nil }
	set, found := schema.Load([]string{"events.yaml"}, schema.Options{ReadFile: read})
	if source.HasErrors(found) {
		return nil, fmt.Errorf("the event types of %s: %s", s.Provider.Name, found[0])
	}
	e := set.Files[0].Events[0]
	if body := findBody(s.Provider.Name, e.From.Event, e.From.Action); body != nil {
		return body, nil
	}
	raw, ok := sample.Value(set.Published(e.Payload))
	if !ok {
		return nil, fmt.Errorf("no sample of %s could be made", e.Name)
	}
	payload, found := source.Parse("sample.json", raw)
	if source.HasErrors(found) {
		return nil, fmt.Errorf("the sample of %s: %s", e.Name, found[0])
	}
	body := payload
	if len(e.From.Fields) > 0 {
		body = yaml.Object()
		for _, f := range e.From.Fields {
			if v := payload.Lookup(f.Target); v != nil {
				setPointer(body, f.Source, v)
			}
		}
	}
	around := map[string]*source.Node{}
	switch s.Provider.Name {
	case "github":
		if e.From.Action != "" {
			around["/action"] = yaml.Text(e.From.Action)
		}
	case "stripe":
		around = map[string]*source.Node{"/id": yaml.Text("evt_1"), "/type": yaml.Text(e.From.Event),
			"/created": {Kind: source.Number, Text: "1700000000"}}
	case "slack":
		around = map[string]*source.Node{"/type": yaml.Text("event_callback"), "/event_id": yaml.Text("Ev1"),
			"/event/type": yaml.Text(e.From.Event)}
	case "gitlab":
		around["/object_kind"] = yaml.Text(e.From.Event)
	case "standard-webhooks":
		around["/type"] = yaml.Text(e.From.Event)
	case "cloudevents":
		around = map[string]*source.Node{"/specversion": yaml.Text("1.0"), "/id": yaml.Text("delivery-1"), "/source": yaml.Text("/shop"),
			"/type": yaml.Text(e.From.Event)}
	case "hmac":
		around = map[string]*source.Node{"/type": yaml.Text(e.From.Event), e.From.ID: yaml.Text("delivery-1")}
	}
	for _, at := range []string{"/specversion", "/id", "/source", "/type", "/created", "/event_id", "/event/type", "/action", "/object_kind"} {
		if v := around[at]; v != nil {
			setPointer(body, at, v)
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, body.JSON(), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// findBody returns the body for an event and an action. If action is "", it returns the body for any action. It returns
// nil if bodyFiles does not contain one.
func findBody(service, event, action string) []byte {
	dir := "bodies/" + service
	files, _ := bodyFiles.ReadDir(dir) // services without bodies have no directory
	for _, f := range files {
		name, of, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".json"), ".")
		if name != event || action != "" && of != action {
			continue
		}
		if body, err := bodyFiles.ReadFile(dir + "/" + f.Name()); err == nil {
			return body
		}
	}
	return nil
}

// setPointer sets the value at a JSON pointer, creating objects on the way.
func setPointer(n *source.Node, pointer string, v *source.Node) {
	tokens, _ := wire.SplitPointer(pointer)
	for i, token := range tokens {
		m := n.Member(token)
		switch last := i == len(tokens)-1; {
		case m == nil && last:
			yaml.Set(n, token, v)
		case m == nil:
			inner := yaml.Object()
			yaml.Set(n, token, inner)
			n = inner
		case last:
			m.Value = v
		default:
			n = m.Value
		}
	}
}
