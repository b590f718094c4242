package inbound_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/slowpeer"
	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/oauth"
	"github.com/mcpe-gen/mcpe-gen/runtime/overlay"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A subject is a handler with requests that it refuses for whose they are, and requests that reach what is behind it.
type subject struct {
	row     string // of the table
	name    string
	handler http.Handler
	refused []request
	reach   []request
}

type request struct {
	method, path, body string
	header             map[string]string
}

func (q request) with(body io.ReadCloser) *http.Request {
	r := httptest.NewRequest(q.method, "http://127.0.0.1"+q.path, strings.NewReader(q.body))
	if body != nil {
		r.Body, r.ContentLength = body, -1
	}
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	return r
}

// head is the request as far as it is known before its body.
func (q request) head() string {
	b := q.method + " " + q.path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	for k, v := range q.header {
		b += k + ": " + v + "\r\n"
	}
	return b
}

// upstream is what a store says that fails.
const upstream = "dial tcp 10.9.8.7:5432: password authentication failed"

// ofUpstream matches a part of it, and not the same letters by chance in an id or a cursor.
var ofUpstream = regexp.MustCompile(`\b(10\.9\.8\.7|5432|authentication failed|dial)\b`)

// A failing store counts what is asked of it, and fails once it is told to.
type failing struct {
	*memory.Store
	broken atomic.Bool
	asked  atomic.Int64
}

func (s *failing) err() error {
	s.asked.Add(1)
	if s.broken.Load() {
		return errors.New(upstream)
	}
	return nil
}

func (s *failing) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return &failingLog{l, s}, err
}

func (s *failing) Ping(ctx context.Context) error { return s.err() }

func (s *failing) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	if err := s.err(); err != nil {
		return store.Subscription{}, false, err
	}
	return s.Store.Subscription(ctx, id)
}

func (s *failing) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Subscriptions(ctx, after, limit)
}

func (s *failing) CountSubscriptions(ctx context.Context, principal string) (own, all int, err error) {
	if err := s.err(); err != nil {
		return 0, 0, err
	}
	return s.Store.CountSubscriptions(ctx, principal)
}

type failingLog struct {
	store.EventLog
	s *failing
}

func (l *failingLog) Append(ctx context.Context, e store.Entry) (store.Position, error) {
	if err := l.s.err(); err != nil {
		return 0, err
	}
	return l.EventLog.Append(ctx, e)
}

func (l *failingLog) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	if err := l.s.err(); err != nil {
		return 0, false, err
	}
	return l.EventLog.AppendOnce(ctx, e, above)
}

func (l *failingLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	if err := l.s.err(); err != nil {
		return store.Batch{}, err
	}
	return l.EventLog.Read(ctx, after, limit)
}

type none struct{}

const rpcMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// subjects are the handlers of package runtime, on a server with that store.
func subjects(t *testing.T, s *failing) []subject {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	identity, err := webhook.NewIdentity(webhook.SigningKey{Private: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	must(err)
	srv := mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Store: s, Logger: log, Webhooks: webhooks.New(webhooks.Options{}), Operators: operators.New()})
	must(err)
	t.Cleanup(func() { es.Shutdown(context.Background()) })
	object := json.RawMessage(`{"type":"object"}`)
	info := events.Info{Name: "tick", Description: "Ticks.", InputSchema: object, PayloadSchema: object}
	emit, err := server.Register(es, events.Type[none, json.RawMessage]{Info: info}, server.Hooks[none, json.RawMessage]{})
	must(err)
	must(server.RegisterCheck(es, events.Type[none, json.RawMessage]{Info: events.Info{Name: "check", Description: "Checks.", InputSchema: object, PayloadSchema: object}},
		func(context.Context, none, string) (events.Page[json.RawMessage], error) {
			return events.Page[json.RawMessage]{}, errors.New(upstream)
		}, server.Hooks[none, json.RawMessage]{}))

	bearer := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if token != "right" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: "ann"}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	rpc := func(method, params string) request {
		return request{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + rpcMeta + `}}`,
			map[string]string{"Authorization": "Bearer right", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}}
	}
	calls := []request{rpc("events/list", `"x":1`), rpc("events/poll", `"name":"tick","cursor":null`), rpc("events/poll", `"name":"tick","cursor":"AQ"`), rpc("events/poll", `"name":"check"`),
		rpc("events/subscribe", `"name":"tick","delivery":{"mode":"webhook","url":"https://example.com/x","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`),
		rpc("events/unsubscribe", `"name":"tick","delivery":{"mode":"webhook","url":"https://example.com/x"}`)}
	wrong := map[string]string{"Authorization": "Bearer wrong", "Content-Type": "application/json"}

	operators, err := admin.NewHandler(es, admin.Options{Hosts: []string{"127.0.0.1"}, Logger: log, Authenticate: admin.Tokens(map[string]string{"olga": "right"})})
	must(err)
	right := map[string]string{"Authorization": "Bearer right", "Idempotency-Key": "k", "Content-Type": "application/json"}
	github, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{"It's a Secret to Everybody"}})
	must(err)
	hooks, err := ingress.NewHandler(github, ingress.Options{Logger: log}, ingress.To(emit, info, ingress.From{Provider: "github"}))
	must(err)
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: log})
	must(err)
	endpoint, err := receiver.Open(webhook.EndpointOptions{})
	must(err)
	wellKnown, err := receiver.WellKnown("")
	must(err)
	tokens, err := oauth.New(oauth.Options{URL: "http://127.0.0.1/mcp", Issuer: "https://id.example.com", Logger: log,
		Verify: func(_ context.Context, token string) (*auth.TokenInfo, error) {
			switch token {
			case "right":
				return &auth.TokenInfo{UserID: "ann"}, nil
			case "away":
				return nil, errors.New(upstream)
			}
			return nil, auth.ErrInvalidToken
		}})
	must(err)
	metadata := http.NewServeMux()
	tokens.Register(metadata)
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
	return []subject{
		{"runtime/oauth Resource.RequireToken", "access tokens", tokens.RequireToken(transport.NewHandler(es, transport.HandlerOptions{Logger: log})), []request{{"POST", "/mcp", "{}", wrong}, {"POST", "/mcp", "{}", nil}},
			append(calls, request{"POST", "/mcp", "{}", map[string]string{"Authorization": "Bearer away"}})},
		{"runtime/oauth Resource.Register", "metadata of access tokens", metadata, []request{{"POST", oauth.MetadataPath, "{}", nil}, {"POST", oauth.MetadataPath + "/other", "{}", nil}}, nil},
		{"runtime/transport handler.ServeHTTP", "MCP", bearer(transport.NewHandler(es, transport.HandlerOptions{Logger: log})), []request{{"POST", "/mcp", "{}", wrong}, {"POST", "/mcp", "{}", nil}}, calls},
		{"runtime/transport handler.ServeHTTP", "MCP, direct", bearer(transport.NewHandler(es, transport.HandlerOptions{Logger: log})), []request{{"POST", "/mcp", "{}", wrong}}, calls},
		{"runtime/overlay handler.ServeHTTP", "MCP next to another server", bearer(overlay.NewHandler(es, next, overlay.Options{Handler: transport.HandlerOptions{Logger: log}})), []request{{"POST", "/mcp", "{}", wrong}, {"POST", "/mcp", "{}", nil}}, calls},
		{"runtime/transport sseHandler.ServeHTTP", "HTTP+SSE", transport.NewSSEHandler(srv, es, nil), []request{{"POST", "/sse?sessionid=guessed", "{}", wrong}}, nil},
		{"runtime/transport AllowOrigins", "pages", transport.AllowOrigins(bearer(transport.NewHandler(es, transport.HandlerOptions{Logger: log})), "https://app.example.com"),
			[]request{{"POST", "/mcp", "{}", map[string]string{"Origin": "https://evil.example.com", "Authorization": "Bearer right"}}, {"POST", "/mcp", "{}", wrong}}, nil},
		{"runtime/transport SameOrigin", "own pages", transport.SameOrigin(bearer(transport.NewHandler(es, transport.HandlerOptions{Logger: log}))),
			[]request{{"POST", "/notes", "{}", map[string]string{"Origin": "https://evil.example.com", "Authorization": "Bearer right"}}, {"POST", "/notes", "{}", wrong}}, nil},
		{"runtime/transport probe.ServeHTTP", "liveness", transport.HealthHandler(es), []request{{"POST", "/", "{}", nil}}, []request{{"GET", "/", "", nil}}},
		{"runtime/transport probe.ServeHTTP", "readiness", transport.ReadyHandler(es), []request{{"POST", "/", "{}", nil}}, []request{{"GET", "/", "", nil}}},
		{"runtime/admin handler.ServeHTTP", "operators", operators, []request{{"POST", "/api/revoke", "{}", wrong}, {"POST", "/revoke", "a=b", nil}, {"GET", "/api/subscriptions/sub_1", "", wrong},
			{"POST", "/api/subscriptions/sub_1/end", "{}", wrong}, {"POST", "/api/connections/stream-1/disconnect", "", nil}, {"GET", "/api/tail", "", nil}, {"GET", "/", "", wrong}},
			[]request{{"GET", "/", "", right}, {"GET", "/api/subscriptions", "", right}, {"GET", "/api/subscriptions/sub_1", "", right}, {"GET", "/api/subscriptions/sub_1/attempts", "", right},
				{"POST", "/api/subscriptions/sub_1/end", "", right}, {"POST", "/api/subscriptions/sub_1/replay", `{"cursor":"x"}`, right}, {"POST", "/api/revoke", `{"principal":"ann"}`, right},
				{"GET", "/subscriptions/sub_1", "", right}}},
		{"runtime/ingress Handler.ServeHTTP", "ingress", hooks, []request{{"POST", "/", "{}", map[string]string{"Content-Type": "application/json"}}, {"POST", "/", "{}", map[string]string{"Content-Type": "application/json", "X-Hub-Signature-256": "?"}}},
			[]request{{"POST", "/", "Hello, World!", map[string]string{"Content-Type": "application/json", "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
				{"POST", "/", `{}`, map[string]string{"Content-Type": "application/json", "X-GitHub-Event": "push", "X-GitHub-Delivery": "1",
					"X-Hub-Signature-256": "sha256=" + signature("It's a Secret to Everybody", "{}")}}}},
		{"runtime/webhook Receiver.ServeHTTP", "receiver", receiver, []request{{"POST", endpoint.Path(), "{}", map[string]string{"Content-Type": "application/json"}}, {"POST", "/mcp/webhooks/guessed", "{}", nil}}, nil},
		{"runtime/webhook Receiver.WellKnown", "consent", wellKnown, []request{{"POST", "/.well-known/x", "{}", nil}}, nil},
		{"runtime/webhook Identity.ServeHTTP", "keys", identity, []request{{"POST", "/.well-known/x", "{}", nil}}, nil},
	}
}

func signature(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// A touched body counts its reads.
type touched struct{ reads atomic.Int64 }

func (b *touched) Read(p []byte) (int, error) {
	b.reads.Add(1)
	clear(p)
	return len(p), nil
}

func (*touched) Close() error { return nil }

// Each handler that keeps the rules itself is among the subjects.
func TestSubjects(t *testing.T) {
	have := map[string]bool{}
	for _, sub := range subjects(t, &failing{Store: memory.New()}) {
		have[sub.row] = true
		if handlers[sub.row] != self {
			t.Errorf("%s is %q in the table", sub.row, handlers[sub.row])
		}
	}
	for row, how := range handlers {
		if how == self && !have[row] {
			t.Errorf("%s is no subject", row)
		}
	}
}

// Of who is not known no body is read, and no store is asked for it.
func TestNobodyCostsWork(t *testing.T) {
	s := &failing{Store: memory.New()}
	for _, sub := range subjects(t, s) {
		for _, q := range sub.refused {
			body, before := &touched{}, s.asked.Load()
			w := httptest.NewRecorder()
			sub.handler.ServeHTTP(w, q.with(body))
			if w.Code < 400 || body.reads.Load() > 0 || s.asked.Load() != before {
				t.Errorf("%s: %s %s: %d after %d reads of the body and %d questions to the store", sub.name, q.method, q.path, w.Code, body.reads.Load(), s.asked.Load()-before)
			}
		}
	}
}

// A refused body that does not come is let go, though net/http waits for it before and after the answer; the server has
// no ReadTimeout here. A middleware before a handler of ours is its server's affair.
func TestRefusedBodiesHaveADeadline(t *testing.T) {
	for i, over := 0, false; !over; i++ {
		synctest.Test(t, func(t *testing.T) {
			all := subjects(t, &failing{Store: memory.New()})
			if over = i == len(all); over {
				return
			}
			sub := all[i]
			for _, q := range sub.refused {
				server := &http.Server{Handler: sub.handler}
				if strings.HasPrefix(sub.name, "MCP") {
					server.ReadTimeout = 30 * time.Second // as scaffolds have it, for the SDK's 401
				}
				answer, held, err := slowpeer.Hold(server, q.head())
				if err != nil || held > 31*time.Second || !strings.HasPrefix(answer, "HTTP/1.1 4") {
					t.Errorf("%s: %s %s: %v, %v, %.60q", sub.name, q.method, q.path, held, err, answer)
				}
			}
		})
	}
}

// Every body has a size: what is larger is refused, and not read to its end.
func TestBodiesHaveASize(t *testing.T) {
	s := &failing{Store: memory.New()}
	for _, sub := range subjects(t, s) {
		for _, q := range sub.reach {
			if q.method == http.MethodGet {
				continue
			}
			body := &touched{}
			w := httptest.NewRecorder()
			sub.handler.ServeHTTP(w, q.with(body))
			if w.Code < 400 || body.reads.Load() > 100_000 {
				t.Errorf("%s: %s %s: %d after %d reads", sub.name, q.method, q.path, w.Code, body.reads.Load())
			}
		}
	}
}

// Nothing of what an upstream says is in an answer, whichever way it fails.
func TestNoTextOfAnUpstream(t *testing.T) {
	s := &failing{Store: memory.New()}
	all := subjects(t, s)
	s.broken.Store(true)
	failed := 0
	for _, sub := range all {
		for _, q := range sub.reach {
			w := httptest.NewRecorder()
			before := s.asked.Load()
			sub.handler.ServeHTTP(w, q.with(nil))
			if w.Code >= 500 || s.asked.Load() > before || strings.Contains(w.Body.String(), `"error"`) {
				failed++
			}
			text := fmt.Sprint(w.Header(), w.Body)
			if ofUpstream.MatchString(text) {
				t.Errorf("%s: %s %s %.80s: %d %s", sub.name, q.method, q.path, q.body, w.Code, text)
			}
		}
	}
	if failed < 15 {
		t.Errorf("%d requests met the failing upstream", failed)
	}
}
