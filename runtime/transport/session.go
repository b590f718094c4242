package transport

import (
	"container/list"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// defaultSessionTimeout is HandlerOptions.SessionTimeout when that is 0.
const defaultSessionTimeout = 30 * time.Minute

// sessions are the legacy sessions of a handler. A session without an open request is idle. It ends after a time, or
// when it is the longest idle one of an account that has reached its bound.
type sessions struct {
	timeout time.Duration // of idle sessions; 0 or less: never
	max     int           // of a principal; negative for no bound
	ending  func(session, principal string) (ended func())

	mu       sync.Mutex
	byID     map[string]*session
	accounts map[payer]*account
}

// An account counts the sessions of a payer.
type account struct {
	count  int       // until they are over
	ending int       // of these, sessions that were ended here and still have calls
	idle   list.List // of *session, the longest idle first
}

// A session is one from the initialize request that begins it until the SDK has ended it. sessions.mu guards its fields.
type session struct {
	payer   payer
	ss      *mcp.ServerSession // nil until initialize has succeeded
	open    int                // requests
	ending  bool
	over    bool
	idle    []*list.Element // its places in the lists of its accounts, while it is idle
	since   time.Time       // when it became idle
	timer   *time.Timer
	streams map[port.Stream]struct{}
	getters []*getter // in the order in which they came
}

func newSessions(timeout time.Duration, most int, ending func(session, principal string) func()) *sessions {
	return &sessions{timeout: timeout, max: most, ending: ending, byID: map[string]*session{}, accounts: map[payer]*account{}}
}

// reserve takes a place for a session of p whose first request is open. If an account of p is full, its longest idle
// session makes room; without an idle one the result is that account.
func (s *sessions) reserve(p payer) (sess *session, full *payer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accounts := p.accounts()
	for _, key := range accounts {
		a, limit := s.accounts[key], key.limit(s.max)
		if a == nil || limit < 0 || a.count-a.ending < limit {
			continue
		}
		oldest := a.idle.Front()
		if oldest == nil || a.ending >= key.limit(max(s.max, defaultMaxSessions)) { // clients that restart often end many
			return nil, &key
		}
		s.end(oldest.Value.(*session))
	}
	for _, key := range accounts {
		if s.accounts[key] == nil {
			s.accounts[key] = &account{}
		}
		s.accounts[key].count++
	}
	return &session{payer: p, open: 1, streams: map[port.Stream]struct{}{}}, nil
}

// began makes a reserved session known, once initialize has succeeded.
func (s *sessions) began(sess *session, ss *mcp.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sess.ss != nil || ss.ID() == "":
		// It was initialized twice, or the SDK ends it with its request.
	case sess.over: // the client left before it could learn the id
		go ss.Close() // waits for the call that this is a part of
	default:
		sess.ss = ss
		s.byID[ss.ID()] = sess
		go s.watch(sess)
	}
}

// watch frees the place of a session and ends its streams when the session is over.
func (s *sessions) watch(sess *session) {
	_ = sess.ss.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sess.ss.ID())
	s.free(sess)
	for st := range sess.streams {
		st.End()
	}
}

// free gives back a place. s.mu is held.
func (s *sessions) free(sess *session) {
	s.busy(sess)
	sess.over = true
	for _, key := range sess.payer.accounts() {
		a := s.accounts[key]
		if a.count--; sess.ending {
			a.ending--
		}
		if a.count == 0 {
			delete(s.accounts, key)
		}
	}
}

// enter notes a request of the session of an id; the result notes its end.
func (s *sessions) enter(id string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[id]
	if sess == nil {
		return func() {}
	}
	sess.open++
	s.busy(sess)
	return func() { s.leave(sess) }
}

// leave notes the end of a request. Without another one the session is idle from now on, or over if it did not begin.
func (s *sessions) leave(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.open--; sess.open > 0 || sess.over || sess.ending {
		return
	}
	if sess.ss == nil {
		s.free(sess)
		return
	}
	sess.since = time.Now()
	for _, key := range sess.payer.accounts() {
		sess.idle = append(sess.idle, s.accounts[key].idle.PushBack(sess))
	}
	if s.timeout > 0 {
		sess.timer = time.AfterFunc(s.timeout, func() { s.expire(sess) })
	}
}

// busy takes a session from the idle ones. s.mu is held.
func (s *sessions) busy(sess *session) {
	if sess.timer != nil {
		sess.timer.Stop()
		sess.timer = nil
	}
	for i, e := range sess.idle {
		s.accounts[sess.payer.accounts()[i]].idle.Remove(e)
	}
	sess.idle = nil
}

// expire ends a session that has been idle for the timeout. Its timer may have fired as a request came.
func (s *sessions) expire(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.idle != nil && time.Since(sess.since) >= s.timeout {
		s.end(sess)
	}
}

// end ends an idle session. s.mu is held.
func (s *sessions) end(sess *session) {
	s.busy(sess)
	sess.ending = true
	for _, key := range sess.payer.accounts() {
		s.accounts[key].ending++
	}
	go func() { // until the calls that the session still has are over
		defer s.ending(sessionKey(sess.ss.ID()), sess.payer.principal)()
		_ = sess.ss.Close()
	}()
}

// join ties a stream to the session of an id: it ends with the session. The result unties it.
func (s *sessions) join(id string, st port.Stream) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[id]
	if sess == nil {
		st.End() // the session ended meanwhile
		return func() {}
	}
	sess.streams[st] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(sess.streams, st)
	}
}

// initialize serves a request that begins a legacy session, which counts until it ends.
func (h *handler) initialize(w http.ResponseWriter, r *http.Request, p *posted) {
	principal, _ := h.caller(r)
	sess, full := h.sessions.reserve(payerOf(principal, r))
	if full != nil {
		full.refuse(w, h.sessions.max, "sessions")
		return
	}
	defer h.sessions.leave(sess)
	ctx := port.WithBegin(r.Context(), func(ss *mcp.ServerSession) { h.sessions.began(sess, ss) })
	h.toSDK(h.legacy, w, r.WithContext(ctx), p)
}
