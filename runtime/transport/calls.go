package transport

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// Limits for early cancels (D14). A cancel is sent in a separate POST, so it may arrive before its request.
const (
	earlyWindow     = 2 * time.Second
	maxEarly        = 4096 // in all
	maxEarlySession = 32   // of one session
	// sweepInterval is the minimum interval between two sweeps, which remove the expired cancels of all sessions while
	// holding the lock.
	sweepInterval = earlyWindow / 16
)

// A callKey identifies a request in a legacy session. It includes the principal, so a caller who knows another caller's
// session ID can neither use up that session's request IDs nor cancel its calls.
type callKey struct{ session, call [sha256.Size]byte }

func newCallKey(principal, session string, id json.RawMessage) callKey {
	return callKey{digest(principal, session), digest(idKey(id))}
}

func digest(parts ...string) [sha256.Size]byte {
	var b []byte
	for _, part := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// A callRegistry holds the unanswered requests and the early cancels of all legacy sessions.
type callRegistry struct {
	mu    sync.Mutex
	live  map[callKey]*liveCall
	early map[[sha256.Size]byte][]earlyCancel // by session
	count int                                 // number of early cancels
	sweep time.Time                           // time of the next sweep
}

type earlyCancel struct {
	call  [sha256.Size]byte
	until time.Time
}

// A liveCall is an unanswered request.
type liveCall struct {
	key   callKey
	id    json.RawMessage // as received
	gone  atomic.Bool     // cancelled: nothing more is written
	stop  func()          // ends the call here; called once; may be nil
	sdk   bool            // the SDK has to end the call as well
	stays bool            // cannot be cancelled
}

func (c *liveCall) cancel() {
	if !c.stays && !c.gone.Swap(true) && c.stop != nil {
		c.stop()
	}
}

// register registers a call, or returns false if its ID is in use. It cancels the call if an early cancel has arrived.
func (s *callRegistry) register(c *liveCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[c.key] != nil {
		return false
	}
	if s.live == nil {
		s.live = map[callKey]*liveCall{}
	}
	s.live[c.key] = c
	if !c.stays && s.removeEarlyCancel(c.key) {
		c.cancel()
	}
	return true
}

// unregister removes a call.
func (s *callRegistry) unregister(c *liveCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c.key)
}

// cancel cancels a call, or stores the cancel for a call that has not arrived. It returns the ID of the call if the SDK
// must cancel the call as well. If not, the cancel must not reach the SDK, which would process it later, when another
// call may already use the ID.
func (s *callRegistry) cancel(key callKey) (sdk json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.live[key]; c != nil {
		c.cancel()
		if c.sdk {
			return c.id
		}
		return nil
	}
	s.storeEarlyCancel(key)
	return nil
}

// storeEarlyCancel stores a cancel that arrived before its request. The caller must hold s.mu.
func (s *callRegistry) storeEarlyCancel(key callKey) {
	now := time.Now()
	kept := s.removeExpired(key.session, now)
	if s.count >= maxEarly {
		if now.Before(s.sweep) {
			return
		}
		s.sweep = now.Add(sweepInterval)
		for session := range s.early {
			s.removeExpired(session, now)
		}
		if s.count >= maxEarly {
			return
		}
	}
	if len(kept) >= maxEarlySession {
		kept = kept[1:]
		s.count--
	}
	if s.early == nil {
		s.early = map[[sha256.Size]byte][]earlyCancel{}
	}
	s.early[key.session] = append(kept[:len(kept):len(kept)], earlyCancel{key.call, now.Add(earlyWindow)})
	s.count++
}

// removeEarlyCancel removes the early cancel for a call and reports whether it existed. The caller must hold s.mu.
func (s *callRegistry) removeEarlyCancel(key callKey) bool {
	for i, e := range s.removeExpired(key.session, time.Now()) {
		if e.call == key.call {
			kept := s.early[key.session]
			s.keep(key.session, append(kept[:i:i], kept[i+1:]...))
			return true
		}
	}
	return false
}

// removeExpired removes the expired cancels of a session and returns the remaining ones. The caller must hold s.mu.
func (s *callRegistry) removeExpired(session [sha256.Size]byte, now time.Time) []earlyCancel {
	kept, i := s.early[session], 0
	for i < len(kept) && kept[i].until.Before(now) {
		i++
	}
	if i > 0 {
		s.keep(session, kept[i:])
	}
	return kept[i:]
}

func (s *callRegistry) keep(session [sha256.Size]byte, kept []earlyCancel) {
	s.count += len(kept) - len(s.early[session])
	if len(kept) == 0 {
		delete(s.early, session)
		return
	}
	s.early[session] = kept
}

// A muteWriter is the response to a call that can be cancelled. It discards all writes after the cancellation, because
// a cancelled call is not answered (D14).
type muteWriter struct {
	http.ResponseWriter
	call *liveCall
}

// Unwrap gives the SDK's response controller access to flushing and deadlines.
func (w *muteWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header unless the call was cancelled.
func (w *muteWriter) WriteHeader(status int) {
	if !w.call.gone.Load() {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *muteWriter) Write(p []byte) (int, error) {
	if w.call.gone.Load() {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// writeEmptyStream writes an empty event stream, which is the response to a cancelled call.
func writeEmptyStream(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", sse.ContentType)
	header.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
}
