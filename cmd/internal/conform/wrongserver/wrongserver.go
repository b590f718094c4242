// Package wrongserver defines the faults of misbehaving peers (see [Faults]) and implements a small MCP server with
// events and at most one fault. Tests use it to show that the conformance checks report each fault and nothing else
// (see [Try]). The faulty client and receiver are in the tests of the packages clients and receivers.
//
// The server shares only the constants of package wire and the signatures of package webhook with the runtime.
// Therefore, a fault in the runtime does not affect the checks as well. It is for tests only.
package wrongserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options configure a Server.
type Options struct {
	// Fault is the Name of the fault, or "" for a correct server.
	Fault string
	// Token and Other are the tokens of the two callers that have a principal.
	Token, Other string
	// AllowHost is the only allowed callback host. Client sends the requests to callbacks.
	AllowHost string
	Client    *http.Client
	// Change modifies the members of a message before it is sent. It is optional. Its first argument identifies what
	// contains the members: a whole response ("response"), a result (its method, such as "events/poll"), an error
	// ("error"), the params of a notification (its method), the body of a delivery ("delivery") or a challenge
	// ("challenge"), or their headers ("headers").
	Change func(message string, members map[string]any)
	// Marked starts every stream with a byte order mark, which is valid.
	Marked bool
	// Ring is the number of retained events, or 0 for all. An evicted cursor is truncated.
	Ring int
	// Skew is how far the server's clock is ahead.
	Skew time.Duration
	// Busy emits an event during each long poll.
	Busy bool
	// Interval is the time between events, Heartbeat the time between heartbeats, and Retry the delay before a delivery
	// is retried.
	Interval, Heartbeat, Retry time.Duration
}

// A Server serves three event types: tick in all modes, spare by poll, and hook by webhook. Only tick occurs.
type Server struct {
	o    Options
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	one      chan struct{} // full during each delivery, with a fault
	mu       sync.Mutex
	log      []event // of tick, from position 1
	appended chan struct{}
	lists    int
	polls    int
	passed   int // the highest position at which a poll began
	streams  int
	held     int
	broken   bool
	subs     map[string]*subscription
	ended    map[string]bool   // ended keys, with a fault
	sent     map[string]string // subscriptions by callback and event, with a fault
}

// New starts a server with a few initial events. It emits more at every interval. Close stops it.
func New(o Options) *Server {
	s := &Server{o: o, one: make(chan struct{}, 1), appended: make(chan struct{}), subs: map[string]*subscription{}, ended: map[string]bool{}, sent: map[string]string{}}
	for i := range 3 {
		s.log = append(s.log, event{i + 1, time.Now()})
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.work.Go(s.emit)
	return s
}

// Close stops the server and waits for its goroutines.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
}

// now returns the time of the server's clock.
func (s *Server) now() time.Time { return time.Now().Add(s.o.Skew) }

func (s *Server) is(fault string) bool { return s.o.Fault == fault }

// A call is a received request.
type call struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
	// principal identifies the caller, or is "". token is the bearer token that was sent.
	principal, token string
}

// stringParam returns a string parameter, or "" if it is not a string.
func (c call) stringParam(name string) string {
	var s string
	_ = json.Unmarshal(c.Params[name], &s)
	return s
}

// cursorParam returns the cursor parameter, or nil if it is absent or null.
func (c call) cursorParam() *string {
	var s *string
	_ = json.Unmarshal(c.Params["cursor"], &s)
	return s
}

// intParam returns an integer parameter and whether it is absent.
func (c call) intParam(name string) (n int64, absent bool, err error) {
	raw, ok := c.Params[name]
	if !ok || string(raw) == "null" {
		return 0, true, nil
	}
	if n, err = strconv.ParseInt(string(raw), 10, 64); err != nil {
		return 0, false, s32602
	}
	return n, false, nil
}

// A refusal is a JSON-RPC error.
type refusal struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (r *refusal) Error() string { return r.Message }

func newRefusal(k wire.Kind, data any) *refusal {
	return &refusal{wire.Sketch.Code(k), k.String(), data}
}

var s32602 = newRefusal(wire.InvalidParams, nil)

// response returns the encoded JSON-RPC response to a call.
func (s *Server) response(c call, result any, err error) []byte {
	id := c.ID
	text := !strings.HasPrefix(string(id), `"`)
	switch {
	case text && (s.is("ids-polls-become-strings") && c.Method == wire.MethodPoll || s.is("ids-errors-become-strings") && err != nil):
		id = fmt.Appendf(nil, "%q", id)
	case s.is("errors-no-id") && err != nil:
		id = json.RawMessage("null")
	case s.is("ids-become-strings") && !strings.HasPrefix(string(id), `"`):
		id = fmt.Appendf(nil, "%q", id)
	case s.is("ids-become-numbers") && strings.HasPrefix(string(id), `"`):
		if n := strings.Trim(string(id), `"`); json.Valid([]byte(n)) {
			id = []byte(n)
		}
	}
	m := map[string]any{"jsonrpc": "2.0", "id": id}
	if e, ok := err.(*refusal); ok && s.is("errors-no-message") {
		m["error"] = map[string]any{"code": e.Code, "data": e.Data}
	} else if s.o.Change != nil {
		if refused, ok := err.(*refusal); ok {
			m["error"] = s.applyChange("error", refused)
		} else {
			m["result"] = s.applyChange(c.Method, result)
		}
		s.o.Change("response", m)
	} else if err != nil {
		if e, ok := err.(*refusal); ok && s.is("token-in-error") {
			err = &refusal{e.Code, e.Message, map[string]any{"caller": c.token, "was": e.Data}}
		}
		m["error"] = err
	} else {
		m["result"] = result
		if o, ok := result.(map[string]any); ok {
			if s.is("another-result-type-polls") && c.Method == wire.MethodPoll || s.is("another-result-type-subscriptions") && c.Method == wire.MethodSubscribe {
				o["resultType"] = "done"
			}
		}
	}
	b, _ := json.Marshal(m)
	if s.is("results-error-null") && err == nil {
		b = append(b[:len(b)-1], `,"error":null}`...)
	}
	if s.is("members-twice") {
		b = append(b[:len(b)-1], `,"jsonrpc":"2.0"}`...)
	}
	return b
}

