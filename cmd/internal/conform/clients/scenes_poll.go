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
		{name: "poll-cursor", id: "CUR-4", title: "The client polls from the last cursor, also after pages without events", run: expectLastCursors(5)},
		{name: "poll-has-more", id: "CLI-3", title: "The client polls again immediately after hasMore", run: expectPause(2, 0, 2*time.Second, "there is more")},
		{name: "poll-next", id: "CLI-3", title: "The client waits for nextPollMs", run: expectPause(3, 1800*time.Millisecond, 0, "nextPollMs is 2000")},
		{name: "poll-next-zero", id: "CLI-3", title: "The client pauses between polls if nextPollMs is 0", advice: true, run: expectPause(4, 900*time.Millisecond, 0, "nextPollMs is 0")},
		{name: "poll-truncated", id: "CLI-3", title: "The client continues from the cursor of a truncated page", run: func(s *stage) error { return expectResume(6, s.head())(s) }},
		{name: "poll-truncated-handled", id: "CLI-2", title: "The client handles the events of a truncated page", handled: true, run: expectHandledOnce},
		{name: "poll-gap", id: "CLI-2", title: "The client reports a gap in a poll", advice: true, run: expectReport}}},
	{name: "poll-failure", mode: wire.ModePoll, maxDuration: 90 * time.Second, poll: failPolls, background: emitAfter("failed"), checks: []check{
		{name: "poll-failure", id: "CLI-3", title: "The client continues to poll after failures", run: expectContinuation},
		{name: "poll-retry-after", id: "CLI-3", title: "The client waits for Retry-After", advice: true, run: expectPause(2, 2900*time.Millisecond, 0, "Retry-After is 3")},
		{name: "poll-retry-after-date", id: "CLI-3", title: "The client waits for Retry-After that is a date", advice: true,
			run: expectPause(3, 2900*time.Millisecond, 0, "Retry-After is a date three seconds later")},
		{name: "poll-failure-pause", id: "CLI-3", title: "The client waits after a failed poll", run: pausesAfterFailures},
		{name: "poll-failure-backoff", id: "CLI-3", title: "The pauses after failed polls grow", advice: true, run: pausesGrow},
		{name: "poll-failure-handled", id: "CLI-2", title: "The client loses no event by failed polls", handled: true, run: expectHandledOnce}}},
	{name: "poll-held", mode: wire.ModePoll, maxDuration: 60 * time.Second, poll: holdSecond, background: emitAfter("held"), checks: []check{
		{name: "poll-overlap", id: "CLI-3", title: "Polls do not overlap", run: oneAtATime}}},
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

// awaitReport waits for the program to report a truncated page.
func awaitReport(ctx context.Context, s *stage) {
	if s.waitUntil(ctx, s.isMarked("gap")) {
		s.awaitOutput(ctx)
	}
}

// cursorless replies to the second poll without a cursor. The cursor of other replies is null.
func cursorless(s *stage, a *clientCall, n int) reply {
	if n != 2 {
		return nil
	}
	return s.resultReply(a, `{"events":[],"truncated":false,"hasMore":false,"nextPollMs":1000}`)
}

// failedFrom and failedTo are the first and the last poll that the server itself fails.
const failedFrom, failedTo = 5, 8

// failPolls limits the second and the third poll. Retry-After is first a number and then a date. After a success, the
// server fails polls in a drawn order by a status or upstream. At last, two polls fail in ways after which a client may
// poll at once, because another server could answer.
func failPolls(s *stage, a *clientCall, n int) reply {
	from := s.draw.For("failures")
	switch {
	case n == 2:
		return s.fail(a, statusReply(s.busyStatus("number"), "3"))
	case n == 3:
		return s.fail(a, statusReply(s.busyStatus("date"), time.Now().Add(4*time.Second).UTC().Format(http.TimeFormat)))
	case n >= failedFrom && n <= failedTo:
		failed := statusReply(http.StatusInternalServerError, "")
		return s.fail(a, draw.Some(from, 4, []reply{failed, failed, upstreamError(a), upstreamError(a)})[n-failedFrom])
	case n == failedTo+1 || n == failedTo+2:
		s.mark("failed")
		return s.fail(a, draw.Some(from, 2, failures(from))[n-failedTo-1])
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

func pausesAfterFailures(s *stage) error {
	for n := failedFrom; n <= failedTo; n++ {
		if err := expectPause(n, minPause, 0, "it failed")(s); err != nil {
			return err
		}
	}
	return nil
}

func pausesGrow(s *stage) error {
	first, ok := s.pauseAfter(failedFrom)
	last, also := s.pauseAfter(failedTo)
	if !ok || !also {
		return newViolation(s.lastRequest(), "another "+methodOf(s.mode), "none")
	}
	if last < first*3/2 {
		return newViolation(s.lastRequest(), "longer pauses with each failure", "%.2f s after one, %.2f s after the third from there", first.Seconds(), last.Seconds())
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
