package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// connState limits the number of connections, and closes all of them while the server is down.
func (s *stage) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = true
		if s.down || len(s.conns) > maxConns {
			s.flooded = s.flooded || len(s.conns) > maxConns
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

// restart ends all connections, sessions and subscriptions and rejects new ones for a while, like a server without a
// durable store.
func (s *stage) restart(ctx context.Context, lasts time.Duration) {
	s.mu.Lock()
	s.down = true
	clear(s.sessions)
	for c := range s.conns {
		c.Close()
	}
	for _, h := range s.hooks {
		h.ended = true
	}
	s.mu.Unlock()
	sleep(ctx, lasts)
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
}

// ServeHTTP serves both the stateless and the session-based revisions of Streamable HTTP.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != endpoint {
		http.NotFound(w, r) // such as documents at well-known paths
		return
	}
	session := r.Header.Get(wire.HeaderSessionID)
	s.mu.Lock()
	_, known := s.sessions[session]
	s.mu.Unlock()
	switch {
	case session != "" && !known:
		http.Error(w, "no such session", http.StatusNotFound)
		return
	case r.Method == http.MethodDelete && session != "":
		s.mu.Lock()
		delete(s.sessions, session)
		s.mu.Unlock()
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	a := s.readPost(w, r)
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a stream takes longer
	if a == nil {
		return
	}
	if a.method == "" || a.id == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(a.raw))
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.done, a.ended, a.abandoned = true, s.now(), a.abandoned || r.Context().Err() != nil
		s.notifyLocked()
	}()
	s.answer(a)(w, r)
}

// parse reads a message. bad reports whether the body is not a JSON-RPC message. It redacts a subscription's secret in
// the report.
func (s *stage) parse(body []byte, failed error) (a *clientCall, bad bool) {
	var m map[string]json.RawMessage
	a = &clientCall{raw: body}
	bad = failed != nil || len(body) > maxRequest || json.Unmarshal(body, &m) != nil
	if p := m["params"]; !bad && len(p) > 0 {
		bad = json.Unmarshal(p, &a.params) != nil
	}
	if !bad && m["method"] != nil {
		bad = json.Unmarshal(m["method"], &a.method) != nil
	}
	if id := m["id"]; len(id) > 0 {
		a.id = id
		if id[0] != '"' && (id[0] < '0' || id[0] > '9') && id[0] != '-' {
			bad = true
		}
	}
	if secret := a.subscription().Delivery.Secret; secret != "" {
		s.run.Hide(secret)
		s.run.Hide(strings.TrimPrefix(secret, wire.SecretPrefix))
	}
	return a, bad || string(m["jsonrpc"]) != `"2.0"`
}

// record records a message. fault is the reason if the server rejects it because of a header.
func (s *stage) record(a *clientCall, bad bool, fault *headerFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.arrived, a.refused = s.now(), fault != nil
	if a.refused {
		a.done, a.ended = true, a.arrived
		s.noteOddity(fault.name, fault.got, a)
	}
	if s.asks = append(s.asks, a); len(s.asks) > maxRequests && !s.flooded {
		s.flooded = true
		s.finish()
	}
	s.notifyLocked()
	if bad {
		s.noteOddity(notJSONRPC, notJSONRPC, a)
		return
	}
	for _, other := range s.asks[:len(s.asks)-1] {
		if a.id != nil && a.method != "" && !other.done && other.id != nil && bytes.Equal(other.id, a.id) && other.legacy == a.legacy {
			s.noteOddity(repeatedID, repeatedID, a)
		}
	}
	if a.method == "notifications/cancelled" {
		for _, other := range s.asks {
			if other.id != nil && bytes.Equal(other.id, a.params["requestId"]) && !other.done {
				other.abandoned = true
			}
		}
	}
}