// applyChange returns v as modified by Options.Change.
func (s *Server) applyChange(message string, v any) any {
	if s.o.Change == nil {
		return v
	}
	text, _ := json.Marshal(v)
	var members map[string]any
	if json.Unmarshal(text, &members) != nil {
		return v
	}
	s.o.Change(message, members)
	return members
}

// changeHeaders passes the headers of a delivery to Options.Change.
func (s *Server) changeHeaders(h http.Header) {
	if s.o.Change == nil {
		return
	}
	members := map[string]any{}
	for name := range h {
		members[strings.ToLower(name)] = h.Get(name)
	}
	s.o.Change("headers", members)
	for name := range h {
		if value, ok := members[strings.ToLower(name)].(string); ok {
			h.Set(name, value)
		} else {
			h.Del(name)
		}
	}
}

// ServeHTTP serves the stateless revision over Streamable HTTP.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	var c call
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &c) != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	if s.is("escapes-not-decoded") && bytes.Contains(body, []byte(`"n\u0061me"`)) {
		delete(c.Params, "name")
	}
	c.token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case c.token == "":
	case c.token == s.o.Token:
		c.principal = "me"
	case c.token == s.o.Other:
		c.principal = "other"
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	if s.isUnheard(c) || c.ID == nil && !s.is("notifications-answered") {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if c.Method == wire.MethodStream {
		if err := s.mayStream(c); err == nil {
			s.serveStream(w, r, c)
			return
		}
	}
	result, err := s.answerRequest(r.Context(), c)
	if s.o.Marked {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "\ufeffdata: %s\n\n", s.response(c, result, err))
		return
	}
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json")
	w.Write(s.response(c, result, err))
}

// isUnheard reports whether the server mistakes a request for a notification because of a fault.
func (s *Server) isUnheard(c call) bool {
	return string(c.ID) == "0" && s.is("id-0-notification") || string(c.ID) == `""` && s.is("id-empty-notification")
}

// serveStream writes a stream as server-sent events.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, c call) {
	w.Header().Set("Content-Type", "text/event-stream")
	if s.is("stream-another-status") {
		w.WriteHeader(http.StatusAccepted)
	}
	if s.o.Marked {
		_, _ = io.WriteString(w, "\ufeff")
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.writeStream(ctx, c, func(m []byte) error {
		form := "data: %s\n\n"
		if s.is("heartbeats-comments") && bytes.Contains(m, []byte(wire.NotificationHeartbeat)) {
			form, m = ": %s\n\n", []byte("alive")
		}
		if _, err := fmt.Fprintf(w, form, m); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
	if r.Context().Err() != nil && s.is("break-stops-server") {
		s.mu.Lock()
		s.broken = true
		s.mu.Unlock()
	}
}

// ServeStdio serves one connection of newline-delimited JSON until EOF on in.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) {
	var writing, calling sync.Mutex
	var calls sync.WaitGroup
	open := map[string]context.CancelFunc{}
	write := func(m []byte) error {
		writing.Lock()
		defer writing.Unlock()
		if s.is("stdout-lines") {
			_, _ = io.WriteString(out, "writing an answer\n")
		}
		_, err := out.Write(append(m, '\n'))
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var c call
		if json.Unmarshal(lines.Bytes(), &c) != nil || s.isUnheard(c) {
			continue
		}
		if c.Method == "notifications/cancelled" {
			calling.Lock()
			if cancel := open[string(c.Params["requestId"])]; cancel != nil && !s.is("cancelled-streams-go-on") {
				cancel()
			}
			calling.Unlock()
			continue
		}
		ctx, cancel := context.WithCancel(s.ctx)
		calling.Lock()
		open[string(c.ID)] = cancel
		calling.Unlock()
		calls.Go(func() {
			defer cancel()
			if c.Method == wire.MethodStream && s.mayStream(c) == nil {
				s.writeStream(ctx, c, write)
				if ctx.Err() != nil && s.ctx.Err() == nil && s.is("cancelled-stream-answered") {
					_ = write(s.response(c, map[string]any{}, nil))
				}
				return
			}
			result, err := s.answerRequest(ctx, c)
			if ctx.Err() != nil {
				if !s.is("cancelled-poll-answered") {
					return
				}
				err = newRefusal(wire.Internal, nil)
			}
			_ = write(s.response(c, result, err))
		})
	}
	calling.Lock()
	for _, cancel := range open {
		cancel()
	}
	calling.Unlock()
	calls.Wait()
}
