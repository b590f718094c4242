package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A nowhere is a network without anybody.
type nowhere struct{}

func (nowhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no network")
}

// A streamEnder is a response writer that ends the request as soon as a stream has begun.
type streamEnder struct {
	*recorder
	end context.CancelFunc
}

func (w *streamEnder) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"method":"notifications/`)) {
		defer w.end()
	}
	return w.recorder.Write(p)
}

var fuzzMethods = []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe}

// FuzzRequest posts any body as each of the five methods, to both eras: nothing
// panics, every status is one that a client can cause, and what answers is JSON-RPC whose error
// codes are JSON-RPC's, the SDK's or the extension's, and none for an internal error (ERR-2, ERR-4).
func FuzzRequest(f *testing.F) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{
		Logger:    slog.New(slog.DiscardHandler),
		Store:     memory.New(),
		MaxWait:   time.Millisecond,
		Principal: func(context.Context, *mcp.RequestExtra) string { return "alice" },
		Webhooks: webhooks.New(webhooks.Options{Verify: webhooks.Verify{Budget: 1 << 30}, Callbacks: callbacks.Options{
			Resolver:    nowhere{},
			DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") },
		}}),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := es.Shutdown(context.Background()); err != nil {
			f.Error(err)
		}
	})
	if _, err := server.Register(es, tickType("tick"), server.Hooks[tickArguments, tickPayload]{}); err != nil {
		f.Fatal(err)
	}
	o := HandlerOptions{Logger: slog.New(slog.DiscardHandler), MaxBody: 64 << 10}
	h := NewHandler(es, o)
	// post sends a body and returns what came until the end, or until a stream had begun.
	post := func(ctx context.Context, to http.Handler, method, session string, body []byte) *recorder {
		ctx, end := context.WithTimeout(ctx, 5*time.Second)
		defer end()
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
		req.Header.Set("Content-Type", contentTypeJSON)
		req.Header.Set("Accept", contentTypeJSON+", "+sse.ContentType)
		req.Header.Set(headerVersion, wire.RevisionLegacy)
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		if method != "" {
			req.Header.Set(headerVersion, wire.RevisionStateless)
			req.Header.Set(headerMethod, method)
		}
		w := &streamEnder{newRecorder(), end}
		to.ServeHTTP(w, req)
		return w.recorder
	}
	f.Cleanup(func() {
		for ss := range srv.Sessions() {
			ss.Close()
		}
	})
	session := post(f.Context(), h, "", "", []byte(initializeRequest(wire.RevisionLegacy))).header.Get("Mcp-Session-Id")
	if session == "" {
		f.Fatal("no session")
	}
	post(f.Context(), h, "", session, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))

	const hook = `{"name":"tick","delivery":{"mode":"webhook","url":"https://192.0.2.1/","secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`
	for i, method := range fuzzMethods {
		for _, p := range []string{`{}`, `{"name":"tick"}`, `{"name":5}`, hook} {
			for _, m := range []mode{modes[2], modes[3]} {
				for _, id := range []string{`7`, `"a"`, ``, `null`} {
					f.Add(byte(i), !m.modern(), []byte(m.request(id, method, p)))
				}
			}
		}
	}
	for _, row := range parityRows() {
		if row.body != nil {
			f.Add(byte(1), false, []byte(row.body(wire.MethodPoll)))
			f.Add(byte(2), false, []byte(row.body(wire.MethodStream)))
		}
	}

	f.Fuzz(func(t *testing.T, method byte, legacy bool, body []byte) {
		if legacy {
			answered(t, post(t.Context(), h, "", session, body), body)
			return
		}
		answered(t, post(t.Context(), h, fuzzMethods[int(method)%len(fuzzMethods)], "", body), body)
	})
}

// answered checks status and messages of an answer.
func answered(t *testing.T, r *recorder, body []byte) {
	t.Helper()
	switch r.status {
	case 200, 202, 400, 404, 413:
	default:
		t.Fatalf("%q: status %d, %s", body, r.status, &r.body)
	}
	if media := mediaType(r.header.Get("Content-Type")); media != contentTypeJSON && media != sse.ContentType {
		return // plain text of the SDK
	}
	last := r.message()
	if len(last) == 0 {
		return // a stream that was ended
	}
	var m struct {
		ID    json.RawMessage   `json:"id"`
		Error *wire.ErrorObject `json:"error"`
	}
	if err := json.Unmarshal(last, &m); err != nil {
		t.Fatalf("%q: %s: %v", body, last, err)
	}
	if m.Error != nil && string(m.ID) == "null" {
		// What belongs to no call: JSON-RPC demands the null, which the SDK's decoder does not take.
		if !slices.Contains(sdkCodes, m.Error.Code) {
			t.Fatalf("%q: error %d %q without an id", body, m.Error.Code, m.Error.Message)
		}
		return
	}
	if _, bad := parseMessage(last, 256<<10); bad != nil { // the SDK's decoder does not take all ids of JSON
		t.Fatalf("%q: %s is no JSON-RPC: %v", body, last, bad)
	}
	env, readable := parseEnvelope(body)
	if m.Error == nil || readable && !slices.Contains(fuzzMethods, env.method) {
		return // or a method of the SDK's, which has codes of its own
	}
	kind, _, known := wire.KindOf(m.Error.Code, m.Error.Message)
	if !known && !slices.Contains(sdkCodes, m.Error.Code) || kind == wire.Internal {
		t.Fatalf("%q: error %d %q", body, m.Error.Code, m.Error.Message)
	}
}

// sdkCodes are what the SDK refuses requests with before they reach the extension.
var sdkCodes = []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeMissingRequiredClientCapabilities,
	mcp.CodeUnsupportedProtocolVersion}
