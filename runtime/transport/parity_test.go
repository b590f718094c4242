package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A reply is what a client can tell of a response, framing aside.
type reply struct {
	Status  int
	Message any // the decoded JSON-RPC message, or the text
	Allow   string
	Form    string // content type, of what is no answer to a call
}

func answerOf(t *testing.T, resp *http.Response) (a reply, form string) {
	t.Helper()
	defer resp.Body.Close()
	rec := newRecorder()
	rec.header = resp.Header
	if _, err := io.Copy(&rec.body, resp.Body); err != nil {
		t.Fatal(err)
	}
	form = mediaType(resp.Header.Get("Content-Type"))
	a = reply{Status: resp.StatusCode, Allow: resp.Header.Get("Allow")}
	var decoded map[string]any
	if json.Unmarshal(rec.message(), &decoded) == nil {
		a.Message = decoded
	} else {
		a.Message, a.Form = rec.body.String(), form
	}
	return a, form
}

// A parityRow is a request that both ways must answer alike. Rows whose answer is ours
// are marked, to prove that it is not the SDK that answers twice.
type parityRow struct {
	name   string
	direct bool
	header map[string]string
	body   func(method string) string // nil: a poll or list of "tick"
	only   string                     // one method only
	status int
	code   int64
	method string // HTTP; default POST
}

func withParams(params string) func(string) string {
	return func(method string) string { return modes[3].request(`7`, method, params) }
}

func verbatim(body string) func(string) string {
	return func(method string) string { return strings.ReplaceAll(body, "METHOD", method) }
}

