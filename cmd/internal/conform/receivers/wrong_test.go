package receivers

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A wrong is a receiver that is right but for its fault, "" for none.
type wrong struct {
	fault string
	// seed chooses a fault of its class: a status, a limit, a key.
	seed         uint64
	secret       string
	key          []byte
	path         string
	subscription string
	file         string

	// killed is closed when the process is killed.
	killed <-chan struct{}

	racers atomic.Int32

	*memory
}

// A memory is what a receiver keeps of the messages that it took.
type memory struct {
	mu   sync.Mutex
	seen map[string]bool
	keys []string // the seen ones, in their order
	over bool
	// latest is the time of the latest event. gap is the webhook-id of the first gap.
	latest time.Time
	gap    string
}

// forget removes the keys that begin with prefix.
func (m *memory) forget(prefix string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.seen, func(key string, _ bool) bool { return strings.HasPrefix(key, prefix) })
}

// choose is a value of the fault's class, the same one for the whole run.
func choose[T any](w *wrong, values ...T) T { return draw.Pick(draw.New(w.seed).For(w.fault), values) }

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
	if w.is("answers-late") {
		time.Sleep(choose(w, 5500*time.Millisecond, 6*time.Second))
	}
	status, answer := w.answer(req)
	if w.is("clock-off") {
		out.Header().Set("Date", w.now().UTC().Format(http.TimeFormat))
	}
	out.WriteHeader(status)
	io.WriteString(out, answer)
}

// now is the time of the receiver's clock.
func (w *wrong) now() time.Time {
	if w.is("clock-off") {
		return time.Now().Add(choose(w, -time.Hour, 2*time.Hour, 10*time.Minute))
	}
	return time.Now()
}

