package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// An announcer is a response that remains open for notifications. It inserts list_changed between two events of the
// SDK, or of another server (LIST-5).
type announcer struct {
	http.ResponseWriter
	out     eventWriter     // for complete events
	frame   []byte          // list_changed as an event; nil if it was not requested
	id      json.RawMessage // the ID of the listen request; nil for a session
	expires time.Time       // when the caller's token expires (AUTH-4)
	opened  func()          // called when the response starts; may be nil
	acks    bool            // the response starts with the acknowledgment of a listen request

	mu     sync.Mutex // held during writes
	seam   sse.Seam   // of the events that are passed on
	live   bool       // the response has started
	closed bool       // the handler is about to return

	state       sync.Mutex
	owed        bool            // a list_changed is pending
	busy        bool            // a goroutine is writing it
	over        bool            // nothing more is queued
	unsent      []queuedMessage // messages of adapters
	unsentBytes int
}

func (h *handler) newAnnouncer(w http.ResponseWriter, message []byte) *announcer {
	a := &announcer{ResponseWriter: w, out: eventWriter{w, http.NewResponseController(w), h.writeTimeout}}
	if message != nil {
		a.frame = sse.Message(message)
	}
	return a
}

// Unwrap gives the SDK's response controller access to all features except flushing.
func (a *announcer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write passes on events.
func (a *announcer) Write(p []byte) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.markStarted()
	err = a.out.withDeadline(func() error {
		n, err = a.ResponseWriter.Write(p)
		return err
	})
	if a.seam.Add(p[:n]); a.live && a.seam.Between() {
		a.startPending()
	}
	return n, err
}

// Flush implements [http.Flusher], which some servers require.
func (a *announcer) Flush() { _ = a.FlushError() }

// FlushError flushes the response, which starts it. It waits for an announcement in progress.
func (a *announcer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.acks {
		a.markStarted()
	}
	return a.out.withDeadline(a.out.rc.Flush)
}

// heartbeat writes a comment, which prevents proxies from closing an idle connection and detects a dead one. It returns
// false if the client has disconnected.
func (a *announcer) heartbeat() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.live || a.closed || !a.seam.Between() {
		return !a.closed
	}
	a.closed = a.out.writeText([]byte(sse.Comment)) != nil
	return !a.closed
}

// markStarted marks the response as started and sends pending notifications. It must be called before the first event
// is written, so a client that has received the event misses no notification. The caller must hold a.mu.
func (a *announcer) markStarted() {
	header := a.Header()
	if a.live || mediaType(header.Get("Content-Type")) != sse.ContentType || header.Get("Content-Encoding") != "" {
		return
	}
	a.live = true
	a.startPending()
	if a.opened != nil {
		a.opened()
	}
}

// announce schedules a list_changed notification. It never blocks. Calls during a write are combined into a single
// notification.
func (a *announcer) announce() {
	a.state.Lock()
	defer a.state.Unlock()
	if a.frame == nil {
		return
	}
	a.owed = true
	a.schedule()
}

// schedule starts a goroutine that writes the pending messages, unless one is running. The caller must hold a.state.
func (a *announcer) schedule() {
	if !a.busy {
		a.busy = true
		go a.writePending()
	}
}

// startPending schedules the pending messages, if any.
func (a *announcer) startPending() {
	a.state.Lock()
	defer a.state.Unlock()
	if a.owed || len(a.unsent) > 0 {
		a.schedule()
	}
}

// writePending writes the pending messages, unless the response has not started or an event is incomplete.
func (a *announcer) writePending() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var messages []queuedMessage
	var frames []byte
	a.state.Lock()
	if a.live && !a.closed && a.seam.Between() {
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
	err := a.out.writeText(frames)
	report(messages, err == nil)
	if err != nil {
		a.closed = true
		a.discardQueued()
	}
}

// A queuedMessage is a message that is waiting to be written. Its callback receives true if the message was written and
// false if it was dropped (MCPE-DEL-2).
type queuedMessage struct {
	data    []byte
	written func(bool) // may be nil
}

func report(messages []queuedMessage, ok bool) {
	for _, m := range messages {
		if m.written != nil {
			m.written(ok)
		}
	}
}

// discardQueued discards the queued messages and refuses further ones.
func (a *announcer) discardQueued() {
	a.state.Lock()
	dropped := a.unsent
	a.over, a.unsent, a.unsentBytes = true, nil, 0
	a.state.Unlock()
	report(dropped, false)
}

// close waits for an announcement in progress and prevents further announcements.
func (a *announcer) close() {
	a.discardQueued()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
}

// registerListener registers a until stop is called and returns a context derived from the request's. The context is
// also cancelled when closing is closed or when a heartbeat cannot be written.
func (h *handler) registerListener(a *announcer, r *http.Request, closing <-chan struct{}) (ctx context.Context, stop func()) {
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
				if !a.heartbeat() {
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

// announce sends list_changed to all open listeners.
func (h *handler) announce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range h.listeners {
		a.announce()
	}
}

// listChangedParams returns the params of list_changed for the listen request with the given ID (D8). A nil ID stands
// for a legacy session.
func listChangedParams(id json.RawMessage) json.RawMessage {
	if id == nil {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(`{"_meta":{"` + wire.MetaSubscriptionID + `":` + string(id) + `}}`)
}

// listChangedNotification returns the list_changed notification for a listen request or, if id is nil, for a legacy
// session.
func listChangedNotification(id json.RawMessage) []byte {
	return notification(wire.NotificationListChanged, listChangedParams(id))
}
