package clients

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// minPause is the minimum delay that counts as a pause after a failure.
const minPause = 100 * time.Millisecond

// pollScenes play servers that the client polls (CLI-3).
var pollScenes = []scene{
	{name: "pages and paces", mode: wire.ModePoll, maxDuration: 25 * time.Second, turn: onPoll(paces), background: awaitReport, checks: []check{
		{id: "CLI-3", title: "hasMore is drained at once", advice: true, run: expectPause(1, 0, 2*time.Second, "there is more")},
		{id: "CLI-3", title: "nextPollMs is kept", advice: true, run: expectPause(2, 1800*time.Millisecond, 0, "nextPollMs is 2000")},
		{id: "CLI-3", title: "nextPollMs 0 does not make it poll in a loop", advice: true, run: expectPause(3, 900*time.Millisecond, 0, "nextPollMs is 0")},
		{id: "CLI-3", title: "the cursor of a truncated page is the next one", run: expectResume(5, func(s *stage) int { return s.head() })},
		{id: "CLI-2", title: "a gap in a poll is reported", advice: true, run: expectReport("truncated")}}},
	{name: "full pages", mode: wire.ModePoll, maxDuration: 25 * time.Second, turn: onPoll(fullPages), background: emitAfter("last page"), checks: []check{
		{id: "CLI-3", title: "every page is read until hasMore is false", run: expectContinuation},
		{id: "CLI-2", title: "each event of full pages with hasMore is handled once", handled: true, run: expectHandledOnce}}},
	{name: "polls without cursors", mode: wire.ModePoll, replayless: true, maxDuration: 15 * time.Second, turn: onPoll(cursorless), checks: []check{
		{id: "CLI-6", title: "a null or absent cursor is not sent again as one", run: expectNoCursor(3)}}},
	{name: "polls that fail", mode: wire.ModePoll, maxDuration: 40 * time.Second, turn: onPoll(failPolls), background: emitAfter("failed 4"), checks: []check{
		{id: "PUSH-5", title: "a poll that failed upstream is made again", run: expectContinuation},
		{id: "CLI-3", title: "there is a pause after a failure", run: pausesBetween(2, 5)},
		{id: "CLI-3", title: "pauses grow with each failure", advice: true, run: pausesGrow},
		{id: "CLI-2", title: "nothing is lost by polls that fail", handled: true, run: expectHandledOnce}}},
	{name: "a busy server", mode: wire.ModePoll, maxDuration: 30 * time.Second, turn: onPoll(busy), background: emitAfter("busy"), checks: []check{
		{id: "CLI-3", title: "polls go on after a busy server", run: expectContinuation},
		{id: "CLI-3", title: "Retry-After is kept", advice: true, run: expectPause(2, 2900*time.Millisecond, 0, "Retry-After is 3")}}},
	{name: "a poll that is held", mode: wire.ModePoll, maxDuration: 25 * time.Second, turn: onPoll(holdSecond), background: emitAfter("held"), checks: []check{
		{id: "CLI-3", title: "polls do not overlap", run: oneAtATime}}},
	{name: "polls that repeat", mode: wire.ModePoll, maxDuration: 20 * time.Second, turn: onPoll(repeatEvents), background: emitWhenFollowing(2), checks: []check{
		{id: "CLI-2", title: "an event that polls repeat is handled once", handled: true, run: expectHandledOnce}}},
	{name: "polled over a restart", mode: wire.ModePoll, maxDuration: 40 * time.Second, background: restartServer, checks: []check{
		{id: "CLI-3", title: "polls go on after a restart", run: expectContinuation},
		{id: "CLI-3", title: "after a restart polls go on from the last cursor", run: expectResumeAfter("down")},
		{id: "CLI-2", title: "nothing is lost by a restart of a polled server", handled: true, run: expectHandledOnce}}},
	{name: "a poll is NotFound, sketch", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.Sketch, wire.NotFound, `{"kind":"event"}`)), background: finishLater("refused", 8*time.Second), checks: []check{
			{id: "CLI-7", title: "a poll that is NotFound, by the sketch's code, is followed by events/list", run: expectListAgain("refused", fixedPosition(0))}}},
	{name: "a poll is NotFound, SEP", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.SEP, wire.NotFound, `{"kind":"event"}`)), background: finishLater("refused", 8*time.Second), checks: []check{
			{id: "CLI-7", title: "a poll that is NotFound, by the SEP's code, is followed by events/list", run: expectListAgain("refused", fixedPosition(0))}}},
	{name: "a poll is Forbidden, sketch", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.Sketch, wire.Forbidden, "null")), background: finishLater("refused", 8*time.Second), checks: []check{
			{id: "CLI-7", title: "a poll that is Forbidden, by the sketch's code, is the last", run: expectStop("refused")}}},
	{name: "a poll is Forbidden, SEP", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.SEP, wire.Forbidden, "null")), background: finishLater("refused", 8*time.Second), checks: []check{
			{id: "CLI-7", title: "a poll that is Forbidden, by the SEP's code, is the last", run: expectStop("refused")},
			{id: "CLI-7", title: "a poll that is Forbidden is reported", run: expectNotSilent("refused")}}},
}

