package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/github"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/github/githubclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestReceiverAnswers(t *testing.T) {
	ok := func(context.Context, string, []byte) error { return nil }
	rc := &receiver{secret: []byte("s"), log: quiet, emit: map[string]emitFunc{
		"push":    ok,
		"issues":  func(context.Context, string, []byte) error { return errSkip },
		"release": func(context.Context, string, []byte) error { return errors.New("no room") },
		"fork":    func(context.Context, string, []byte) error { return &bodyError{errors.New("odd")} },
		"star":    func(context.Context, string, []byte) error { return events.ErrInvalidPayload },
	}}
	for _, c := range []struct {
		name, method, event, delivery, signature string
		want                                     int
	}{
		{"taken", "POST", "push", "d", sign("s", []byte("{}")), 202},
		{"another action", "POST", "issues", "d", sign("s", []byte("{}")), 204},
		{"an event of no interest", "POST", "ping", "d", sign("s", []byte("{}")), 204},
		{"emit failed", "POST", "release", "d", sign("s", []byte("{}")), 503},
		{"body not understood", "POST", "fork", "d", sign("s", []byte("{}")), 400},
		{"payload breaks the schema", "POST", "star", "d", sign("s", []byte("{}")), 400},
		{"no signature", "POST", "push", "d", "", 401},
		{"wrong signature", "POST", "push", "d", sign("t", []byte("{}")), 401},
		{"signature of another form", "POST", "push", "d", "sha1=00", 401},
		{"signature that is no hex", "POST", "push", "d", "sha256=zz", 401},
		{"no event", "POST", "", "d", sign("s", []byte("{}")), 400},
		{"no delivery", "POST", "push", "", sign("s", []byte("{}")), 400},
		{"no POST", "GET", "push", "d", sign("s", []byte("{}")), 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/github", strings.NewReader("{}"))
			r.Header.Set("X-GitHub-Event", c.event)
			r.Header.Set("X-GitHub-Delivery", c.delivery)
			r.Header.Set("X-Hub-Signature-256", c.signature)
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("answered %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

// Every real body becomes a payload that its schema accepts, and arrives typed, as JSON and in a form.
func TestRealBodies(t *testing.T) {
	es := eventstest.NewServer(t)
	emit, err := register(es)
	if err != nil {
		t.Fatal(err)
	}
	pulls := eventstest.Subscribe(t, eventstest.NewClient(t, es), githubclient.SubscribePullRequestOpened, github.PullRequestOpenedArguments{})

	rc := httptest.NewServer(&receiver{secret: []byte("s"), emit: emit, log: quiet})
	defer rc.Close()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != 9 {
		t.Fatalf("%d bodies, %v", len(files), err)
	}
	for n, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		event, _, _ := strings.Cut(filepath.Base(f), ".")
		contentType := "application/json"
		if n%2 == 1 {
			body, contentType = []byte(url.Values{"payload": {string(body)}}.Encode()), "application/x-www-form-urlencoded"
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, rc.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-GitHub-Event", event)
		req.Header.Set("X-GitHub-Delivery", "d-"+filepath.Base(f))
		req.Header.Set("X-Hub-Signature-256", sign("s", body))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s: answered %s", f, resp.Status)
		}
	}
	var ids []string
	for range 2 {
		ev := pulls.Next(20 * time.Second)
		ids = append(ids, ev.ID)
		p := ev.Data
		if p.Repo != "Codertocat/Hello-World" || p.Number != 2 || p.Author.Type != github.UserTypeUser || p.Base != "master" || p.CreatedAt.String() != "2019-05-15T15:20:33Z" {
			t.Errorf("payload %+v", p)
		}
	}
	if strings.Join(ids, " ") != "d-pull_request.opened.2.json d-pull_request.opened.json" {
		t.Errorf("event ids %v", ids)
	}
}

func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, []byte(`{"secret-token": "alice"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := withTokens(file, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info := auth.TokenInfoFromContext(r.Context()); info == nil || !info.Expiration.IsZero() {
			t.Errorf("a token of the file expires: %+v", info)
		}
		io.WriteString(w, "in")
	}))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"secret-token": 200, "other": 401, "": 401} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("token %q: %d, want %d", token, w.Code, want)
		}
	}
	if err := os.WriteFile(file, []byte(`["a"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	var syntax *json.UnmarshalTypeError
	if _, err := withTokens(file, nil); !errors.As(err, &syntax) || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is no object: %v", err)
	}
}
