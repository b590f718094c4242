package ingress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// A signed webhook becomes one occurrence under the service's id of the delivery, however often it is delivered
// (OCC-5), at once or at the same time, also after a restart.
func TestDeliveredTwiceEmittedOnce(t *testing.T) {
	db := filepath.Join(t.TempDir(), "events.db")
	begin := ""
	for life := range 2 {
		kept, err := sqlite.Open(t.Context(), db, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues(), kept)
		if life == 0 {
			begin = f.begin
		}
		f.begin = begin
		var sent sync.WaitGroup
		for range 8 {
			sent.Go(func() {
				if status := f.answer(gitHubHeader("d-1", opened), opened).Code; status != http.StatusNoContent {
					t.Errorf("status %d, want 204", status)
				}
			})
		}
		sent.Wait()
		got := f.received()
		if len(got) != 1 || got[0].EventID != "d-1" || string(got[0].Data) != `{"repo":"a/b","number":7,"labels":["bug","ui"]}` {
			t.Fatalf("life %d: received %+v", life, got)
		}
		f.events.Shutdown(t.Context())
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A delivery that comes again with another body, as services do that count attempts in it, is the same (OCC-5).
func TestSameDeliveryOtherBody(t *testing.T) {
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
	other := strings.Replace(opened, "7", "8", 1)
	for _, body := range []string{opened, other} {
		if status := f.post(gitHubHeader("d-1", body), body); status != http.StatusNoContent {
			t.Errorf("status %d", status)
		}
	}
	f.wants(1)
	if !strings.Contains(f.log.String(), "redelivered with another body") {
		t.Errorf("the log says nothing: %s", &f.log)
	}
}

// Whatever is wrong with who sent a message is answered alike, with the same advice, and nothing is emitted.
func TestRefusedAlike(t *testing.T) {
	good := gitHubHeader("d-1", opened)
	with := func(name, value string) map[string]string {
		h := maps.Clone(good)
		if value == "" {
			delete(h, name)
		} else {
			h[name] = value
		}
		return h
	}
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
	first := ""
	for _, h := range []map[string]string{
		with("X-Hub-Signature-256", ""), with("X-Hub-Signature-256", "sha256="+sum("guessed", opened)), with("X-Hub-Signature-256", "sha1=00"),
		with("X-Hub-Signature-256", "sha256=\n\x1b[31m"), with("X-Hub-Signature-256", strings.Repeat("a", 1<<20)),
	} {
		w := f.answer(h, opened)
		said := fmt.Sprint(w.Code, w.Header(), w.Body)
		if first == "" {
			first = said
		}
		if w.Code != http.StatusUnauthorized || !strings.Contains(said, "set the same secret at the sender") || said != first {
			t.Errorf("%q: answered %s, the first %s", h["X-Hub-Signature-256"][:min(20, len(h["X-Hub-Signature-256"]))], said, first)
		}
	}
	f.wants(0)
	if text := f.log.String(); strings.Contains(text, secret) || strings.Contains(text, "\x1b") || !strings.Contains(text, ingress.ErrSignature.Error()) {
		t.Errorf("the log: %s", text)
	}
}

// Each failure is answered with a line that says what to do, and a success with nothing.
func TestStatuses(t *testing.T) {
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for _, c := range []struct {
		name, method, body string
		header             map[string]string
		want               int
	}{
		{"GET", http.MethodGet, "", nil, 405},
		{"form", "POST", url.Values{"payload": {opened}}.Encode(), form, 204},
		{"form of two", "POST", url.Values{"payload": {opened, opened}}.Encode(), form, 415},
		{"form without a payload", "POST", opened, form, 415},
		{"form that is cut", "POST", "payload=%7", form, 415},
		{"form of no JSON", "POST", "payload=%7Bnot", form, 400},
		{"form by GET", http.MethodGet, "", form, 405},
		{"form packed", "POST", "payload={}", map[string]string{"Content-Type": form["Content-Type"], "Content-Encoding": "zstd"}, 415},
		{"form of others", "POST", "payload={}", map[string]string{"Content-Type": form["Content-Type"], "X-Hub-Signature-256": "sha256=00"}, 401},
		{"another form", "POST", opened, map[string]string{"Content-Type": "multipart/form-data"}, 415},
		{"no type", "POST", opened, map[string]string{"Content-Type": ""}, 415},
		{"packed", "POST", opened, map[string]string{"Content-Encoding": "zstd"}, 415},
		{"charset", "POST", opened, map[string]string{"Content-Type": "application/json; charset=utf-8"}, 204},
		{"cloud events", "POST", opened, map[string]string{"Content-Type": "application/cloudevents+json"}, 204},
		{"not JSON", "POST", "{not json", nil, 400},
		{"two documents", "POST", "{}{}", nil, 400},
		{"an array", "POST", "[]", nil, 400},
		{"a member twice", "POST", `{"action":"opened","action":"closed"}`, nil, 400},
		{"invalid UTF-8", "POST", "{\"action\":\"\xff\"}", nil, 400},
		{"deep", "POST", strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600), nil, 400},
		{"another type", "POST", `{"action":7}`, nil, 400},
		{"no delivery id", "POST", opened, map[string]string{"X-GitHub-Delivery": ""}, 400},
		{"nobody mapped", "POST", `{"action":"opened"}`, map[string]string{"X-GitHub-Event": "star"}, 202},
		{"another action", "POST", `{"action":"closed"}`, nil, 202},
		{"too large", "POST", `{"a":"` + strings.Repeat("a", 25<<20) + `"}`, nil, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
			r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			for k, v := range gitHubHeader("d-1", c.body) {
				r.Header.Set(k, v)
			}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("answered %d %q, want %d\n%s", w.Code, w.Body, c.want, &f.log)
			}
			if !isAdvice(w) {
				t.Errorf("answered %q, %q", w.Header(), w.Body)
			}
			if n := len(f.received()); (n == 1) != (c.want == 204) {
				t.Errorf("%d occurrences", n)
			}
		})
	}
}

