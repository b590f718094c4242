package clients

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxSilence is how long a client may trust a silent stream. It is twice the longest interval between heartbeats, plus
// an allowance for slow machines.
const maxSilence = 66 * time.Second

// pushScenes play servers with streams (CLI-4).
var pushScenes = []scene{
	{name: "a stream that is cut", mode: wire.ModePush, maxDuration: 30 * time.Second, background: emitAfter("left"),
		turn: onStream(endFirstStream((*channel).cut)), checks: []check{
			{id: "CLI-4", title: "a stream that was cut is opened again at the last cursor", run: expectResume(2, fixedPosition(2))},
			{id: "CLI-2", title: "nothing is lost by a stream that was cut", handled: true, run: expectHandledOnce}}},
	{name: "a stream that is cut after active", mode: wire.ModePush, maxDuration: 30 * time.Second, background: emitAfter("left"), turn: onStream(cutAfterActive), checks: []check{
		{id: "CLI-4", title: "a stream that was cut after active is opened again at the cursor of active", run: expectResume(2, fixedPosition(0))},
		{id: "CLI-2", title: "nothing is lost by a stream that was cut after active", handled: true, run: expectHandledOnce}}},
	{name: "a stream that ends", mode: wire.ModePush, maxDuration: 30 * time.Second, background: emitAfter("left"),
		turn: onStream(endFirstStream(func(c *channel) { c.writeResult() })), checks: []check{
			{id: "CLI-4", title: "a stream that ended without terminated is opened again at the last cursor", run: expectResume(2, fixedPosition(2))},
			{id: "CLI-2", title: "nothing is lost by a stream that ended", handled: true, run: expectHandledOnce}}},
	{name: "streams that are refused for a while", mode: wire.ModePush, maxDuration: 40 * time.Second, background: emitAfter("left"), turn: refusedStreams, checks: []check{
		{id: "CLI-4", title: "a stream that was refused for a while is opened at the last cursor", run: expectRetryResume},
		{id: "CLI-4", title: "there are pauses while streams are refused", run: refusedInPeace}}},
	{name: "streams that end for a while", mode: wire.ModePush, maxDuration: 40 * time.Second, background: emitAfter("left"), turn: endStreams, checks: []check{
		{id: "CLI-4", title: "there are pauses while streams end", run: refusedInPeace}}},
	{name: "streamed over a restart", mode: wire.ModePush, maxDuration: 40 * time.Second, background: restartServer, checks: []check{
		{id: "CLI-4", title: "after a restart a stream is opened at the last cursor", run: expectResumeAfter("down")},
		{id: "CLI-2", title: "nothing is lost by a restart of a server that streams", handled: true, run: expectHandledOnce}}},
	{name: "a stream that falls silent", mode: wire.ModePush, maxDuration: maxSilence + 15*time.Second, background: emitAfter("again"), turn: onStream(silence), checks: []check{
		{id: "CLI-4", title: "a silent stream is noticed within two heartbeats of thirty seconds", run: expectReopened(maxSilence)},
		{id: "CLI-4", title: "a silent stream is noticed by the heartbeats that it had", advice: true, run: expectReopened(8 * time.Second)},
		{id: "CLI-4", title: "a stream that fell silent is opened again at the last cursor", run: expectResume(2, fixedPosition(3))},
		{id: "PUSH-8", title: "a stream that is given up is cancelled", run: cancelled}}},
	{name: "a stream of comments", mode: wire.ModePush, maxDuration: maxSilence + 15*time.Second, background: emitAfter("again"), turn: onStream(comments), checks: []check{
		{id: "CLI-4", title: "a comment is not a heartbeat", run: expectReopened(maxSilence)}}},
	{name: "streams without cursors", mode: wire.ModePush, replayless: true, maxDuration: 25 * time.Second, background: emitAfter("left"),
		turn: onStream(endFirstStream((*channel).cut)), checks: []check{
			{id: "CLI-6", title: "a stream without cursors is opened again without one", run: expectNoCursor(2)}}},
	{name: "streams that repeat", mode: wire.ModePush, maxDuration: 25 * time.Second, background: emitAfter("left"), turn: onStream(repeats), checks: []check{
		{id: "CLI-2", title: "an event that streams repeat is handled once", handled: true, run: expectHandledOnce}}},
	{name: "a gap in a stream", mode: wire.ModePush, maxDuration: 25 * time.Second, background: emitAfter("gap over"), turn: onStream(gap), checks: []check{
		{id: "CLI-2", title: "a gap does not end a stream", run: sameStream},
		{id: "CLI-2", title: "a gap in a stream is reported", advice: true, run: expectReport("gap")},
		{id: "CLI-2", title: "what follows a gap is handled", handled: true, run: expectHandledOnce}}},
	{name: "a failure in a stream", mode: wire.ModePush, maxDuration: 25 * time.Second, background: emitAfter("error"), turn: onStream(upstream), checks: []check{
		{id: "PUSH-5", title: "a failure that may pass does not end a stream", run: sameStream}}},
	terminatingScene("terminated, NotFound by the sketch's code,", wire.Sketch.Code(wire.NotFound), "NotFound", `{"kind":"event"}`,
		check{id: "CLI-7", title: "terminated with NotFound, by the sketch's code, is followed by events/list", run: expectListAgain("terminated", fixedPosition(2))}),
	terminatingScene("terminated, NotFound by the SEP's code,", wire.SEP.Code(wire.NotFound), "NotFound", `{"kind":"event"}`,
		check{id: "CLI-7", title: "terminated with NotFound, by the SEP's code, is followed by events/list", run: expectListAgain("terminated", fixedPosition(2))}),
	terminatingScene("terminated, Forbidden by the sketch's code,", wire.Sketch.Code(wire.Forbidden), "Forbidden", "null",
		check{id: "CLI-7", title: "terminated with Forbidden, by the sketch's code, is the end", run: expectStop("terminated")},
		check{id: "CLI-7", title: "terminated with Forbidden is reported", run: expectNotSilent("terminated")}),
	terminatingScene("terminated, Forbidden by the SEP's code,", wire.SEP.Code(wire.Forbidden), "Forbidden", "null",
		check{id: "CLI-7", title: "terminated with Forbidden, by the SEP's code, is the end", run: expectStop("terminated")}),
	terminatingScene("terminated for an unknown reason,", -31999, "SomethingElse", "null",
		check{id: "CLI-7", title: "terminated with an unknown code does not stop a client in silence", run: expectNotSilent("terminated")}),
	{name: "a schema that changed, twice", mode: wire.ModePush, maxDuration: 30 * time.Second, background: finishLater("changed", 10*time.Second),
		turn: onStream(changed), checks: []check{
			{id: "CLI-7", title: "a schema that changed twice at one cursor does not make a loop", run: leavesCursor}}},
}