// answer is the status and the body of the answer.
func (w *wrong) answer(req *http.Request) (int, string) {
	if req.URL.Path != w.path && !w.is("answers-every-path") {
		return 404, ""
	}
	if req.Method != http.MethodPost {
		return 405, ""
	}
	media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if media != "application/json" || w.is("requires-exact-content-type") && req.Header.Get("Content-Type") != media {
		return 415, ""
	}
	if w.is("requires-content-length") && req.ContentLength < 0 {
		return 411, ""
	}
	if c, _ := req.Context().Value(casingKey{}).(*bytes.Buffer); w.is("requires-header-case") && !bytes.Contains(c.Bytes(), []byte("webhook-id:")) {
		return 400, ""
	}
	body, _ := io.ReadAll(req.Body)
	if len(body) > wire.MaxBody || w.is("refuses-large-bodies") && len(body) > choose(w, 1500, 8<<10, 100<<10, 255<<10) {
		return 413, ""
	}
	var m struct {
		EventID   string              `json:"eventId"`
		Type      string              `json:"type"`
		Challenge string              `json:"challenge"`
		Cursor    *string             `json:"cursor"`
		Unknown   json.RawMessage     `json:"mcpeGenConform"`
		Timestamp string              `json:"timestamp"`
		Meta      struct{ Value any } `json:"_meta"`
	}
	readable := json.Unmarshal(body, &m) == nil
	if w.is("finds-type-anywhere") && bytes.Contains(body, []byte(`"type":"verification"`)) {
		m.Type = "verification"
	}
	genuine := w.genuine(req, body, m.EventID, m.Type == "")
	if m.Type == "verification" && (w.is("answers-challenge-unsigned") && req.Header.Get(wire.HeaderWebhookSignature) == "" ||
		w.is("answers-challenge-any-secret") && req.Header.Get(wire.HeaderWebhookSignature) != "") {
		genuine = true
	}
	if w.is("refuses-challenges") && (strings.ContainsAny(m.Challenge, choose(w, "<", "\"", "+", "\u2028"))) {
		genuine = false
	}
	if !genuine {
		if w.is("answers-500-forgeries") {
			return choose(w, 500, 502, 503, 599), ""
		}
		return choose(w, 400, 401, 403, 404, 422), ""
	}
	id := req.Header.Get(wire.HeaderWebhookID)
	known := req.Header.Get(wire.HeaderSubscriptionID) == w.subscription
	if m.Type == "verification" {
		text, _ := json.Marshal(map[string]string{"challenge": m.Challenge})
		echo := string(text)
		switch {
		case w.is("refuses-challenges-unknown-subscriptions") && !known:
			return 503, ""
		case w.is("answers-challenge-once") && !w.first(id):
			return 204, ""
		case w.is("pads-challenge"):
			return 200, strings.Repeat(" ", 1<<20) + echo
		case w.is("answers-challenge-text"):
			return 200, m.Challenge
		case w.is("answers-challenge-status"):
			return choose(w, 302, 401, 404, 500), echo
		case w.is("joins-challenge"):
			return 200, `{"challenge":"` + m.Challenge + `"}`
		}
		if w.is("handles-challenges") {
			w.handle(id)
		}
		return 200, echo
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
	case w.refuses(id, m.EventID, m.Timestamp, m.Cursor, m.Unknown != nil, m.Meta.Value):
		return choose(w, 400, 422, 500), ""
	}
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	if over {
		return 404, ""
	}
	if w.is("ignores-earlier-events") {
		at, _ := time.Parse(time.RFC3339, m.Timestamp)
		w.mu.Lock()
		earlier := at.Before(w.latest)
		if !earlier {
			w.latest = at
		}
		w.mu.Unlock()
		if earlier {
			return 204, ""
		}
	}
	key := w.identity(id, m.EventID, m.Cursor, body)
	if w.is("loses-concurrent-events") {
		n := w.racers.Add(1)
		defer w.racers.Add(-1)
		if time.Sleep(10 * time.Millisecond); n > 1 {
			w.first(key)
			return 204, ""
		}
	}
	if w.is("handles-concurrent-attempts") {
		seen := w.knows(key)
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
	if w.is("refuses-repeated-events") && w.knows(key) {
		return choose(w, 400, 409, 410, 500), ""
	}
	if first := w.first(key); (first && !w.is("identifies-by-either-id")) || w.is("handles-each-attempt") || w.is("identifies-by-either-id") && w.first("id "+id) && first {
		w.handle(m.EventID)
	}
	return 204, ""
}

// refuses reports whether the fault refuses a right event.
func (w *wrong) refuses(id, eventID, timestamp string, cursor *string, unknown bool, value any) bool {
	switch w.fault {
	case "requires-webhook-id-event-id":
		return id != eventID
	case "refuses-unknown-members":
		return unknown
	case "requires-cursor":
		return cursor == nil || *cursor == ""
	case "refuses-event-ids":
		limited := len(eventID) > choose(w, 64, 128, 255)
		return choose(w, limited, strings.ContainsFunc(eventID, func(c rune) bool { return c > 'z' || c < '0' && c != '-' }), !strings.Contains(eventID, "_"))
	case "refuses-event-times":
		at, _ := time.Parse(time.RFC3339, timestamp)
		return choose(w, time.Since(at) > time.Hour, !strings.HasSuffix(timestamp, "Z"))
	case "refuses-values":
		text, isText := value.(string)
		_, isList := value.([]any)
		number, _ := value.(float64)
		return choose(w, utf8.RuneCountInString(text) != len(text), isText && strings.Contains(text, "\x00"), isList, number > 1<<53)
	}
	return false
}

// identity is what the receiver knows an event by.
func (w *wrong) identity(id, eventID string, cursor *string, body []byte) string {
	switch w.fault {
	case "identifies-by-webhook-id":
		return id
	case "identifies-by-body":
		return string(body)
	case "identifies-by-cursor":
		if cursor != nil {
			return *cursor
		}
	case "confuses-event-ids":
		kept := func(c rune) rune {
			if strings.ContainsRune("-_./%", c) {
				return -1
			}
			return c
		}
		number, _ := strconv.ParseFloat(eventID, 64)
		if number == 0 {
			number = float64(crc32.ChecksumIEEE([]byte(eventID)))
		}
		return choose(w, strings.ToLower(eventID), eventID[:min(len(eventID), choose(w, 64, 255))], strings.Map(kept, eventID), fmt.Sprint(number))
	}
	return eventID
}

// identifyGap returns the id under which the cursor came first.
func (w *wrong) identifyGap(id, cursor string) string {
	if w.first("cursor " + cursor) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.gap = id
	}
	return w.gap
}