func parityRows() []parityRow {
	const call = `{"jsonrpc":"2.0","id":7,"method":"METHOD","params":`
	meta := func(m string) func(string) string { return verbatim(call + `{"name":"tick","_meta":` + m + `}}`) }
	const version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	const capable = `,"io.modelcontextprotocol/clientCapabilities":{}`
	deep := strings.Repeat(`[`, 1100) + strings.Repeat(`]`, 1100)
	return []parityRow{
		// What both accept.
		{name: "success", direct: true, status: 200},
		{name: "no client info", direct: true, status: 200, body: meta(`{` + version + capable + `}`)},
		{name: "declares the extension", direct: true, status: 200, body: meta(`{` + version + `,"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}`)},
		{name: "log level and progress token", direct: true, status: 200, body: meta(`{` + version + capable + `,"io.modelcontextprotocol/logLevel":"debug","progressToken":1}`)},
		{name: "accept anything", direct: true, status: 200, header: map[string]string{"Accept": "*/*"}},
		{name: "accept by ranges", direct: true, status: 200, header: map[string]string{"Accept": "text/*;q=0.1, APPLICATION/json;q=1"}},
		{name: "charset", direct: true, status: 200, header: map[string]string{"Content-Type": "application/json; charset=utf-8"}},
		{name: "Mcp-Name of something else", direct: true, status: 200, header: map[string]string{"Mcp-Name": "other"}},
		{name: "Last-Event-ID", direct: true, status: 200, header: map[string]string{headerLastEventID: "a_1"}}, // V10
		{name: "empty Last-Event-ID", direct: true, status: 200, header: map[string]string{headerLastEventID: ""}},
		{name: "session id", direct: true, status: 200, header: map[string]string{"Mcp-Session-Id": "x"}},
		{name: "string id", direct: true, status: 200, body: verbatim(strings.Replace(call, "7", `"a<b>"`, 1) + `{"name":"tick","_meta":{` + version + capable + `}}}`)},
		{name: "unknown members", direct: true, status: 200, body: verbatim(strings.Replace(call, `"id"`, `"extra":[{}],"id"`, 1) + `{"id":9,"name":"tick","_meta":{` + version + capable + `}}}`)},
		{name: "spaces", direct: true, status: 200, body: func(m string) string { return " \n" + withParams(`{"name":"tick"}`)(m) + "\n " }},
		{name: "several events", direct: true, status: 200, only: wire.MethodPoll, body: withParams(`{"name":"tick","cursor":"CURSOR","maxEvents":2}`)},
		{name: "bad cursor", direct: true, status: 200, only: wire.MethodPoll, body: withParams(`{"name":"tick","cursor":"???"}`)},
		{name: "event with _meta", direct: true, status: 200, only: wire.MethodPoll, body: withParams(`{"name":"meta","cursor":"META"}`)},

		// What the events server refuses.
		{name: "unknown event", direct: true, status: 200, code: -32011, only: wire.MethodPoll, body: withParams(`{"name":"nope"}`)},
		{name: "forbidden", direct: true, status: 200, code: -32012, only: wire.MethodPoll, body: withParams(`{"name":"secret"}`)},
		{name: "mode not offered", direct: true, status: 200, code: -32014, only: wire.MethodPoll, body: withParams(`{"name":"pushed"}`)},
		{name: "bad arguments", direct: true, status: 400, code: -32602, only: wire.MethodPoll, body: withParams(`{"name":"tick","arguments":{"bad":1}}`)},
		{name: "arguments no object", direct: true, status: 400, code: -32602, only: wire.MethodPoll, body: withParams(`{"name":"tick","arguments":[]}`)},
		{name: "name of another type", direct: true, status: 400, code: -32602, only: wire.MethodPoll, body: withParams(`{"name":5}`)},
		{name: "no name", direct: true, status: 400, code: -32602, only: wire.MethodPoll, body: withParams(`{"cursor":null}`)},
		{name: "maxEvents too small", direct: true, status: 400, code: -32602, only: wire.MethodPoll, body: withParams(`{"name":"tick","maxEvents":0}`)},
		{name: "cursor of another type", direct: true, status: 400, code: -32602, body: withParams(`{"name":"tick","cursor":1}`)},
		{name: "unknown list cursor", direct: true, status: 400, code: -32602, only: wire.MethodList, body: withParams(`{"cursor":"???"}`)},
		{name: "argument twice", direct: true, status: 400, code: -32602, only: wire.MethodPoll, body: withParams(`{"name":"tick","arguments":{"channel":"a","channel":"b"}}`)},

		// What the SDK refuses, or the handler for every method alike (CAP-6).
		{name: "no token", status: 401, header: map[string]string{"Authorization": "-"}},
		{name: "bad token", status: 401, header: map[string]string{"Authorization": "Bearer nobody"}},
		{name: "expired token", status: 401, header: map[string]string{"Authorization": "Bearer alice:-1s"}},
		{name: "no Mcp-Method", status: 400, code: -32020, header: map[string]string{headerMethod: "-"}},
		{name: "other Mcp-Method", status: 400, code: -32020, header: map[string]string{headerMethod: "tools/list"}},
		{name: "other events method", status: 400, code: -32020, header: map[string]string{headerMethod: wire.MethodStream}},
		{name: "no version header", status: 400, code: -32020, header: map[string]string{headerVersion: "-"}},
		{name: "other version header", status: 400, code: -32020, header: map[string]string{headerVersion: "2027-01-01"}},
		{name: "legacy version header", status: 400, code: -32020, header: map[string]string{headerVersion: wire.RevisionLegacy}},
		{name: "unknown legacy version", status: 400, header: map[string]string{headerVersion: "2024-01-01"}},
		{name: "unknown new version", status: 400, code: -32022, header: map[string]string{headerVersion: "2027-01-01"}, body: meta(`{"io.modelcontextprotocol/protocolVersion":"2027-01-01"` + capable + `}`)},
		{name: "no params", status: 400, code: -32602, body: verbatim(`{"jsonrpc":"2.0","id":7,"method":"METHOD"}`)},
		{name: "null params", status: 400, code: -32602, body: verbatim(call + `null}`)},
		{name: "params no object", status: 400, code: -32602, body: verbatim(call + `[1]}`)},
		{name: "no _meta", status: 400, code: -32602, body: verbatim(call + `{"name":"tick"}}`)},
		{name: "_meta no object", status: 400, code: -32602, body: meta(`[]`)},
		{name: "no version in _meta", status: 400, code: -32602, body: meta(`{"io.modelcontextprotocol/clientCapabilities":{}}`)},
		{name: "no capabilities", status: 400, code: -32602, body: meta(`{` + version + `}`)},
		{name: "null capabilities", status: 400, code: -32602, body: meta(`{` + version + `,"io.modelcontextprotocol/clientCapabilities":null}`)},
		{name: "capabilities of another type", status: 400, code: -32602, body: meta(`{` + version + `,"io.modelcontextprotocol/clientCapabilities":{"extensions":1}}`)},
		{name: "client info of another type", status: 400, code: -32602, body: meta(`{` + version + capable + `,"io.modelcontextprotocol/clientInfo":{"name":1}}`)},
		{name: "null client info", status: 400, code: -32602, body: meta(`{` + version + capable + `,"io.modelcontextprotocol/clientInfo":null}`)},
		{name: "accept json only", status: 400, header: map[string]string{"Accept": "application/json"}},
		{name: "no accept", status: 400, header: map[string]string{"Accept": "-"}},
		{name: "bad content type", status: 415, header: map[string]string{"Content-Type": "text/plain"}},
		{name: "no content type", status: 415, header: map[string]string{"Content-Type": "-"}},
		{name: "foreign host", status: 403, header: map[string]string{"Host": "evil.example"}},
		{name: "too large", status: 413, body: withParams(`{"name":"` + strings.Repeat("x", 70<<10) + `"}`)},
		{name: "too deep", status: 400, code: -32700, body: withParams(`{"name":"tick","x":` + deep + `}`)},
		{name: "empty body", status: 400, code: -32700, body: verbatim(``)},
		{name: "no JSON", status: 400, code: -32700, body: verbatim(`{`)},
		{name: "batch", status: 400, code: -32600, body: func(m string) string { return "[" + withParams(`{"name":"tick"}`)(m) + "]" }},
		{name: "no jsonrpc", status: 400, code: -32600, body: verbatim(`{"id":7,"method":"METHOD","params":{}}`)},
		{name: "notification", status: 400, code: -32600, body: func(m string) string { return modes[3].request("", m, "") }},
		{name: "null id", status: 400, code: -32600, body: verbatim(strings.Replace(call, "7", "null", 1) + `{"name":"tick","_meta":{` + version + capable + `}}}`)},
		{name: "boolean id", status: 400, code: -32600, body: verbatim(strings.Replace(call, "7", "true", 1) + `{"name":"tick","_meta":{` + version + capable + `}}}`)},
		{name: "unknown method", status: 404, code: -32601, header: map[string]string{headerMethod: "events/nosuch"}, body: func(string) string { return modes[3].request(`7`, "events/nosuch", "") }},
		{name: "trailing garbage", status: 400, code: -32700, body: func(m string) string { return withParams(`{"name":"tick"}`)(m) + "}" }},
		{name: "method twice", status: 400, code: -32600, body: verbatim(strings.Replace(call, `"method"`, `"method":"x","method"`, 1) + `{"name":"tick","_meta":{` + version + capable + `}}}`)},
		{name: "GET", status: 405, method: http.MethodGet},
		{name: "DELETE", status: 405, method: http.MethodDelete},
	}
}

