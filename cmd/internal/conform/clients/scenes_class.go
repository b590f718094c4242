package clients

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// classScenes play correct servers whose messages are drawn from the classes of their requirements, in each mode.
var classScenes = slices.Concat(
	inModes(scene{name: "forms", maxDuration: 60 * time.Second, poll: drawnPages, background: emitForms, checks: []check{
		{name: "forms", id: "OCC-1", title: "The client accepts unusual events from %s", run: expectAllTaken},
		{name: "forms-handled", id: "OCC-1", title: "The client handles unusual events from %s once", handled: true, run: expectHandledOnce}}}, wire.DeliveryModes...),
	inModes(scene{name: "repeat", maxDuration: 60 * time.Second, stream: repeatStreams, background: emitRepeats, checks: []check{
		{name: "repeat-handled", id: "CLI-2", title: "The client handles an event once that %s repeat after many others", handled: true, run: expectHandledOnce}}},
		wire.DeliveryModes...),
	inModes(scene{name: "restart", grant: shortGrant, maxDuration: 50 * time.Second, background: restartServer, checks: []check{
		{name: "restart", title: "The client continues %s at the last cursor after a restart", run: resumesAfterRestart},
		{name: "restart-handled", id: "CLI-2", title: "The client loses no event of %s by a restart", handled: true, run: expectHandledOnce}}}, wire.DeliveryModes...),
	inModes(scene{name: "null-cursor", replayless: true, grant: shortGrant, maxDuration: 60 * time.Second, poll: cursorless, stream: endStreams, background: finishAfterThree,
		checks: []check{{name: "null-cursor", id: "CLI-6", title: "The client sends no cursor for %s without cursors", run: expectNoCursor}}}, wire.DeliveryModes...),
	inModes(scene{name: "content-type", misbehavesEarly: true, charset: true, maxDuration: 30 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{name: "content-type", id: "PUSH-11", title: "The client accepts a charset in the content types of %s", run: expectContinuation}}}, wire.DeliveryModes...),
	inModes(scene{name: "start-failure", misbehavesEarly: true, maxDuration: 60 * time.Second, turn: failAtStart, background: emitWhenFollowing(1), checks: []check{
		{name: "start-failure", title: "The client continues after failures at the start of %s or reports them", run: bearsOrReports}}}, wire.DeliveryModes...),
	inModes(scene{name: "cursors", maxDuration: 90 * time.Second, poll: oneEventEach, stream: nextEvent, background: emitBurst(addCursors), checks: []check{
		{name: "cursors", id: "CUR-1", title: "The client returns each cursor of %s", run: returnsCursors}}}, wire.ModePoll, wire.ModePush),
	[]scene{{name: "sse-forms", mode: wire.ModePush, maxDuration: 90 * time.Second, stream: framedStreams, background: emitBurst(addFramings), checks: []check{
		{name: "sse-forms", id: "PUSH-11", title: "The client accepts each form of server-sent events", run: returnsCursors},
		{name: "sse-bom", id: "PUSH-11", title: "The client accepts a byte order mark at the start of a stream", advice: true, run: expectResume(2, 0)}}}},
)

// modeTexts maps a mode to the prefix of the names of its scenes and checks, to its text in titles, and to the ID of its
// requirement.
var modeTexts = map[string]struct{ prefix, text, id string }{wire.ModePoll: {"poll", "polls", "CLI-3"}, wire.ModePush: {"stream", "streams", "CLI-4"},
	wire.ModeWebhook: {"delivery", "webhooks", "CLI-5"}}

// inModes returns a scene for each mode. A check without an ID has that of the mode.
func inModes(sc scene, modes ...string) (all []scene) {
	for _, mode := range modes {
		one, texts := sc, modeTexts[mode]
		one.mode, one.name, one.checks = mode, texts.prefix+"-"+sc.name, nil
		for _, c := range sc.checks {
			c.name, c.title, c.id = texts.prefix+"-"+c.name, fmt.Sprintf(c.title, texts.text), cmp.Or(c.id, texts.id)
			one.checks = append(one.checks, c)
		}
		all = append(all, one)
	}
	return all
}

