package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/slowpeer"
	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A watchedStore counts what operators' requests ask of it, and fails where it is told to.
type watchedStore struct {
	*memory.Store
	asked atomic.Int64
	fail  atomic.Bool
	// failAudit lets no audit log be opened.
	failAudit atomic.Bool
	// damaged is the id of a record that cannot be read.
	damaged atomic.Pointer[string]
}

func (s *watchedStore) broken(id string) bool { d := s.damaged.Load(); return d != nil && *d == id }

var errMarker = errors.New("dial tcp 10.1.2.3:5432: the store's own words")

func (s *watchedStore) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	s.asked.Add(1)
	if s.broken(id) {
		return store.Subscription{}, false, errMarker
	}
	return s.Store.Subscription(ctx, id)
}

func (s *watchedStore) ListSubscription(ctx context.Context, id string) (l engine.Listed, ok bool, err error) {
	s.asked.Add(1)
	if l.Subscription, ok, err = s.Store.Subscription(ctx, id); s.broken(id) {
		l.Unreadable = engine.UnreadableKey
	}
	return l, ok, err
}

func (s *watchedStore) ListSubscriptions(ctx context.Context, after string, limit int, _ bool) (all []engine.Listed, err error) {
	page, err := s.Subscriptions(ctx, after, limit)
	for _, sub := range page {
		l := engine.Listed{Subscription: sub}
		if s.broken(sub.ID) {
			l.Unreadable = engine.UnreadableKey
		}
		all = append(all, l)
	}
	return all, err
}

func (s *watchedStore) Subscriptions(ctx context.Context, after string, limit int) ([]store.Subscription, error) {
	s.asked.Add(1)
	return s.Store.Subscriptions(ctx, after, limit)
}

func (s *watchedStore) Attempts(ctx context.Context, id string, limit int) ([]operator.Attempt, error) {
	s.asked.Add(1)
	return s.Store.Attempts(ctx, id, limit)
}

func (s *watchedStore) PutSubscription(ctx context.Context, sub store.Subscription) (uint64, error) {
	if s.fail.Load() {
		return 0, errMarker
	}
	return s.Store.PutSubscription(ctx, sub)
}

// An untouchable body fails the test when it is read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, errors.New("untouchable")
}

func (untouchable) Close() error { return nil }

// Of a caller that Authenticate refuses no body is read, and neither the store nor a list is asked for it (S2).
func TestNobodyCostsNothing(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	anonymous := func(r *http.Request) { r.Header.Set("Anonymous", "yes"); r.Body = untouchable{t} }
	before, asked := w.store.asked.Load(), len(w.asked)
	for _, path := range admin.Routes(w.handler) {
		method, path, _ := strings.Cut(path, " ")
		path = strings.NewReplacer("{id}", id, "{name}", "ping", "{$}", "").Replace(path)
		a := w.ask(method, path, "", anonymous, form)
		if path == "/style.css" || path == "/tail.js" {
			continue // nobody's
		}
		w.isProblem(method+" "+path, a, 401, "unauthenticated")
	}
	if n := w.store.asked.Load() - before; n != 0 || len(w.asked) != asked {
		t.Errorf("the store was asked %d times, Authorize %d", n, len(w.asked)-asked)
	}
}

// A body that does not come is waited for 10 s, whether its sender is known or not (S2).
func TestSlowBodies(t *testing.T) {
	for _, head := range []string{
		"POST /api/revoke HTTP/1.1\r\nHost: admin.test\r\nContent-Type: application/json\r\n",
		"POST /revoke HTTP/1.1\r\nHost: admin.test\r\nContent-Type: application/x-www-form-urlencoded\r\n",
		"POST /api/revoke HTTP/1.1\r\nHost: admin.test\r\nAnonymous: yes\r\n",
		"POST /api/revoke HTTP/1.1\r\nHost: evil.test\r\n",
		"POST /api/nothing HTTP/1.1\r\nHost: admin.test\r\n",
		"GET /api/tail HTTP/1.1\r\nHost: admin.test\r\nAnonymous: yes\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTailed(t, false)
			answer, held, err := slowpeer.Hold(&http.Server{Handler: w.h}, head)
			if err != nil || held > 11*time.Second || !strings.HasPrefix(answer, "HTTP/1.1 4") {
				t.Errorf("%s: %v, %v, %.60q", head, held, err, answer)
			}
		})
	}
}

