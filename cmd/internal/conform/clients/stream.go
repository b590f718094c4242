package clients

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A channel is an open stream. Its methods report whether it is still open.
type channel struct {
	s  *stage
	a  *clientCall
	w  http.ResponseWriter
	r  *http.Request
	ok bool
	// framing is the form of the messages.
	framing framing
}

// channel returns a reply that is a stream. play writes the stream, which ends when play returns.
func (s *stage) channel(a *clientCall, play func(c *channel)) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerContentType, s.contentType("text/event-stream"))
		play(&channel{s: s, a: a, w: w, r: r, ok: true, framing: usualFraming})
	}
}

// raw writes text unchanged.
func (c *channel) raw(text string) bool {
	if _, err := io.WriteString(c.w, text); err != nil || http.NewResponseController(c.w).Flush() != nil {
		c.ok = false
	}
	return c.ok && c.isOpen()
}

// frame writes a message.
func (c *channel) frame(text string) bool {
	text = c.framing.format(text)
	if c.framing.splitIn == "" {
		return c.raw(text)
	}
	at := strings.Index(text, c.framing.splitIn) + 1
	return c.raw(text[:at]) && c.keepOpen(partPause) && c.raw(text[at:])
}

// notify writes a notification. members contains the JSON members of its params, without braces.
func (c *channel) notify(method, members string) bool {
	if members != "" {
		members += ","
	}
	return c.frame(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s"_meta":{%q:%s}%s}}`, method, members, wire.MetaSubscriptionID,
		c.a.id, c.s.unknownMembers()))
}

func (c *channel) active(pos int, truncated bool) bool {
	return c.notify(wire.NotificationActive, fmt.Sprintf(`"cursor":%s,"truncated":%v`, c.s.cursorAt(pos), truncated))
}

func (c *channel) heartbeat(pos int) bool {
	return c.notify(wire.NotificationHeartbeat, `"cursor":`+c.s.cursorAt(pos))
}

// sendEvent writes the event at a position. It does nothing if the position has no event.
func (c *channel) sendEvent(pos int) bool {
	e, ok, _ := c.s.entryAt(pos)
	if !ok || e.id == "" {
		return c.ok
	}
	if !c.notify(wire.NotificationEvent, e.members+`,"cursor":`+c.s.cursorAt(pos)) {
		return false
	}
	c.s.mark("sent " + e.id)
	return true
}

// terminate sends the terminated notification with an error, and then the result that ends the stream.
func (c *channel) terminate(code int64, name, data string) {
	if c.notify(wire.NotificationTerminated, fmt.Sprintf(`"error":{"code":%d,"message":%q,"data":%s}`, code, name, data)) {
		c.writeResult()
	}
}

// writeResult writes the result that ends a stream.
func (c *channel) writeResult() bool {
	complete := ""
	if !c.a.legacy {
		complete = `"resultType":"complete",`
	}
	return c.frame(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s"_meta":{%q:%s}}}`, c.a.id, complete, wire.MetaSubscriptionID, c.a.id))
}

// isOpen reports whether the client is still connected.
func (c *channel) isOpen() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.ok && !c.a.abandoned && c.r.Context().Err() == nil
}

// keepOpen keeps the stream open and silent for d. It returns false if the client disconnects before.
func (c *channel) keepOpen(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(c.r.Context(), d)
	defer cancel()
	for {
		_, _, changed := c.s.entryAt(0)
		if !c.isOpen() {
			return false
		}
		select {
		case <-ctx.Done():
			return c.isOpen()
		case <-changed:
		}
	}
}

// writeEvents writes heartbeats and the events after a position until the client disconnects.
func (c *channel) writeEvents(pos int) {
	ticker := time.NewTicker(c.s.heartbeat)
	defer ticker.Stop()
	for c.isOpen() {
		_, ok, changed := c.s.entryAt(pos + 1)
		if ok {
			pos++
			c.sendEvent(pos)
			continue
		}
		select {
		case <-changed:
		case <-ticker.C:
			c.heartbeat(pos)
		case <-c.r.Context().Done():
		}
	}
}