func (w *wrong) control(id, kind string, cursor *string) int {
	switch kind {
	case "gap":
		if w.is("refuses-gaps") || w.is("requires-gap-cursor") && cursor == nil {
			return 400
		}
		if w.is("identifies-gaps-by-cursor") && cursor != nil {
			id = w.identifyGap(id, *cursor)
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
		if !w.is("accepts-malformed-timestamps") {
			return false
		}
		seconds = time.Now().Unix()
	}
	if w.is("expects-milliseconds") {
		seconds /= 1000
	}
	age, old, ahead := w.now().Sub(time.Unix(seconds, 0)), 5*time.Minute, 5*time.Minute
	switch w.fault {
	case "refuses-older-events":
		old = choose(w, 10*time.Second, time.Minute, 4*time.Minute)
	case "refuses-events-ahead":
		ahead = choose(w, 0, 5*time.Second, time.Minute, 4*time.Minute)
	case "accepts-older-events":
		old = choose(w, 6*time.Minute, time.Hour, 1000*time.Hour)
	case "accepts-future":
		ahead = choose(w, 6*time.Minute, time.Hour, 100_000*time.Hour)
	}
	if age > old || age < -ahead {
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
	if n := len(signatures); w.is("reads-one-signature") && n > 0 {
		signatures = choose(w, signatures[:1], signatures[n-1:], signatures[:min(n, 2)])
	}
	for _, s := range signatures {
		if w.is("refuses-unknown-schemes") && !strings.HasPrefix(s, "v1,") {
			return false
		}
	}
	right := signature(w.key, id, stamp, body)
	switch w.fault {
	case "uses-wrong-key":
		decoded, _ := base64.StdEncoding.DecodeString(strings.Replace(w.secret[:len(w.secret)/4*4], "_", "/", 1))
		key := choose(w, []byte(w.secret), []byte(strings.TrimPrefix(w.secret, "whsec_")), decoded)
		right = signature(key, id, stamp, body)
	case "signs-other-content":
		var spaced bytes.Buffer
		json.Indent(&spaced, body, "", "")
		text := strings.NewReplacer(",\n", ", ", "\n", "").Replace(spaced.String())
		right = choose(w, signatureOf(w.key, body), signatureOf(w.key, []byte(stamp+"."), body), signature(w.key, id, stamp, []byte(text)))
	case "expects-other-encoding":
		mac, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(right, "v1,"))
		text := hex.EncodeToString(mac)
		right = choose(w, text, "v1,"+text, "sha256="+text, strings.TrimPrefix(right, "v1,"))
	}
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
	case w.is("compares-prefix"):
		part, err := base64.StdEncoding.DecodeString(text)
		return err == nil && strings.HasPrefix(given, "v1,") && len(part) > 0 && bytes.HasPrefix(mac, part)
	}
	return false
}

// knows reports whether the key was seen before.
func (w *wrong) knows(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key]
}

// first reports whether the key was not seen before.
func (w *wrong) first(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[key] {
		return false
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[key], w.keys = true, append(w.keys, key)
	if w.is("remembers-few-events") && len(w.keys) > choose(w, 1, 5, 20, 50) {
		delete(w.seen, w.keys[0])
		w.keys = w.keys[1:]
	}
	return true
}

// handle notes what was handled.
func (w *wrong) handle(id string) {
	switch {
	case w.is("handles-nothing"):
	case w.is("handles-late"):
		go func() {
			time.Sleep(3 * time.Second)
			w.note(id)
		}()
	case w.is("loses-accepted-events"):
		go func() {
			select {
			case <-time.After(400 * time.Millisecond):
				w.note(id)
			case <-w.killed: // with this in mind
			}
		}()
	default:
		w.note(id)
	}
}

func (w *wrong) note(id string) {
	f, err := os.OpenFile(w.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	io.WriteString(f, id+"\n")
}
