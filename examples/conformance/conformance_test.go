package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A suite calls a running fixture as a conformance suite does.
type suite struct {
	t   *testing.T
	url string
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	kept, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	o := options{controls: true, cadence: 20 * time.Millisecond, heartbeat: time.Second, gcWindow: 300 * time.Millisecond, anonymousAs: "conformance"}
	f := newFixture(o, kept, log)
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	authenticate, err := authentication("")
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(authenticate(f))
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		ts.Close()
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	return &suite{t, ts.URL}
}

func (s *suite) post(ctx context.Context, method, name string, params map[string]any) *http.Response {
	s.t.Helper()
	all := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    wire.RevisionStateless,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "suite", "version": "1"},
	}}
	for k, v := range params {
		all[k] = v
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": all})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": wire.RevisionStateless, "Mcp-Method": method, "Mcp-Name": name} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

type answer struct {
	Result json.RawMessage   `json:"result"`
	Error  *wire.ErrorObject `json:"error"`
}

func (s *suite) call(method, name string, params map[string]any) (a answer) {
	s.t.Helper()
	resp := s.post(s.t.Context(), method, name, params)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, data, ok := bytes.Cut(b, []byte("data: ")); ok {
		b = data
	}
	if err := json.Unmarshal(b, &a); err != nil {
		s.t.Fatalf("%s: %s: %s", method, resp.Status, b)
	}
	return a
}

// control calls a tool and returns its text.
func (s *suite) control(name string, args map[string]any) (text string, declined bool) {
	s.t.Helper()
	name = "events_conformance_" + name
	a := s.call("tools/call", name, map[string]any{"name": name, "arguments": args})
	var r struct {
		Content []struct{ Text string } `json:"content"`
		IsError bool                    `json:"isError"`
	}
	if err := json.Unmarshal(a.Result, &r); err != nil || len(r.Content) != 1 {
		s.t.Fatalf("%s: %s %+v", name, a.Result, a.Error)
	}
	return r.Content[0].Text, r.IsError
}

func (s *suite) must(name string, args map[string]any) string {
	s.t.Helper()
	text, declined := s.control(name, args)
	if declined {
		s.t.Fatalf("%s declined: %s", name, text)
	}
	return text
}

// awaitGeneration returns when the generation serves; while one follows the other the fixture
// answers 503.
func (s *suite) awaitGeneration(want string) {
	s.t.Helper()
	const name = "events_conformance_generation"
	for range 1000 {
		resp := s.post(s.t.Context(), "tools/call", name, map[string]any{"name": name, "arguments": map[string]any{}})
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && bytes.Contains(b, []byte(`"text":"`+want+`"`)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("generation %s never served", want)
}

// stream reads the data frames of a stream.
func (s *suite) stream(ctx context.Context, params map[string]any) <-chan map[string]any {
	s.t.Helper()
	resp := s.post(ctx, wire.MethodStream, "", params)
	frames := make(chan map[string]any, 1000)
	go func() {
		defer close(frames)
		defer resp.Body.Close()
		dec := json.NewDecoder(&dataOnly{r: resp.Body})
		for {
			var m map[string]any
			if dec.Decode(&m) != nil {
				return
			}
			frames <- m
		}
	}()
	return frames
}

// dataOnly strips what is not JSON from a stream of server-sent events.
type dataOnly struct {
	r io.Reader
}

func (d *dataOnly) Read(p []byte) (int, error) {
	buf := make([]byte, len(p))
	n, err := d.r.Read(buf)
	out := strings.ReplaceAll(string(buf[:n]), "data: ", "")
	return copy(p, out), err
}

func next(t *testing.T, frames <-chan map[string]any, method string) map[string]any {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case m, ok := <-frames:
			if !ok {
				t.Fatalf("the stream ended before %s", method)
			}
			if m["method"] == method || method == "" && m["result"] != nil {
				return m
			}
		case <-timeout:
			t.Fatalf("no %s", method)
		}
	}
}

