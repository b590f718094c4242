// Package hostileserver provides an MCP server with events that misbehaves deliberately. Tests of clients and
// `mcpe-conform
// --client` use it to show that no answer makes a client panic, hang, send requests in a loop or silently lose an
// event. For the kinds of misbehavior, see [Cases]. It serves Streamable HTTP and stdio.
//
// It depends only on the standard library, so any client can use it. The package makes no promise of compatibility.
package hostileserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The methods that a [Case] can respond to incorrectly.
const (
	List      = "events/list"
	Poll      = "events/poll"
	Stream    = "events/stream"
	Subscribe = "events/subscribe"
)

// A Server serves one event type, tick, in the mode of its case. While it is hostile, it responds to the method of its
// case as specified by the case, and responds correctly to all other methods. When it stops being hostile, it delivers
// a single event, "good".
type Server struct {
	// Case is the misbehavior.
	Case Case
	// Delivery is the mode that tick offers.
	Delivery string
	// Deliver is called for each events/subscribe that receives a correct response. good reports whether the event is
	// available.
	Deliver func(url, secret string, good bool)

	mu       sync.Mutex
	hostile  bool
	good     bool
	requests int
	spoiled  int
}

// A message contains the relevant members of a request.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Cursor   *string `json:"cursor"`
		Delivery struct {
			URL    string `json:"url"`
			Secret string `json:"secret"`
		} `json:"delivery"`
	} `json:"params"`
}

// SetHostile starts or stops the misbehavior. Stopping makes the event available.
func (s *Server) SetHostile(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hostile, s.good = on, s.good || !on
}

// Requests returns the total number of requests, and the number of requests that received the response of the case.
func (s *Server) Requests() (all, spoiled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.spoiled
}

// spoils counts a request. It reports whether to misbehave, how often the server has misbehaved, and whether the event
// is available.
func (s *Server) spoils(method string) (spoil bool, n int, good bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if spoil = s.hostile && method == s.Case.Method; spoil {
		s.spoiled++
	}
	return spoil, s.spoiled, s.good
}

// expandText replaces $ID, $N and $NOW in the text of a case.
func expandText(text string, id json.RawMessage, n int) string {
	now := time.Now().UTC().Format(time.RFC3339)
	return strings.NewReplacer("$ID", string(id), "$NOW", now, "$N", strconv.Itoa(n)).Replace(text)
}

const capabilities = `{"events":{"listChanged":false},"extensions":{"io.modelcontextprotocol/events":{"listChanged":false}}}`

// correctResult returns the correct result of a call that is not a stream.
func (s *Server) correctResult(m message, good bool) string {
	switch m.Method {
	case "server/discover":
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `}`
	case List:
		return fmt.Sprintf(`{"events":[{"name":"tick","description":"d","delivery":[%q],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"}}]}`, s.Delivery)
	case Poll:
		c := m.Params.Cursor
		if !good || c != nil && *c == "good" {
			return `{"events":[],"cursor":"c0","truncated":false,"hasMore":false,"nextPollMs":5000}`
		}
		return `{"events":[` + occurrence("good", "") + `],"cursor":"good","truncated":false,"hasMore":false,"nextPollMs":5000}`
	case Subscribe:
		if s.Deliver != nil {
			s.Deliver(m.Params.Delivery.URL, m.Params.Delivery.Secret, good)
		}
		before := time.Now().Add(30 * time.Second).UTC().Format(time.RFC3339)
		return `{"id":"sub_1","refreshBefore":"` + before + `","cursor":"c0","truncated":false}`
	case "events/unsubscribe":
		return `{}`
	}
	return ""
}

// Good returns the event as a webhook body.
func Good() []byte { return []byte(occurrence("good", `,"cursor":"good"`)) }

func occurrence(id, more string) string {
	return fmt.Sprintf(`{"eventId":%q,"name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{"id":%q}%s}`, id, id, more)
}

// notification returns a notification on the stream that request $ID opened.
func notification(method, params string) string {
	sep := ","
	if params == "{}" {
		sep = ""
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/events/%s","params":%s%s"_meta":{"io.modelcontextprotocol/subscriptionId":$ID}}}`,
		method, strings.TrimSuffix(params, "}"), sep)
}

// writeStream writes a correct stream until ctx is done or the misbehavior restarts.
func (s *Server) writeStream(ctx context.Context, id json.RawMessage, write func(string) error) {
	send := func(method, params string) bool { return write(expandText(notification(method, params), id, 0)) == nil }
	if !send("active", `{"cursor":"c0","truncated":false}`) {
		return
	}
	beat := time.NewTicker(5 * time.Second)
	defer beat.Stop()
	for sent := false; ; {
		s.mu.Lock()
		hostile, good := s.hostile, s.good
		s.mu.Unlock()
		if hostile && s.Case.Method == Stream {
			return // the client must reopen it
		}
		if good && !sent {
			if sent = true; !send("event", occurrence("good", `,"cursor":"good"`)) {
				return
			}
		}
		if !send("heartbeat", `{"cursor":"c0"}`) {
			return
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// ServeHTTP serves the stateless version of Streamable HTTP.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m message
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	spoil, n, good := s.spoils(m.Method)
	if len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if spoil {
		s.spoilHTTP(w, r, m, n)
		return
	}
	if m.Method == Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		s.writeStream(r.Context(), m.ID, func(frame string) error { return sse(w, frame) })
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, s.response(m, good))
}

func sse(w http.ResponseWriter, frame string) error {
	if _, err := fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(frame, "\n", "\ndata: ")); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// response returns a correct response.
func (s *Server) response(m message, good bool) string {
	result := s.correctResult(m, good)
	if result == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"MethodNotFound"}}`, m.ID)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (s *Server) spoilHTTP(w http.ResponseWriter, r *http.Request, m message, n int) {
	c := s.Case
	kind := "application/json"
	if len(c.Frames) > 0 || m.Method == Stream && c.Status == 0 && c.Type == "" && c.Message == "" {
		kind = "text/event-stream"
	}
	if c.Type != "" {
		kind = c.Type
	}
	w.Header().Set("Content-Type", kind)
	for name, value := range c.Header {
		w.Header().Set(name, value)
	}
	if c.Status != 0 {
		w.WriteHeader(c.Status)
	}
	if c.Raw != "" {
		io.WriteString(w, expandText(c.Raw, m.ID, n))
	}
	if kind == "text/event-stream" && c.Raw == "" {
		for i, frame := range c.frames() {
			if sse(w, expandText(frame, m.ID, n*1000+i)) != nil {
				return
			}
		}
	}
	if c.Message != "" {
		text := expandText(c.Message, m.ID, n)
		if kind == "text/event-stream" {
			_ = sse(w, text)
		} else {
			io.WriteString(w, text)
		}
	}
	switch {
	case c.Abort:
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case c.Hold:
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// ServeStdio serves a single line-based connection until it reaches the end of in.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) {
	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	var writing sync.Mutex
	write := func(line string) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := io.WriteString(out, line+"\n")
		return err
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		spoil, n, good := s.spoils(m.Method)
		switch {
		case len(m.ID) == 0:
		case spoil:
			for i, frame := range s.Case.frames() {
				_ = write(expandText(frame, m.ID, n*1000+i))
			}
			if s.Case.Message != "" {
				_ = write(expandText(s.Case.Message, m.ID, n))
			}
			if s.Case.Abort {
				return
			}
		case m.Method == Stream:
			streams.Go(func() {
				s.writeStream(ctx, m.ID, write)
				_ = write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
			})
		default:
			_ = write(s.response(m, good))
		}
	}
}
