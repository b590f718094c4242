package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

const file = `version: 1
events:
  - {name: tick, description: Ticks., inputSchema: {type: object}, payloadSchema: {type: object}}
`

func options(t *testing.T, more Options) Options {
	t.Helper()
	set, found := schema.Load([]string{"events.yaml"},
		schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	more.Sets, more.Stderr, more.Speed = []*schema.Set{set}, io.Discard, 1
	return more
}

// A port that somebody has is said so, and nothing is left running.
func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Run(t.Context(), options(t, Options{HTTP: l.Addr().String()}))
	if err == nil || !strings.HasPrefix(err.Error(), "--http: listen tcp 127.0.0.1:") {
		t.Error(err)
	}
}

func TestAddress(t *testing.T) {
	for given, want := range map[string]string{"8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080",
		"localhost:1": "localhost:1", "[::1]:2": "[::1]:2", "": ""} {
		if got := (Options{HTTP: given}).Address(); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// A payload is bounded, whatever its size is said to be.
func TestEmitBound(t *testing.T) {
	tr := &trial{o: options(t, Options{}), typesByName: map[string]*eventType{"tick": {}}}
	r := httptest.NewRequest(http.MethodPost, "/emit/tick", io.MultiReader(strings.NewReader(`{"x":"`), endless{}))
	r.Header.Set("Content-Type", "application/json")
	r.SetPathValue("event", "tick")
	w := httptest.NewRecorder()
	tr.emit(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "1 MiB") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }

// Requests are held up, and some of polls, streams and subscriptions get no answer.
func TestFaulty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trial{o: Options{Drop: 0.5, Delay: time.Second}}
		served := 0
		h := tr.injectFaults(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			body, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Contains(body, []byte("events/")) {
				t.Errorf("%s, %v", body, err)
			}
			if bytes.Contains(body, ofStream) {
				<-r.Context().Done()
			}
			io.WriteString(w, "answer")
		}))
		try := func(method string) (answered bool) {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"method":"`+method+`"}`))
			w := httptest.NewRecorder()
			ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
			defer cancel()
			defer func() {
				if cut := recover(); cut != nil {
					if err, ok := cut.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
						panic(cut)
					}
				}
				answered = strings.Contains(w.Body.String(), "answer")
			}()
			began := time.Now()
			h.ServeHTTP(w, r.WithContext(ctx))
			if time.Since(began) < time.Second {
				t.Error("a request was not held up")
			}
			return
		}
		polls := 0
		for range 200 {
			if !try("events/list") {
				t.Fatal("a list was dropped")
			}
			if try("events/poll") {
				polls++
			}
		}
		// Beyond any chance: 200 coins.
		if polls < 20 || polls > 180 {
			t.Errorf("%d of 200 polls were answered", polls)
		}
		if all := served - 200; all <= polls || all == 200 {
			t.Errorf("%d polls were served and %d answered; some are lost before and some after", all, polls)
		}
		cut := false
		for range 50 {
			began := time.Now()
			try("events/stream")
			cut = cut || time.Since(began) < time.Second+maxStreamLife
		}
		if !cut {
			t.Error("no stream was cut")
		}
	})
}

// Lines on standard input are lost in the same way.
func TestFaultyLines(t *testing.T) {
	tr := &trial{o: Options{Drop: 0.5}}
	in := strings.Repeat("{\"method\":\"events/poll\"}\n", 200) + strings.Repeat("{\"method\":\"initialize\"}\n", 50)
	out, err := io.ReadAll(tr.injectLineFaults(t.Context(), io.NopCloser(strings.NewReader(in))))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "events/poll"); n < 20 || n > 180 {
		t.Errorf("%d of 200 polls passed", n)
	}
	if n := strings.Count(string(out), "initialize"); n != 50 {
		t.Errorf("%d of 50 handshakes passed", n)
	}
}

// The Host is the address that is listened on.
func TestAddressed(t *testing.T) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, test := range []struct {
		http, local, host string
		want              int
	}{
		{"8080", "127.0.0.1", "127.0.0.1:8080", 200},
		{"8080", "127.0.0.1", "localhost:8080", 200},
		{"8080", "127.0.0.1", "LOCALHOST:8080", 200},
		{"8080", "127.0.0.1", "127.0.0.1:8081", 403},
		{"8080", "127.0.0.1", "127.0.0.2:8080", 403},
		{"8080", "127.0.0.1", "127.0.0.1", 403},
		{"8080", "127.0.0.1", "evil.example:8080", 403},
		{"8080", "127.0.0.1", "", 403},
		{"80", "127.0.0.1", "127.0.0.1", 200},
		{"[::1]:8080", "::1", "[::1]:8080", 200},
		{"0.0.0.0:8080", "192.0.2.7", "192.0.2.7:8080", 200},
		{"0.0.0.0:8080", "192.0.2.7", "localhost:8080", 403},
		{"0.0.0.0:8080", "192.0.2.7", "192.0.2.8:8080", 403},
		{"trial.example:8080", "192.0.2.7", "trial.example:8080", 200},
		{"trial.example:8080", "192.0.2.7", "evil.example:8080", 403},
	} {
		tr := &trial{o: Options{HTTP: test.http}}
		port := 8080
		if test.http == "80" {
			port = 80
		}
		addr := &net.TCPAddr{IP: net.ParseIP(test.local), Port: port}
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Host = test.host
		w := httptest.NewRecorder()
		tr.checkHost(addr, ok).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr)))
		if w.Code != test.want {
			t.Errorf("%+v: %d", test, w.Code)
		}
	}
}

// From other machines nobody is let in without the token.
func TestKnown(t *testing.T) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, test := range []struct {
		token, local, path, authorization string
		want                              int
	}{
		{"", "127.0.0.1", "/mcp", "", 200},
		{"", "127.0.0.1", "/emit/a", "", 200},
		{"hush", "127.0.0.1", "/mcp", "", 200},
		{"hush", "127.0.0.1", "/mcp", "Bearer hush", 200},
		{"hush", "127.0.0.1", "/mcp", "Bearer guess", 401},
		{"hush", "127.0.0.1", "/emit/a", "", 401},
		{"hush", "192.0.2.7", "/mcp", "", 401},
		{"hush", "192.0.2.7", "/mcp", "Bearer hush", 200},
	} {
		tr := &trial{o: Options{Token: test.token}}
		r := httptest.NewRequest(http.MethodPost, test.path, nil)
		if test.authorization != "" {
			r.Header.Set("Authorization", test.authorization)
		}
		addr := &net.TCPAddr{IP: net.ParseIP(test.local)}
		w := httptest.NewRecorder()
		tr.authenticate(ok).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr)))
		if w.Code != test.want {
			t.Errorf("%+v: %d", test, w.Code)
		}
	}
}

// Ten wrong tokens of an address are looked at within a minute (S9).
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tr := &trial{o: Options{Token: "hush", Stderr: &log}}
		h := tr.authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(addr, token string) int {
			r := httptest.NewRequest(http.MethodPost, "/emit/tick", nil)
			r.RemoteAddr = addr + ":1"
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for i := range 50 {
			if got, want := ask("192.0.2.7", "guess"), 401; i < 10 && got != want || i >= 10 && got != 429 {
				t.Errorf("guess %d: %d", i, got)
			}
		}
		if got := ask("192.0.2.7", "hush"); got != 429 {
			t.Errorf("the token, from there: %d", got)
		}
		if got := ask("192.0.2.8", "hush"); got != 200 {
			t.Errorf("the token, from elsewhere: %d", got)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if got := ask("192.0.2.7", "hush"); got != 200 {
			t.Errorf("the token, a minute later: %d", got)
		}
		if !strings.Contains(log.String(), "10 wrong tokens within a minute") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%q", log.String())
		}
	})
}

// Who emits is not told what the store says (S1).
func TestEmitTellsNoCause(t *testing.T) {
	var log bytes.Buffer
	tr := &trial{o: options(t, Options{}), typesByName: map[string]*eventType{}}
	tr.o.Stderr = &log
	var err error
	if tr.es, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil), server.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := tr.registerTypes(); err != nil {
		t.Fatal(err)
	}
	if err := tr.es.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/emit/tick", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.SetPathValue("event", "tick")
	w := httptest.NewRecorder()
	tr.emit(w, r)
	if w.Code != 500 || strings.Contains(w.Body.String(), "events:") || strings.Contains(w.Body.String(), "closed") || !strings.Contains(log.String(), "not emitted: ") {
		t.Errorf("%d %s, log %q", w.Code, w.Body, log.String())
	}
}

// OCC-7: what is served without hooks has no private members.
func TestPrivate(t *testing.T) {
	const private = `version: 1
events:
  - {name: tick, description: Ticks., inputSchema: {type: object}, payloadSchema: {type: object, properties: {n: {type: string, x-private: true}}}}
`
	set, found := schema.Load([]string{"events.yaml"}, schema.Options{ReadFile: func(string) ([]byte, error) { return []byte(private), nil }})
	if source.HasErrors(found) {
		t.Fatal(found)
	}
	typ, err := TypeOf(set, set.Files[0].Events[0])
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		tick, err := server.Register(es, typ, server.Hooks[json.RawMessage, json.RawMessage]{})
		if err != nil {
			t.Fatal(err)
		}
		sub := eventstest.Subscribe(t, eventstest.NewClient(t, es), func(ctx context.Context, c *client.Client, args json.RawMessage, o ...client.SubscribeOption) (*client.TypedSubscription[json.RawMessage, json.RawMessage], error) {
			return client.Subscribe(ctx, c, typ, args, o...)
		}, json.RawMessage(`{}`))
		eventstest.Emit(t, tick, json.RawMessage(`{"n":"secret","m":1.50}`))
		if got := string(sub.Next(time.Second).Raw); got != `{"m":1.50}` {
			t.Errorf("received %s", got)
		}
	})
}
