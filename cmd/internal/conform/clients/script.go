package clients

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Building blocks of scenes and checks.

// onPoll returns a turn that replies to the nth poll. A nil reply selects the default reply.
func onPoll(answer func(s *stage, a *clientCall, n int) reply) func(*stage, *clientCall, int) reply {
	return func(s *stage, a *clientCall, n int) reply {
		if a.method != wire.MethodPoll {
			return nil
		}
		return answer(s, a, n)
	}
}

// onStream returns a turn that plays the nth stream. If play returns false, the default reply follows.
func onStream(play func(s *stage, c *channel, n int) bool) func(*stage, *clientCall, int) reply {
	return func(s *stage, a *clientCall, n int) reply {
		if a.method != wire.MethodStream {
			return nil
		}
		return s.channel(a, func(c *channel) {
			if !play(s, c, n) {
				c.orderly()
			}
		})
	}
}

// orderly plays a correct stream.
func (c *channel) orderly() {
	pos, stale := c.s.from(c.a)
	if c.active(pos, stale) {
		c.s.mark("streaming")
		c.follow(pos, nil)
	}
}

// begin opens a first stream. It sends the active notification, an event, and a heartbeat at a later position, which
// has the last cursor.
func (c *channel) begin() bool {
	if !c.active(c.s.head(), false) {
		return false
	}
	c.s.mark("streaming")
	c.s.emit()
	if !c.event(c.s.head()) {
		return false
	}
	c.s.silent()
	return c.wait(nil, beat) && c.heartbeat(c.s.head())
}

// cut ends the connection.
func (c *channel) cut() { panic(http.ErrAbortHandler) }

// until waits for a condition of the stage. It returns false if the scene ends first.
func (s *stage) until(ctx context.Context, holds func() bool) bool {
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
		all := s.own()
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(all) > 0 && all[0].done
	case wire.ModePush:
		_, ok := s.when("streaming")
		return ok
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
	e, ok, _ := s.at(pos)
	if !ok {
		return false
	}
	switch s.mode {
	case wire.ModePush:
		_, ok = s.when("sent " + e.id)
		return ok
	case wire.ModeWebhook:
		_, ok = s.when("taken " + e.id)
		return ok
	}
	for _, a := range s.own() {
		if text, ok := a.cursor(); ok {
			s.mu.Lock()
			at := s.known[text]
			s.mu.Unlock()
			if at >= pos {
				return true
			}
		}
	}
	return false
}

// occur returns a function that emits events once the client follows, and ends the scene when the client has them.
func occur(times int) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if !s.until(ctx, s.isFollowing) {
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

// finishWhenRead ends the scene once the client has received all events.
func (s *stage) finishWhenRead(ctx context.Context) {
	if s.until(ctx, func() bool { return s.hasEvent(s.head()) }) {
		s.finishAfter(ctx, 300*time.Millisecond)
	}
}

// after returns a function that emits an event after a mark, and ends the scene when the client has it.
func after(mark string) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if !s.until(ctx, func() bool { _, ok := s.when(mark); return ok }) {
			return
		}
		s.emit()
		s.finishWhenRead(ctx)
	}
}

// finishLater returns a function that ends the scene some time after a mark, so that the client can react.
func finishLater(mark string, d time.Duration) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if s.until(ctx, func() bool { _, ok := s.when(mark); return ok }) {
			s.finishAfter(ctx, d)
		}
	}
}

// awaitOutput gives the program time to print something after a mark, and records a mark if it did.
func (s *stage) awaitOutput(ctx context.Context, what string) {
	at, _ := s.when(what)
	sleep(ctx, 2500*time.Millisecond)
	if s.hasReported(at) {
		s.mark("said " + what)
	}
}

// Checks of scenes.

// handledOnce checks that the program handled every event exactly once.
func handledOnce(s *stage) error {
	for i := 1; i <= s.head(); i++ {
		e, _, _ := s.at(i)
		switch n := s.taken[e.id]; {
		case e.id == "":
		case n == 0:
			return wrong(s.last(), "each event to be handled: a line with "+e.id, "none in %s", s.handledIn())
		case n > 1:
			return wrong(s.last(), "each event to be handled once: a line with "+e.id, "%d in %s", n, s.handledIn())
		}
	}
	return nil
}

func (s *stage) handledIn() string {
	if s.run.o.Handled == standardOutput {
		return "standard output"
	}
	return s.run.o.Handled
}

