package overlay

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// maxDeclared is the number of newest sessions whose declaration of the extension is remembered.
const maxDeclared = 1 << 15

// A sessionDigest stands for the ID of a session.
type sessionDigest = [sha256.Size]byte

// sessions holds what the handler knows of next's sessions. The zero value is ready to use.
type sessions struct {
	mu       sync.Mutex
	watches  map[string]map[*watch]struct{} // by session
	declared [2]map[sessionDigest]struct{}  // the newer half first
}

// declare remembers that a session has declared the extension (CAP-3).
func (s *sessions) declare(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.declared[0]) >= maxDeclared || s.declared[0] == nil {
		s.declared = [2]map[sessionDigest]struct{}{{}, s.declared[0]}
	}
	s.declared[0][sha256.Sum256([]byte(session))] = struct{}{}
}

// declares reports whether a session has declared the extension.
func (s *sessions) declares(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, half := range s.declared {
		if _, ok := half[sha256.Sum256([]byte(session))]; ok {
			return true
		}
	}
	return false
}

// end ends the calls of a session that next has ended.
func (s *sessions) end(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, half := range s.declared {
		delete(half, sha256.Sum256([]byte(session)))
	}
	for w := range s.watches[session] {
		w.endCalls()
	}
}

// A watch asks next from time to time whether the caller of open calls is still accepted. Calls in one session with one
// token share a watch. So an open stream keeps its session alive, and ends with it.
type watch struct {
	h     *handler
	who   caller
	asks  question
	asker *http.Request // has the caller's headers
	every time.Duration
	ctx   context.Context // ends with the last call
	stop  context.CancelFunc
	timer *time.Timer
	calls map[*context.CancelFunc]struct{} // guarded by sessions.mu, as the watch's place is
}

// watch returns a context for a call, which ends when the request ends, when next ends the session, or when next no
// longer accepts the caller. The caller must call leave.
func (h *handler) watch(r *http.Request, q question, c caller) (ctx context.Context, leave func()) {
	ctx, end := context.WithCancel(r.Context())
	s := &h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.find(c)
	if w == nil {
		w = h.newWatch(r, q, c)
	}
	w.calls[&end] = struct{}{}
	return ctx, func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(w.calls, &end); len(w.calls) == 0 {
			w.close()
		}
	}
}

// find returns the watch of the caller's session, or nil. The caller must hold s.mu.
func (s *sessions) find(c caller) *watch {
	if c.session == "" {
		return nil
	}
	for w := range s.watches[c.session] {
		if w.who == c {
			return w
		}
	}
	return nil
}

// newWatch starts a watch. The caller must hold sessions.mu.
func (h *handler) newWatch(r *http.Request, q question, c caller) *watch {
	w := &watch{h: h, who: c, asks: q, every: h.es.RecheckInterval(), calls: map[*context.CancelFunc]struct{}{}}
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(r.Context()))
	w.asker = q.request(w.ctx, r) // r itself would keep the body of the call
	if c.session != "" {
		all := &h.sessions.watches
		if *all == nil {
			*all = map[string]map[*watch]struct{}{}
		}
		if (*all)[c.session] == nil {
			(*all)[c.session] = map[*watch]struct{}{}
		}
		(*all)[c.session][w] = struct{}{}
		if beat := h.es.Heartbeat(); w.every <= 0 || beat < w.every {
			w.every = beat
		}
	}
	if w.every > 0 && !h.trusted {
		w.timer = time.AfterFunc(w.every, w.recheck)
	}
	return w
}

// close ends a watch without calls. The caller must hold sessions.mu.
func (w *watch) close() {
	w.stop()
	if w.timer != nil {
		w.timer.Stop()
	}
	all := w.h.sessions.watches
	if delete(all[w.who.session], w); len(all[w.who.session]) == 0 {
		delete(all, w.who.session)
	}
}

// endCalls ends the calls of a watch. The caller must hold sessions.mu.
func (w *watch) endCalls() {
	for end := range w.calls {
		(*end)()
	}
}

// recheck asks next, and ends the calls if next refuses the caller. A next that does not answer has not refused it.
func (w *watch) recheck() {
	a, err := w.h.put(w.ctx, w.h.next, w.asker, w.asks)
	s := &w.h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.ctx.Err() != nil:
	case err == nil && a.refuses(w.asks):
		w.h.log.DebugContext(w.ctx, "overlay: the MCP server next to events no longer accepts a caller: its calls end", "status", a.status)
		w.endCalls()
	default:
		w.timer.Reset(w.every)
	}
}

// refuses reports whether the answer of next to a question refuses the caller or its session. A server that is
// overloaded or restarts refuses nobody.
func (a *answer) refuses(q question) bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return a.status < http.StatusMultipleChoices && !a.consents(q)
}
