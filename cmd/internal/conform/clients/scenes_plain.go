package clients

import (
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// plainScenes play a correct server and show which modes the client supports.
var plainScenes = []scene{
	{name: "no events", mode: wire.ModePoll, runsFirst: true, capability: nowhere, maxDuration: 5 * time.Second, checks: []check{
		{id: "CAP-2", title: "a client sends no events request to a server without events", run: asksNothing}}},
	{name: "poll", mode: wire.ModePoll, runsFirst: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(3), checks: []check{
		{id: "CLI-1", title: "a type that offers poll is polled", run: skipUnsupportedMode},
		{id: "CLI-2", title: "each polled event is handled once", handled: true, run: ifFollowed(expectHandledOnce)}}},
	{name: "push", mode: wire.ModePush, runsFirst: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(3), checks: []check{
		{id: "CLI-1", title: "a type that offers push is streamed", run: skipUnsupportedMode},
		{id: "CLI-2", title: "each event of a stream is handled once", handled: true, run: ifFollowed(expectHandledOnce)}}},
	{name: "webhook", mode: wire.ModeWebhook, runsFirst: true, maxDuration: 25 * time.Second, background: emitWhenFollowing(3), checks: []check{
		{id: "CLI-1", title: "a type that offers webhook is subscribed to", run: skipUnsupportedMode},
		{id: "VER-2", title: "a challenge is answered", run: challengeAnswered},
		{id: "CLI-2", title: "each event of a webhook is handled once", handled: true, run: ifFollowed(expectHandledOnce)}}},
}

// toleranceScenes play servers that are correct but unusual.
var toleranceScenes = []scene{
	{name: "the capability at the top level", capability: topLevel, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{id: "D1", title: "the capability may be only at the top level", advice: true, run: expectContinuation}}},
	{name: "the capability among extensions", capability: extensionOnly, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{id: "D1", title: "the capability may be only among the extensions", advice: true, run: expectContinuation}}},
	{name: "no resultType", bare: true, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{id: "D3", title: "a result without resultType is one", advice: true, run: expectContinuation}}},
	{name: "unknown modes", delivery: []string{"pigeon", "carrier-2"}, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), checks: []check{
		{id: "CLI-1", title: "unknown delivery modes are passed over", run: expectContinuation}}},
	{name: "unknown members", addsUnknown: true, misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(2), checks: []check{
		{id: "CLI-2", title: "members that nobody knows are passed over", run: expectContinuation},
		{id: "CLI-2", title: "events with members that nobody knows are handled", handled: true, run: expectHandledOnce}}},
}

func asksNothing(s *stage) error {
	for _, a := range s.requestsOf("") {
		if len(a.method) > len(wire.MethodPrefix) && a.method[:len(wire.MethodPrefix)] == wire.MethodPrefix {
			return newViolation(a, "nothing of events/*", "%s", a.method)
		}
	}
	return nil
}

// skipUnsupportedMode skips a mode that the client does not support. A client needs to support only one mode.
func skipUnsupportedMode(s *stage) error {
	if s.run.canFollow(s.mode) {
		return expectContinuation(s)
	}
	if slices.ContainsFunc(wire.DeliveryModes, s.run.canFollow) {
		return verdict.Skipf("the client does not follow by %s", s.mode)
	}
	if len(s.run.unseenModes) > 0 {
		return verdict.UnjudgedError("the client asked nothing of the server of another mode in time")
	}
	return newViolation(nil, methodOf(s.mode)+", or that of another mode", "nothing, of a type that offers %s alone", s.mode)
}

func ifFollowed(then func(s *stage) error) func(s *stage) error {
	return func(s *stage) error {
		if !s.run.canFollow(s.mode) {
			return verdict.Skipf("the client does not follow by %s", s.mode)
		}
		return then(s)
	}
}

func challengeAnswered(s *stage) error {
	if !s.run.canFollow(wire.ModeWebhook) {
		return verdict.Skipf("the client does not follow by %s", s.mode)
	}
	if _, ok := s.markTime("challenged"); ok {
		return nil
	}
	for _, reason := range []wire.Category{wire.ConnectionRefused, wire.ChallengeFailed} {
		if _, ok := s.markTime("challenge failed: " + string(reason)); ok {
			return newViolation(s.lastRequest(), "2xx with the challenge", "%s", reason)
		}
	}
	return newViolation(s.lastRequest(), "a subscription that can be made", "one that is refused before the challenge")
}
