package clients

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Building blocks of scenes and checks.

// playOrderly plays a correct stream.
func (c *channel) playOrderly() {
	pos, stale := c.s.startOf(c.a)
	if c.active(pos, stale) {
		c.s.mark("streaming")
		c.writeEvents(pos)
	}
}

// openFirst opens a stream. It sends the active notification, an event, and a heartbeat with the cursor of a
// later position, and gives the client time to read them.
func (c *channel) openFirst() bool {
	if !c.active(c.s.head(), false) {
		return false
	}
	c.s.mark("streaming")
	c.s.emit()
	if !c.sendEvent(c.s.head()) {
		return false
	}
	c.s.addSilent()
	return c.keepOpen(c.s.heartbeat) && c.heartbeat(c.s.head()) && c.keepOpen(c.s.heartbeat)
}

// cutInMessage ends the connection within an event, before its message is complete.
func (c *channel) cutInMessage() {
	c.s.emit()
	e, _, _ := c.s.entryAt(c.s.head())
	text := usualFraming.format(`{"jsonrpc":"2.0","method":"` + wire.NotificationEvent + `","params":{` + e.members)
	c.raw(text[:1+c.s.draw.For("cut").IntN(len(text)-3)])
	c.cut()
}

// cut ends the connection.
func (c *channel) cut() { panic(http.ErrAbortHandler) }

// waitUntil waits until holds returns true. It returns false if the scene ends first.
func (s *stage) waitUntil(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-s.over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// isFollowing reports whether the client receives new events.
func (s *stage) isFollowing() bool {
	switch s.mode {
	case wire.ModePoll:
		all := s.eventRequests()
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(all, func(a *clientCall) bool { return a.done && !a.failed })
	case wire.ModePush:
		return s.isMarked("streaming")()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks {
		if !h.ended && !h.expires.IsZero() {
			return true
		}
	}
	return false
}

// hasEvent reports whether the event at a position has reached the client, as far as the server can determine.
func (s *stage) hasEvent(pos int) bool {
	e, ok, _ := s.entryAt(pos)
	if !ok {
		return false
	}
	if s.mode != wire.ModePoll {
		return s.isMarked("sent " + e.id)()
	}
	return slices.ContainsFunc(s.eventRequests(), func(a *clientCall) bool {
		at, ok := s.positionOf(a)
		return ok && at >= pos
	})
}

// emitWhenFollowing returns a function that emits events once the client receives new ones, and ends the scene when the
// client has them.
func emitWhenFollowing(times int) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if !s.waitUntil(ctx, s.isFollowing) {
			return
		}
		for range times {
			s.emit()
			if !sleep(ctx, 300*time.Millisecond) {
				return
			}
		}
		s.finishWhenRead(ctx)
	}
}

// emitFirst emits an event once the client receives new ones, and reports whether the client has it.
func (s *stage) emitFirst(ctx context.Context) bool {
	if !s.waitUntil(ctx, s.isFollowing) {
		return false
	}
	s.emit()
	return s.waitUntil(ctx, func() bool { return s.hasEvent(1) })
}

// finishWhenRead ends the scene once the client has received all events.
func (s *stage) finishWhenRead(ctx context.Context) {
	if s.waitUntil(ctx, func() bool { return s.hasEvent(s.head()) }) {
		s.finishAfter(ctx, 300*time.Millisecond)
	}
}

// emitAfter returns a function that emits an event after a mark, and ends the scene when the client has it.
func emitAfter(mark string) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if s.waitUntil(ctx, s.isMarked(mark)) {
			s.emit()
			s.finishWhenRead(ctx)
		}
	}
}

// finishLater returns a function that ends the scene some time after a refusal, to let the client react.
func finishLater(d time.Duration) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if s.waitUntil(ctx, s.isMarked("refused")) {
			s.finishAfter(ctx, d)
		}
	}
}

