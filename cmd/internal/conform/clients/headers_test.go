package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// right is a server of this module with one event type.
func right(t *testing.T) http.Handler {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "right", Version: "1"}, nil), server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	schema := json.RawMessage(`{"type":"object"}`)
	if _, err := server.Register(es, events.Type[json.RawMessage, map[string]any]{Info: events.Info{Name: EventType, Description: "What happens.",
		InputSchema: schema, PayloadSchema: schema}}, server.Hooks[json.RawMessage, map[string]any]{}); err != nil {
		t.Fatal(err)
	}
	return transport.NewHandler(es, transport.HandlerOptions{})
}

// TestHeadersAsOurs compares what the played server answers to headers with what a server of this module does (CAP-9).
func TestHeadersAsOurs(t *testing.T) {
	const list, call = `"method":"events/list","params":{`, `"method":"tools/call","params":{"name":"look",`
	standing := map[string]string{headerContentType: "application/json", headerAccept: "application/json, text/event-stream",
		wire.HeaderProtocolVersion: wire.RevisionStateless, wire.HeaderMethod: wire.MethodList}
	session := map[string]string{headerContentType: "application/json", headerAccept: "application/json, text/event-stream", wire.HeaderProtocolVersion: wire.RevisionLegacy}
	meta := fmt.Sprintf(`"_meta":{%q:%q,"io.modelcontextprotocol/clientCapabilities":{}}}`, wire.MetaProtocolVersion, wire.RevisionStateless)
	for name, tt := range map[string]struct {
		legacy bool
		body   string // of the message, without its id
		change map[string]string
		named  string // the header that is named; "" for none
	}{
		"right":                     {body: list + meta},
		"a charset":                 {body: list + meta, change: map[string]string{headerContentType: "application/json; charset=utf-8"}},
		"plain text":                {body: list + meta, change: map[string]string{headerContentType: "text/plain"}, named: headerContentType},
		"no content type":           {body: list + meta, change: map[string]string{headerContentType: ""}, named: headerContentType},
		"JSON alone":                {body: list + meta, change: map[string]string{headerAccept: "application/json"}, named: headerAccept},
		"streams alone":             {body: list + meta, change: map[string]string{headerAccept: "text/event-stream"}, named: headerAccept},
		"no accept":                 {body: list + meta, change: map[string]string{headerAccept: ""}, named: headerAccept},
		"anything":                  {body: list + meta, change: map[string]string{headerAccept: "*/*"}},
		"ranges":                    {body: list + meta, change: map[string]string{headerAccept: "text/*;q=0.5, Application/JSON"}},
		"an unknown revision":       {body: list + meta, change: map[string]string{wire.HeaderProtocolVersion: "2025-01-01"}, named: wire.HeaderProtocolVersion},
		"no revision":               {body: list + meta, change: map[string]string{wire.HeaderProtocolVersion: ""}, named: wire.HeaderProtocolVersion},
		"another revision":          {body: list + meta, change: map[string]string{wire.HeaderProtocolVersion: "2027-01-01"}, named: wire.HeaderProtocolVersion},
		"no revision in _meta":      {body: list + `"_meta":{}}`, named: wire.HeaderProtocolVersion},
		"no method":                 {body: list + meta, change: map[string]string{wire.HeaderMethod: ""}, named: wire.HeaderMethod},
		"another method":            {body: list + meta, change: map[string]string{wire.HeaderMethod: "tools/list"}, named: wire.HeaderMethod},
		"a tool without its name":   {body: call + meta, change: map[string]string{wire.HeaderMethod: "tools/call"}, named: wire.HeaderName},
		"a tool of another name":    {body: call + meta, change: map[string]string{wire.HeaderMethod: "tools/call", wire.HeaderName: "see"}, named: wire.HeaderName},
		"a session":                 {legacy: true, body: list + `}`},
		"a session in plain text":   {legacy: true, body: list + `}`, change: map[string]string{headerContentType: "text/plain"}, named: headerContentType},
		"a session for JSON alone":  {legacy: true, body: list + `}`, change: map[string]string{headerAccept: "application/json"}, named: headerAccept},
		"an unknown session's":      {legacy: true, body: list + `}`, change: map[string]string{wire.HeaderProtocolVersion: "2025-01-01"}, named: wire.HeaderProtocolVersion},
		"a session of no revision":  {legacy: true, body: list + `}`, change: map[string]string{wire.HeaderProtocolVersion: ""}, named: wire.HeaderProtocolVersion},
		"a session with its method": {legacy: true, body: list + `}`, change: map[string]string{wire.HeaderMethod: "tools/list"}},
	} {
		t.Run(name, func(t *testing.T) {
			headers := maps.Clone(standing)
			if tt.legacy {
				headers = maps.Clone(session)
			}
			maps.Copy(headers, tt.change)
			s := newStage(&run{source: draw.New(0)}, scene{})
			s.mode = wire.ModePoll
			status, code := answered(t, s, headers, tt.body, tt.legacy)
			if wantStatus, wantCode := answered(t, right(t), headers, tt.body, tt.legacy); status != wantStatus || code != wantCode {
				t.Errorf("status %d, code %d; ours: status %d, code %d", status, code, wantStatus, wantCode)
			}
			if named := slices.Sorted(maps.Keys(s.odd)); strings.Join(named, " ") != tt.named {
				t.Errorf("%q is named", named)
			}
		})
	}
}

// answered sends a message to a server, in a session or not, and returns the status and the code of the error, 0 for
// none.
func answered(t *testing.T, h http.Handler, headers map[string]string, message string, inSession bool) (status int, code int64) {
	send := func(method string, headers map[string]string, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, endpoint, strings.NewReader(body))
		for name, value := range headers {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if inSession {
		begin := map[string]string{headerContentType: "application/json", headerAccept: "application/json, text/event-stream"}
		w := send(http.MethodPost, begin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+wire.RevisionLegacy+
			`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		headers[wire.HeaderSessionID] = w.Header().Get(wire.HeaderSessionID)
		begin[wire.HeaderSessionID], begin[wire.HeaderProtocolVersion] = headers[wire.HeaderSessionID], wire.RevisionLegacy
		send(http.MethodPost, begin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		defer send(http.MethodDelete, begin, "")
	}
	w := send(http.MethodPost, headers, `{"jsonrpc":"2.0","id":2,`+message+`}`)
	var m struct {
		Error struct {
			Code int64 `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(w.Body.Bytes(), &m)
	return w.Code, m.Error.Code
}
