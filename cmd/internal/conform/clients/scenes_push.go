package clients

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxSilence is how long a client may trust a silent stream. It is twice the longest interval between heartbeats, plus
// an allowance for slow machines.
const maxSilence = 66 * time.Second

// pushScenes play servers with streams (CLI-4).
var pushScenes = []scene{
	{name: "stream-cut", mode: wire.ModePush, maxDuration: 40 * time.Second, background: emitAfter("left"), turn: refuseStreams, stream: cutStreams, checks: []check{
		{name: "stream-cut-active", id: "CLI-4", title: "The client reopens a stream that broke after active at the cursor of active", run: expectResume(2, 0)},
		{name: "stream-cut", id: "CLI-4", title: "The client reopens a broken stream at the last cursor", run: expectResume(3, 2)},
		{name: "stream-refused", id: "CLI-4", title: "The client opens a stream at the last cursor after refusals", run: expectRetryResume},
		{name: "stream-refused-pause", id: "CLI-4", title: "The client waits between refused streams", run: refusedInPeace},
		{name: "stream-cut-handled", id: "CLI-2", title: "The client loses no event by broken and refused streams", handled: true, run: expectHandledOnce}}},
	{name: "stream-end", mode: wire.ModePush, maxDuration: 40 * time.Second, background: emitAfter("left"), stream: endStreams, checks: []check{
		{name: "stream-end", id: "CLI-4", title: "The client reopens a stream that ended without terminated", run: expectResume(2, 2)},
		{name: "stream-end-pause", id: "CLI-4", title: "The client waits between streams that end", run: refusedInPeace},
		{name: "stream-end-handled", id: "CLI-2", title: "The client loses no event by a stream that ended", handled: true, run: expectHandledOnce}}},
	{name: "stream-silent", mode: wire.ModePush, maxDuration: maxSilence + 15*time.Second, background: emitAfter("again"), stream: silence, checks: []check{
		{name: "stream-silent", id: "CLI-4", title: "The client detects a silent stream within two heartbeats of thirty seconds", run: expectReopened(maxSilence)},
		{name: "stream-silent-interval", id: "CLI-4", title: "The client detects a silent stream by its earlier heartbeats", advice: true, run: expectReopened(8 * time.Second)},
		{name: "stream-silent-resume", id: "CLI-4", title: "The client reopens a silent stream at the last cursor", run: expectResume(2, 3)},
		{name: "stream-silent-cancel", id: "PUSH-8", title: "The client cancels an abandoned stream", run: cancelled}}},
	{name: "stream-gap", mode: wire.ModePush, maxDuration: 25 * time.Second, background: emitAfter("left"), stream: gap, checks: []check{
		{name: "stream-error", id: "PUSH-5", title: "A temporary failure does not end a stream", run: staysAfterError},
		{name: "stream-gap", id: "CLI-2", title: "A gap does not end a stream", run: staysAfterGap},
		{name: "stream-gap-cursor", id: "PUSH-7", title: "The client reopens a stream at the cursor of a gap", run: expectResume(2, 5)},
		{name: "stream-gap-reported", id: "CLI-2", title: "The client reports a gap in a stream", advice: true, run: expectReport},
		{name: "stream-gap-handled", id: "CLI-2", title: "The client handles events after a gap", handled: true, run: expectHandledOnce}}},
	{name: "stream-schema-changed", mode: wire.ModePush, maxDuration: 30 * time.Second, background: finishLater(10 * time.Second),
		stream: changed, checks: []check{
			{name: "stream-schema-changed", id: "CLI-7", title: "A schema that changed twice at one cursor does not cause a loop", run: leavesCursor}}},
}

// cutStreams cuts the first stream before an event occurs, and the second one within an event.
func cutStreams(s *stage, c *channel, n int) bool {
	switch {
	case n > 2:
		return false
	case n == 2 && c.openFirst():
		s.mark("left")
		c.cutInMessage()
	case n == 1 && c.active(s.head(), false) && c.keepOpen(s.heartbeat):
		c.cut()
	}
	return true
}

// outageTime is the period during which a server rejects or ends streams. A client may retry immediately if another
// server could answer, but it must not send more than maxRefused requests during that time.
const (
	outageTime = 5 * time.Second
	maxRefused = 100
)

// refuseStreams refuses streams for a while after one was cut.
func refuseStreams(s *stage, a *clientCall, _ int) reply {
	if a.method == wire.MethodStream && s.hasOutage() {
		return statusReply(http.StatusServiceUnavailable, "")
	}
	return nil
}

// endStreams ends the first stream after an event, and others immediately for a while.
func endStreams(s *stage, c *channel, n int) bool {
	if n > 1 && !s.hasOutage() {
		return false
	}
	pos, stale := s.startOf(c.a)
	if n == 1 && c.openFirst() || n > 1 && c.active(pos, stale) {
		s.mark("left")
		c.writeResult()
	}
	return true
}