// last returns the latest request for events.
func (s *stage) last() *clientCall {
	if all := s.own(); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// goesOn checks that the client requests and receives the events.
func goesOn(s *stage) error {
	if len(s.own()) == 0 {
		return wrong(nil, methodOf(s.mode), "none")
	}
	if s.head() == 0 || !s.hasEvent(s.head()) {
		return wrong(s.last(), "the client to go on until it has all that occurs", "it has not")
	}
	return nil
}

// resumes returns a check that the nth request has the last cursor that the server sent before it. pos returns the
// position of that cursor.
func resumes(n int, pos func(s *stage) int) func(s *stage) error {
	return func(s *stage) error {
		method := methodOf(s.mode)
		a := s.nth(method, n)
		if a == nil {
			return wrong(s.last(), "another "+method, "%d of them", len(s.own()))
		}
		want := pos(s)
		text, ok := a.cursor()
		if !ok {
			return wrong(a, "cursor "+s.cursorAt(want)+", the last that was given", "null: what occurred meanwhile is lost")
		}
		s.mu.Lock()
		got, known := s.known[text]
		s.mu.Unlock()
		switch {
		case !known:
			return wrong(a, "cursor "+s.cursorAt(want)+", the last that was given", "%q, which was never given", text)
		case got < want:
			return mild(wrong(a, "cursor "+s.cursorAt(want)+", the last that was given", "%q, an earlier one: what came since comes again", text))
		case got > want:
			return wrong(a, "cursor "+s.cursorAt(want)+", the last that was given before", "%q, a later one", text)
		}
		return nil
	}
}

// position returns a function that always returns pos.
func position(pos int) func(*stage) int { return func(*stage) int { return pos } }

// withoutCursor returns a check that no request has a cursor, for a type without cursors.
func withoutCursor(least int) func(s *stage) error {
	return func(s *stage) error {
		for _, a := range s.own() {
			if raw := a.params["cursor"]; len(raw) > 0 && string(raw) != "null" {
				return wrong(a, "cursor null or absent: the type has none", "%s", raw)
			}
		}
		if n := len(s.own()); n < least {
			return wrong(s.last(), "the client to go on", "%d requests", n)
		}
		return nil
	}
}

// reports returns a check that the program printed something after a mark, or exited with an error.
func reports(what string) func(s *stage) error {
	return func(s *stage) error {
		if _, ok := s.when(what); !ok {
			return wrong(s.last(), "the client to come so far", "it did not")
		}
		if _, ok := s.when("said " + what); !ok && s.exited == "" {
			return wrong(s.last(), "the program to say that something is lost", "nothing on its standard output and error")
		}
		return nil
	}
}

// listsAgain returns a check that after a mark the client lists the event types and resumes at its position.
func listsAgain(mark string, pos func(s *stage) int) func(s *stage) error {
	return func(s *stage) error {
		at, ok := s.when(mark)
		if !ok {
			return wrong(s.last(), "the client to come so far", "it did not")
		}
		again := s.since(mark, methodOf(s.mode))
		switch {
		case len(again) == 0 && s.hasReported(at):
			return mild(wrong(s.last(), "events/list and then "+methodOf(s.mode)+": the type is listed", "it stopped, and said so"))
		case len(again) == 0:
			return wrong(s.last(), "events/list and then "+methodOf(s.mode)+": the type is listed", "it stopped without a word")
		}
		if err := resumes(len(s.own())-len(again)+1, pos)(s); err != nil {
			return err
		}
		if len(s.since(mark, wire.MethodList)) == 0 {
			return mild(wrong(again[0], "events/list before: whether the type is still there", "none"))
		}
		return nil
	}
}

// stops returns a check that the client does not request events after a mark.
func stops(mark string) func(s *stage) error {
	return func(s *stage) error {
		if _, ok := s.when(mark); !ok {
			return wrong(s.last(), "the client to come so far", "it did not")
		}
		switch n := len(s.since(mark, methodOf(s.mode))); {
		case n > 2:
			return wrong(s.last(), "no "+methodOf(s.mode)+" any more: it is Forbidden", "%d of them", n)
		case n > 0:
			return mild(wrong(s.last(), "no "+methodOf(s.mode)+" any more: it is Forbidden", "%d of them", n))
		}
		return nil
	}
}

// notSilent returns a check that a client that stopped after a mark has reported the reason.
func notSilent(mark string) func(s *stage) error {
	return func(s *stage) error {
		at, ok := s.when(mark)
		if !ok {
			return wrong(s.last(), "the client to come so far", "it did not")
		}
		if len(s.since(mark, methodOf(s.mode))) == 0 && !s.hasReported(at) {
			return wrong(s.last(), "the client to come again, or to say that it does not", "neither")
		}
		return nil
	}
}

// pause returns the time from the response to the nth request until the next request. It returns false if there is no
// next one.
func (s *stage) pause(n int) (d time.Duration, ok bool) {
	a, b := s.nth(methodOf(s.mode), n), s.nth(methodOf(s.mode), n+1)
	if a == nil || b == nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.at - a.left, a.done
}

// pauses returns a check of the pause after the nth request. If most is 0, the pause has no upper limit.
func pauses(n int, least, most time.Duration, why string) func(s *stage) error {
	return func(s *stage) error {
		d, ok := s.pause(n)
		switch {
		case !ok:
			return wrong(s.last(), "another "+methodOf(s.mode), "none")
		case d < least:
			return wrong(s.nth(methodOf(s.mode), n+1), "a pause of at least "+least.String()+": "+why, "%.2f s", d.Seconds())
		case most > 0 && d > most:
			return wrong(s.nth(methodOf(s.mode), n+1), "a pause of at most "+most.String()+": "+why, "%.2f s", d.Seconds())
		}
		return nil
	}
}
