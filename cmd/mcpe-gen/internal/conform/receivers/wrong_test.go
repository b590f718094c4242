package receivers

import (
	"bytes"
	"crypto/hmac"
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

// A wrong is a receiver that is right but for what its members say.
type wrong struct {
	key          []byte
	path         string
	subscription string
	file         string

	// What is done wrong.
	believesUnsigned, believesWrong, believesForged, signsEventID         bool
	reserializes, trims, firstSignature, strictSchemes                    bool
	anyAge, noFuture, strictAge, takesMilliseconds                        bool
	rawCase                                                               bool
	wantsEventID, byWebhookID, byEither, noDedup, racing, dedupsChallenge bool
	strictMembers, needsCursor, asciiOnly, shortID, small, huge           bool
	anyMethod, anyContent, takesRubbish, takesAnySubscription             bool
	typeIgnored, unknownRefused, gapRefused, gapTwice, gapNeedsCursor     bool
	terminationLost, goesOn, fails5xx, handlesNothing                     bool
	echoesUnsigned, echoesForged, echoesElsewhere, echoesText, accepted   bool
	boundChallenge, handlesChallenge, late, endless, floods, final        bool

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

func (w *wrong) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	if w.late {
		time.Sleep(6 * time.Second)
	}
	status, answer := w.answer(req)
	out.WriteHeader(status)
	io.WriteString(out, answer)
	if w.endless && answer == "" {
		for _, err := io.WriteString(out, strings.Repeat("x", 4096)); err == nil; {
			_, err = io.WriteString(out, strings.Repeat("x", 4096))
		}
	}
}

// answer is the status and the body of the answer.
func (w *wrong) answer(req *http.Request) (int, string) {
	if req.URL.Path != w.path && !w.echoesElsewhere {
		return 404, ""
	}
	if req.Method != http.MethodPost && !w.anyMethod {
		return 405, ""
	}
	if req.Header.Get("Content-Type") != "application/json" && !w.anyContent {
		return 415, ""
	}
	if c, _ := req.Context().Value(casingKey{}).(*bytes.Buffer); w.rawCase && bytes.Contains(c.Bytes(), []byte("WEBHOOK-ID")) {
		return 400, ""
	}
	body, _ := io.ReadAll(req.Body)
	if len(body) > wire.MaxBody && !w.huge || w.small && len(body) > 100<<10 {
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
	if m.Type == "verification" && (w.echoesUnsigned && req.Header.Get(wire.HeaderWebhookSignature) == "" ||
		w.echoesForged && req.Header.Get(wire.HeaderWebhookSignature) != "") {
		genuine = true
	}
	if !genuine {
		if w.fails5xx {
			return 500, ""
		}
		return 401, ""
	}
	id := req.Header.Get(wire.HeaderWebhookID)
	known := req.Header.Get(wire.HeaderSubscriptionID) == w.subscription
	if m.Type == "verification" {
		switch {
		case w.boundChallenge && !known:
			return 503, ""
		case w.dedupsChallenge && !w.first(id):
			return 204, ""
		case w.floods:
			return 200, strings.Repeat(" ", 1<<20) + `{"challenge":"` + m.Challenge + `"}`
		case w.echoesText:
			return 200, m.Challenge
		case w.accepted:
			return 500, `{"challenge":"` + m.Challenge + `"}`
		}
		if w.handlesChallenge {
			w.handle(id)
		}
		return 200, `{"challenge":"` + m.Challenge + `"}`
	}
	switch {
	case !readable && w.takesRubbish:
		return 204, ""
	case !readable || m.EventID == "" && m.Type == "":
		return 400, ""
	case !known && w.final:
		return 410, ""
	case !known && !w.takesAnySubscription:
		return 503, ""
	case m.Type != "" && !w.typeIgnored:
		return w.control(id, m.Type, m.Cursor), ""
	case w.wantsEventID && id != m.EventID, w.strictMembers && m.Unknown != nil, w.needsCursor && m.Cursor == nil,
		w.shortID && len(m.EventID) > 128, w.asciiOnly && utf8.RuneCountInString(m.Meta.Text) != len(m.Meta.Text):
		return 400, ""
	}
	w.mu.Lock()
	over := w.over && !w.goesOn
	w.mu.Unlock()
	if over {
		return 404, ""
	}
	key := m.EventID
	if w.byWebhookID {
		key = id
	}
	if w.racing {
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
	if first := w.first(key); (first && !w.byEither) || w.noDedup || w.byEither && w.first("id "+id) && first {
		w.handle(m.EventID)
	}
	return 204, ""
}

func (w *wrong) control(id, kind string, cursor *string) int {
	switch kind {
	case "gap":
		if w.gapRefused || w.gapNeedsCursor && cursor == nil {
			return 400
		}
		if w.first(id) || w.gapTwice {
			w.handle(id)
		}
	case "terminated":
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		if w.first(id) && !w.terminationLost {
			w.handle(id)
		}
	default:
		if w.unknownRefused {
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
	if w.takesMilliseconds && seconds > 1e11 {
		seconds /= 1000
	}
	age := time.Since(time.Unix(seconds, 0))
	most := 5 * time.Minute
	if w.strictAge {
		most = time.Minute
	}
	if age > most && !w.anyAge || age < -5*time.Minute && !w.noFuture {
		return false
	}
	made := strings.HasPrefix(given, "v1,AAAA") || given == "v1,"
	if event && (w.believesUnsigned && given == "" || w.believesWrong && made || w.believesForged && len(given) == 47 && !made) {
		return true
	}
	if w.reserializes {
		// Members are kept in order, blanks are not.
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			body = compact.Bytes()
		}
	}
	if w.trims {
		body = bytes.TrimSpace(body)
	}
	signatures := strings.Fields(given)
	if w.firstSignature && len(signatures) > 0 {
		signatures = signatures[:1]
	}
	for _, s := range signatures {
		if w.strictSchemes && !strings.HasPrefix(s, "v1,") {
			return false
		}
	}
	for _, s := range signatures {
		if hmac.Equal([]byte(s), []byte(signature(w.key, id, stamp, body))) {
			return true
		}
		if w.signsEventID && hmac.Equal([]byte(s), []byte(signature(w.key, eventID, stamp, body))) {
			return true
		}
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
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[key] = true
	return true
}

// handle notes what was handled.
func (w *wrong) handle(id string) {
	if w.handlesNothing {
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