// isAdvice reports whether the body of an answer is a line of text, or empty unless the status is a failure.
func isAdvice(w *httptest.ResponseRecorder) bool {
	text := w.Body.String()
	if w.Code < http.StatusBadRequest {
		return text == ""
	}
	return strings.Contains(text, ": ") && strings.Index(text, "\n") == len(text)-1 && w.Header().Get("Content-Type") == "text/plain; charset=utf-8"
}

// endless is a body that never ends.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	e.read += int64(len(b))
	return len(b), nil
}

// A body of 100 MB is refused after a bound, whether or not it says its length (CAP-5).
func TestHugeBody(t *testing.T) {
	for _, length := range []int64{100 << 20, -1} {
		f := newFixture(t, gitHub(t), ingress.Options{MaxBody: 64 << 10}, fromIssues())
		body := &endless{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.LimitReader(body, 100<<20))
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Hub-Signature-256", "sha256=00")
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || body.read > 1<<20 {
			t.Errorf("length %d: status %d after %d bytes", length, w.Code, body.read)
		}
	}
}

// A body that does not come is given up.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
		client, server := net.Pipe()
		web := &http.Server{Handler: f}
		served := make(chan struct{})
		go func() { defer close(served); web.Serve(&oneConn{conn: server, done: make(chan struct{})}) }()
		begun := time.Now()
		io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 10\r\n\r\n{")
		answer := make([]byte, 64)
		n, err := client.Read(answer)
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 408 ")) {
			t.Errorf("answered %q, %v", answer[:n], err)
		}
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("after %v", d)
		}
		client.Close()
		web.Close()
		<-served
		f.events.Shutdown(context.Background())
	})
}

// A oneConn is a listener of one connection.
type oneConn struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.IPAddr{} }

// What does not fit payloadSchema is logged by pointer, never by value, and answered 202, or 422 by option.
func TestUnfit(t *testing.T) {
	const private = "s3cret-of-the-payload"
	for _, c := range []struct{ name, body, pointer string }{
		{"missing", `{"action":"opened","repository":{"full_name":"` + private + `"},"issue":{}}`, "/number"},
		{"type", `{"action":"opened","repository":{"full_name":"a/b"},"issue":{"number":"` + private + `"}}`, "/number"},
		{"empty", `{"action":"opened","repository":{"full_name":""},"issue":{"number":1,"note":"` + private + `"}}`, "/repo"},
		{"element", `{"action":"opened","repository":{"full_name":"a/b"},"issue":{"number":1,"labels":[{"name":{"` + private + `":1}}]}}`, "/labels/0"},
		{"integer", `{"action":"opened","repository":{"full_name":"a/b"},"issue":{"number":99999999999999999999}}`, "/number"},
	} {
		for refuse, want := range map[bool]int{false: 202, true: 422} {
			f := newFixture(t, gitHub(t), ingress.Options{RefuseUnfit: refuse}, fromIssues())
			if status := f.post(gitHubHeader("d-1", c.body), c.body); status != want {
				t.Errorf("%s: status %d, want %d", c.name, status, want)
			}
			f.wants(0)
			if text := f.log.String(); !strings.Contains(text, c.pointer) || strings.Contains(text, private) || strings.Contains(text, "99999") {
				t.Errorf("%s: the log: %s", c.name, text)
			}
		}
	}
}

