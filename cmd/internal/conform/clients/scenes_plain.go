package clients

import (
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// plainScenes play a correct server and show which modes the client supports.
var plainScenes = []scene{
	{name: "no-events", mode: wire.ModePoll, runsFirst: true, capability: nowhere, maxDuration: 5 * time.Second, checks: []check{
		{name: "no-events", id: "CAP-2", title: "The client sends no events request to a server without events", run: asksNothing}}},
	{name: "poll", mode: wire.ModePoll, runsFirst: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(3), checks: []check{
		{name: "poll", id: "CLI-1", title: "The client polls a type with poll", run: skipUnsupportedMode},
		{name: "poll-handled", id: "CLI-2", title: "The client handles each polled event once", handled: true, run: ifFollowed(expectHandledOnce)}}},
	{name: "push", mode: wire.ModePush, runsFirst: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(3), checks: []check{
		{name: "stream", id: "CLI-1", title: "The client opens a stream of a type with push", run: skipUnsupportedMode},
		{name: "stream-handled", id: "CLI-2", title: "The client handles each event of a stream once", handled: true, run: ifFollowed(expectHandledOnce)}}},
	{name: "webhook", mode: wire.ModeWebhook, runsFirst: true, maxDuration: 25 * time.Second, background: emitWhenFollowing(3), checks: []check{
		{name: "subscribe", id: "CLI-1", title: "The client subscribes to a type with webhook", run: skipUnsupportedMode},
		{name: "challenge", id: "VER-2", title: "The client responds to a challenge", run: ifFollowed(challengeAnswered)},
		{name: "delivery-handled", id: "CLI-2", title: "The client handles each event of a webhook once", handled: true, run: ifFollowed(expectHandledOnce)}}},
}

// toleranceScenes play servers that are correct but unusual.
var toleranceScenes = []scene{
	{name: "capability-top-level", capability: topLevel, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{name: "capability-top-level", id: "D1", title: "The client accepts the capability at the top level only", advice: true, run: expectContinuation}}},
	{name: "capability-extension", capability: extensionOnly, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{name: "capability-extension", id: "D1", title: "The client accepts the capability among the extensions only", advice: true, run: expectContinuation}}},
	{name: "result-type-missing", bare: true, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{name: "result-type-missing", id: "D3", title: "The client accepts a result without resultType", advice: true, run: expectContinuation}}},
	{name: "unknown-modes", delivery: []string{"pigeon", "carrier-2"}, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{name: "unknown-modes", id: "CLI-1", title: "The client ignores unknown delivery modes", run: expectContinuation}}},
	{name: "unknown-members", addsUnknown: true, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(2), checks: []check{
		{name: "unknown-members", id: "CLI-2", title: "The client ignores unknown members", run: expectContinuation},
		{name: "unknown-members-handled", id: "CLI-2", title: "The client handles events with unknown members", handled: true, run: expectHandledOnce}}},
	{name: "list-pages", misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), turn: twoPages, checks: []check{
		{name: "list-pages", id: "LIST-1", title: "The client reads every page of the list", run: expectContinuation}}},
}

func asksNothing(s *stage) error {
	for _, a := range s.requestsOf("") {
		if strings.HasPrefix(a.method, wire.MethodPrefix) {
			return newViolation(a, "nothing of events/*", "%s", a.method)
		}
	}
	return nil
}

// skipUnsupportedMode skips a mode that the client does not support. A client needs to support only one mode.
func skipUnsupportedMode(s *stage) error {
	if s.run.can(s.mode) {
		return expectContinuation(s)
	}
	if slices.ContainsFunc(wire.DeliveryModes, s.run.can) {
		return s.run.lacksMode(s.mode)
	}
	if len(s.run.unseenModes) > 0 {
		return verdict.UnjudgedError("the client asked nothing of the server of another mode in time")
	}
	return newViolation(nil, methodOf(s.mode)+", or that of another mode", "nothing, of a type that offers %s alone", s.mode)
}

func ifFollowed(then func(s *stage) error) func(s *stage) error {
	return func(s *stage) error {
		if err := s.run.lacksMode(s.mode); err != nil {
			return err
		}
		return then(s)
	}
}

func challengeAnswered(s *stage) error {
	if s.run.can(answersChallenge) {
		return nil
	}
	if err := expectNoOddity(failedChallenge, "2xx with the challenge")(s); err != nil {
		return err
	}
	return newViolation(s.lastRequest(), "a subscription that can be made", "one that is refused before the challenge")
}

// secondPage is the cursor of the second page of a list.
const secondPage = "page-2"

// twoPages replies to events/list with an empty first page. The second page contains the event type.
func twoPages(s *stage, a *clientCall, _ int) reply {
	if a.method != wire.MethodList {
		return nil
	}
	switch cursor, ok := a.cursor(); {
	case !ok:
		return s.resultReply(a, `{"events":[],"nextCursor":"`+secondPage+`"}`)
	case cursor != secondPage:
		return refuse(a, wire.Sketch.Code(wire.InvalidParams), "InvalidParams", "null")
	}
	return nil
}