// finishAfterReturn ends the scene when the client has requested events again after a refusal, or some time after it.
// The client may take longer than after other refusals, because it lists the types before.
func finishAfterReturn(ctx context.Context, s *stage) {
	ctx, cancel := context.WithTimeout(ctx, s.run.patience(40*time.Second))
	defer cancel()
	if s.waitUntil(ctx, func() bool { return s.isMarked("refused")() && len(s.requestsSince("refused", methodOf(s.mode))) > 0 }) {
		s.run.note(returns + s.mode)
		s.finishAfter(ctx, 300*time.Millisecond)
	}
	s.finish()
}

// awaitOutput gives the program time to print something after a gap, and records a mark if it did.
func (s *stage) awaitOutput(ctx context.Context) {
	at, _ := s.markTime("gap")
	sleep(ctx, s.run.patience(2500*time.Millisecond))
	if s.hasReported(at) {
		s.mark("said gap")
	}
}

// Checks of scenes.

// expectHandledOnce checks that the program handled every event exactly once.
func expectHandledOnce(s *stage) error {
	for _, e := range s.entries() {
		switch n := s.taken[e.id]; {
		case n == 0:
			return newViolation(s.lastRequest(), "each event to be handled: "+e.form+", a line with "+e.id, "none")
		case n > 1:
			return newViolation(s.lastRequest(), "each event to be handled once: a line with "+e.id, "%d of them", n)
		}
	}
	return nil
}

