package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
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
		o.webhook().Verify.Budget = 1 << 30
		dial := o.webhook().Callbacks.DialContext
		o.webhook().Callbacks.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
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
		r := port.Request{Method: methods[int(method)%len(methods)], Params: params, ID: json.RawMessage("1"), Principal: "alice",
			Stateless: flags&fuzzLegacy == 0, DeclaresExtension: flags&fuzzDeclares != 0, CanStream: flags&fuzzCannotStream == 0}
		if flags&fuzzNobody != 0 {
			r.Principal = ""
		}
		var res json.RawMessage
		var err error
		if r.Method == wire.MethodStream && flags&fuzzCalled == 0 {
			var st *streaming.Stream
			if st, err = opened(w.inside().Open(t.Context(), r)); err == nil {
				st.Close()
				return
			}
		} else {
			res, err = w.inside().Call(t.Context(), r)
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
			if _, err := w.inside().Call(t.Context(), r); err != nil {
				t.Fatalf("%q can be subscribed to but not unsubscribed from: %v", params, err)
			}
		}
	})
}

// knownError holds err to the contract with carriers.
func knownError(t *testing.T, r *port.Request, err error) {
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

// FuzzForeignCursor polls with any cursor of any kind, in particular those of other types, other lives
// and other pages: never an error, and never more than what the log holds (CUR-1, CUR-7).
func FuzzForeignCursor(f *testing.F) {
	s := newServer(f, Options{Logger: slog.New(slog.DiscardHandler)})
	f.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	emitter, err := Register(s, incidentType("e"), Hooks[filterArgs, incident]{})
	if err != nil {
		f.Fatal(err)
	}
	const emitted = 3
	for i := range emitted {
		if err := emitter.Emit(context.Background(), incident{ID: fmt.Sprint(i)}); err != nil {
			f.Fatal(err)
		}
	}
	own, err := wire.ParseCursor(*poll(f, s, `{"name":"e"}`).Cursor)
	if err != nil {
		f.Fatal(err)
	}
	for kind := range 6 {
		f.Add(byte(kind), own.Name, own.Epoch, own.Position, uint64(1), "u", uint32(2), "")
		f.Add(byte(kind), own.Name+1, own.Epoch, own.Position-1, uint64(1), "", uint32(0), "")
		f.Add(byte(kind), own.Name, own.Epoch+1, ^uint64(0), ^uint64(0), "\x00\xff", ^uint32(0), "=")
	}
	f.Fuzz(func(t *testing.T, kind byte, name uint32, epoch, position, feed uint64, upstream string, offset uint32, tail string) {
		c := wire.Cursor{Kind: wire.CursorKind(kind), Name: name, Epoch: epoch, Position: position, Feed: feed, Upstream: upstream, Offset: offset}
		text := c.String() + tail
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.inside().Call(t.Context(), port.Request{Method: wire.MethodPoll, Params: json.RawMessage(`{"name":"e","cursor":` + string(encoded) + `}`), ID: json.RawMessage("1")})
		if err != nil {
			t.Fatalf("cursor %q: %v", text, err)
		}
		var r wire.PollResult
		if err := json.Unmarshal(res, &r); err != nil || r.Cursor == nil {
			t.Fatalf("cursor %q: %s", text, res)
		}
		parsed, err := wire.ParseCursor(text)
		ours := err == nil && parsed.Kind == wire.LogCursor && parsed.Name == own.Name
		known := ours && parsed.Epoch == own.Epoch && parsed.Position <= own.Position
		switch {
		case known && (r.Truncated || len(r.Events) != int(own.Position-parsed.Position)):
			t.Errorf("%d events after position %d of %d, truncated %v", len(r.Events), parsed.Position, own.Position, r.Truncated)
		case !known && !r.Truncated:
			t.Errorf("%q is no cursor of this log and truncated is false", text)
		case !known && !(ours && parsed.Epoch != own.Epoch) && len(r.Events) > 0:
			t.Errorf("%q brought %d events", text, len(r.Events))
		}
		if fresh, err := wire.ParseCursor(*r.Cursor); err != nil || fresh.Position != own.Position || fresh.Epoch != own.Epoch {
			t.Errorf("%q gave the cursor %q", text, *r.Cursor)
		}
	})
}
