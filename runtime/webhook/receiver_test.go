package webhook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A sink is a Handler that keeps what it took.
type sink struct {
	mu    sync.Mutex
	taken []Delivery
	fail  error
}

func (s *sink) take(_ context.Context, d Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.taken = append(s.taken, d)
	return nil
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

func newReceiver(t testing.TB, o ReceiverOptions) (*Receiver, *Endpoint) {
	t.Helper()
	r, err := NewReceiver(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Open(EndpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r, e
}

func event(id string) Message {
	return Message{ID: id, Subscription: "sub_1", Body: []byte(`{"eventId":"` + id + `","name":"n","timestamp":"2026-11-20T08:00:00Z","data":{},"cursor":"c1"}`)}
}

func challenge(nonce string) Message {
	return Message{ID: NewMessageID(wire.EnvelopeVerification), Subscription: "sub_1", Body: []byte(`{"type":"verification","challenge":"` + nonce + `"}`)}
}

// post signs m with the endpoint's newest secret and has r answer it.
func post(t testing.TB, r *Receiver, e *Endpoint, m Message, alter ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	req, err := Signer{Ring: NewRing(e.Secret())}.NewRequest(t.Context(), "https://receiver.test"+e.Path(), m)
	if err != nil {
		t.Error(err)
		return w
	}
	for _, f := range alter {
		f(req)
	}
	r.ServeHTTP(w, req)
	return w
}

// TestCLI5ReceiverRules is the table of answers of a live endpoint (CLI-5).
func TestCLI5ReceiverRules(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	body := func(b string) func(*http.Request) {
		return func(r *http.Request) { r.Body = http.NoBody; *r = *r.Clone(r.Context()); setBody(r, b) }
	}
	large := event("evt_large")
	large.Body = bytes.Replace(large.Body, []byte(`"data":{}`), []byte(`"data":{"a":"`+strings.Repeat("x", wire.MaxBody)+`"}`), 1)
	exact := event("evt_exact")
	exact.Body = append(exact.Body, bytes.Repeat([]byte(" "), wire.MaxBody-len(exact.Body))...)
	for name, c := range map[string]struct {
		message Message
		alter   func(*http.Request)
		status  int
	}{
		"event":                 {event("evt_1"), nil, 204},
		"gap":                   {Message{ID: "msg_gap_1", Subscription: "sub_1", Body: []byte(`{"type":"gap","cursor":"c"}`)}, nil, 204},
		"terminated":            {Message{ID: "msg_terminated_1", Subscription: "sub_1", Body: []byte(`{"type":"terminated","error":{"code":1,"message":"m"}}`)}, nil, 204},
		"later revision":        {Message{ID: "msg_later_1", Subscription: "sub_1", Body: []byte(`{"type":"later"}`)}, nil, 204},
		"no subscription id":    {event("evt_2"), header(wire.HeaderSubscriptionID, ""), 204},
		"charset":               {event("evt_3"), header("Content-Type", "Application/JSON; charset=utf-8"), 204},
		"identity":              {event("evt_4"), header("Content-Encoding", "identity"), 204},
		"query":                 {event("evt_5"), func(r *http.Request) { r.URL.RawQuery = "x=1" }, 204},
		"exactly the bound":     {exact, nil, 204},
		"other path":            {event("evt_a"), func(r *http.Request) { r.URL.Path += "x" }, 404},
		"longer path":           {event("evt_a"), func(r *http.Request) { r.URL.Path += "/" }, 404},
		"prefix":                {event("evt_a"), func(r *http.Request) { r.URL.Path = "/mcp/webhooks/" }, 404},
		"GET":                   {event("evt_a"), func(r *http.Request) { r.Method = http.MethodGet }, 405},
		"PUT":                   {event("evt_a"), func(r *http.Request) { r.Method = http.MethodPut }, 405},
		"no content type":       {event("evt_a"), header("Content-Type", ""), 415},
		"form":                  {event("evt_a"), header("Content-Type", "application/x-www-form-urlencoded"), 415},
		"text":                  {event("evt_a"), header("Content-Type", "text/plain"), 415},
		"malformed type":        {event("evt_a"), header("Content-Type", "application/json; charset"), 415},
		"gzip":                  {event("evt_a"), header("Content-Encoding", "gzip"), 415},
		"too large":             {large, nil, 413},
		"too large, not told":   {large, func(r *http.Request) { r.ContentLength = -1 }, 413},
		"no id":                 {event("evt_a"), func(r *http.Request) { r.Header.Del(wire.HeaderWebhookID) }, 400},
		"no timestamp":          {event("evt_a"), func(r *http.Request) { r.Header.Del(wire.HeaderWebhookTimestamp) }, 400},
		"no signature":          {event("evt_a"), func(r *http.Request) { r.Header.Del(wire.HeaderWebhookSignature) }, 400},
		"odd timestamp":         {event("evt_a"), header(wire.HeaderWebhookTimestamp, "now"), 400},
		"stale":                 {event("evt_a"), header(wire.HeaderWebhookTimestamp, "1"), 401},
		"forged":                {event("evt_a"), header(wire.HeaderWebhookSignature, "v1,AAAA"), 401},
		"other id":              {event("evt_a"), header(wire.HeaderWebhookID, "evt_b"), 401},
		"other body":            {event("evt_a"), body(`{"eventId":"evt_a","name":"m","timestamp":"t","data":{}}`), 401},
		"same JSON, other text": {event("evt_a"), body(string(event("evt_a").Body) + " "), 401},
		"broken body":           {event("evt_a"), func(r *http.Request) { r.Body = broken{} }, 400},
		"no JSON":               {Message{ID: "evt_a", Body: []byte("hello")}, nil, 400},
		"eventId is another":    {Message{ID: "msg_b", Body: event("evt_a").Body}, nil, 204},
		"eventId no header":     {Message{ID: "msg_b", Body: event("evt ä").Body}, nil, 204},
		"eventId too long":      {Message{ID: "msg_b", Body: event(strings.Repeat("ä", wire.MaxEventID/2) + "a").Body}, nil, 400},
		"long id":               {Message{ID: strings.Repeat("~", wire.MaxEventID), Body: event("evt_l").Body}, nil, 204},
		"longer id":             {event("evt_a"), header(wire.HeaderWebhookID, strings.Repeat("~", wire.MaxEventID+1)), 400},
		"id with a blank":       {event("evt_a"), header(wire.HeaderWebhookID, "a b"), 400},
		"id beyond ASCII":       {event("evt_a"), header(wire.HeaderWebhookID, "\u00e9"), 400},
		"long timestamp":        {event("evt_a"), header(wire.HeaderWebhookTimestamp, strings.Repeat("0", maxStamp+1)), 400},
		"long signatures":       {event("evt_a"), header(wire.HeaderWebhookSignature, strings.Repeat("v1,x ", maxSignatures/5+1)), 400},
		"long subscription":     {event("evt_a"), header(wire.HeaderSubscriptionID, strings.Repeat("s", maxSubscriptionID+1)), 400},
		"event with a type":     {Message{ID: "msg_c", Body: []byte(`{"type":"gap","eventId":"evt_c","name":"n","timestamp":"t","data":{}}`)}, nil, 204},
		"no challenge":          {challenge(""), nil, 400},
		"long challenge":        {challenge(strings.Repeat("x", maxChallenge+1)), nil, 400},
		"other subscription":    {event("evt_a"), header(wire.HeaderSubscriptionID, "sub_2"), 503},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			r, e := newReceiver(t, ReceiverOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			s := &sink{}
			e.Activate("sub_1", s.take)
			if c.alter == nil {
				c.alter = func(*http.Request) {}
			}
			w := post(t, r, e, c.message, c.alter)
			if w.Code != c.status || w.Body.Len() != 0 {
				t.Errorf("status %d, want %d, body %q", w.Code, c.status, w.Body)
			}
			if want := c.status == 204; (s.count() == 1) != want {
				t.Errorf("%d messages were handed over", s.count())
			}
			if allow := w.Header().Get("Allow"); (allow == "POST") != (c.status == 405) {
				t.Errorf("Allow: %q", allow)
			}
			for _, leak := range []string{e.Path(), e.Secret().Text()[6:], "2026-11-20T08"} {
				if strings.Contains(log.String(), leak) {
					t.Errorf("the log tells %q:\n%s", leak, log.String())
				}
			}
		})
	}
}

func setBody(r *http.Request, b string) {
	fresh := httptest.NewRequest(r.Method, r.URL.String(), strings.NewReader(b))
	r.Body, r.ContentLength = fresh.Body, fresh.ContentLength
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
func (broken) Close() error             { return nil }

// TestCLI5HandedOver gives the application what was signed, byte for byte (CLI-5).
// TestCLI5HeadersFirst: what the headers alone decide is decided before a byte of the body is read (S2).
func TestCLI5HeadersFirst(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	e.Activate("sub_1", (&sink{}).take)
	for name, c := range map[string]struct {
		alter func(*http.Request)
		want  int
	}{
		"no signature": {func(r *http.Request) { r.Header.Del("webhook-signature") }, http.StatusBadRequest},
		"no id":        {func(r *http.Request) { r.Header.Del("webhook-id") }, http.StatusBadRequest},
		"a stale one":  {func(r *http.Request) { r.Header.Set("webhook-timestamp", "1") }, http.StatusUnauthorized},
	} {
		w := post(t, r, e, event("evt_1"), c.alter, func(r *http.Request) { r.Body = untouchable{t} })
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
	}
}

// An untouchable body fails the test when it is read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	u.t.Error("the body is read")
	return 0, errors.New("untouchable")
}

func (untouchable) Close() error { return nil }

func TestCLI5HandedOver(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	s := &sink{}
	e.Activate("sub_1", s.take)
	m := event("evt_1")
	post(t, r, e, m)
	post(t, r, e, Message{ID: "msg_gap_1", Body: []byte(`{"type":"gap","cursor":"c2"}`)})
	post(t, r, e, Message{ID: "msg_terminated_1", Body: []byte(`{"type":"terminated","error":{"code":-32012,"message":"Forbidden"}}`)})
	if s.count() != 3 {
		t.Fatalf("%d messages", s.count())
	}
	d := s.taken[0]
	if d.ID != "evt_1" || d.Subscription != "sub_1" || d.Type != "" || d.Occurrence.Name != "n" || *d.Cursor() != "c1" || !bytes.Equal(d.Body, m.Body) || time.Since(d.Time) > time.Minute {
		t.Errorf("%+v", d)
	}
	if d := s.taken[1]; d.Type != wire.EnvelopeGap || *d.Cursor() != "c2" {
		t.Errorf("%+v", d)
	}
	if d := s.taken[2]; d.Type != wire.EnvelopeTerminated || d.Envelope.Error.Code != -32012 || d.Cursor() != nil {
		t.Errorf("%+v", d)
	}
}

// TestCLI5Challenge answers challenges of pending and live endpoints after the signature check,
// before the id is known, as often as asked, and of no other (CLI-5, VER-2).
func TestCLI5Challenge(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	answered := func(m Message) bool {
		t.Helper()
		w := post(t, r, e, m)
		if w.Code != http.StatusOK {
			return false
		}
		if w.Body.String() != `{"challenge":"n<1>"}` || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("answered %s", w.Body)
		}
		return true
	}
	m := challenge("n<1>")
	if !answered(m) {
		t.Error("not answered while pending")
	}
	e.Activate("sub_1", (&sink{fail: errors.New("never asked")}).take)
	if !answered(m) {
		t.Error("not answered while live, under the same webhook-id")
	}
	m.Subscription = "sub_of_before_a_restart"
	if !answered(m) {
		t.Error("not answered under another id")
	}
	forged := func(req *http.Request) { req.Header.Set(wire.HeaderWebhookSignature, "v1,AAAA") }
	if w := post(t, r, e, m, forged); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "n<1>") {
		t.Errorf("forged: %d %s", w.Code, w.Body)
	}
	e.Close()
	e.Close()
	if w := post(t, r, e, m); w.Code != http.StatusNotFound {
		t.Errorf("closed: %d", w.Code)
	}
}

