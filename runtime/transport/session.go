package transport

import (
	"container/list"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// defaultSessionTimeout is the default for HandlerOptions.SessionTimeout.
const defaultSessionTimeout = 30 * time.Minute

// A sessionTable holds the legacy sessions of a handler. A session without an open request is idle. It ends after a
// timeout. When an account has reached its limit, one of its idle sessions ends to make room for a new one.
type sessionTable struct {
	timeout time.Duration // for idle sessions; 0 or less means none
	max     int           // limit of a principal; negative for no limit
	ending  func(session, principal string) (ended func())

	mu       sync.Mutex
	byID     map[string]*session
	accounts map[accountKey]*account
}

// An account counts the sessions of a principal or an address.
type account struct {
	count  int       // sessions that have not ended
	ending int       // the ones being ended here that still have calls
	unused list.List // of *session, the idle ones without a call after initialize, longest idle first
	idle   list.List // of *session, the other idle ones, longest idle first
}

// first returns the element of the session that ends first to make room, or nil. An unused session ends before all
// others, so a caller that only initializes sessions ends its own.
func (a *account) first() *list.Element {
	if e := a.unused.Front(); e != nil {
		return e
	}
	return a.idle.Front()
}

// A session exists from its initialize request until the SDK has ended it. The fields are guarded by sessionTable.mu.
type session struct {
	payer   accountKey
	ss      *mcp.ServerSession // nil until initialize has succeeded
	open    int                // open requests
	posts   int                // POST requests after initialize
	ending  bool
	over    bool
	idle    []*list.Element // its elements in its accounts' lists, while idle
	since   time.Time       // when it became idle
	timer   *time.Timer
	calls   map[*func()]struct{} // functions that end the extension's calls
	getters []*getter            // in order of arrival
}

func newSessions(timeout time.Duration, most int, ending func(session, principal string) func()) *sessionTable {
	return &sessionTable{timeout: timeout, max: most, ending: ending, byID: map[string]*session{}, accounts: map[accountKey]*account{}}
}

// reserve reserves a slot for a new session of p with one open request. If an account of p is full, reserve ends the
// account's first idle session. If no session is idle, it returns the key of the account.
func (s *sessionTable) reserve(p accountKey) (sess *session, full *accountKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accounts := p.accounts()
	for _, key := range accounts {
		a, limit := s.accounts[key], key.limit(s.max)
		if a == nil || limit < 0 || a.count-a.ending < limit {
			continue
		}
		first := a.first()
		if first == nil || a.ending >= key.limit(max(s.max, defaultMaxSessions)) { // clients that restart often end many
			return nil, &key
		}
		s.end(first.Value.(*session))
	}
	for _, key := range accounts {
		if s.accounts[key] == nil {
			s.accounts[key] = &account{}
		}
		s.accounts[key].count++
	}
	return &session{payer: p, open: 1, calls: map[*func()]struct{}{}}, nil
}

// register registers a reserved session after initialize has succeeded.
func (s *sessionTable) register(sess *session, ss *mcp.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sess.ss != nil || ss.ID() == "":
		// The session was initialized twice, or the SDK ends it with the request.
	case sess.over: // the client left before it received the ID
		go ss.Close() // Close waits for the call that this is a part of
	default:
		sess.ss = ss
		s.byID[ss.ID()] = sess
		go s.watch(sess)
	}
}

// watch waits until a session ends, then releases its slot and ends its calls.
func (s *sessionTable) watch(sess *session) {
	_ = sess.ss.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sess.ss.ID())
	s.releaseSlot(sess)
	for end := range sess.calls {
		(*end)()
	}
}

// releaseSlot releases the slot of a session. The caller must hold s.mu.
func (s *sessionTable) releaseSlot(sess *session) {
	s.removeIdle(sess)
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

// registerRequest registers a request in the session with the given ID. The caller must call leave at the end of the
// request.
func (s *sessionTable) registerRequest(id, httpMethod string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[id]
	if sess == nil {
		return func() {}
	}
	sess.open++
	if httpMethod == http.MethodPost {
		sess.posts++
	}
	s.removeIdle(sess)
	return func() { s.endRequest(sess) }
}

// endRequest records the end of a request. After its last request, the session becomes idle, or is removed if it was
// never initialized.
func (s *sessionTable) endRequest(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.open--; sess.open > 0 || sess.over || sess.ending {
		return
	}
	if sess.ss == nil {
		s.releaseSlot(sess)
		return
	}
	sess.since = time.Now()
	for _, key := range sess.payer.accounts() {
		a := s.accounts[key]
		idle := &a.idle
		if sess.posts < 2 { // the first is notifications/initialized
			idle = &a.unused
		}
		sess.idle = append(sess.idle, idle.PushBack(sess))
	}
	if s.timeout > 0 {
		sess.timer = time.AfterFunc(s.timeout, func() { s.expire(sess) })
	}
}

// removeIdle removes a session from the idle lists. The caller must hold s.mu.
func (s *sessionTable) removeIdle(sess *session) {
	if sess.timer != nil {
		sess.timer.Stop()
		sess.timer = nil
	}
	for i, e := range sess.idle {
		a := s.accounts[sess.payer.accounts()[i]]
		a.unused.Remove(e) // Remove ignores an element of the other list
		a.idle.Remove(e)
	}
	sess.idle = nil
}

// expire ends a session that has been idle for the timeout. It checks the time again, because the timer may have fired
// while a request arrived.
func (s *sessionTable) expire(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess.idle != nil && time.Since(sess.since) >= s.timeout {
		s.end(sess)
	}
}

// end ends an idle session. The caller must hold s.mu.
func (s *sessionTable) end(sess *session) {
	s.removeIdle(sess)
	sess.ending = true
	for _, key := range sess.payer.accounts() {
		s.accounts[key].ending++
	}
	go func() { // runs until the session's remaining calls have ended
		defer s.ending(sessionKey(sess.ss.ID()), sess.payer.principal)()
		_ = sess.ss.Close()
	}()
}

// attachCall returns the session with the given ID, or nil if it does not exist. If the session ends before leave is
// called, end is called.
func (s *sessionTable) attachCall(id string, end func()) (ss *mcp.ServerSession, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[id]
	if sess == nil {
		return nil, func() {}
	}
	sess.calls[&end] = struct{}{}
	return sess.ss, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(sess.calls, &end)
	}
}

// serveInitialize serves a request that starts a legacy session. The session occupies a slot until it ends.
func (h *handler) serveInitialize(w http.ResponseWriter, r *http.Request, p *postBody) {
	principal, _ := h.authenticate(r)
	sess, full := h.sessions.reserve(accountKeyOf(principal, r))
	if full != nil {
		full.refuse(w, h.sessions.max, "sessions")
		return
	}
	defer h.sessions.endRequest(sess)
	ctx := port.WithBegin(r.Context(), func(ss *mcp.ServerSession) { h.sessions.register(sess, ss) })
	h.passToSDK(h.legacy, w, r.WithContext(ctx), p)
}
