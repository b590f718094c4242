package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An announcer is a response of the SDK's, kept open for notifications, on which this package puts
// list_changed between the SDK's own messages (LIST-5). The SDK writes one whole event at a time,
// so the two only have to take turns.
type announcer struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	frame   []byte          // list_changed as an event; nil when nobody asked for it
	id      json.RawMessage // of the listen request; nil for a session
	expires time.Time       // of the caller's token (AUTH-4)
	opened  func()          // called when the response begins; may be nil

	mu     sync.Mutex // held while writing
	live   bool       // the response has begun
	closed bool       // the handler is about to return

	state       sync.Mutex
	owed        bool     // a list_changed is due
	busy        bool     // somebody is seeing to it
	over        bool     // nothing is queued any more
	unsent      []unsent // of adapters
	unsentBytes int
}

func (h *handler) newAnnouncer(w http.ResponseWriter, message []byte) *announcer {
	a := &announcer{ResponseWriter: w, rc: http.NewResponseController(w), timeout: h.writeTimeout}
	if message != nil {
		a.frame = asEvent(message)
	}
	return a
}

// asEvent is a message as an event of a response.
func asEvent(message []byte) []byte {
	b := make([]byte, 0, len(message)+32)
	b = append(b, "event: message\ndata: "...)
	b = append(b, message...)
	return append(b, eventTail...)
}

// Unwrap gives the SDK's response controller everything but flushing.
func (a *announcer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write passes on an event of the SDK's.
func (a *announcer) Write(p []byte) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	err = a.timed(func() error {
		n, err = a.ResponseWriter.Write(p)
		return err
	})
	return n, err
}

// FlushError flushes, in turn with announcements.
func (a *announcer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.timed(a.rc.Flush)
}

// timed gives f the time that a batch of frames may take (PUSH-7). a.mu is held.
func (a *announcer) timed(f func() error) error {
	_ = a.rc.SetWriteDeadline(time.Now().Add(a.timeout))
	if err := f(); err != nil {
		return err
	}
	_ = a.rc.SetWriteDeadline(time.Time{})
	return nil
}

// put writes whole events, or a comment, between those of the SDK. a.mu is held.
func (a *announcer) put(b []byte) error {
	return a.timed(func() error {
		if _, err := a.ResponseWriter.Write(b); err != nil {
			return err
		}
		if err := a.rc.Flush(); !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		return nil
	})
}

// beat writes a comment, so that proxies do not take the connection for an idle one and a dead one is noticed. It is
// false if the client is gone.
func (a *announcer) beat() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.live || a.closed {
		return !a.closed
	}
	a.closed = a.put([]byte(eventComment)) != nil
	return !a.closed
}

// begin notes that notifications may follow; what was owed until now is seen to. It is called before
// the first event is written: a client that has that event misses nothing. a.mu is held.
func (a *announcer) begin() {
	if a.live || mediaType(a.Header().Get("Content-Type")) != contentTypeEvents {
		return
	}
	a.live = true
	a.state.Lock()
	owed := a.owed
	a.state.Unlock()
	if owed {
		go a.settle()
	}
	if a.opened != nil {
		a.opened()
	}
}

// announce makes sure that a list_changed follows. It never blocks; several that come while one
// is being written become one.
func (a *announcer) announce() {
	a.state.Lock()
	defer a.state.Unlock()
	if a.frame == nil {
		return
	}
	a.owed = true
	if !a.busy {
		a.busy = true
		go a.settle()
	}
}

// settle writes what is owed, once the response has begun.
func (a *announcer) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var messages []unsent
	var frames []byte
	a.state.Lock()
	if a.live && !a.closed {
		messages = a.unsent
		for _, m := range messages {
			frames = append(frames, m.data...)
		}
		if a.owed {
			frames = append(frames, a.frame...)
		}
		a.owed, a.unsent, a.unsentBytes = false, nil, 0
	}
	a.busy = false
	a.state.Unlock()
	if len(frames) == 0 {
		return
	}
	err := a.put(frames)
	report(messages, err == nil)
	if err != nil {
		a.closed = true
		a.drop()
	}
}

// An unsent message waits to be written. It is settled with its memory only when it was (MCPE-DEL-2).
type unsent struct {
	data    []byte
	written func(bool) // may be nil
}

func report(messages []unsent, ok bool) {
	for _, m := range messages {
		if m.written != nil {
			m.written(ok)
		}
	}
}

// drop lets nothing more be queued and gives up what is.
func (a *announcer) drop() {
	a.state.Lock()
	dropped := a.unsent
	a.over, a.unsent, a.unsentBytes = true, nil, 0
	a.state.Unlock()
	report(dropped, false)
}

// close waits for an announcement under way and allows no further one.
func (a *announcer) close() {
	a.drop()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
}

// listen registers a for the life of a request and returns the request's context, which also ends
// when closing is closed and when the client is found to be gone.
func (h *handler) listen(a *announcer, r *http.Request, closing <-chan struct{}) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		defer cancel()
		beats := time.NewTicker(h.es.Heartbeat())
		defer beats.Stop()
		for {
			select {
			case <-closing:
				return
			case <-ctx.Done():
				return
			case <-beats.C:
				if !a.beat() {
					return
				}
			}
		}
	}()
	h.mu.Lock()
	h.listeners[a] = struct{}{}
	h.mu.Unlock()
	return ctx, func() {
		h.mu.Lock()
		delete(h.listeners, a)
		h.mu.Unlock()
		a.close()
		cancel()
	}
}

// announce tells every open listener that the list of event types has changed.
func (h *handler) announce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range h.listeners {
		a.announce()
	}
}

// listChangedParams are the params of list_changed for the listen request of the given id, or for a
// legacy session when id is nil (D8).
func listChangedParams(id json.RawMessage) json.RawMessage {
	if id == nil {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(`{"_meta":{"` + wire.MetaSubscriptionID + `":` + string(id) + `}}`)
}

// listChanged is the notification with those params.
func listChanged(id json.RawMessage) []byte {
	return notification(wire.NotificationListChanged, listChangedParams(id))
}