// sdkRoute serves as front does, except that calls of the extension go through the SDK's handler: what they are compared
// with.
func sdkRoute(front http.Handler) http.Handler {
	h := front.(*handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			panic(err)
		}
		setBody(r, body)
		if env, ok := parseEnvelope(body); ok && r.Method == http.MethodPost && len(env.params) < 64<<10 {
			if _, ok := h.acceptedCaller(r, env); ok && passesSDKChecks(r, h.options) {
				r.Header.Del(headerLastEventID) // V10
				h.stateless.ServeHTTP(w, r)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// Our own handling of events/list and events/poll gives the same status, error and result as the SDK's handler, with and
// without receiving middleware of the author. No writer flushes, since the SDK's cannot carry streams.
func TestParityWithSDK(t *testing.T) {
	inBothWays(t, server.Options{
		MaxEvents: 3,
		Authorize: func(_ context.Context, _, event string, _ json.RawMessage) error {
			if event == "secret" {
				return events.Forbidden("not for you")
			}
			return nil
		},
	}, parity)
}

func parity(t *testing.T, g *rig) {
	g.addType("secret")
	if _, err := server.Register(g.es, tickType("pushed"), server.Hooks[tickArguments, tickPayload]{}, server.WithoutPoll()); err != nil {
		t.Fatal(err)
	}
	metas, err := server.Register(g.es, tickType("meta"), server.Hooks[tickArguments, tickPayload]{})
	if err != nil {
		t.Fatal(err)
	}
	m := modes[3]
	routes := []string{"SDK", "ours"}
	var clients [2]*httpClient
	for i := range clients {
		h := NewHandler(g.es, HandlerOptions{MaxBody: 64 << 10})
		if routes[i] == "SDK" {
			h = sdkRoute(h)
		}
		clients[i] = g.serve(m, bearer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(plainWriter{w}, r) })))
	}
	start := func(name string) string {
		r := clients[0].rpc(`1`, wire.MethodPoll, `{"name":"`+name+`"}`)
		return unquote(member(r.result, "cursor"))
	}
	cursor, metaCursor := start("tick"), start("meta")
	for i := range 5 {
		g.emit(i, events.WithID(fmt.Sprint("e", i)))
		if err := metas.Emit(context.Background(), tickPayload{Seq: i}, events.WithMeta(map[string]any{"a": "<b>"})); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range parityRows() {
		for _, method := range []string{wire.MethodList, wire.MethodPoll} {
			if row.only != "" && row.only != method {
				continue
			}
			t.Run(row.name+"/"+method, func(t *testing.T) {
				if row.body == nil {
					row.body = withParams(`{"name":"tick"}`)
				}
				body := strings.NewReplacer("CURSOR", cursor, "META", metaCursor).Replace(row.body(method))
				header := map[string]string{headerVersion: m.version, headerMethod: method}
				for k, v := range row.header {
					header[k] = v
				}
				httpMethod := row.method
				if httpMethod == "" {
					httpMethod = http.MethodPost
				}
				var got [2]reply
				for i, c := range clients {
					resp, err := c.do(context.Background(), httpMethod, body, header)
					if err != nil {
						t.Fatal(err)
					}
					var form string
					got[i], form = answerOf(t, resp)
					if routes[i] == "ours" && row.direct != (form == contentTypeJSON && !sdkAnswered(resp)) && row.status == 200 {
						t.Errorf("answered as %q; direct should be %v", form, row.direct)
					}
				}
				for i := range got[1:] {
					if !reflect.DeepEqual(got[0], got[i+1]) {
						t.Errorf("\nSDK %+v\n%s %+v", got[0], routes[i+1], got[i+1])
					}
				}
				if got[1].Status != row.status {
					t.Errorf("status %d, want %d: %v", got[1].Status, row.status, got[1].Message)
				}
				var code int64
				if message, ok := got[1].Message.(map[string]any); ok {
					if e, ok := message["error"].(map[string]any); ok {
						code = int64(e["code"].(float64))
					}
				}
				if code != row.code {
					t.Errorf("code %d, want %d: %v", code, row.code, got[1].Message)
				}
			})
		}
	}
}

// sdkAnswered tells the SDK's JSON refusals, which carry no length of ours.
func sdkAnswered(resp *http.Response) bool { return resp.Header.Get("Cache-Control") == "" }

// AUTH-3: the principal is derived from the request's own headers and token, with and without middleware.
func TestPrincipalOfEventsCall(t *testing.T) {
	var seen []string
	inBothWays(t, server.Options{Principal: func(_ context.Context, x *mcp.RequestExtra) string {
		p := x.Header.Get("X-Tenant") + "/" + x.TokenInfo.UserID
		seen = append(seen, p)
		return p
	}}, func(t *testing.T, g *rig) {
		seen = nil
		c := g.connect(modes[3], HandlerOptions{}).(*httpClient)
		c.header.Set("X-Tenant", "t1")
		c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`)
		if len(seen) == 0 || slices.ContainsFunc(seen, func(p string) bool { return p != "t1/alice" }) {
			t.Errorf("principals %q", seen)
		}
	})
}

// A server that does not serve the revision does not answer in it.
func TestEventsHonourSupportedVersions(t *testing.T) {
	g := newRig(t, server.Options{})
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{wire.RevisionLegacy}})
	es, err := server.New(srv, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ts := g.listen(modes[3], bearer(NewHandler(es, HandlerOptions{})))
	c := g.dial(modes[3], ts.URL, ts.Client())
	if e := errorOf(t, c.rpc(`1`, wire.MethodList, "")); e.Code != mcp.CodeUnsupportedProtocolVersion {
		t.Errorf("error %+v", e)
	}
}