func paces(s *stage, a *clientCall, n int) reply {
	pos, _ := s.startOf(a)
	switch n {
	case 1:
		return s.pageReply(a, pos, false, pageOptions{more: true, nextPollMs: 3000})
	case 2:
		return s.pageReply(a, pos, false, pageOptions{nextPollMs: 2000})
	case 3:
		return s.pageReply(a, pos, false, pageOptions{nextPollMs: -1})
	case 4:
		s.addSilent()
		s.mark("truncated")
		return s.pageReply(a, s.head(), true, pageOptions{nextPollMs: 3000})
	case 5:
		s.finish()
	}
	return nil
}

// pageSize is the number of events in a full page. fullPageCount is the number of full pages with hasMore.
const pageSize, fullPageCount = 3, 3

// fullPages replies with full pages that have hasMore set, and a last page without it.
func fullPages(s *stage, a *clientCall, n int) reply {
	pos, stale := s.startOf(a)
	if n == 1 {
		first := s.pageReply(a, pos, stale, pageOptions{nextPollMs: 100})
		for range (fullPageCount + 1) * pageSize {
			s.emit()
		}
		return first
	}
	if pos+pageSize >= (fullPageCount+1)*pageSize {
		s.mark("last page")
	}
	return s.pageReply(a, pos, stale, pageOptions{lastPosition: pageSize})
}

// awaitReport waits for the program to report a truncated page.
func awaitReport(ctx context.Context, s *stage) {
	if s.waitUntil(ctx, func() bool { _, ok := s.markTime("truncated"); return ok }) {
		s.awaitOutput(ctx, "truncated")
	}
}

func cursorless(s *stage, a *clientCall, n int) reply {
	switch n {
	case 2:
		return s.resultReply(a, `{"events":[],"truncated":false,"hasMore":false,"nextPollMs":1000}`)
	case 3:
		s.finish()
	}
	return nil
}

// failPolls fails the second to the fifth poll.
func failPolls(s *stage, a *clientCall, n int) reply {
	if n < 2 || n > 5 {
		return nil
	}
	if n == 5 {
		s.mark("failed 4")
	}
	return refuse(a, wire.Sketch.Code(wire.UpstreamError), "UpstreamError", "null")
}

func busy(s *stage, _ *clientCall, n int) reply {
	if n != 2 {
		return nil
	}
	s.mark("busy")
	return statusReply(http.StatusServiceUnavailable, "3")
}

// holdSecond delays the response to the second poll beyond the longest polling interval.
func holdSecond(s *stage, a *clientCall, n int) reply {
	if n != 2 {
		return nil
	}
	pos, _ := s.startOf(a)
	return func(w http.ResponseWriter, r *http.Request) {
		sleep(r.Context(), 5*time.Second)
		s.pageReply(a, pos, false, pageOptions{})(w, r)
		s.mark("held")
	}
}

// repeatEvents sends each event twice, and then repeats all of them.
func repeatEvents(s *stage, a *clientCall, n int) reply {
	if n == 1 {
		return nil
	}
	return s.pageReply(a, 0, false, pageOptions{firstPosition: 1, twice: true})
}

func refusing(family wire.Dialect, kind wire.Kind, data string) func(*stage, *clientCall, int) reply {
	return func(s *stage, a *clientCall, n int) reply {
		if n == 1 || kind == wire.NotFound && n > 2 {
			return nil
		}
		if n == 2 {
			s.mark("refused")
		}
		return refuse(a, family.Code(kind), kind.String(), data)
	}
}

// restartServer restarts the server once the client has received an event, and then emits more.
func restartServer(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, s.isFollowing) {
		return
	}
	s.emit()
	if !s.waitUntil(ctx, func() bool { return s.hasEvent(s.head()) }) || !sleep(ctx, 1500*time.Millisecond) {
		return
	}
	s.mark("down")
	s.restart(ctx, 2*time.Second)
	s.emit()
	s.finishWhenRead(ctx)
}

// expectResumeAfter returns a check of the first request after a mark.
func expectResumeAfter(mark string) func(s *stage) error {
	return func(s *stage) error {
		if _, ok := s.markTime(mark); !ok {
			return newViolation(s.lastRequest(), "the client to come so far", "it did not")
		}
		return expectResume(len(s.eventRequests())-len(s.requestsSince(mark, methodOf(s.mode)))+1, fixedPosition(1))(s)
	}
}

func pausesBetween(from, to int) func(s *stage) error {
	return func(s *stage) error {
		for n := from; n <= to; n++ {
			if err := expectPause(n, minPause, 0, "it failed")(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func pausesGrow(s *stage) error {
	first, ok := s.pauseAfter(2)
	last, also := s.pauseAfter(5)
	if !ok || !also {
		return newViolation(s.lastRequest(), "another "+methodOf(s.mode), "none")
	}
	if last < first*3/2 {
		return newViolation(s.nthRequest(methodOf(s.mode), 6), "longer pauses with each failure", "%.2f s after the first, %.2f s after the fourth", first.Seconds(), last.Seconds())
	}
	return nil
}

func oneAtATime(s *stage) error {
	a := s.nthRequest(wire.MethodPoll, 2)
	if a == nil {
		return newViolation(s.lastRequest(), "a second poll", "none")
	}
	for _, b := range s.eventRequests() {
		s.mu.Lock()
		during := b != a && b.arrived > a.arrived && (!a.done || b.arrived < a.ended-50*time.Millisecond)
		s.mu.Unlock()
		if during {
			return newViolation(b, "no poll before the one before it is answered", "one %.1f s after it", (b.arrived - a.arrived).Seconds())
		}
	}
	return nil
}
