package client

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// The client scenarios of the public conformance suite: the harness is the server and grades what a client with
// default options sends. It lists two types, one with replay and one without, in the one mode of the scenario.
const (
	suiteTicks      = "conformance.ticks"
	suiteCursorless = "conformance.cursorless"
)

// A suiteRow is one row that a scenario grades; it fails by default, as what cannot be tried does.
type suiteRow struct {
	name   string
	passed bool
}

// A suiteServer is the harness of one scenario.
type suiteServer struct {
	*fake
	began time.Time

	mu    sync.Mutex
	calls map[string][]suiteCall // by event type, or by method for events/list
	rows  []suiteRow
}

// A suiteCall is one request for a type.
type suiteCall struct {
	at     time.Duration
	cursor *string
	url    string
	args   string
}

func (s *suiteServer) noted(name string, c suiteCall) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.at = time.Since(s.began)
	s.calls[name] = append(s.calls[name], c)
	return len(s.calls[name])
}

func (s *suiteServer) grade(name string, passed bool) {
	s.rows = append(s.rows, suiteRow{"sep-9999-client-" + name, passed})
}

// between is the time from the nth request for a type, from 1, to the next one; 0 when there is none.
func (s *suiteServer) between(name string, n int) time.Duration {
	if len(s.calls[name]) <= n {
		return 0
	}
	return s.calls[name][n].at - s.calls[name][n-1].at
}

// cursor is that of the nth request for a type, "absent" when there is none.
func (s *suiteServer) cursor(name string, n int) string {
	if len(s.calls[name]) < n {
		return "absent"
	}
	if c := s.calls[name][n-1].cursor; c != nil {
		return *c
	}
	return "null"
}

func (s *suiteServer) offer(mode string) {
	s.list = func() []wire.Descriptor {
		return []wire.Descriptor{descriptor(suiteTicks, mode), descriptor(suiteCursorless, mode)}
	}
}

// pollScenario is events-client-poll, 10 s.
func (s *suiteServer) pollScenario() (grade func()) {
	s.offer(wire.ModePoll)
	ticks := []string{
		`{"events":[],"cursor":"tick-1","truncated":false,"hasMore":true,"nextPollMs":3000}`,
		`{"events":[],"cursor":"tick-2","truncated":false,"hasMore":false,"nextPollMs":2000}`,
		`{"events":[],"cursor":"tick-3","truncated":false,"hasMore":false,"nextPollMs":0}`,
		`{"events":[],"cursor":"tick-fresh","truncated":true,"hasMore":false,"nextPollMs":1000}`,
		`{"events":[],"cursor":"tick-5","truncated":false,"hasMore":false,"nextPollMs":1000}`,
	}
	cursorless := []string{
		`{"events":[],"cursor":null,"truncated":false,"hasMore":false,"nextPollMs":1000}`,
		`{"events":[],"truncated":false,"hasMore":false,"nextPollMs":1000}`,
	}
	changed := time.Duration(0)
	s.refuse = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Request) bool {
		switch m.Method {
		case wire.MethodList:
			s.noted(wire.MethodList, suiteCall{})
		case wire.MethodPoll:
			p, err := wire.DecodePollParams(m.Params)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return true
			}
			n := s.noted(p.Name, suiteCall{cursor: p.Cursor})
			answers := ticks
			if p.Name == suiteCursorless {
				answers = cursorless
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, idText(m.ID.Raw()), answers[min(n, len(answers))-1])
			if p.Name == suiteTicks && n == 5 {
				changed = time.Since(s.began)
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/list_changed\"}\n\ndata: "+answer+"\n\n")
				return true
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, answer)
			return true
		}
		return false
	}
	return func() {
		s.grade("poll-drain-on-has-more", len(s.calls[suiteTicks]) > 1 && s.between(suiteTicks, 1) <= time.Second)
		s.grade("poll-respects-next-poll-ms", s.between(suiteTicks, 2) >= 1800*time.Millisecond)
		s.grade("poll-floor", s.between(suiteTicks, 3) >= 900*time.Millisecond)
		s.grade("truncated-persists-fresh-cursor", s.cursor(suiteTicks, 5) == "tick-fresh")
		lists := s.calls[wire.MethodList]
		s.grade("relist-on-list-changed", changed > 0 && len(lists) > 0 && lists[len(lists)-1].at >= changed)
		s.grade("null-cursor-not-replayed", s.cursor(suiteCursorless, 2) == "null")
		s.grade("cursor-absent-tolerated", s.cursor(suiteCursorless, 3) == "null")
	}
}

