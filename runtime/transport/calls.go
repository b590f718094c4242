package transport

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the early cancels (D14). A cancel is sent in a separate POST and may overtake its request.
const (
	earlyWindow     = 2 * time.Second
	maxEarly        = 4096 // in all
	maxEarlySession = 32   // of one session
	// sweepPause is the time between two sweeps for expired cancels through all sessions, which hold the lock.
	sweepPause = earlyWindow / 16
)

// A callKey identifies a request within a legacy session. It includes the principal, so that a caller who knows
// another's session cannot use up its IDs or cancel its calls.
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

// calls holds the unanswered requests of all legacy sessions, and the early cancels.
type calls struct {
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

// A liveCall is one unanswered request.
type liveCall struct {
	key   callKey
	gone  atomic.Bool // cancelled: nothing more is written
	stop  func()      // ends the call here; called once; may be nil
	sdk   bool        // the SDK has to end the call as well
	stays bool        // cannot be cancelled
}

func (c *liveCall) cancel() {
	if !c.stays && !c.gone.Swap(true) && c.stop != nil {
		c.stop()
	}
}

// begin registers the calls of a request, either all or none. It returns false if one of the IDs is in use. Early
// cancels apply.
func (s *calls) begin(live []*liveCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range live {
		if s.live[c.key] != nil {
			return false
		}
	}
	if s.live == nil {
		s.live = map[callKey]*liveCall{}
	}
	for _, c := range live {
		s.live[c.key] = c
		if !c.stays && s.takeEarly(c.key) {
			c.cancel()
		}
	}
	return true
}

// end removes the calls of a request.
func (s *calls) end(live []*liveCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range live {
		delete(s.live, c.key)
	}
}

// cancel ends a call, or keeps the cancel for a call that has not arrived. It reports whether the SDK has to end the
// call as well. Other cancels must not reach the SDK, which processes a cancel later, when another call may have the
// ID.
func (s *calls) cancel(key callKey) (sdk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.live[key]; c != nil {
		c.cancel()
		return c.sdk
	}
	s.keepEarly(key)
	return false
}

// keepEarly stores a cancel that arrived before its request. s.mu is held.
func (s *calls) keepEarly(key callKey) {
	now := time.Now()
	kept := s.current(key.session, now)
	if s.count >= maxEarly {
		if now.Before(s.sweep) {
			return
		}
		s.sweep = now.Add(sweepPause)
		for session := range s.early {
			s.current(session, now)
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

// takeEarly reports whether the call was cancelled before it arrived. s.mu is held.
func (s *calls) takeEarly(key callKey) bool {
	for i, e := range s.current(key.session, time.Now()) {
		if e.call == key.call {
			kept := s.early[key.session]
			s.keep(key.session, append(kept[:i:i], kept[i+1:]...))
			return true
		}
	}
	return false
}

// current drops the expired cancels of a session and returns the others. s.mu is held.
func (s *calls) current(session [sha256.Size]byte, now time.Time) []earlyCancel {
	kept, i := s.early[session], 0
	for i < len(kept) && kept[i].until.Before(now) {
		i++
	}
	if i > 0 {
		s.keep(session, kept[i:])
	}
	return kept[i:]
}

func (s *calls) keep(session [sha256.Size]byte, kept []earlyCancel) {
	s.count += len(kept) - len(s.early[session])
	if len(kept) == 0 {
		delete(s.early, session)
		return
	}
	s.early[session] = kept
}

// A muteWriter is the response to a call that can be cancelled. After the cancel it discards all writes, since a
// cancelled call gets no answer (D14).
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

// unanswered ends the response to a cancelled call: an empty event stream.
func unanswered(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", contentTypeEvents)
	header.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
}