// hasOutage reports whether a stream was cut or ended less than outageTime ago.
func (s *stage) hasOutage() bool {
	left, ok := s.markTime("left")
	return ok && s.now() < left+outageTime
}

// countRefused counts the rejected streams until the server accepted one.
func (s *stage) countRefused() int {
	left, _ := s.markTime("left")
	return len(slices.DeleteFunc(s.eventRequests(), func(a *clientCall) bool { return a.arrived >= left+outageTime }))
}

func expectRetryResume(s *stage) error { return expectResume(s.countRefused()+1, 2)(s) }

func refusedInPeace(s *stage) error {
	if n := s.countRefused(); n > maxRefused {
		return newViolation(s.lastRequest(), "pauses", "%d streams within %v", n, outageTime)
	}
	return nil
}

func silence(s *stage, c *channel, n int) bool {
	if n > 1 {
		s.mark("again")
		return false
	}
	if c.openFirst() && c.heartbeat(s.head()) && c.keepOpen(s.heartbeat) {
		s.addSilent()
		if c.heartbeat(s.head()) {
			s.mark("silent")
			c.keepOpen(time.Hour)
		}
	}
	return true
}

// gap reports a temporary failure and two gaps on the first stream, with an event between them, and then cuts it.
func gap(s *stage, c *channel, n int) bool {
	if n > 1 {
		return false
	}
	if !c.openFirst() || !c.notify(wire.NotificationError, fmt.Sprintf(`"error":{"code":%d,"message":"UpstreamError"}`, wire.Sketch.Code(wire.UpstreamError))) ||
		!c.keepOpen(s.heartbeat) {
		return true
	}
	s.addSilent()
	s.mark("gap")
	if !c.active(s.head(), true) {
		return true
	}
	s.awaitOutput(c.r.Context())
	s.emit()
	if !c.sendEvent(s.head()) || !c.keepOpen(s.heartbeat) {
		return true
	}
	s.addSilent()
	if c.active(s.head(), true) && c.keepOpen(s.heartbeat) {
		s.mark("left")
		c.cut()
	}
	return true
}

// staysAfterError checks that the client did not leave the stream before its first gap.
func staysAfterError(s *stage) error {
	_, err := s.reached("gap")
	return err
}

// staysAfterGap checks that the client did not leave the stream with gaps before it was cut.
func staysAfterGap(s *stage) error {
	if _, ok := s.markTime("left"); !ok {
		return newViolation(s.lastRequest(), "the stream to go on", "another one, or none")
	}
	return expectContinuation(s)
}

func changed(s *stage, c *channel, n int) bool {
	if _, ok := c.a.cursor(); n > 1 && !ok {
		return false
	}
	if n == 1 && !c.openFirst() {
		return true
	}
	pos, _ := s.startOf(c.a)
	if n > 1 && !c.active(pos, false) {
		return true
	}
	s.mark("refused")
	c.terminate(wire.Sketch.Code(wire.Unsupported), "Unsupported", `{"feature":"payloadSchema","reason":"schema_changed"}`)
	return true
}

// expectReopened returns a check of how long the client took to open another stream.
func expectReopened(within time.Duration) func(s *stage) error {
	return func(s *stage) error {
		at, ok := s.markTime("silent")
		if !ok {
			return newViolation(s.lastRequest(), "the client to stay for some heartbeats", "it did not")
		}
		a := s.nthRequest(wire.MethodStream, 2)
		if a == nil {
			return newViolation(s.lastRequest(), "another stream within "+within.String(), "none within %.0f s", (s.duration - at).Seconds())
		}
		if d := a.arrived - at; d > s.run.patience(within) {
			return newViolation(a, "another stream within "+within.String(), "after %.1f s", d.Seconds())
		}
		return nil
	}
}

func cancelled(s *stage) error {
	first, second := s.nthRequest(wire.MethodStream, 1), s.nthRequest(wire.MethodStream, 2)
	if second == nil {
		return newViolation(first, "another stream", "none")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !first.done || first.ended > s.duration {
		return newViolation(first, "its connection closed, or notifications/cancelled, once there is another stream", "neither")
	}
	return nil
}

func leavesCursor(s *stage) error {
	all := s.eventRequests()
	n := len(slices.DeleteFunc(s.eventRequests(), func(a *clientCall) bool { return !a.hasCursor() }))
	if n > 3 {
		return newViolation(s.lastRequest(), "a stream without a cursor, or none any more", "%d with the cursor that is refused", n)
	}
	if len(all) > 1 && !all[len(all)-1].hasCursor() {
		return nil
	}
	if at, _ := s.markTime("refused"); !s.hasReported(at) {
		return newViolation(s.lastRequest(), "a stream without a cursor, or a word that it stops", "neither")
	}
	return nil
}