// pushScenario is events-client-push, 9 s: a stream with heartbeats that falls silent and stays open.
func (s *suiteServer) pushScenario() (grade func()) {
	s.offer(wire.ModePush)
	s.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
		s.noted(st.p.Name, suiteCall{cursor: st.p.Cursor})
		cursor := func(n int) string {
			if st.p.Name == suiteCursorless {
				return ""
			}
			return fmt.Sprint("hb-", n)
		}
		st.active(cursor(0))
		for n := 1; n <= 4; n++ {
			time.Sleep(500 * time.Millisecond)
			st.heartbeat(cursor(n))
		}
		return hold(st)
	}
	return func() {
		s.grade("stream-reconnect-with-cursor", s.cursor(suiteTicks, 2) == "hb-4")
		s.grade("null-cursor-not-replayed", s.cursor(suiteCursorless, 2) == "null")
	}
}

// webhookScenario is events-client-webhook, 8 s: each grant ends after 2.5 s.
func (s *suiteServer) webhookScenario() (grade func()) {
	s.offer(wire.ModeWebhook)
	grants := map[string]time.Duration{} // when the newest one ends
	inTime := true
	s.refuse = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Request) bool {
		if m.Method != wire.MethodSubscribe {
			return false
		}
		p, err := wire.DecodeSubscribeParams(m.Params)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return true
		}
		c := suiteCall{cursor: p.Cursor, url: p.Delivery.URL, args: string(p.Arguments)}
		n := s.noted(p.Name, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		c.at, c.cursor = 0, nil
		before := s.calls[p.Name][0]
		before.at, before.cursor = 0, nil
		if n > 1 && (time.Since(s.began) > grants[p.Name] || c != before) {
			inTime = false
		}
		grants[p.Name] = time.Since(s.began) + 2500*time.Millisecond
		cursor := `"sub-1"`
		if p.Name == suiteCursorless {
			cursor = "null"
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"id":"sub_%s","refreshBefore":%q,"cursor":%s,"truncated":false}}`,
			idText(m.ID.Raw()), p.Name, time.Now().Add(2500*time.Millisecond).UTC().Format(time.RFC3339Nano), cursor)
		return true
	}
	return func() {
		s.grade("refresh-before-expiry", inTime && len(s.calls[suiteTicks]) > 3 && len(s.calls[suiteCursorless]) > 3)
		s.grade("null-cursor-not-replayed", s.cursor(suiteCursorless, 2) == "null")
	}
}

// silentScenario is events-client-no-extension, 2 s: no capability, yet answers to every method.
func (s *suiteServer) silentScenario() (grade func()) {
	s.offer(wire.ModePoll)
	s.caps = `{}`
	s.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c0", false, 1000), nil }
	return func() {
		none := true
		for _, method := range s.methods() {
			none = none && !strings.HasPrefix(method, wire.MethodPrefix)
		}
		s.grade("no-events-without-extension", none && len(s.methods()) > 0)
	}
}

// The client passes the client scenarios of the public suite with default options: 12 of 12 in both eras (CLI-1
// to CLI-5, CLI-7a, CLI-9, CAP-2, P3).
func TestConformanceClientSuite(t *testing.T) {
	scenarios := []struct {
		name  string
		lasts time.Duration
		play  func(*suiteServer) func()
	}{
		{"events-client-poll", 10 * time.Second, (*suiteServer).pollScenario},
		{"events-client-push", 9 * time.Second, (*suiteServer).pushScenario},
		{"events-client-webhook", 8 * time.Second, (*suiteServer).webhookScenario},
		{"events-client-no-extension", 2 * time.Second, (*suiteServer).silentScenario},
	}
	for _, c := range carriers[2:] {
		passed, graded := 0, 0
		for _, sc := range scenarios {
			var rows []suiteRow
			synctest.Test(t, func(t *testing.T) {
				s := &suiteServer{fake: newFake(c.legacy), began: time.Now(), calls: map[string][]suiteCall{}}
				grade := sc.play(s)
				suiteClient(t, s, c, sc.lasts)
				s.mu.Lock()
				defer s.mu.Unlock()
				grade()
				rows = s.rows
			})
			for _, row := range rows {
				graded++
				if row.passed {
					passed++
				}
				t.Run(c.name+"/"+sc.name+"/"+row.name, func(t *testing.T) {
					if !row.passed {
						t.Error("failed")
					}
				})
			}
		}
		if t.Logf("%s: %d of %d", c.name, passed, graded); graded != 12 {
			t.Errorf("%s: %d rows", c.name, graded)
		}
	}
}

// suiteClient does what examples/conformance-client does: it lists, subscribes to all that is listed, and goes on
// for so long.
func suiteClient(t *testing.T, s *suiteServer, c carrier, lasts time.Duration) {
	quiet := slog.New(slog.DiscardHandler)
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cl := connect(t, s.fake, c, Options{Logger: quiet, Webhook: &WebhookOptions{PublicURL: "https://client.example", Receiver: receiver}})
	defer cl.Close()
	listed, _ := cl.List(t.Context())
	for _, d := range listed {
		sub, err := Subscribe(t.Context(), cl, Dynamic(d.Name), json.RawMessage(nil))
		if err != nil {
			t.Error(err)
			continue
		}
		go func() {
			for range sub.Events() {
			}
		}()
	}
	time.Sleep(lasts)
}