// emitForms emits an event of each form, in a drawn order and with drawn pauses.
func emitForms(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, s.isFollowing) {
		return
	}
	forms, previous := s.draw.For("forms"), s.emit()
	for _, form := range draw.Some(forms, len(eventForms), eventForms) {
		e := newEvent()
		form.apply(forms, e, previous)
		e.form, previous = form.name, e.id
		s.addEvent(e, newToken())
		if !sleep(ctx, time.Duration(forms.IntN(3))*50*time.Millisecond) {
			return
		}
	}
	s.emit()
	s.finishWhenRead(ctx)
}

// drawnPages replies with pages of drawn sizes.
func drawnPages(s *stage, a *clientCall, n int) reply {
	pos, stale := s.startOf(a)
	return s.pageReply(a, pos, stale, pageOptions{lastPosition: 1 + s.draw.For(fmt.Sprint("page ", n)).IntN(5)})
}

// manyEvents is the number of events before repeated ones.
const manyEvents = 25

// emitRepeats emits many events, repeats drawn ones, and emits another.
func emitRepeats(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, s.isFollowing) {
		return
	}
	var all []int
	for i := range manyEvents {
		s.emit()
		all = append(all, i+1)
	}
	if s.mode != wire.ModePush && !s.waitUntil(ctx, func() bool { return s.hasEvent(manyEvents) }) {
		return
	}
	for _, pos := range append(draw.Some(s.draw.For("repeats"), 4, all), 1, manyEvents) {
		e, _, _ := s.entryAt(pos)
		e.cursor = newToken()
		s.add(e)
	}
	s.emit()
	s.finishWhenRead(ctx)
}

// repeatStreams disconnects the first stream after many events. The next one repeats all events.
func repeatStreams(s *stage, c *channel, n int) bool {
	if !c.active(0, false) {
		return true
	}
	s.mark("streaming")
	if n > 1 {
		c.writeEvents(0)
		return true
	}
	if s.waitUntil(c.r.Context(), func() bool { return s.head() >= manyEvents }) {
		for pos := 1; pos <= manyEvents && c.sendEvent(pos); pos++ {
		}
		c.cut()
	}
	return true
}

// restartServer restarts the server once the client has received an event, and then emits more.
func restartServer(ctx context.Context, s *stage) {
	if s.emitFirst(ctx) && sleep(ctx, 1500*time.Millisecond) {
		s.mark("down")
		s.restart(ctx, 2*time.Second)
		s.emit()
		s.finishWhenRead(ctx)
	}
}

// resumesAfterRestart checks that the client continues at the cursor of the first event after a restart.
func resumesAfterRestart(s *stage) error {
	if _, err := s.reached("down"); err != nil {
		return err
	}
	before := len(s.eventRequests()) - len(s.requestsSince("down", methodOf(s.mode)))
	if err := expectResume(before+1, 1)(s); err != nil {
		return err
	}
	return expectContinuation(s)
}

// failAtStart fails the first list and the first request for events.
func failAtStart(s *stage, a *clientCall, n int) reply {
	method := methodOf(s.mode)
	if n > 1 || a.method != wire.MethodList && a.method != method {
		return nil
	}
	all := append(failures(s.draw.For(a.method)), upstreamError(a))
	s.spoil("a failure of " + a.method)
	return s.fail(a, draw.Pick(s.draw.For("start "+a.method), all))
}

// emitBurst returns a function that adds events, and then emits another.
func emitBurst(add func(s *stage)) func(ctx context.Context, s *stage) {
	return func(ctx context.Context, s *stage) {
		if s.waitUntil(ctx, s.isFollowing) {
			add(s)
			s.emit()
			s.mark("emitted")
			s.finishWhenRead(ctx)
		}
	}
}