// endFirstStream opens the first stream and calls end to end it.
func endFirstStream(end func(c *channel)) func(*stage, *channel, int) bool {
	return func(s *stage, c *channel, n int) bool {
		if n > 1 {
			return false
		}
		if c.openFirst() {
			s.mark("left")
			end(c)
		}
		return true
	}
}

// cutAfterActive disconnects the first stream before an event occurs.
func cutAfterActive(s *stage, c *channel, n int) bool {
	if n > 1 {
		return false
	}
	if c.active(s.head(), false) && c.keepOpen(nil, heartbeatInterval) {
		s.mark("streaming")
		s.mark("left")
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

// endStreams ends every stream immediately for a while.
func endStreams(s *stage, a *clientCall, n int) reply {
	return onStream(func(s *stage, c *channel, n int) bool {
		left, ok := s.markTime("left")
		if ok && s.now() >= left+outageTime {
			return false
		}
		if pos, stale := s.startOf(a); c.active(pos, stale) {
			s.mark("streaming")
			s.mark("left")
			c.writeResult()
		}
		return true
	})(s, a, n)
}

func refusedStreams(s *stage, a *clientCall, n int) reply {
	left, ok := s.markTime("left")
	if a.method == wire.MethodStream && ok && s.now() < left+outageTime {
		return statusReply(http.StatusServiceUnavailable, "")
	}
	return onStream(endFirstStream((*channel).cut))(s, a, n)
}

// countRefused counts the rejected streams until the server accepted one.
func (s *stage) countRefused() (n int) {
	left, _ := s.markTime("left")
	for _, a := range s.eventRequests() {
		if a.arrived < left+outageTime {
			n++
		}
	}
	return n
}

func expectRetryResume(s *stage) error { return expectResume(s.countRefused()+1, fixedPosition(2))(s) }

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
	if c.openFirst() && c.keepOpen(nil, heartbeatInterval) && c.heartbeat(s.head()) && c.keepOpen(nil, heartbeatInterval) {
		s.addSilent()
		if c.heartbeat(s.head()) {
			s.mark("silent")
			c.keepOpen(nil, -1)
		}
	}
	return true
}

func comments(s *stage, c *channel, n int) bool {
	if n > 1 {
		s.mark("again")
		return false
	}
	if c.openFirst() && c.keepOpen(nil, heartbeatInterval) && c.heartbeat(s.head()) {
		s.mark("silent")
		for c.raw(": still here\n\n") && c.keepOpen(nil, heartbeatInterval) {
		}
	}
	return true
}

func repeats(s *stage, c *channel, n int) bool {
	if n > 1 {
		if c.active(0, false) {
			c.writeEvents(0, nil)
		}
		return true
	}
	if c.openFirst() && c.sendEvent(1) {
		s.mark("left")
		c.cut()
	}
	return true
}

func gap(s *stage, c *channel, n int) bool {
	if n > 1 {
		return false
	}
	if c.openFirst() {
		s.addSilent()
		s.mark("gap")
		if c.active(s.head(), true) {
			s.awaitOutput(c.r.Context(), "gap")
			s.mark("gap over")
			c.writeEvents(3, nil)
		}
	}
	return true
}

func upstream(s *stage, c *channel, n int) bool {
	if n > 1 {
		return false
	}
	if c.openFirst() && c.notify(wire.NotificationError, fmt.Sprintf(`"error":{"code":%d,"message":"UpstreamError"}`, wire.Sketch.Code(wire.UpstreamError))) {
		s.mark("error")
		c.writeEvents(2, nil)
	}
	return true
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
	s.mark("changed")
	c.terminate(wire.Sketch.Code(wire.Unsupported), "Unsupported", `{"feature":"payloadSchema","reason":"schema_changed"}`)
	return true
}

// terminatingScene returns a scene with a server that terminates its first stream.
func terminatingScene(name string, code int64, kind, data string, checks ...check) scene {
	return scene{name: "a stream is " + name + " at once", mode: wire.ModePush, maxDuration: 30 * time.Second, checks: checks,
		background: finishLater("terminated", 8*time.Second),
		turn: onStream(func(s *stage, c *channel, n int) bool {
			if n > 1 && kind == "NotFound" {
				return false
			}
			if n > 1 || c.openFirst() {
				if n == 1 {
					s.mark("terminated")
				}
				c.terminate(code, kind, data)
			}
			return true
		})}
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
		if d := a.arrived - at; d > within {
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

func sameStream(s *stage) error {
	if err := expectContinuation(s); err != nil {
		return err
	}
	if a := s.nthRequest(wire.MethodStream, 2); a != nil {
		return newViolation(a, "the stream to go on", "another one")
	}
	return nil
}

func leavesCursor(s *stage) error {
	n := 0
	for _, a := range s.eventRequests() {
		if _, ok := a.cursor(); ok {
			n++
		}
	}
	if n > 3 {
		return newViolation(s.lastRequest(), "a stream without a cursor, or none any more", "%d with the cursor that is refused", n)
	}
	if last := s.lastRequest(); last != nil && len(s.eventRequests()) > 1 {
		if _, ok := last.cursor(); !ok {
			return nil
		}
	}
	if at, _ := s.markTime("changed"); !s.hasReported(at) {
		return newViolation(s.lastRequest(), "a stream without a cursor, or a word that it stops", "neither")
	}
	return nil
}
