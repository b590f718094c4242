package clients

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// answer returns the reply to a request. The scene may override the default reply of a correct server.
func (s *stage) answer(a *clientCall) reply {
	s.mu.Lock()
	s.counts[a.method]++
	n := s.counts[a.method]
	flooded := s.flooded
	s.mu.Unlock()
	if flooded {
		return statusReply(http.StatusServiceUnavailable, "")
	}
	turn := s.turn
	if a.method == wire.MethodPoll && s.poll != nil {
		turn = s.poll
	}
	if turn != nil {
		if answer := turn(s, a, n); answer != nil {
			return answer
		}
	}
	if a.method == wire.MethodStream {
		return s.channel(a, func(c *channel) {
			if s.stream == nil || !s.stream(s, c, n) {
				c.playOrderly()
			}
		})
	}
	return s.defaultReply(a)
}

// statusReply returns a reply with an HTTP status and an empty body.
func statusReply(code int, retryAfter string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
	}
}

// resultReply returns a reply with an object as its result, which includes resultType unless the scene is bare.
func (s *stage) resultReply(a *clientCall, object string) reply {
	if !s.bare && !a.legacy {
		object = strings.Replace(object, "{", `{"resultType":"complete",`, 1)
	}
	if s.addsUnknown {
		object = strings.Replace(object, "{", `{"x-nobody":{"knows":[1]},`, 1)
	}
	object = strings.Replace(object, ",}", "}", 1)
	return message(s.contentType("application/json"), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, a.id, object))
}

// contentType returns a media type, with a drawn charset if the scene adds one.
func (s *stage) contentType(mediaType string) string {
	if s.charset {
		mediaType += draw.Pick(s.draw.For(mediaType), []string{"; charset=utf-8", ";charset=UTF-8", `; charset="utf-8"`})
	}
	return mediaType
}

// refuse answers with an error.
func refuse(a *clientCall, code int64, name, data string) reply {
	return message("application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":%s}}`, a.id, code, name, data))
}

func message(contentType, text string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(headerContentType, contentType)
		io.WriteString(w, text)
	}
}

// capabilities returns the server's capabilities.
func (s *stage) capabilities() string {
	events := `"events":{"listChanged":false}`
	extension := `"extensions":{"` + wire.ExtensionID + `":{"listChanged":false}}`
	return map[string]string{bothPlaces: "{" + events + "," + extension + "}", topLevel: "{" + events + "}",
		extensionOnly: "{" + extension + "}", nowhere: "{}"}[s.capability]
}

const serverInfo = `"serverInfo":{"name":"mcpe-conform","version":"1"}`

// defaultReply returns the reply of a correct server.
func (s *stage) defaultReply(a *clientCall) reply {
	switch a.method {
	case "server/discover":
		return s.resultReply(a, `{"supportedVersions":["`+wire.RevisionStateless+`"],"capabilities":`+s.capabilities()+`,`+serverInfo+`,"ttlMs":0,"cacheScope":"private"}`)
	case "initialize":
		version := wire.RevisionLegacy
		if asked := string(a.params["protocolVersion"]); slices.Contains([]string{`"2025-03-26"`, `"2025-06-18"`}, asked) {
			version = strings.Trim(asked, `"`)
		}
		session := newToken()
		s.mu.Lock()
		s.sessions[session] = version
		s.mu.Unlock()
		answer := s.resultReply(a, `{"protocolVersion":"`+version+`","capabilities":`+s.capabilities()+`,`+serverInfo+`}`)
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(wire.HeaderSessionID, session)
			answer(w, r)
		}
	case "ping":
		return s.resultReply(a, `{}`)
	case wire.MethodList:
		modes, _ := json.Marshal(append(slices.Clone(s.delivery), s.mode))
		return s.resultReply(a, `{"events":[{"name":"`+EventType+`","description":"What happens.","delivery":`+string(modes)+
			`,"inputSchema":{"type":"object","properties":{},"additionalProperties":false},"payloadSchema":{"type":"object",`+
			`"properties":{"seq":{"type":"integer"}}}`+s.unknownMembers()+`}]}`)
	case wire.MethodPoll:
		pos, stale := s.startOf(a)
		return s.pageReply(a, pos, stale, pageOptions{})
	case wire.MethodSubscribe:
		return s.subscribe(a)
	case wire.MethodUnsubscribe:
		return s.unsubscribe(a)
	}
	return refuse(a, -32601, "MethodNotFound", "null")
}

// unknownMembers returns members that no specification defines, if the scene adds them.
func (s *stage) unknownMembers() string {
	if s.addsUnknown {
		return `,"x-nobody":{"knows":null},"x-number":5`
	}
	return ""
}

// occurrence returns the event of an entry as JSON. cursor is JSON, or "" for no cursor.
func (s *stage) occurrence(e entry, cursor string) string {
	if cursor != "" {
		cursor = `,"cursor":` + cursor
	}
	return "{" + e.members + cursor + s.unknownMembers() + "}"
}

// pageOptions modifies a page of a poll result.
type pageOptions struct {
	nextPollMs int
	more       bool
	// lastPosition is the last position that the page may contain. If it is 0, the page has no limit. hasMore is true
	// on every page except the last.
	lastPosition int
}

// pageReply returns a reply to a poll with all entries after a position.
func (s *stage) pageReply(a *clientCall, pos int, truncated bool, o pageOptions) reply {
	head := s.head()
	if o.lastPosition > 0 && head > pos+o.lastPosition {
		head, o.more = pos+o.lastPosition, true
	}
	var events []string
	for i := pos + 1; i <= head; i++ {
		if e, _, _ := s.entryAt(i); e.id != "" {
			events = append(events, s.occurrence(e, ""))
			s.mark("sent " + e.id)
		}
	}
	return s.resultReply(a, fmt.Sprintf(`{"events":[%s],"cursor":%s,"truncated":%v,"hasMore":%v,"nextPollMs":%d}`, strings.Join(events, ","),
		s.cursorAt(head), truncated, o.more, cmp.Or(o.nextPollMs, 1000)))
}