// addCursors adds an event for each cursor of the class.
func addCursors(s *stage) {
	for _, cursor := range cursorTexts(s.draw.For("cursors")) {
		s.addEvent(newEvent(), cursor)
	}
}

// addFramings adds an event for each form of server-sent events.
func addFramings(s *stage) {
	for _, f := range framings(s.draw.For("framings")) {
		e := newEvent()
		e.form = f.name
		s.addEvent(e, newToken()+wideChar)
	}
}

// oneEventEach sends one event with each page.
func oneEventEach(s *stage, a *clientCall, _ int) reply {
	pos, stale := s.startOf(a)
	return s.pageReply(a, pos, stale, pageOptions{lastPosition: 1})
}

// nextEvent plays a stream that ends after an event, unless it is the last one.
func nextEvent(s *stage, c *channel, _ int) bool {
	pos, stale := s.startOf(c.a)
	if !c.active(pos, stale) {
		return true
	}
	s.mark("streaming")
	s.waitUntil(c.r.Context(), s.isMarked("emitted"))
	if pos+1 >= s.head() {
		c.writeEvents(pos)
	} else if c.sendEvent(pos + 1) {
		c.writeResult()
	}
	return true
}

// framedStreams cuts a first stream that begins with a byte order mark, which no known server writes. Each later stream
// has the form of its event.
func framedStreams(s *stage, c *channel, n int) bool {
	if n == 1 {
		c.framing.omitsEvent = true // so that the mark precedes the data
		if c.raw("\ufeff") && c.active(0, false) && c.keepOpen(s.heartbeat) {
			c.cut()
		}
		return true
	}
	pos, _ := s.startOf(c.a)
	if all := framings(s.draw.For("framings")); pos < len(all) {
		c.framing = all[pos]
	}
	return nextEvent(s, c, n)
}

// expectAllTaken checks that each event has reached the client.
func expectAllTaken(s *stage) error {
	for pos := 1; pos <= s.head(); pos++ {
		if e, _, _ := s.entryAt(pos); e.id != "" && !s.hasEvent(pos) {
			return newViolation(s.lastRequest(), "the client to accept each event: "+e.form, "it has not accepted %s", e.id)
		}
	}
	if a := s.nthRequest(wire.MethodStream, 2); a != nil {
		return newViolation(a, "the stream to go on", "another one")
	}
	return expectContinuation(s)
}

// returnsCursors checks that the client has sent each cursor that ended a page or a stream.
func returnsCursors(s *stage) error {
	sent := map[string]bool{}
	for _, a := range s.eventRequests() {
		if text, ok := a.cursor(); ok {
			sent[text] = true
		}
	}
	if s.head() == 0 {
		return newViolation(s.lastRequest(), "the client to come so far", "it did not")
	}
	for pos := 1; pos < s.head(); pos++ {
		if e, _, _ := s.entryAt(pos); !sent[e.cursor] {
			return newViolation(s.lastRequest(), methodOf(s.mode)+" with cursor "+s.cursorAt(pos)+", after "+e.form, "none with it")
		}
	}
	return nil
}

// failRefreshes fails two refreshes.
func failRefreshes(s *stage, a *clientCall, n int) reply {
	if a.method != wire.MethodSubscribe || n != 2 && n != 3 {
		return nil
	}
	return s.fail(a, failures(s.draw.For("refreshes"))[n-2])
}

// awaitRepeatedRefresh emits an event once a refresh succeeds after two failures.
func awaitRepeatedRefresh(ctx context.Context, s *stage) {
	if s.waitUntil(ctx, func() bool { return len(s.eventRequests()) > 3 && s.isFollowing() }) {
		s.emit()
		s.finishWhenRead(ctx)
	}
}

// busyStatus returns a drawn status of a server that limits requests.
func (s *stage) busyStatus(what string) int {
	return draw.Pick(s.draw.For(what), []int{http.StatusServiceUnavailable, http.StatusTooManyRequests})
}