// Members in another case, twice, or followed by something are no members (S4).
func TestStrictBodies(t *testing.T) {
	w := newWorld(t)
	w.subscribe("bob", "/b")
	before := w.state()
	for i, body := range []string{`{"Principal":"bob"}`, `{"principal":"x","principal":"bob"}`, `{"principal":"bob"}{}`, `["bob"]`, `{"principal":1}`} {
		w.isProblem(body, w.ask("POST", "/api/revoke", body, key(fmt.Sprint(i))), 400, "bad_request")
	}
	if after := w.state(); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

// The texts of stores do not reach operators, whatever they are wrapped in (S1).
func TestNoForeignText(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	w.store.fail.Store(true)
	for _, verb := range []string{"pause", "replay", "resume", "end"} {
		body := ""
		if verb == "replay" {
			body = `{"cursor":"no cursor at all"}`
		}
		a := w.ask("POST", "/api/subscriptions/"+id+"/"+verb, body, key(verb))
		if strings.Contains(a.body, "10.1.2.3") || strings.Contains(a.body, "own words") {
			t.Errorf("%s: %s", verb, a.body)
		}
	}
	for _, kind := range []error{events.ErrInvalidParams, events.ErrUnsupported} {
		if detail := admin.Detail(t.Context(), fmt.Errorf("%w: %w", kind, errMarker)); strings.Contains(detail, "10.1.2.3") {
			t.Errorf("%v: %s", kind, detail)
		}
	}
}

// The keys of two actors are two (M5).
func TestKeysAreTheirActors(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	by := func(actor string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Actor", actor) }
	}
	w.until("the first delivery", func() bool { return w.emit.Emit(t.Context(), payload{ID: "1"}, events.WithID("evt_1")) == nil })
	w.until("its attempt", func() bool { return len(get[attempts](w, "/api/subscriptions/"+id+"/attempts").Attempts) == 1 })
	var answers []string
	for _, actor := range []string{"olga", "olga", "ivan"} {
		answers = append(answers, w.perform(id, "send", `{"eventId":"evt_1"}`, "k", by(actor)).body)
	}
	if n := len(w.came()); n != 1+2 {
		t.Errorf("the endpoint got %d messages, want one and one of each actor", n)
	}
	if answers[0] != answers[1] || answers[0] == answers[2] {
		t.Errorf("answers %q", answers)
	}
	if len(w.audit) != 3 || w.audit[0].Actor != "olga" || w.audit[2].Actor != "ivan" {
		t.Errorf("audit %+v", w.audit)
	}
}

// What failed here is tried again under the same key (M6).
func TestFailuresAreNotRemembered(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe("ann", "/a")
	w.store.fail.Store(true)
	pause := func() answered { return w.ask("POST", "/api/subscriptions/"+id+"/pause", "", key("k")) }
	w.isProblem("a store that fails", pause(), 500, "internal")
	w.store.fail.Store(false)
	if a := pause(); a.status != 200 {
		t.Errorf("a store that works again: %d %s", a.status, a.body)
	}
	if s := get[operator.WebhookInfo](w, "/api/subscriptions/"+id).State; s != operator.StatePaused {
		t.Errorf("it is %s", s)
	}
}

// S9: clients behind one proxy are told apart by the address that Options.ClientAddress takes from the proxy's header.
func TestGuessesBehindProxy(t *testing.T) {
	w := newWorld(t)
	var err error
	w.handler, err = admin.NewHandler(w.es, admin.Options{Hosts: []string{"admin.test"}, Logger: slog.New(slog.DiscardHandler),
		Authenticate:  admin.Tokens(map[string]string{"olga": "the right one"}),
		ClientAddress: func(r *http.Request) string { return r.Header.Get("X-Real-IP") }})
	if err != nil {
		t.Fatal(err)
	}
	by := func(client, token string) int {
		return w.ask("GET", "/api/types", "", func(r *http.Request) {
			r.RemoteAddr = "192.0.2.1:9"
			r.Header.Set("Authorization", "Bearer "+token)
			if client != "" {
				r.Header.Set("X-Real-IP", client)
			}
		}).status
	}
	for i, want := range []int{401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 429} {
		if got := by("198.51.100.1", "wrong"); got != want {
			t.Errorf("guess %d: %d", i, got)
		}
	}
	for client, want := range map[string]int{"198.51.100.1": 429, "198.51.100.2": 401, "": 401} {
		if got := by(client, "also wrong"); got != want {
			t.Errorf("%q guesses: %d, want %d", client, got, want)
		}
	}
	if got := by("198.51.100.2", "the right one"); got != 200 {
		t.Errorf("an operator next to it: %d", got)
	}
}

// From one address ten wrong credentials are looked at in a minute; a right one of another address is served
// meanwhile, and the log has one line (S9).
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Operators: operators.New(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer es.Shutdown(context.Background())
		w := &world{t: t}
		tokens, compared := admin.Tokens(map[string]string{"olga": "the right one"}), 0
		w.handler, err = admin.NewHandler(es, admin.Options{Hosts: []string{"admin.test"}, Logger: slog.New(slog.NewJSONHandler(w, nil)),
			Authenticate: func(r *http.Request) (string, error) { compared++; return tokens(r) }})
		if err != nil {
			t.Fatal(err)
		}
		from := func(addr, token string) func(*http.Request) {
			return func(r *http.Request) {
				r.RemoteAddr = addr
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
			}
		}
		for i := range 1500 {
			a := w.ask("GET", "/api/types", "", from(fmt.Sprintf("192.0.2.7:%d", 1024+i), fmt.Sprint(i)))
			if i < 10 {
				w.isProblem("a guess", a, 401, "unauthenticated")
			} else if w.isProblem("a guess too many", a, 429, "too_many_guesses"); a.header.Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		}
		if compared != 10 {
			t.Errorf("%d tokens were compared", compared)
		}
		w.isProblem("the right one, from there", w.ask("GET", "/api/types", "", from("192.0.2.7:9", "the right one")), 429, "too_many_guesses")
		w.isProblem("no token, from there", w.ask("GET", "/api/types", "", from("192.0.2.7:9", "")), 401, "unauthenticated")
		if a := w.ask("GET", "/api/types", "", from("192.0.2.8:9", "the right one")); a.status != 200 {
			t.Errorf("the right one from elsewhere: %d", a.status)
		}
		// It was right, so that others who guess from its owner's address do not lock the owner out.
		if a := w.ask("GET", "/api/types", "", from("192.0.2.7:9", "the right one")); a.status != 200 {
			t.Errorf("the right one, from there, once it is known: %d", a.status)
		}
		w.isProblem("another guess, from there", w.ask("GET", "/api/types", "", from("192.0.2.7:9", "wrong")), 429, "too_many_guesses")
		// An address that has a whole network is one.
		for i := range 11 {
			a := w.ask("GET", "/api/types", "", from(fmt.Sprintf("[2001:db8::%x]:1", i+1), "wrong"))
			if want := 401; i < 10 && a.status != want || i == 10 && a.status != 429 {
				t.Errorf("guess %d of a network: %d", i, a.status)
			}
		}
		// However many addresses there are, the state is bounded.
		for i := range 20_000 {
			w.ask("GET", "/api/types", "", from(fmt.Sprintf("10.%d.%d.1:1", i/250, i%250), "wrong"))
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if a := w.ask("GET", "/api/types", "", from("192.0.2.7:9", "the right one")); a.status != 200 {
			t.Errorf("a minute later: %d", a.status)
		}
		lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
		if len(lines) != 1 || !strings.Contains(lines[0], `"failures":20020`) || !strings.Contains(lines[0], `"most":"`) || strings.Contains(lines[0], "wrong one") {
			t.Errorf("%d lines: %.300q", len(lines), lines)
		}
	})
}
