package server

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Bits of a fuzzed request beside its params.
const (
	fuzzNobody = 1 << iota // without principal
	fuzzLegacy
	fuzzDeclares
	fuzzCannotStream
	fuzzCalled // events/stream by Call, as on a connection that cannot carry it
)

// FuzzRequest calls the five methods with any params: each call ends with one JSON object or with a
// bare error whose code is of the caller's family and which is no internal one, and what was
// subscribed to can be unsubscribed from by the same params (ERR-2, ERR-4, D2).
func FuzzRequest(f *testing.F) {
	methods := []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe}
	w := newWorld(f, func(o *Options) {
		o.Codes = CodesAuto
		o.MaxWait = time.Millisecond
		o.Webhook.Verify.Budget = 1 << 30
		dial := o.Webhook.Guard.DialContext
		o.Webhook.Guard.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasSuffix(address, ":80") {
				return dial(ctx, network, address)
			}
			return nil, syscall.ECONNREFUSED
		}
	})
	emit(f, register(f, w.Server, "e", Hooks[filterArgs, incident]{}), incident{ID: "e1", Severity: "P1"})
	register(f, w.Server, "pollonly", Hooks[filterArgs, incident]{}, WithoutWebhook())
	check := func(context.Context, filterArgs, string) (events.Page[incident], error) {
		return events.Page[incident]{Cursor: "c"}, nil
	}
	if err := RegisterCheck(w.Server, incidentType("checked"), check, Hooks[filterArgs, incident]{}); err != nil {
		f.Fatal(err)
	}

	for i := range methods {
		for _, p := range []string{``, `null`, `[]`, `{}`, `{"name":"e"}`, `{"name":"e","cursor":null,"maxEvents":1}`, `{"name":"checked","timeoutMs":1000}`,
			`{"name":"e","arguments":{"severity":"P1","any":["x"],"minLevel":1e2},"cursor":"AQFr0wAAAAAAAAAAAAAAAQAAAAAAAAAB"}`, params(plain, secretA, `,"ttlMs":null`)} {
			for _, flags := range []byte{0, fuzzNobody, fuzzLegacy | fuzzDeclares, fuzzCannotStream, fuzzCalled} {
				f.Add(byte(i), flags, []byte(p))
			}
		}
	}
	for _, c := range wrongCalls() {
		i := byte(3)
		if c.method == wire.MethodUnsubscribe {
			i = 4
		}
		f.Add(i, byte(0), []byte(c.params))
	}

	f.Fuzz(func(t *testing.T, method, flags byte, params []byte) {
		r := Request{Method: methods[int(method)%len(methods)], Params: params, ID: json.RawMessage("1"), Principal: "alice",
			Stateless: flags&fuzzLegacy == 0, DeclaresExtension: flags&fuzzDeclares != 0, CanStream: flags&fuzzCannotStream == 0}
		if flags&fuzzNobody != 0 {
			r.Principal = ""
		}
		var res json.RawMessage
		var err error
		if r.Method == wire.MethodStream && flags&fuzzCalled == 0 {
			var st *Stream
			if st, err = w.Open(t.Context(), r); err == nil {
				st.Close()
				return
			}
		} else {
			res, err = w.Call(t.Context(), r)
		}
		if err != nil {
			knownError(t, &r, err)
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(res, &object) != nil || object == nil {
			t.Fatalf("%s %q gave %q", r.Method, params, res)
		}
		if r.Method == wire.MethodSubscribe {
			r.Method = wire.MethodUnsubscribe
			if _, err := w.Call(t.Context(), r); err != nil {
				t.Fatalf("%q can be subscribed to but not unsubscribed from: %v", params, err)
			}
		}
	})
}

// knownError holds err to the contract with carriers.
func knownError(t *testing.T, r *Request, err error) {
	t.Helper()
	e, bare := err.(*jsonrpc.Error)
	if !bare {
		t.Fatalf("%s %q gave the error %T %v", r.Method, r.Params, err, err)
	}
	kind, dialect, known := wire.KindOf(e.Code, e.Message)
	if !known || !strings.HasPrefix(e.Message+": ", kind.String()+": ") || kind == wire.Internal || len(e.Data) > 0 && !json.Valid(e.Data) {
		t.Fatalf("%s %q gave the error %d %q %s", r.Method, r.Params, e.Code, e.Message, e.Data)
	}
	want := wire.Sketch
	if r.DeclaresExtension {
		want = wire.SEP
	}
	if e.Code != want.Code(kind) {
		t.Fatalf("%s %q gave %d of dialect %v", r.Method, r.Params, e.Code, dialect)
	}
}