// Without fields the body is the payload, of which the type keeps what it describes; the whole of it is checked.
func TestBodyIsThePayload(t *testing.T) {
	from := ingress.From{Provider: "github", Event: "issues"}
	f := newFixture(t, gitHub(t), ingress.Options{}, from)
	const body = `{"repo":"a/b","number":1e1,"unknown":{"x":[1]}}`
	if status := f.post(gitHubHeader("d-1", body), body); status != 204 {
		t.Errorf("status %d: %s", status, &f.log)
	}
	if got := f.received(); len(got) != 1 || string(got[0].Data) != `{"repo":"a/b","number":10}` {
		t.Errorf("received %+v", got)
	}
	const short = `{"repo":"a/b"}`
	if status := f.post(gitHubHeader("d-2", short), short); status != 202 {
		t.Errorf("a missing member is filled in: status %d", status)
	}
	f.wants(1)
}

// The challenge of Slack is answered once its signature holds, and never before.
func TestChallenge(t *testing.T) {
	s, err := ingress.NewSlack(ingress.SlackOptions{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, s, ingress.Options{}, ingress.From{Provider: "slack", Event: "message"})
	const body = `{"token":"t","challenge":"3eZbrw1a","type":"url_verification"}`
	stamp := unix(0)
	w := f.answer(map[string]string{"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + sum("guessed", "v0:", stamp, ":", body)}, body)
	if w.Code != 401 || !isAdvice(w) {
		t.Errorf("unsigned: %d %s", w.Code, w.Body)
	}
	w = f.answer(map[string]string{"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + sum(secret, "v0:", stamp, ":", body)}, body)
	if w.Code != 200 || w.Body.String() != "3eZbrw1a" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("signed: %d %s %v", w.Code, w.Body, w.Header())
	}
	f.wants(0)
}

// A store that fails makes the service send again: 503, and 204 once it is in the log.
func TestNotDurable(t *testing.T) {
	kept := &failing{Store: memory.New(), fail: true}
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues(), kept)
	if status := f.post(gitHubHeader("d-1", opened), opened); status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", status)
	}
	kept.fail = false
	if status := f.post(gitHubHeader("d-1", opened), opened); status != http.StatusNoContent {
		t.Errorf("status %d, want 204", status)
	}
	f.wants(1)
	f.events.Shutdown(t.Context())
	if status := f.post(gitHubHeader("d-2", opened), opened); status != http.StatusServiceUnavailable {
		t.Errorf("after Shutdown: status %d, want 503", status)
	}
}

// failing is a store whose logs do not take anything while fail is set.
type failing struct {
	store.Store
	fail bool
	only string // logs whose name has it
}

func (s *failing) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return &failingLog{l, s, name}, err
}

type failingLog struct {
	store.EventLog
	of   *failing
	name string
}

func (l *failingLog) AppendOnce(ctx context.Context, e store.Entry, above store.Position) (store.Position, bool, error) {
	if l.of.fail && strings.Contains(l.name, l.of.only) {
		return 0, false, errors.New("disk full")
	}
	return l.EventLog.AppendOnce(ctx, e, above)
}

// Where routes say where the id is: in the body, text or number, or in a header; without one nothing is emitted.
func TestIDOfTheRoute(t *testing.T) {
	s, err := ingress.NewHMAC(ingress.HMACOptions{Secrets: []string{secret}, Header: "X-Signature"})
	if err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{"/meta/id": "o-1", "/n": "17", "X-Order": "7", "/missing": "", "/meta": "", "X-Missing": ""} {
		f := newFixture(t, s, ingress.Options{}, ingress.From{Provider: "hmac", ID: place, Fields: []ingress.Field{{Target: "/repo", Source: "/r"}, {Target: "/number", Source: "/n"}}})
		const body = `{"meta":{"id":"o-1"},"r":"a","n":17}`
		status := f.post(map[string]string{"X-Signature": sum(secret, body), "X-Order": "7"}, body)
		got := f.received()
		switch {
		case want == "" && (status != 202 || len(got) != 0 || !strings.Contains(f.log.String(), place)):
			t.Errorf("%s: status %d, %d occurrences: %s", place, status, len(got), &f.log)
		case want != "" && (status != 204 || len(got) != 1 || got[0].EventID != want):
			t.Errorf("%s: status %d, %+v", place, status, got)
		}
	}
}

// An id that cannot be an eventId is hashed, so that it still tells deliveries apart (OCC-2).
func TestUnspeakableID(t *testing.T) {
	f := newFixture(t, gitHub(t), ingress.Options{}, fromIssues())
	for _, id := range []string{"a b", "a b", "a  b", strings.Repeat("x", 300), "é"} {
		if status := f.post(gitHubHeader(id, opened), opened); status != 204 {
			t.Errorf("%q: status %d", id, status)
		}
	}
	f.wants(4)
}
