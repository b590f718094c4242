package clients

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// deadAfter is how long a client may trust a silent stream. It is twice the longest interval between heartbeats, plus
// an allowance for slow machines.
const deadAfter = 66 * time.Second

// pushScenes play servers with streams (CLI-4).
var pushScenes = []scene{
	{name: "a stream that is cut", mode: wire.ModePush, within: 30 * time.Second, live: after("left"),
		turn: onStream(endFirst((*channel).cut)), checks: []check{
			{id: "CLI-4", title: "a stream that was cut is opened again at the last cursor", run: resumes(2, position(2))},
			{id: "CLI-2", title: "nothing is lost by a stream that was cut", handled: true, run: handledOnce}}},
	{name: "a stream that is cut after active", mode: wire.ModePush, within: 30 * time.Second, live: after("left"), turn: onStream(cutAfterActive), checks: []check{
		{id: "CLI-4", title: "a stream that was cut after active is opened again at the cursor of active", run: resumes(2, position(0))},
		{id: "CLI-2", title: "nothing is lost by a stream that was cut after active", handled: true, run: handledOnce}}},
	{name: "a stream that ends", mode: wire.ModePush, within: 30 * time.Second, live: after("left"),
		turn: onStream(endFirst(func(c *channel) { c.final() })), checks: []check{
			{id: "CLI-4", title: "a stream that ended without terminated is opened again at the last cursor", run: resumes(2, position(2))},
			{id: "CLI-2", title: "nothing is lost by a stream that ended", handled: true, run: handledOnce}}},
	{name: "streams that are refused for a while", mode: wire.ModePush, within: 40 * time.Second, live: after("left"), turn: refusedStreams, checks: []check{
		{id: "CLI-4", title: "a stream that was refused for a while is opened at the last cursor", run: resumesAfterRefusal},
		{id: "CLI-4", title: "there are pauses while streams are refused", run: refusedInPeace}}},
	{name: "streams that end for a while", mode: wire.ModePush, within: 40 * time.Second, live: after("left"), turn: endStreams, checks: []check{
		{id: "CLI-4", title: "there are pauses while streams end", run: refusedInPeace}}},
	{name: "streamed over a restart", mode: wire.ModePush, within: 40 * time.Second, live: restartServer, checks: []check{
		{id: "CLI-4", title: "after a restart a stream is opened at the last cursor", run: resumesAfter("down")},
		{id: "CLI-2", title: "nothing is lost by a restart of a server that streams", handled: true, run: handledOnce}}},
	{name: "a stream that falls silent", mode: wire.ModePush, within: deadAfter + 15*time.Second, live: after("again"), turn: onStream(silence), checks: []check{
		{id: "CLI-4", title: "a silent stream is noticed within two heartbeats of thirty seconds", run: noticed(deadAfter)},
		{id: "CLI-4", title: "a silent stream is noticed by the heartbeats that it had", advice: true, run: noticed(8 * time.Second)},
		{id: "CLI-4", title: "a stream that fell silent is opened again at the last cursor", run: resumes(2, position(3))},
		{id: "PUSH-8", title: "a stream that is given up is cancelled", run: cancelled}}},
	{name: "a stream of comments", mode: wire.ModePush, within: deadAfter + 15*time.Second, live: after("again"), turn: onStream(comments), checks: []check{
		{id: "CLI-4", title: "a comment is not a heartbeat", run: noticed(deadAfter)}}},
	{name: "streams without cursors", mode: wire.ModePush, replayless: true, within: 25 * time.Second, live: after("left"),
		turn: onStream(endFirst((*channel).cut)), checks: []check{
			{id: "CLI-6", title: "a stream without cursors is opened again without one", run: withoutCursor(2)}}},
	{name: "streams that repeat", mode: wire.ModePush, within: 25 * time.Second, live: after("left"), turn: onStream(repeats), checks: []check{
		{id: "CLI-2", title: "an event that streams repeat is handled once", handled: true, run: handledOnce}}},
	{name: "a gap in a stream", mode: wire.ModePush, within: 25 * time.Second, live: after("gap over"), turn: onStream(gap), checks: []check{
		{id: "CLI-2", title: "a gap does not end a stream", run: sameStream},
		{id: "CLI-2", title: "a gap in a stream is reported", advice: true, run: reports("gap")},
		{id: "CLI-2", title: "what follows a gap is handled", handled: true, run: handledOnce}}},
	{name: "a failure in a stream", mode: wire.ModePush, within: 25 * time.Second, live: after("error"), turn: onStream(upstream), checks: []check{
		{id: "PUSH-5", title: "a failure that may pass does not end a stream", run: sameStream}}},
	terminating("terminated, NotFound by the sketch's code,", wire.Sketch.Code(wire.NotFound), "NotFound", `{"kind":"event"}`,
		check{id: "CLI-7", title: "terminated with NotFound, by the sketch's code, is followed by events/list", run: listsAgain("terminated", position(2))}),
	terminating("terminated, NotFound by the SEP's code,", wire.SEP.Code(wire.NotFound), "NotFound", `{"kind":"event"}`,
		check{id: "CLI-7", title: "terminated with NotFound, by the SEP's code, is followed by events/list", run: listsAgain("terminated", position(2))}),
	terminating("terminated, Forbidden by the sketch's code,", wire.Sketch.Code(wire.Forbidden), "Forbidden", "null",
		check{id: "CLI-7", title: "terminated with Forbidden, by the sketch's code, is the end", run: stops("terminated")},
		check{id: "CLI-7", title: "terminated with Forbidden is reported", run: notSilent("terminated")}),
	terminating("terminated, Forbidden by the SEP's code,", wire.SEP.Code(wire.Forbidden), "Forbidden", "null",
		check{id: "CLI-7", title: "terminated with Forbidden, by the SEP's code, is the end", run: stops("terminated")}),
	terminating("terminated for an unknown reason,", -31999, "SomethingElse", "null",
		check{id: "CLI-7", title: "terminated with an unknown code does not stop a client in silence", run: notSilent("terminated")}),
	{name: "a schema that changed, twice", mode: wire.ModePush, within: 30 * time.Second, live: finishLater("changed", 10*time.Second),
		turn: onStream(changed), checks: []check{
			{id: "CLI-7", title: "a schema that changed twice at one cursor does not make a loop", run: leavesCursor}}},
}