// lastRequest returns the latest request for events.
func (s *stage) lastRequest() *clientCall {
	if all := s.eventRequests(); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// expectContinuation checks that the client requests and receives the events.
func expectContinuation(s *stage) error {
	if len(s.eventRequests()) == 0 {
		return newViolation(nil, methodOf(s.mode), "none")
	}
	if s.head() == 0 || !s.hasEvent(s.head()) {
		return newViolation(s.lastRequest(), "the client to go on until it has all that occurs", "it has not")
	}
	return nil
}

// expectResume returns a check that the nth request has the last cursor that the server sent before it, which is that of
// a position.
func expectResume(n, want int) func(s *stage) error {
	return func(s *stage) error {
		method := methodOf(s.mode)
		a := s.nthRequest(method, n)
		if a == nil {
			return newViolation(s.lastRequest(), "another "+method, "%d of them", len(s.eventRequests()))
		}
		if want > s.head() {
			return newViolation(a, "the client to come so far", "it did not")
		}
		text, ok := a.cursor()
		if !ok {
			return newViolation(a, "cursor "+s.cursorAt(want)+", the last that was given", "null: what occurred meanwhile is lost")
		}
		got, known := s.positionOf(a)
		switch {
		case !known:
			return newViolation(a, "cursor "+s.cursorAt(want)+", the last that was given", "%q, which was never given", text)
		case got < want:
			v := newViolation(a, "cursor "+s.cursorAt(want)+", the last that was given", "%q, an earlier one: later events are sent again", text)
			v.Mild = s.hasRecentEvent(got, want, a)
			return v
		case got > want:
			return newViolation(a, "cursor "+s.cursorAt(want)+", the last that was given before", "%q, a later one", text)
		}
		return nil
	}
}

// expectLastCursors returns a check that each request up to the nth has the cursor of the position after that of the
// request before it.
func expectLastCursors(n int) func(s *stage) error {
	return func(s *stage) error {
		for i := 2; i <= n; i++ {
			if err := expectResume(i, i-1)(s); err != nil {
				return err
			}
		}
		return nil
	}
}

// hasRecentEvent reports whether an event after a position, up to another one, reached the client shortly before a
// request. The client may still be handling such an event, and keep the cursor before it (CLI-6).
func (s *stage) hasRecentEvent(after, upTo int, a *clientCall) bool {
	for pos := after + 1; pos <= upTo; pos++ {
		e, _, _ := s.entryAt(pos)
		if at, ok := s.markTime("sent " + e.id); ok && a.arrived-at < s.run.patience(settleTime) {
			return true
		}
	}
	return false
}

// expectNoCursor checks that none of three requests has a cursor, for a type without cursors.
func expectNoCursor(s *stage) error {
	all := s.eventRequests()
	for _, a := range all {
		if a.hasCursor() {
			return newViolation(a, "cursor null or absent: the type has none", "%s", a.params["cursor"])
		}
	}
	if len(all) < 3 {
		return newViolation(s.lastRequest(), "the client to go on", "%d requests", len(all))
	}
	return nil
}

// reached returns the time of a mark, or a violation if the client has not come so far.
func (s *stage) reached(mark string) (time.Duration, error) {
	at, ok := s.markTime(mark)
	if !ok {
		return 0, newViolation(s.lastRequest(), "the client to come so far", "it did not")
	}
	return at, nil
}

// expectReport checks that the program printed something after a gap, or exited with an error.
func expectReport(s *stage) error {
	_, err := s.reached("gap")
	if err == nil && !s.isMarked("said gap")() && s.exited == "" {
		err = newViolation(s.lastRequest(), "the program to say that something is lost", "nothing on its standard output and error")
	}
	return err
}

// expectListAgain checks that after a refusal the client lists the event types and resumes at its position. A client
// may stop and say so, but not after the codes of only one family (D2).
func expectListAgain(s *stage) error {
	at, err := s.reached("refused")
	if err != nil {
		return err
	}
	again := s.requestsSince("refused", methodOf(s.mode))
	expected := "events/list and then " + methodOf(s.mode) + ": the type is listed"
	switch {
	case len(again) == 0 && s.run.can(returns+s.mode):
		return newViolation(s.lastRequest(), expected+", as after NotFound of the other family", "it stopped")
	case len(again) == 0 && s.hasReported(at):
		return newViolation(s.lastRequest(), expected, "it stopped, and said so").AsAdvice()
	case len(again) == 0:
		return newViolation(s.lastRequest(), expected, "it stopped without a word")
	}
	if err := expectResume(len(s.eventRequests())-len(again)+1, s.head())(s); err != nil {
		return err
	}
	if len(s.requestsSince("refused", wire.MethodList)) == 0 {
		return newViolation(again[0], "events/list before: whether the type is still there", "none").AsAdvice()
	}
	return nil
}

// expectStop checks that the client does not request events after a refusal, and reports that it stopped.
func expectStop(s *stage) error {
	at, err := s.reached("refused")
	if err != nil {
		return err
	}
	n := len(s.requestsSince("refused", methodOf(s.mode)))
	v := newViolation(s.lastRequest(), "no "+methodOf(s.mode)+" any more: it is Forbidden", "%d of them", n)
	switch {
	case n > 2:
		return v
	case n > 0:
		return v.AsAdvice()
	case !s.hasReported(at):
		return newViolation(s.lastRequest(), "the client to say that it stops", "nothing on its standard output and error")
	}
	return nil
}

// expectNotSilent checks that the client continued after a refusal or reported why it stopped.
func expectNotSilent(s *stage) error {
	at, err := s.reached("refused")
	if err == nil && len(s.requestsSince("refused", methodOf(s.mode))) == 0 && !s.hasReported(at) {
		err = newViolation(s.lastRequest(), "the client to come again, or to say that it does not", "neither")
	}
	return err
}

// pauseAfter returns the time between the response to the nth request and the next request. It returns false if no
// request follows.
func (s *stage) pauseAfter(n int) (d time.Duration, ok bool) {
	a, b := s.nthRequest(methodOf(s.mode), n), s.nthRequest(methodOf(s.mode), n+1)
	if a == nil || b == nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.arrived - a.ended, a.done
}

// expectPause returns a check of the pause after the nth request. If most is 0, the pause has no upper limit.
func expectPause(n int, least, most time.Duration, why string) func(s *stage) error {
	return func(s *stage) error {
		d, ok := s.pauseAfter(n)
		switch {
		case !ok:
			return newViolation(s.lastRequest(), "another "+methodOf(s.mode), "none")
		case d < least:
			return newViolation(s.nthRequest(methodOf(s.mode), n+1), "a pause of at least "+least.String()+": "+why, "%.2f s", d.Seconds())
		case most > 0 && d > s.run.patience(most):
			return newViolation(s.nthRequest(methodOf(s.mode), n+1), "a pause of at most "+most.String()+": "+why, "%.2f s", d.Seconds())
		}
		return nil
	}
}
