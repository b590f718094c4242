package tasksource_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/assistant"
	"github.com/mcpe-gen/mcpe-gen/runtime/experimental/tasksource"
)

const module = "github.com/mcpe-gen/mcpe-gen/"

// TASK-1: the member is what the proposal says, without a cursor where there is none.
func TestWire(t *testing.T) {
	id := "inc-1"
	for want, make := range map[string]func() (*tasksource.Source, error){
		`{"name":"incident.resolved","input":{"incidentId":"inc-1"},"initialCursor":"c"}`: func() (*tasksource.Source, error) {
			return tasksource.New(assistant.IncidentResolvedEventName, assistant.IncidentResolvedArguments{IncidentID: &id}, "c")
		},
		`{"name":"incident.resolved","input":{}}`: func() (*tasksource.Source, error) {
			return tasksource.New(assistant.IncidentResolvedEventName, assistant.IncidentResolvedArguments{}, "")
		},
		`{"name":"x","input":{}}`:        func() (*tasksource.Source, error) { return tasksource.New[json.RawMessage]("x", nil, "") },
		`{"name":"x","input":{"a":[1]}}`: func() (*tasksource.Source, error) { return tasksource.New("x", json.RawMessage(`{"a": [1]}`), "") },
	} {
		s, err := make()
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(s)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		read, err := tasksource.Parse([]byte(`{"task":{"taskId":"t"},"eventSource":` + want + `,"more":1}`))
		if err != nil || read.Name != s.Name || string(read.Input) != string(s.Input) || read.InitialCursor != s.InitialCursor {
			t.Errorf("read %+v, %v", read, err)
		}
	}
	for _, args := range []json.RawMessage{json.RawMessage(`[]`), json.RawMessage(`{`), json.RawMessage(`"x"`)} {
		if s, err := tasksource.New("x", args, ""); err == nil {
			t.Errorf("%s makes %+v", args, s)
		}
	}
}

// TASK-2: what a server writes is read or refused, never half believed.
func TestParse(t *testing.T) {
	for _, result := range []string{`{}`, `{"task":{}}`, `{"eventSource":null}`} {
		if s, err := tasksource.Parse([]byte(result)); s != nil || err != nil {
			t.Errorf("%s: %+v, %v", result, s, err)
		}
	}
	for result, want := range map[string]string{
		`[]`:                                                        "not an object",
		`{"eventSource":[]}`:                                        "eventSource",
		`{"eventSource":{}}`:                                        "name is missing",
		`{"eventSource":{"name":"x"}}`:                              "input is not an object",
		`{"eventSource":{"NAME":"x"}}`:                              "name is missing",
		`{"eventSource":{"name":7,"input":{}}}`:                     "name",
		`{"eventSource":{"name":"x","input":null}}`:                 "input is not an object",
		`{"eventSource":{"name":"x","input":[1]}}`:                  "input is not an object",
		`{"eventSource":{"name":"x","input":{},"initialCursor":7}}`: "initialCursor",
		`{"eventSource":{"name":"x","input":{},"initialCursor":"` + strings.Repeat("c", 64<<10+1) + `"}}`:             "initialCursor",
		`{"eventSource":{"name":"x","input":{}},"eventSource":{"name":"y","input":{}}}`:                               "duplicate",
		`{"eventSource":{"name":"x","input":{"a":1},"input":{"a":2}}}`:                                                "input",
		`{"eventSource":{"name":"` + strings.Repeat("n", 1<<20) + `","input":{},"initialCursor":{"deep":{"er":[]}}}}`: "initialCursor",
	} {
		s, err := tasksource.Parse([]byte(result))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %+v, %v; want %q", result, s, err, want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.80s: an error of %d bytes", result, len(err.Error()))
		}
	}
}

// TASK-2: arguments are those of the event type, and none is dropped.
func TestArguments(t *testing.T) {
	of := func(name, input string) *tasksource.Source {
		return &tasksource.Source{Name: name, Input: json.RawMessage(input)}
	}
	const name = assistant.IncidentResolvedEventName
	for input, want := range map[string]string{`{"incidentId":"inc-1"}`: "inc-1", `{}`: "", `{"incidentId":null}`: "", `{"later":null}`: ""} {
		args, err := tasksource.Arguments[assistant.IncidentResolvedArguments](of(name, input), name)
		if got := args.IncidentID; err != nil || (got == nil) != (want == "") || got != nil && *got != want {
			t.Errorf("%s: %+v, %v", input, args, err)
		}
	}
	for _, c := range []struct {
		s    *tasksource.Source
		want string
	}{
		{of("incident.created", `{}`), `"incident.created", want "incident.resolved"`},
		{of(name, `{"incidentId":7}`), "incidentId"},
		{of(name, `{"incidentId":"inc-1","service":"db"}`), `"service" is unknown`},
		{of(name, `{"incidentid":"inc-1"}`), `"incidentid" is unknown`},
	} {
		if args, err := tasksource.Arguments[assistant.IncidentResolvedArguments](c.s, name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", c.s.Input, args, err, c.want)
		}
	}
	if raw, err := tasksource.Arguments[json.RawMessage](of("x", `{"any":1}`), "x"); err != nil || string(raw) != `{"any":1}` {
		t.Errorf("%s, %v", raw, err)
	}
}

// A server links no client for it, and a client no server.
func TestLinks(t *testing.T) {
	for pkg, banned := range map[string][]string{
		".":                  {"runtime/client", "runtime/server", "runtime/internal/port"},
		"./tasksourceclient": {"runtime/server", "runtime/internal/port"},
		"./tasksourceserver": {"runtime/client"},
	} {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			for _, b := range banned {
				if dep == module+b {
					t.Errorf("%s links %s", pkg, b)
				}
			}
		}
	}
}
