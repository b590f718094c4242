package ingress_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// issue is the payload of the event type that the tests emit.
type issue struct {
	Repo   string   `json:"repo"`
	Number int64    `json:"number"`
	Labels []string `json:"labels,omitzero"`
	Note   *string  `json:"note,omitzero"`
}

func (v *issue) UnmarshalJSON(b []byte) error { return eventsimpl.DecodeStruct(b, v) }

var issueOpened = events.Info{
	Name:        "issue.opened",
	InputSchema: json.RawMessage(`{"type":"object"}`),
	PayloadSchema: json.RawMessage(`{"type":"object","properties":{"repo":{"type":"string","minLength":1},"number":{"type":"integer"},` +
		`"labels":{"type":"array","items":{"type":"string"}},"note":{"type":"string"}},"required":["repo","number"]}`),
}

var issueFields = []ingress.Field{
	{Target: "/repo", Source: "/repository/full_name"}, {Target: "/number", Source: "/issue/number"},
	{Target: "/labels", Source: "/issue/labels/*/name"}, {Target: "/note", Source: "/issue/note"},
}

// A fixture is a server with one event type and the handler of a service that leads to it.
type fixture struct {
	*ingress.Handler
	t       *testing.T
	events  *server.Server
	emitter *server.Emitter[issue]
	log     bytes.Buffer
	begin   string // the cursor when the fixture was made
}

func newFixture(t *testing.T, s ingress.Service, o ingress.Options, from ingress.From, stores ...store.Store) *fixture {
	t.Helper()
	f := &fixture{t: t}
	so := server.Options{}
	if len(stores) > 0 {
		so.Store = stores[0]
	}
	var err error
	if f.events, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil), so); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.events.Shutdown(context.Background()) })
	f.emitter, err = server.Register(f.events, events.Type[struct{}, issue]{Info: issueOpened}, server.Hooks[struct{}, issue]{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if f.Handler, err = ingress.NewHandler(s, o, ingress.To(f.emitter, issueOpened, from)); err != nil {
		t.Fatal(err)
	}
	begin, err := json.Marshal(f.poll("null").Cursor)
	if err != nil {
		t.Fatal(err)
	}
	f.begin = string(begin)
	return f
}

// post sends a message and returns the status of the answer.
func (f *fixture) post(header map[string]string, body string) int {
	f.t.Helper()
	return f.answer(header, body).Code
}

func (f *fixture) answer(header map[string]string, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, "/hook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	return f.do(r)
}

func (f *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// poll returns a page after a cursor, which is JSON.
func (f *fixture) poll(cursor string) wire.PollResult {
	f.t.Helper()
	res, err := port.Of(f.events).Call(f.t.Context(), port.Request{Method: wire.MethodPoll,
		Params: json.RawMessage(`{"name":"issue.opened","cursor":` + cursor + `}`)})
	if err != nil {
		f.t.Fatal(err)
	}
	var page wire.PollResult
	if err := json.Unmarshal(res, &page); err != nil {
		f.t.Fatal(err)
	}
	return page
}

// received are the occurrences since the fixture was made, oldest first.
func (f *fixture) received() []wire.Occurrence {
	f.t.Helper()
	return f.poll(f.begin).Events
}

// wants checks how many occurrences there are.
func (f *fixture) wants(n int) {
	f.t.Helper()
	if got := f.received(); len(got) != n {
		f.t.Errorf("%d occurrences, want %d: %v", len(got), n, got)
	}
}

func sum(secret string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		mac.Write([]byte(p))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

const secret = "It's a Secret to Everybody"

const opened = `{"action":"opened","issue":{"number":7,"labels":[{"name":"bug"},{"name":"ui"}],"note":null},"repository":{"full_name":"a/b"}}`

func gitHub(t *testing.T, secrets ...string) *ingress.GitHub {
	t.Helper()
	if secrets == nil {
		secrets = []string{secret}
	}
	s, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fromIssues() ingress.From {
	return ingress.From{Provider: "github", Event: "issues", Action: "opened", Fields: issueFields}
}

// gitHubHeader is what GitHub sends with a body.
func gitHubHeader(id, body string) map[string]string {
	return map[string]string{"X-GitHub-Event": "issues", "X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=" + sum(secret, body)}
}

// request is a POST of JSON, unless the header has another type.
func request(h http.Header, body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hook", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for name, values := range h {
		r.Header[name] = values
	}
	return r
}

// read returns the one delivery of a request.
func read(s ingress.Service, h http.Header, body []byte) (ingress.Delivery, error) {
	result, err := s.Receive(request(h, body))
	if err != nil || len(result.Deliveries) != 1 {
		return ingress.Delivery{}, cmp.Or(err, fmt.Errorf("%d deliveries", len(result.Deliveries)))
	}
	return result.Deliveries[0], nil
}

// verify returns the error of a request that is not verified.
func verify(s ingress.Service, h http.Header, body []byte) error {
	_, err := s.Receive(request(h, body))
	if errors.Is(err, ingress.ErrHeaders) || errors.Is(err, ingress.ErrStale) || errors.Is(err, ingress.ErrSignature) {
		return err
	}
	return nil
}

func unix(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
