package receivers

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A wrong is a receiver that is right but for its fault, "" for none.
type wrong struct {
	fault        string
	key          []byte
	path         string
	subscription string
	file         string

	// killed is closed when the process is killed, which notes late what it has handled; nil if it notes at once.
	killed <-chan struct{}

	racers atomic.Int32

	mu   sync.Mutex
	seen map[string]bool
	over bool
}

// A casing connection remembers the names of headers as they came.
type casing struct {
	net.Conn
	text *bytes.Buffer
}

func (c casing) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.text.Len() < 4096 {
		c.text.Write(b[:n])
	}
	return n, err
}

type casingListener struct{ net.Listener }

func (l casingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return casing{c, &bytes.Buffer{}}, nil
}

type casingKey struct{}

func (w *wrong) is(fault string) bool { return w.fault == fault }

func (w *wrong) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	if w.is("answers-after-six-seconds") {
		time.Sleep(6 * time.Second)
	}
	status, answer := w.answer(req)
	out.WriteHeader(status)
	io.WriteString(out, answer)
	if w.is("answers-endlessly") && answer == "" {
		for _, err := io.WriteString(out, strings.Repeat("x", 4096)); err == nil; {
			_, err = io.WriteString(out, strings.Repeat("x", 4096))
		}
	}
}

// answer is the status and the body of the answer.
func (w *wrong) answer(req *http.Request) (int, string) {
	if req.URL.Path != w.path && !w.is("answers-every-path") {
		return 404, ""
	}
	if req.Method != http.MethodPost && !w.is("accepts-any-method") {
		return 405, ""
	}
	if req.Header.Get("Content-Type") != "application/json" && !w.is("accepts-any-content-type") {
		return 415, ""
	}
	if c, _ := req.Context().Value(casingKey{}).(*bytes.Buffer); w.is("requires-header-case") && bytes.Contains(c.Bytes(), []byte("WEBHOOK-ID")) {
		return 400, ""
	}
	body, _ := io.ReadAll(req.Body)
	if len(body) > wire.MaxBody && !w.is("accepts-any-size") || w.is("refuses-100k") && len(body) > 100<<10 {
		return 413, ""
	}
	var m struct {
		EventID   string                `json:"eventId"`
		Type      string                `json:"type"`
		Challenge string                `json:"challenge"`
		Cursor    *string               `json:"cursor"`
		Unknown   json.RawMessage       `json:"mcpeGenConform"`
		Meta      struct{ Text string } `json:"_meta"`
	}
	readable := json.Unmarshal(body, &m) == nil
	genuine := w.genuine(req, body, m.EventID, m.Type == "")
	if m.Type == "verification" && (w.is("answers-challenge-unsigned") && req.Header.Get(wire.HeaderWebhookSignature) == "" ||
		w.is("answers-challenge-any-secret") && req.Header.Get(wire.HeaderWebhookSignature) != "") {
		genuine = true
	}
	if !genuine {
		if w.is("answers-500-forgeries") {
			return 500, ""
		}
		return 401, ""
	}
	id := req.Header.Get(wire.HeaderWebhookID)
	known := req.Header.Get(wire.HeaderSubscriptionID) == w.subscription
	if m.Type == "verification" {
		switch {
		case w.is("refuses-challenges-unknown-subscriptions") && !known:
			return 503, ""
		case w.is("answers-challenge-once") && !w.first(id):
			return 204, ""
		case w.is("pads-challenge"):
			return 200, strings.Repeat(" ", 1<<20) + `{"challenge":"` + m.Challenge + `"}`
		case w.is("answers-challenge-text"):
			return 200, m.Challenge
		case w.is("answers-challenge-500"):
			return 500, `{"challenge":"` + m.Challenge + `"}`
		}
		if w.is("handles-challenges") {
			w.handle(id)
		}
		return 200, `{"challenge":"` + m.Challenge + `"}`
	}
	switch {
	case !readable && w.is("accepts-any-body"):
		return 204, ""
	case !readable || m.EventID == "" && m.Type == "":
		return 400, ""
	case !known && w.is("answers-410-unknown-subscription"):
		return 410, ""
	case !known && w.is("answers-404-unknown-subscription"):
		return 404, ""
	case !known && !w.is("accepts-any-subscription"):
		return 503, ""
	case m.Type != "" && !w.is("ignores-type-body"):
		return w.control(id, m.Type, m.Cursor), ""
	case w.is("requires-webhook-id-event-id") && id != m.EventID, w.is("refuses-unknown-members") && m.Unknown != nil, w.is("requires-cursor") && m.Cursor == nil,
		w.is("refuses-long-event-ids") && len(m.EventID) > 128, w.is("refuses-text-beyond-ascii") && utf8.RuneCountInString(m.Meta.Text) != len(m.Meta.Text):
		return 400, ""
	}
	w.mu.Lock()
	over := w.over && !w.is("goes-on-after-termination")
	w.mu.Unlock()
	if over {
		return 404, ""
	}
	key := m.EventID
	switch {
	case w.is("identifies-by-webhook-id"):
		key = id
	case w.is("identifies-by-body"):
		key = string(body)
	case w.is("ignores-event-id-case"):
		key = strings.ToLower(key)
	}
	if w.is("handles-concurrent-attempts") {
		w.mu.Lock()
		seen := w.seen[key]
		w.mu.Unlock()
		// Another request at the same time sees nothing either; one that comes alone is not waited for long.
		w.racers.Add(1)
		defer w.racers.Add(-1)
		for range 20 {
			if time.Sleep(10 * time.Millisecond); w.racers.Load() > 1 {
				break
			}
		}
		if seen {
			return 204, ""
		}
		w.first(key)
		w.handle(m.EventID)
		return 204, ""
	}
	if first := w.first(key); (first && !w.is("identifies-by-either-id")) || w.is("handles-each-attempt") || w.is("identifies-by-either-id") && w.first("id "+id) && first {
		w.handle(m.EventID)
	}
	return 204, ""
}

