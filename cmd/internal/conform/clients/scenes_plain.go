package clients

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// plainScenes play a correct server and show which modes the client supports.
var plainScenes = []scene{
	{name: "no events", mode: wire.ModePoll, first: true, capability: nowhere, within: 5 * time.Second, checks: []check{
		{id: "CAP-2", title: "a client sends no events request to a server without events", run: asksNothing}}},
	{name: "poll", mode: wire.ModePoll, first: true, within: 20 * time.Second, live: occur(3), checks: []check{
		{id: "CLI-1", title: "a type that offers poll is polled", run: followsIt},
		{id: "CLI-2", title: "each polled event is handled once", handled: true, run: ifFollowed(handledOnce)}}},
	{name: "push", mode: wire.ModePush, first: true, within: 20 * time.Second, live: occur(3), checks: []check{
		{id: "CLI-1", title: "a type that offers push is streamed", run: followsIt},
		{id: "CLI-2", title: "each event of a stream is handled once", handled: true, run: ifFollowed(handledOnce)}}},
	{name: "webhook", mode: wire.ModeWebhook, first: true, within: 25 * time.Second, live: occur(3), checks: []check{
		{id: "CLI-1", title: "a type that offers webhook is subscribed to", run: followsIt},
		{id: "VER-2", title: "a challenge is answered", run: challengeAnswered},
		{id: "CLI-2", title: "each event of a webhook is handled once", handled: true, run: ifFollowed(handledOnce)}}},
}

// toleranceScenes play servers that are correct but unusual.
var toleranceScenes = []scene{
	{name: "the capability at the top level", capability: topLevel, early: true, within: 20 * time.Second, live: occur(1), checks: []check{
		{id: "D1", title: "the capability may stand at the top level alone", advice: true, run: goesOn}}},
	{name: "the capability among extensions", capability: extensionOnly, early: true, within: 20 * time.Second, live: occur(1), checks: []check{
		{id: "D1", title: "the capability may stand among the extensions alone", advice: true, run: goesOn}}},
	{name: "no resultType", bare: true, early: true, within: 20 * time.Second, live: occur(1), checks: []check{
		{id: "D3", title: "a result without resultType is one", advice: true, run: goesOn}}},
	{name: "unknown modes", delivery: []string{"pigeon", "carrier-2"}, early: true, within: 20 * time.Second, live: occur(1), checks: []check{
		{id: "CLI-1", title: "unknown delivery modes are passed over", run: goesOn}}},
	{name: "unknown members", strange: true, early: true, within: 20 * time.Second, live: occur(2), checks: []check{
		{id: "CLI-2", title: "members that nobody knows are passed over", run: goesOn},
		{id: "CLI-2", title: "events with members that nobody knows are handled", handled: true, run: handledOnce}}},
}

func asksNothing(s *stage) error {
	for _, a := range s.all("") {
		if len(a.method) > len(wire.MethodPrefix) && a.method[:len(wire.MethodPrefix)] == wire.MethodPrefix {
			return wrong(a, "nothing of events/*", "%s", a.method)
		}
	}
	return nil
}

// followsIt skips a mode that the client does not support. A client needs to support only one mode.
func followsIt(s *stage) error {
	if s.run.canFollow(s.mode) {
		return goesOn(s)
	}
	for _, mode := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
		if s.run.canFollow(mode) {
			return verdict.Skipf("the client does not follow by %s", s.mode)
		}
	}
	if len(s.run.unseen) > 0 {
		return verdict.UnjudgedError("the client asked nothing of the server of another mode in time")
	}
	return wrong(nil, methodOf(s.mode)+", or that of another mode", "nothing, of a type that offers %s alone", s.mode)
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
	if _, ok := s.when("challenged"); ok {
		return nil
	}
	for _, reason := range []wire.Category{wire.ConnectionRefused, wire.ChallengeFailed} {
		if _, ok := s.when("challenge failed: " + string(reason)); ok {
			return wrong(s.last(), "2xx with the challenge", "%s", reason)
		}
	}
	return wrong(s.last(), "a subscription that can be made", "one that is refused before the challenge")
}