// TestCLI5NotYetRoutable answers 503 until the endpoint is routable, and the retry then arrives
// (CLI-5).
func TestCLI5NotYetRoutable(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	s := &sink{}
	if w := post(t, r, e, event("evt_1")); w.Code != http.StatusServiceUnavailable {
		t.Errorf("pending: %d", w.Code)
	}
	e.Activate("sub_1", s.take)
	for range 3 {
		if w := post(t, r, e, event("evt_1")); w.Code != http.StatusNoContent {
			t.Errorf("live: %d", w.Code)
		}
	}
	if s.count() != 1 || e.Subscription() != "sub_1" {
		t.Errorf("%d messages", s.count())
	}
}

// TestCLI5NotTaken answers 503 when the application does not take a message, tells it nothing of
// why, and hands the retry over (CLI-5).
func TestCLI5NotTaken(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	s := &sink{fail: errors.New("disk full")}
	e.Activate("sub_1", s.take)
	if w := post(t, r, e, event("evt_1")); w.Code != http.StatusServiceUnavailable || w.Body.Len() != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.fail = nil
	if w := post(t, r, e, event("evt_1")); w.Code != http.StatusNoContent || s.count() != 1 {
		t.Errorf("%d, %d messages", w.Code, s.count())
	}
}

// TestCLI5Panic leaves a message open for the retry when the handler panics.
func TestCLI5Panic(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	e.Activate("sub_1", func(context.Context, Delivery) error { panic("boom") })
	func() {
		defer func() { _ = recover() }()
		post(t, r, e, event("evt_1"))
	}()
	s := &sink{}
	e.Activate("sub_1", s.take)
	if w := post(t, r, e, event("evt_1")); w.Code != http.StatusNoContent || s.count() != 1 {
		t.Errorf("%d, %d messages", w.Code, s.count())
	}
}