// The catalogue, its order, its pages and its modes.
func TestCatalogue(t *testing.T) {
	s := newSuite(t)
	var got []string
	cursor := ""
	for page := 1; ; page++ {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var r wire.ListResult
		if err := json.Unmarshal(s.call(wire.MethodList, "", params).Result, &r); err != nil {
			t.Fatal(err)
		}
		for _, d := range r.Events {
			got = append(got, fmt.Sprint(page, " ", d.Name, " ", d.Delivery))
		}
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	want := "1 conformance.tick [poll push webhook]; 1 conformance.spare [poll push]; 1 conformance.capped [push]; 2 conformance.hook [webhook]"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

func TestStreamControls(t *testing.T) {
	s := newSuite(t)
	frames := s.stream(t.Context(), map[string]any{"name": "conformance.spare", "cursor": nil})
	first := next(t, frames, wire.NotificationActive)["params"].(map[string]any)["cursor"]
	s.must("yield_error", map[string]any{"name": "conformance.spare"})
	next(t, frames, wire.NotificationError)
	s.must("yield_gap", map[string]any{"name": "conformance.spare"})
	gap := next(t, frames, wire.NotificationActive)["params"].(map[string]any)
	if gap["truncated"] != true || gap["cursor"] == "" || gap["cursor"] == first {
		t.Errorf("active after the gap: %v, first cursor %v", gap, first)
	}
	s.must("terminate", map[string]any{"name": "conformance.spare"})
	next(t, frames, wire.NotificationTerminated)
	next(t, frames, "") // the final result
	if a := s.call(wire.MethodPoll, "", map[string]any{"name": "conformance.spare", "cursor": nil}); a.Error == nil {
		t.Error("a terminated type still answers polls")
	}
	if a := s.call(wire.MethodSubscribe, "", map[string]any{"name": "conformance.spare", "delivery": map[string]any{"mode": "webhook", "url": "https://x.example/", "secret": webhook.NewSecret().Text()}}); a.Error == nil || a.Error.Code != wire.Sketch.Code(wire.Unsupported) {
		t.Errorf("the mode is checked before the terminated state: %+v", a.Error)
	}
	if text, declined := s.control("terminate", map[string]any{"name": "nosuch"}); !declined {
		t.Errorf("an unknown type was answered with %q", text)
	}
	if got := s.must("quota", nil); got != `{"name":"conformance.capped","max":2}` {
		t.Errorf("quota %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		next(t, s.stream(ctx, map[string]any{"name": "conformance.capped", "cursor": nil}), wire.NotificationActive)
	}
	a := s.call(wire.MethodStream, "", map[string]any{"name": "conformance.capped", "cursor": nil})
	if a.Error == nil || string(a.Error.Data) != `{"limit":"streams","max":2}` {
		t.Errorf("a third stream: %+v", a.Error)
	}
}

// every asks for every nth event only.
func TestEvery(t *testing.T) {
	s := newSuite(t)
	frames := s.stream(t.Context(), map[string]any{"name": "conformance.tick", "arguments": map[string]any{"every": 3}, "cursor": nil})
	for range 2 {
		data := next(t, frames, wire.NotificationEvent)["params"].(map[string]any)["data"].(map[string]any)
		if int(data["seq"].(float64))%3 != 0 {
			t.Errorf("event %v", data)
		}
	}
}

// A callback is a receiver of the suite's that answers as it is told.
type callback struct {
	*httptest.Server
	secret webhook.Secret
	mu     sync.Mutex
	types  []string
	fail   bool
}

func newCallback(t *testing.T) *callback {
	c := &callback{secret: webhook.NewSecret()}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		if _, err := (webhook.Verifier{Secrets: []webhook.Secret{c.secret}}).Verify(r.Header, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		var e webhook.Envelope
		json.Unmarshal(body, &e)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.types = append(c.types, e.Type)
		switch {
		case e.Type == wire.EnvelopeVerification:
			json.NewEncoder(w).Encode(wire.ChallengeAnswer{Challenge: e.Challenge})
		case c.fail:
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *callback) saw(t *testing.T, kind string) {
	t.Helper()
	for range 500 {
		c.mu.Lock()
		n := strings.Count(" "+strings.Join(c.types, " ")+" ", " "+kind+" ")
		c.mu.Unlock()
		if n > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q arrived", kind)
}

func TestWebhookControls(t *testing.T) {
	s := newSuite(t)
	c := newCallback(t)
	for _, bad := range []string{c.URL + "/path", c.URL + "?q=1", "http://user@127.0.0.1:1", "127.0.0.1"} {
		if _, declined := s.control("allow_callback_origin", map[string]any{"origin": bad}); !declined {
			t.Errorf("origin %s was allowed", bad)
		}
	}
	subscribe := func(ttl any) (wire.ErrorObject, map[string]any) {
		a := s.call(wire.MethodSubscribe, "", map[string]any{"name": "conformance.hook", "cursor": nil, "ttlMs": ttl,
			"delivery": map[string]any{"mode": "webhook", "url": c.URL + "/hook", "secret": c.secret.Text()}})
		if a.Error != nil {
			return *a.Error, nil
		}
		var r map[string]any
		if err := json.Unmarshal(a.Result, &r); err != nil {
			t.Fatal(err)
		}
		return wire.ErrorObject{}, r
	}
	if e, _ := subscribe(nil); e.Code != -32602 {
		t.Errorf("a plain http callback before it is allowed: %+v", e)
	}
	if got := s.must("allow_callback_origin", map[string]any{"origin": c.URL}); got != c.URL {
		t.Errorf("answered %q", got)
	}
	e, r := subscribe(60000)
	if r == nil {
		t.Fatalf("subscribe: %+v", e)
	}
	id := r["id"].(string)
	if got := s.must("subscription_state", map[string]any{"id": id}); got != "active" {
		t.Errorf("state %q", got)
	}
	if got := s.must("webhook_gap", map[string]any{"id": id}); got == "" {
		t.Error("no cursor")
	}
	c.saw(t, wire.EnvelopeGap)

	key := map[string]any{"principal": "conformance", "name": "conformance.hook", "url": c.URL + "/hook"}
	if got := s.must("subscription_exists", key); got != "true" {
		t.Errorf("exists %q", got)
	}
	other := map[string]any{"principal": "bob", "name": "conformance.hook", "url": c.URL + "/hook"}
	if got := s.must("subscription_exists", other); got != "false" {
		t.Errorf("bob's exists %q", got)
	}
	bob := s.must("subscribe_as", map[string]any{"principal": "bob", "name": "conformance.hook", "url": allowListed + "/bob"})
	if !strings.HasPrefix(bob, "sub_") || bob == id {
		t.Errorf("bob's id %q", bob)
	}

	if got := s.must("restart", nil); got != "2" {
		t.Errorf("restart answered %q", got)
	}
	s.awaitGeneration("2")
	if got := s.must("subscription_state", map[string]any{"id": id}); got != "active" {
		t.Errorf("state after the restart %q", got)
	}
	s.must("webhook_terminate", map[string]any{"id": id})
	c.saw(t, wire.EnvelopeTerminated)
	if got := s.must("subscription_state", map[string]any{"id": id}); got != "absent" {
		t.Errorf("state after the end %q", got)
	}

	// Without expiry and failing: removed after the window.
	c.mu.Lock()
	c.fail = true
	c.mu.Unlock()
	_, r = subscribe(nil)
	if r == nil || r["refreshBefore"] != nil {
		t.Fatalf("without expiry: %v", r)
	}
	for i := 0; s.must("subscription_state", map[string]any{"id": id}) != "absent"; i++ {
		if i == 500 {
			t.Fatal("a failing subscription without expiry was not removed")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestFlags(t *testing.T) {
	for argv, want := range map[string]string{
		"-controls -addr 0.0.0.0:80": "refused",
		"-controls -addr :80":        "refused",
		"-cadence 0s":                "must be positive",
		"extra":                      "unexpected argument",
	} {
		if _, err := parse(strings.Fields(argv), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", argv, err)
		}
	}
	for _, argv := range []string{"-controls -addr 127.0.0.1:0", "-controls -addr localhost:0", "-controls -addr [::1]:0", "-addr 0.0.0.0:80"} {
		if _, err := parse(strings.Fields(argv), io.Discard); err != nil {
			t.Errorf("%s: %v", argv, err)
		}
	}
}
