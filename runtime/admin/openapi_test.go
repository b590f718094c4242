package admin_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string `yaml:"operationId"`
		Responses   map[string]any
	}
	Components struct{ Schemas map[string]any }
}

// TestOpenAPI holds the document to the handler: it has the handler's paths and methods and no others,
// and answers are as its schemas say, with no member that it does not name.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	if a := w.ask("GET", "/openapi.yaml", ""); a.status != 200 || a.body != string(text) || doc.OpenAPI != "3.1.0" {
		t.Errorf("%d, OpenAPI %q", a.status, doc.OpenAPI)
	}
	var described []string
	ids := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			described = append(described, strings.ToUpper(method)+" "+path)
			if o.OperationID == "" || ids[o.OperationID] || o.Responses["default"] == nil {
				t.Errorf("%s %s: operationId %q, responses %v", method, path, o.OperationID, o.Responses)
			}
			ids[o.OperationID] = true
		}
	}
	slices.Sort(described)
	var served []string
	for _, route := range admin.Routes(w.handler) {
		if _, path, _ := strings.Cut(route, " "); strings.HasPrefix(path, "/api/") || path == "/openapi.yaml" {
			served = append(served, route)
		}
	}
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described %q\nserved    %q", described, served)
	}

	// Every object is closed, so that what the document does not name is found.
	for _, s := range doc.Components.Schemas {
		if m := s.(map[string]any); m["properties"] != nil {
			m["additionalProperties"] = false
		}
	}
	b, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": doc.Components.Schemas}})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:doc", parsed); err != nil {
		t.Fatal(err)
	}
	id := w.subscribe("ann", "/a")
	if err := w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")); err != nil {
		t.Fatal(err)
	}
	w.until("the delivery", func() bool { return len(get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts) == 1 })
	sub := "/api/subscriptions/" + id
	for _, q := range []struct{ method, path, body, schema string }{
		{"GET", "/api/types", "", "TypeList"},
		{"GET", "/api/types/ping", "", "TypeInfo"},
		{"GET", "/api/subscriptions?limit=1", "", "SubscriptionList"},
		{"GET", sub, "", "Subscription"},
		{"GET", sub + "/attempts", "", "AttemptList"},
		{"GET", "/api/endpoints", "", "EndpointList"},
		{"GET", "/api/connections", "", "ConnectionList"},
		{"GET", "/api/outbox", "", "RejectedList"},
		{"GET", "/api/cluster", "", "Problem"},
		{"GET", "/api/abandoned?since=1h", "", "AbandonedList"},
		{"GET", "/api/abandoned", "", "Problem"},
		{"GET", "/api/occurrences?eventId=evt_1", "", "OccurrenceList"},
		{"GET", "/api/types/ping/occurrences/1", "", "OccurrencePage"},
		{"GET", "/api/types/ping/occurrences/2", "", "Problem"},
		{"GET", "/api/events?since=1h", "", "Window"},
		{"GET", "/api/events?since=1h&until=2h", "", "Problem"},
		{"GET", "/api/latency", "", "Latencies"},
		{"GET", "/api/latency?host=" + strings.TrimPrefix(w.endpoint.URL, "http://"), "", "Latencies"},
		{"GET", "/api/latency?limit=1", "", "Problem"},
		{"GET", sub + "/why", "", "Delay"},
		{"GET", sub[:len(sub)-20] + "/why", "", "Delay"},
		{"POST", "/api/outbox/7/drop", "", "Problem"},
		{"POST", sub + "/test", `{"data":{"id":"2"}}`, "Tested"},
		{"POST", sub + "/send", `{"eventId":"evt_1"}`, "Accepted"},
		{"POST", sub + "/send", `{"eventId":"evt_1","seen":"2026-11-22T14:00:00.5Z"}`, "Problem"},
		{"GET", sub + "/replay?position=1", "", "Beginning"},
		{"GET", sub + "/replay", "", "Problem"},
		{"POST", sub + "/replay", `{"position":1}`, "Accepted"},
		{"POST", sub + "/pause", "", "Done"},
		{"GET", sub, "", "Subscription"},
		{"POST", sub + "/unpause", "", "Done"},
		{"POST", sub + "/resume", "", "Accepted"},
		{"POST", sub + "/end", "", "Accepted"},
		{"POST", "/api/revoke", `{"principal":"ann"}`, "Revoked"},
		{"GET", sub, "", "Problem"},
		{"GET", "/api/audit?limit=5", "", "AuditList"},
		{"GET", "/api/audit?since=tomorrow", "", "Problem"},
	} {
		a := w.ask(q.method, q.path, q.body, func(r *http.Request) { r.Header.Set("Idempotency-Key", q.path) })
		s, err := c.Compile("mem:doc#/components/schemas/" + q.schema)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s %s answers %s: %v", q.method, q.path, a.body, err)
		}
	}
}