// endFirst opens the first stream and calls end to end it.
func endFirst(end func(c *channel)) func(*stage, *channel, int) bool {
	return func(s *stage, c *channel, n int) bool {
		if n > 1 {
			return false
		}
		if c.begin() {
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
	if c.active(s.head(), false) && c.wait(nil, beat) {
		s.mark("streaming")
		s.mark("left")
		c.cut()
	}
	return true
}

// refusedFor is how long a server rejects or ends streams. A client may retry immediately if another server could
// answer, but it must not send more than maxRefused requests during that time.
const (
	refusedFor = 5 * time.Second
	maxRefused = 100
)

// endStreams ends every stream immediately for a while.
func endStreams(s *stage, a *clientCall, n int) reply {
	return onStream(func(s *stage, c *channel, n int) bool {
		left, ok := s.when("left")
		if ok && s.now() >= left+refusedFor {
			return false
		}
		if pos, stale := s.from(a); c.active(pos, stale) {
			s.mark("streaming")
			s.mark("left")
			c.final()
		}
		return true
	})(s, a, n)
}

func refusedStreams(s *stage, a *clientCall, n int) reply {
	left, ok := s.when("left")
	if a.method == wire.MethodStream && ok && s.now() < left+refusedFor {
		return status(http.StatusServiceUnavailable, "")
	}
	return onStream(endFirst((*channel).cut))(s, a, n)
}

// countRefused counts the streams until the server accepted one.
func (s *stage) countRefused() (n int) {
	left, _ := s.when("left")
	for _, a := range s.own() {
		if a.at < left+refusedFor {
			n++
		}
	}
	return n
}

func resumesAfterRefusal(s *stage) error { return resumes(s.countRefused()+1, position(2))(s) }

func refusedInPeace(s *stage) error {
	if n := s.countRefused(); n > maxRefused {
		return wrong(s.last(), "pauses", "%d streams within %v", n, refusedFor)
	}
	return nil
}

func silence(s *stage, c *channel, n int) bool {
	if n > 1 {
		s.mark("again")
		return false
	}
	if c.begin() && c.wait(nil, beat) && c.heartbeat(s.head()) && c.wait(nil, beat) {
		s.silent()
		if c.heartbeat(s.head()) {
			s.mark("silent")
			c.wait(nil, -1)
		}
	}
	return true
}

func comments(s *stage, c *channel, n int) bool {
	if n > 1 {
		s.mark("again")
		return false
	}
	if c.begin() && c.wait(nil, beat) && c.heartbeat(s.head()) {
		s.mark("silent")
		for c.raw(": still here\n\n") && c.wait(nil, beat) {
		}
	}
	return true
}

func repeats(s *stage, c *channel, n int) bool {
	if n > 1 {
		if c.active(0, false) {
			c.follow(0, nil)
		}
		return true
	}
	if c.begin() && c.event(1) {
		s.mark("left")
		c.cut()
	}
	return true
}

func gap(s *stage, c *channel, n int) bool {
	if n > 1 {
		return false
	}
	if c.begin() {
		s.silent()
		s.mark("gap")
		if c.active(s.head(), true) {
			s.awaitOutput(c.r.Context(), "gap")
			s.mark("gap over")
			c.follow(3, nil)
		}
	}
	return true
}

func upstream(s *stage, c *channel, n int) bool {
	if n > 1 {
		return false
	}
	if c.begin() && c.notify(wire.NotificationError, fmt.Sprintf(`"error":{"code":%d,"message":"UpstreamError"}`, wire.Sketch.Code(wire.UpstreamError))) {
		s.mark("error")
		c.follow(2, nil)
	}
	return true
}

func changed(s *stage, c *channel, n int) bool {
	if _, ok := c.a.cursor(); n > 1 && !ok {
		return false
	}
	if n == 1 && !c.begin() {
		return true
	}
	pos, _ := s.from(c.a)
	if n > 1 && !c.active(pos, false) {
		return true
	}
	s.mark("changed")
	c.terminated(wire.Sketch.Code(wire.Unsupported), "Unsupported", `{"feature":"payloadSchema","reason":"schema_changed"}`)
	return true
}

// terminating returns a scene with a server that terminates its first stream.
func terminating(name string, code int64, kind, data string, checks ...check) scene {
	return scene{name: "a stream is " + name + " at once", mode: wire.ModePush, within: 30 * time.Second, checks: checks,
		live: finishLater("terminated", 8*time.Second),
		turn: onStream(func(s *stage, c *channel, n int) bool {
			if n > 1 && kind == "NotFound" {
				return false
			}
			if n > 1 || c.begin() {
				if n == 1 {
					s.mark("terminated")
				}
				c.terminated(code, kind, data)
			}
			return true
		})}
}

// noticed returns a check of how long the client took to open another stream.
func noticed(within time.Duration) func(s *stage) error {
	return func(s *stage) error {
		at, ok := s.when("silent")
		if !ok {
			return wrong(s.last(), "the client to stay for some heartbeats", "it did not")
		}
		a := s.nth(wire.MethodStream, 2)
		if a == nil {
			return wrong(s.last(), "another stream within "+within.String(), "none within %.0f s", (s.lasted - at).Seconds())
		}
		if d := a.at - at; d > within {
			return wrong(a, "another stream within "+within.String(), "after %.1f s", d.Seconds())
		}
		return nil
	}
}

func cancelled(s *stage) error {
	first, second := s.nth(wire.MethodStream, 1), s.nth(wire.MethodStream, 2)
	if second == nil {
		return wrong(first, "another stream", "none")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !first.done || first.left > s.lasted {
		return wrong(first, "its connection closed, or notifications/cancelled, once there is another stream", "neither")
	}
	return nil
}

func sameStream(s *stage) error {
	if err := goesOn(s); err != nil {
		return err
	}
	if a := s.nth(wire.MethodStream, 2); a != nil {
		return wrong(a, "the stream to go on", "another one")
	}
	return nil
}

func leavesCursor(s *stage) error {
	n := 0
	for _, a := range s.own() {
		if _, ok := a.cursor(); ok {
			n++
		}
	}
	if n > 3 {
		return wrong(s.last(), "a stream without a cursor, or none any more", "%d with the cursor that is refused", n)
	}
	if last := s.last(); last != nil && len(s.own()) > 1 {
		if _, ok := last.cursor(); !ok {
			return nil
		}
	}
	if at, _ := s.when("changed"); !s.hasReported(at) {
		return wrong(s.last(), "a stream without a cursor, or a word that it stops", "neither")
	}
	return nil
}
