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
	{name: "poll-pace", mode: wire.ModePoll, maxDuration: 25 * time.Second, turn: onPoll(paces), background: awaitReport, checks: []check{
		{name: "poll-has-more", id: "CLI-3", title: "The client polls again immediately after hasMore", advice: true, run: expectPause(1, 0, 2*time.Second, "there is more")},
		{name: "poll-next", id: "CLI-3", title: "The client waits for nextPollMs", advice: true, run: expectPause(2, 1800*time.Millisecond, 0, "nextPollMs is 2000")},
		{name: "poll-next-zero", id: "CLI-3", title: "The client pauses between polls if nextPollMs is 0", advice: true, run: expectPause(3, 900*time.Millisecond, 0, "nextPollMs is 0")},
		{name: "poll-truncated", id: "CLI-3", title: "The client continues from the cursor of a truncated page", run: expectResume(5, func(s *stage) int { return s.head() })},
		{name: "poll-gap", id: "CLI-2", title: "The client reports a gap in a poll", advice: true, run: expectReport("truncated")}}},
	{name: "poll-pages", mode: wire.ModePoll, maxDuration: 25 * time.Second, turn: onPoll(fullPages), background: emitAfter("last page"), checks: []check{
		{name: "poll-pages", id: "CLI-3", title: "The client reads pages until hasMore is false", run: expectContinuation},
		{name: "poll-pages-handled", id: "CLI-2", title: "The client handles each event of full pages once", handled: true, run: expectHandledOnce}}},
	{name: "poll-null-cursor", mode: wire.ModePoll, replayless: true, maxDuration: 15 * time.Second, turn: onPoll(cursorless), checks: []check{
		{name: "poll-null-cursor", id: "CLI-6", title: "The client does not send a null cursor as text", run: expectNoCursor(3)}}},
	{name: "poll-failure", mode: wire.ModePoll, maxDuration: 40 * time.Second, turn: onPoll(failPolls), background: emitAfter("failed 4"), checks: []check{
		{name: "poll-upstream", id: "PUSH-5", title: "The client retries a poll that failed upstream", run: expectContinuation},
		{name: "poll-failure-pause", id: "CLI-3", title: "The client waits after a failed poll", run: pausesBetween(2, 5)},
		{name: "poll-failure-backoff", id: "CLI-3", title: "The pauses after failed polls grow", advice: true, run: pausesGrow},
		{name: "poll-failure-handled", id: "CLI-2", title: "The client loses no event by failed polls", handled: true, run: expectHandledOnce}}},
	{name: "poll-busy", mode: wire.ModePoll, maxDuration: 30 * time.Second, turn: onPoll(busy), background: emitAfter("busy"), checks: []check{
		{name: "poll-busy", id: "CLI-3", title: "The client continues to poll after a busy server", run: expectContinuation},
		{name: "poll-retry-after", id: "CLI-3", title: "The client waits for Retry-After", advice: true, run: expectPause(2, 2900*time.Millisecond, 0, "Retry-After is 3")}}},
	{name: "poll-held", mode: wire.ModePoll, maxDuration: 25 * time.Second, turn: onPoll(holdSecond), background: emitAfter("held"), checks: []check{
		{name: "poll-overlap", id: "CLI-3", title: "Polls do not overlap", run: oneAtATime}}},
	{name: "poll-repeat", mode: wire.ModePoll, maxDuration: 20 * time.Second, turn: onPoll(repeatEvents), background: emitWhenFollowing(2), checks: []check{
		{name: "poll-repeat-handled", id: "CLI-2", title: "The client handles a repeated event of polls once", handled: true, run: expectHandledOnce}}},
	{name: "poll-restart", mode: wire.ModePoll, maxDuration: 40 * time.Second, background: restartServer, checks: []check{
		{name: "poll-restart", id: "CLI-3", title: "The client continues to poll after a restart", run: expectContinuation},
		{name: "poll-restart-cursor", id: "CLI-3", title: "The client polls from the last cursor after a restart", run: expectResumeAfter("down")},
		{name: "poll-restart-handled", id: "CLI-2", title: "The client loses no event by a restart of a polled server", handled: true, run: expectHandledOnce}}},
	{name: "poll-not-found-sketch", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.Sketch, wire.NotFound, `{"kind":"event"}`)), background: finishLater("refused", 8*time.Second), checks: []check{
			{name: "poll-not-found-sketch", id: "CLI-7", title: "The client lists events after a poll fails with the sketch's NotFound", run: expectListAgain("refused", fixedPosition(0))}}},
	{name: "poll-not-found-sep", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.SEP, wire.NotFound, `{"kind":"event"}`)), background: finishLater("refused", 8*time.Second), checks: []check{
			{name: "poll-not-found-sep", id: "CLI-7", title: "The client lists events after a poll fails with the SEP's NotFound", run: expectListAgain("refused", fixedPosition(0))}}},
	{name: "poll-forbidden-sketch", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.Sketch, wire.Forbidden, "null")), background: finishLater("refused", 8*time.Second), checks: []check{
			{name: "poll-forbidden-sketch", id: "CLI-7", title: "The client stops after a poll fails with the sketch's Forbidden", run: expectStop("refused")}}},
	{name: "poll-forbidden-sep", mode: wire.ModePoll, maxDuration: 25 * time.Second,
		turn: onPoll(refusing(wire.SEP, wire.Forbidden, "null")), background: finishLater("refused", 8*time.Second), checks: []check{
			{name: "poll-forbidden-sep", id: "CLI-7", title: "The client stops after a poll fails with the SEP's Forbidden", run: expectStop("refused")},
			{name: "poll-forbidden-reported", id: "CLI-7", title: "The client reports a poll that fails with Forbidden", run: expectNotSilent("refused")}}},
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
