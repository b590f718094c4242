package clients

import (
	"context"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// minPause is the minimum delay that counts as a pause after a failure.
const minPause = 100 * time.Millisecond

// pollScenes play servers that the client polls (CLI-3).
var pollScenes = []scene{
	{name: "poll-pace", mode: wire.ModePoll, maxDuration: 60 * time.Second, poll: paces, background: awaitReport, checks: []check{
		{name: "poll-cursor", id: "CUR-4", title: "The client polls from the last cursor, also after pages without events", run: pollsFromLast},
		{name: "poll-has-more", id: "CLI-3", title: "The client polls again immediately after hasMore", run: expectPause(2, 0, 2*time.Second, "there is more")},
		{name: "poll-next", id: "CLI-3", title: "The client waits for nextPollMs", advice: true, run: expectPause(3, 1800*time.Millisecond, 0, "nextPollMs is 2000")},
		{name: "poll-next-zero", id: "CLI-3", title: "The client pauses between polls if nextPollMs is 0", advice: true, run: expectPause(4, 900*time.Millisecond, 0, "nextPollMs is 0")},
		{name: "poll-truncated", id: "CLI-3", title: "The client continues from the cursor of a truncated page", run: func(s *stage) error { return expectResume(6, s.head())(s) }},
		{name: "poll-truncated-handled", id: "CLI-2", title: "The client handles the events of a truncated page", handled: true, run: expectHandledOnce},
		{name: "poll-gap", id: "CLI-2", title: "The client reports a gap in a poll", advice: true, run: expectReport}}},
	{name: "poll-null-cursor", mode: wire.ModePoll, replayless: true, maxDuration: 60 * time.Second, poll: cursorless, checks: []check{
		{name: "poll-null-cursor", id: "CLI-6", title: "The client does not send a null cursor as text", run: expectNoCursor(3)}}},
	{name: "poll-failure", mode: wire.ModePoll, maxDuration: 90 * time.Second, poll: failPolls, background: emitAfter("failed 4"), checks: []check{
		{name: "poll-upstream", id: "PUSH-5", title: "The client retries a poll that failed upstream", run: expectContinuation},
		{name: "poll-failure-pause", id: "CLI-3", title: "The client waits after a failed poll", run: pausesBetween(2, 5)},
		{name: "poll-failure-backoff", id: "CLI-3", title: "The pauses after failed polls grow", advice: true, run: pausesGrow},
		{name: "poll-failure-handled", id: "CLI-2", title: "The client loses no event by failed polls", handled: true, run: expectHandledOnce}}},
	{name: "poll-busy", mode: wire.ModePoll, maxDuration: 60 * time.Second, poll: busy, background: emitAfter("busy"), checks: []check{
		{name: "poll-busy", id: "CLI-3", title: "The client continues to poll after a busy server", run: expectContinuation},
		{name: "poll-retry-after", id: "CLI-3", title: "The client waits for Retry-After", advice: true, run: expectPause(2, 2900*time.Millisecond, 0, "Retry-After is 3")},
		{name: "poll-retry-after-date", id: "CLI-3", title: "The client waits for Retry-After that is a date", advice: true,
			run: expectPause(3, 2900*time.Millisecond, 0, "Retry-After is a date three seconds later")}}},
	{name: "poll-held", mode: wire.ModePoll, maxDuration: 60 * time.Second, poll: holdSecond, background: emitAfter("held"), checks: []check{
		{name: "poll-overlap", id: "CLI-3", title: "Polls do not overlap", run: oneAtATime}}},
	{name: "poll-restart", mode: wire.ModePoll, maxDuration: 40 * time.Second, background: restartServer, checks: []check{
		{name: "poll-restart", id: "CLI-3", title: "The client continues to poll after a restart", run: expectContinuation},
		{name: "poll-restart-cursor", id: "CLI-3", title: "The client polls from the last cursor after a restart", run: expectResumeAfter("down")},
		{name: "poll-restart-handled", id: "CLI-2", title: "The client loses no event by a restart of a polled server", handled: true, run: expectHandledOnce}}},
}

// longPoll is the nextPollMs of a page with hasMore. Even a slow client sends its next poll earlier.
const longPoll = 15_000

// paces replies with pages that differ in hasMore and nextPollMs. Each page ends at a later position. Only the second
// and the fifth page have events.
func paces(s *stage, a *clientCall, n int) reply {
	pos, _ := s.startOf(a)
	switch n {
	case 1:
		s.addSilent()
		return s.pageReply(a, pos, false, pageOptions{})
	case 2:
		s.emit()
		return s.pageReply(a, pos, false, pageOptions{more: true, nextPollMs: longPoll})
	case 3:
		s.addSilent()
		return s.pageReply(a, pos, false, pageOptions{nextPollMs: 2000})
	case 4:
		s.addSilent()
		return s.pageReply(a, pos, false, pageOptions{nextPollMs: -1})
	case 5:
		s.addSilent()
		for range 1 + s.draw.For("truncated").IntN(3) {
			s.emit()
		}
		s.mark("gap")
		return s.pageReply(a, pos, true, pageOptions{nextPollMs: 3000})
	case 6:
		s.finish()
	}
	return nil
}

// pollsFromLast checks that each of the first polls has the cursor of the page before it.
func pollsFromLast(s *stage) error {
	for n := 2; n <= 5; n++ {
		if err := expectResume(n, n-1)(s); err != nil {
			return err
		}
	}
	return nil
}

// awaitReport waits for the program to report a truncated page.
func awaitReport(ctx context.Context, s *stage) {
	if s.waitUntil(ctx, s.isMarked("gap")) {
		s.awaitOutput(ctx)
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

// failPolls fails the second to the fifth poll, in a drawn order by a status or upstream.
func failPolls(s *stage, a *clientCall, n int) reply {
	if n < 2 || n > 5 {
		return nil
	}
	if n == 5 {
		s.mark("failed 4")
	}
	failed := statusReply(http.StatusInternalServerError, "")
	return s.fail(a, draw.Some(s.draw.For("failures"), 4, []reply{failed, failed, upstreamError(a), upstreamError(a)})[n-2])
}

// busy limits the second and the third poll. Retry-After is first a number and then a date. Later polls fail in drawn
// ways.
func busy(s *stage, a *clientCall, n int) reply {
	switch n {
	case 2:
		return s.fail(a, statusReply(s.busyStatus("number"), "3"))
	case 3:
		return s.fail(a, statusReply(s.busyStatus("date"), time.Now().Add(4*time.Second).UTC().Format(http.TimeFormat)))
	case 4, 5, 6, 7:
		if n == 7 {
			s.mark("busy")
		}
		return s.fail(a, failures(s.draw.For("failures"))[n-1])
	}
	return nil
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
		return expectResume(len(s.eventRequests())-len(s.requestsSince(mark, methodOf(s.mode)))+1, 1)(s)
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