func (w *wrong) control(id, kind string, cursor *string) int {
	switch kind {
	case "gap":
		if w.is("refuses-gaps") || w.is("requires-gap-cursor") && cursor == nil {
			return 400
		}
		if w.first(id) || w.is("handles-each-attempt-gap") {
			w.handle(id)
		}
	case "terminated":
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		if w.first(id) && !w.is("ignores-termination") {
			w.handle(id)
		}
	default:
		if w.is("refuses-envelopes-unknown-types") {
			return 400
		}
	}
	return 204
}

// genuine judges signature and time.
func (w *wrong) genuine(req *http.Request, body []byte, eventID string, event bool) bool {
	id, stamp := req.Header.Get(wire.HeaderWebhookID), req.Header.Get(wire.HeaderWebhookTimestamp)
	given := req.Header.Get(wire.HeaderWebhookSignature)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return false
	}
	if w.is("accepts-milliseconds") && seconds > 1e11 {
		seconds /= 1000
	}
	age := time.Since(time.Unix(seconds, 0))
	most := 5 * time.Minute
	if w.is("refuses-events-minute-old") {
		most = time.Minute
	}
	if age > most && !w.is("accepts-any-age") || age < -5*time.Minute && !w.is("accepts-future") {
		return false
	}
	made := strings.HasPrefix(given, "v1,AAAA") || given == "v1,"
	if event && (w.is("accepts-unsigned") && given == "" || w.is("accepts-wrong-signature") && made || w.is("accepts-any-secret") && len(given) == 47 && !made) {
		return true
	}
	if w.is("verifies-own-json") {
		// Members are kept in order, blanks are not.
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			body = compact.Bytes()
		}
	}
	if w.is("verifies-trimmed-body") {
		body = bytes.TrimSpace(body)
	}
	signatures := strings.Fields(given)
	if w.is("reads-first-signature") && len(signatures) > 0 {
		signatures = signatures[:1]
	}
	for _, s := range signatures {
		if w.is("refuses-unknown-schemes") && !strings.HasPrefix(s, "v1,") {
			return false
		}
	}
	right := signature(w.key, id, stamp, body)
	for _, s := range signatures {
		if hmac.Equal([]byte(s), []byte(right)) || w.resembles(s, right) {
			return true
		}
		if w.is("verifies-event-id") && hmac.Equal([]byte(s), []byte(signature(w.key, eventID, stamp, body))) {
			return true
		}
	}
	return false
}

// resembles reports whether a receiver with a fault takes a signature for the right one.
func (w *wrong) resembles(given, right string) bool {
	_, text, _ := strings.Cut(given, ",")
	mac, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(right, "v1,"))
	switch {
	case w.is("accepts-any-scheme"):
		return "v1,"+text == right
	case w.is("accepts-hex-signature"):
		return text == hex.EncodeToString(mac) || text == base64.URLEncoding.EncodeToString(mac)
	case w.is("compares-prefix"):
		part, err := base64.StdEncoding.DecodeString(text)
		return err == nil && strings.HasPrefix(given, "v1,") && len(part) > 0 && bytes.HasPrefix(mac, part)
	}
	return false
}

// first reports whether the key was not seen before.
func (w *wrong) first(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[key] {
		return false
	}
	if w.seen == nil || w.is("remembers-one-event") {
		w.seen = map[string]bool{}
	}
	w.seen[key] = true
	return true
}

// handle notes what was handled.
func (w *wrong) handle(id string) {
	if w.is("handles-nothing") {
		return
	}
	if w.killed != nil {
		go func() {
			select {
			case <-time.After(400 * time.Millisecond):
				w.note(id)
			case <-w.killed: // with this in mind
			}
		}()
		return
	}
	w.note(id)
}

func (w *wrong) note(id string) {
	f, err := os.OpenFile(w.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	io.WriteString(f, id+"\n")
}
