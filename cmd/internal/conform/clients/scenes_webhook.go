package clients

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// shortGrant is the grant in scenes that examine refreshes.
const shortGrant = 6 * time.Second

// webhookScenes play servers that deliver by webhook (CLI-5).
var webhookScenes = []scene{
	{name: "short grants", mode: wire.ModeWebhook, grant: shortGrant, maxDuration: 40 * time.Second, background: awaitRefresh, checks: []check{
		{id: "CLI-5", title: "a subscription is refreshed before its grant ends", run: refreshedInTime},
		{id: "CLI-5", title: "a subscription is refreshed at about two thirds of its grant", advice: true, run: refreshedAtTwoThirds},
		{id: "CLI-5", title: "a refresh repeats the name, arguments and callback", run: sameKey},
		{id: "CLI-5", title: "a refresh carries the cursor of the last handled event", run: expectResume(3, fixedPosition(1))},
		{id: "CLI-5", title: "a subscription is ended when the client ends", advice: true, run: unsubscribed}}},
	{name: "webhooks without cursors", mode: wire.ModeWebhook, replayless: true, grant: shortGrant, maxDuration: 40 * time.Second, background: awaitRefresh, checks: []check{
		{id: "CLI-6", title: "a subscription without cursors is refreshed without one", run: expectNoCursor(3)}}},
	{name: "subscriptions that are lost", mode: wire.ModeWebhook, grant: shortGrant, maxDuration: 50 * time.Second, background: loseSubscription, checks: []check{
		{id: "CLI-5", title: "a subscription that the server lost goes on at the last cursor", run: expectContinuation},
		{id: "CLI-2", title: "nothing is lost by a restart of a server that delivers", handled: true, run: expectHandledOnce}}},
	{name: "a gap by webhook", mode: wire.ModeWebhook, maxDuration: 30 * time.Second, background: hookGap, checks: []check{
		{id: "HOOK-7", title: "a gap by webhook is taken", run: marked("gap taken", "2xx")},
		{id: "CLI-2", title: "a gap by webhook is reported", advice: true, run: expectReport("gap")},
		{id: "CLI-2", title: "an event that a webhook brings after a gap is handled", handled: true, run: expectHandledOnce}}},
	{name: "terminated by webhook", mode: wire.ModeWebhook, maxDuration: 35 * time.Second, background: hookTerminated, checks: []check{
		{id: "HOOK-7", title: "a termination by webhook is taken", run: marked("termination taken", "2xx")},
		{id: "CLI-7", title: "a termination by webhook with NotFound is followed by events/list", run: expectListAgain("terminated", fixedPosition(1))}}},
}

// awaitRefresh emits an event after the first refresh and ends the scene after the third request.
func awaitRefresh(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, func() bool { return len(s.eventRequests()) > 1 && s.isFollowing() }) {
		return
	}
	s.emit()
	if s.waitUntil(ctx, func() bool { return len(s.eventRequests()) > 2 }) {
		s.finishAfter(ctx, 300*time.Millisecond)
	}
}

// loseSubscription drops the subscription between two events.
func loseSubscription(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, s.isFollowing) {
		return
	}
	s.emit()
	if !s.waitUntil(ctx, func() bool { return s.hasEvent(1) }) {
		return
	}
	s.dropSubscriptions()
	s.restart(ctx, time.Second)
	s.emit()
	s.finishWhenRead(ctx)
}

func hookGap(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, s.isFollowing) {
		return
	}
	s.emit()
	if !s.waitUntil(ctx, func() bool { return s.hasEvent(1) }) {
		return
	}
	s.addSilent()
	s.mark("gap")
	if s.sendEnvelope(ctx, wire.EnvelopeGap, `,"cursor":`+s.cursorAt(2)) {
		s.mark("gap taken")
	}
	s.awaitOutput(ctx, "gap")
	s.emit()
	s.finishWhenRead(ctx)
}

func hookTerminated(ctx context.Context, s *stage) {
	if !s.waitUntil(ctx, s.isFollowing) {
		return
	}
	s.emit()
	if !s.waitUntil(ctx, func() bool { return s.hasEvent(1) }) {
		return
	}
	s.mark("terminated")
	if s.sendEnvelope(ctx, wire.EnvelopeTerminated, `,"error":{"code":-32011,"message":"NotFound","data":{"kind":"event"}}`) {
		s.mark("termination taken")
	}
	s.finishAfter(ctx, 10*time.Second)
}

func marked(what, expected string) func(s *stage) error {
	return func(s *stage) error {
		if _, ok := s.markTime(what); !ok {
			return newViolation(s.lastRequest(), expected, "another answer, or none")
		}
		return nil
	}
}

// sinceGrant returns the time from the first response to the refresh.
func (s *stage) sinceGrant() (d time.Duration, ok bool) {
	first := s.nthRequest(wire.MethodSubscribe, 1)
	if first == nil {
		return 0, false
	}
	return s.pauseAfter(1)
}

func refreshedInTime(s *stage) error {
	d, ok := s.sinceGrant()
	if !ok {
		return newViolation(s.lastRequest(), "events/subscribe again within "+s.grant.String(), "none")
	}
	if d > s.grant {
		return newViolation(s.nthRequest(wire.MethodSubscribe, 2), "events/subscribe again within "+s.grant.String(), "after %.1f s", d.Seconds())
	}
	return nil
}

func refreshedAtTwoThirds(s *stage) error {
	d, ok := s.sinceGrant()
	if !ok || d < s.grant/3 || d > s.grant*9/10 {
		return newViolation(s.nthRequest(wire.MethodSubscribe, 2), "a refresh at about two thirds of "+s.grant.String(), "after %.1f s", d.Seconds())
	}
	return nil
}

func sameKey(s *stage) error {
	first := s.nthRequest(wire.MethodSubscribe, 1)
	for _, a := range s.eventRequests()[1:] {
		if a.subscription().Delivery.URL != first.subscription().Delivery.URL || string(a.params["name"]) != string(first.params["name"]) ||
			string(a.params["arguments"]) != string(first.params["arguments"]) {
			return newViolation(a, "name, arguments and callback as in the request before", "others")
		}
	}
	return nil
}

func unsubscribed(s *stage) error {
	if len(s.requestsOf(wire.MethodUnsubscribe)) == 0 {
		return newViolation(s.lastRequest(), "events/unsubscribe", "none")
	}
	return nil
}
