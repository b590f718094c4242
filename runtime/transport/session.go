package transport

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// sessions knows which streams belong to which legacy session: they end with it, and while one is
// open the session is not idle.
type sessions struct {
	sdk     http.Handler
	timeout time.Duration // of idle sessions; 0 is never

	mu   sync.Mutex
	open map[*mcp.ServerSession]*session
}

type session struct {
	streams map[port.Stream]*http.Request
	pulse   *time.Timer // nil without a timeout
}

func newSessions(sdk http.Handler, timeout time.Duration) *sessions {
	return &sessions{sdk: sdk, timeout: timeout, open: map[*mcp.ServerSession]*session{}}
}

// join ties st, opened by r, to its session. The result unties it.
func (s *sessions) join(ss *mcp.ServerSession, st port.Stream, r *http.Request) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.open[ss]
	if sess == nil {
		sess = &session{streams: map[port.Stream]*http.Request{}}
		s.open[ss] = sess
		go s.watch(ss, sess) // one for the session's life: the SDK's Wait cannot be abandoned
	}
	if len(sess.streams) == 0 && s.timeout > 0 {
		sess.pulse = time.AfterFunc(s.timeout/2, func() { s.keepAlive(sess) })
	}
	sess.streams[st] = r
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(sess.streams, st)
		if len(sess.streams) == 0 && sess.pulse != nil {
			sess.pulse.Stop()
			sess.pulse = nil
		}
	}
}

// watch ends the session's streams when the session ends.
func (s *sessions) watch(ss *mcp.ServerSession, sess *session) {
	_ = ss.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, ss)
	for st := range sess.streams {
		st.End()
	}
}

// keepAlive pings the session from inside, which is the only thing that its idle timer heeds.
func (s *sessions) keepAlive(sess *session) {
	s.mu.Lock()
	var by *http.Request
	for _, r := range sess.streams {
		by = r
		break
	}
	s.mu.Unlock()
	if by == nil {
		return
	}
	ping := `{"jsonrpc":"2.0","id":"` + rand.Text() + `","method":"` + methodPing + `"}`
	s.sdk.ServeHTTP(newRecorder(), withBody(by, []byte(ping)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sess.streams) > 0 && sess.pulse != nil {
		sess.pulse.Reset(s.timeout / 2)
	}
}
