package clients

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// shortGrant is the grant in scenes that examine refreshes. A third of it is the allowance for a slow machine.
const shortGrant = 15 * time.Second

// webhookScenes play servers that deliver by webhook (CLI-5).
var webhookScenes = []scene{
	{name: "refresh", mode: wire.ModeWebhook, grant: shortGrant, maxDuration: 60 * time.Second, background: awaitRefresh, checks: []check{
		{name: "refresh", id: "CLI-5", title: "The client refreshes a subscription before its grant ends", run: expectPause(1, 0, shortGrant, "its grant ends")},
		{name: "refresh-two-thirds", id: "CLI-5", title: "The client refreshes a subscription at about two thirds of its grant", advice: true, run: expectPause(1, shortGrant/3, shortGrant*9/10, "two thirds of its grant")},
		{name: "refresh-key", id: "CLI-5", title: "A refresh has the same name, arguments and callback", run: sameKey},
		{name: "refresh-cursor", id: "CLI-5", title: "A refresh has the last cursor of a delivery or a response", run: expectLastCursors(3)},
		{name: "unsubscribe", id: "CLI-5", title: "The client unsubscribes when it ends", advice: true, run: unsubscribed}}},
	{name: "refresh-failure", mode: wire.ModeWebhook, grant: shortGrant, maxDuration: 90 * time.Second, turn: failRefreshes, background: awaitRepeatedRefresh,
		checks: []check{{name: "refresh-failure", id: "CLI-5", title: "The client repeats a refresh that fails", run: expectContinuation}}},
	{name: "delivery-forged", mode: wire.ModeWebhook, maxDuration: 30 * time.Second, background: sendForged, checks: []check{
		{name: "delivery-forged", id: "CLI-5", title: "The client refuses deliveries with a wrong signature or an old timestamp", run: refusesForgeries}}},
	{name: "delivery-control", mode: wire.ModeWebhook, maxDuration: 60 * time.Second, background: sendControl, checks: []check{
		{name: "delivery-gap", id: "HOOK-7", title: "The client accepts a gap by webhook", run: expectTaken(wire.EnvelopeGap)},
		{name: "delivery-gap-reported", id: "CLI-2", title: "The client reports a gap by webhook", advice: true, run: expectReport},
		{name: "delivery-gap-handled", id: "CLI-2", title: "The client handles an event by webhook after a gap", handled: true, run: expectHandledOnce},
		{name: "delivery-terminated", id: "HOOK-7", title: "The client accepts a termination by webhook", run: expectTaken(wire.EnvelopeTerminated)},
		{name: "delivery-not-found", id: "CLI-7", title: "The client lists events after a termination by webhook with NotFound", run: expectListAgain}}},
}

// awaitRefresh emits an event before the first refresh and ends the scene after the third request. The position after
// the event has none, so only the response to the refresh has its cursor.
func awaitRefresh(ctx context.Context, s *stage) {
	// Give the client time to read the response, so that no later cursor overtakes it.
	if s.waitUntil(ctx, s.isFollowing) && sleep(ctx, time.Second) {
		s.emit()
		s.addSilent()
		finishAfterThree(ctx, s)
	}
}

// finishAfterThree ends the scene after three requests for events.
func finishAfterThree(ctx context.Context, s *stage) {
	if s.waitUntil(ctx, func() bool { return len(s.eventRequests()) > 2 }) {
		s.finishAfter(ctx, 300*time.Millisecond)
	}
}

// sendForged repeats the first event with the signature of another secret, and as a message of six minutes ago.
func sendForged(ctx context.Context, s *stage) {
	if !s.emitFirst(ctx) {
		return
	}
	a := s.lastRequest()
	s.mu.Lock()
	h := s.hooks[a.subscription().Delivery.URL]
	s.mu.Unlock()
	e, _, _ := s.entryAt(1)
	for _, forged := range []struct {
		what string
		keys webhook.Ring
		age  time.Duration
	}{{"of another secret", webhook.NewRing(webhook.NewSecret()), 0}, {"of six minutes ago", h.keys, 6 * time.Minute}} {
		status, _ := s.postSigned(ctx, h, forged.keys, time.Now().Add(-forged.age), e.id, []byte(s.occurrence(e, s.cursorAt(1))))
		if status/100 == 2 {
			s.mu.Lock()
			s.noteOddity(acceptedForgery, fmt.Sprintf("%d to an event with a signature %s", status, forged.what), a)
			s.mu.Unlock()
		}
	}
	s.emit()
	s.finishWhenRead(ctx)
}

func refusesForgeries(s *stage) error {
	if err := expectContinuation(s); err != nil {
		return err
	}
	return expectNoOddity(acceptedForgery, "4xx")(s)
}

// sendControl sends a gap between two events, and then a termination.
func sendControl(ctx context.Context, s *stage) {
	if !s.emitFirst(ctx) {
		return
	}
	s.addSilent()
	s.mark("gap")
	s.sendEnvelope(ctx, wire.EnvelopeGap, `,"cursor":`+s.cursorAt(2))
	s.awaitOutput(ctx)
	s.emit()
	if s.waitUntil(ctx, func() bool { return s.hasEvent(3) }) {
		s.mark("refused")
		s.sendEnvelope(ctx, wire.EnvelopeTerminated, `,"error":{"code":-32011,"message":"NotFound","data":{"kind":"event"}}`)
		finishAfterReturn(ctx, s)
	}
}

// expectTaken returns a check that the callback accepted an envelope.
func expectTaken(kind string) func(s *stage) error {
	return func(s *stage) error {
		if !s.isMarked(kind + " taken")() {
			return newViolation(s.lastRequest(), "2xx", "another answer, or none")
		}
		return nil
	}
}

func sameKey(s *stage) error {
	first := s.nthRequest(wire.MethodSubscribe, 1)
	for _, a := range s.eventRequests()[1:] {
		if !sameSubscription(a, first) {
			return newViolation(a, "name, arguments and callback as in the request before", "others")
		}
	}
	return nil
}

// sameSubscription reports whether two requests have the same key (SUB-4). Absent, null and empty arguments are equal.
func sameSubscription(a, b *clientCall) bool {
	key := func(c *clientCall) string {
		arguments := string(c.params["arguments"])
		if arguments == "null" || arguments == "{}" {
			arguments = ""
		}
		return fmt.Sprintf("%s %s %s", c.params["name"], arguments, c.subscription().Delivery.URL)
	}
	return key(a) == key(b)
}

func unsubscribed(s *stage) error {
	last := s.lastRequest()
	got := "none"
	for _, a := range s.requestsOf(wire.MethodUnsubscribe) {
		if sameSubscription(a, last) {
			return nil
		}
		got = string(a.raw)
	}
	return newViolation(last, "events/unsubscribe with name, arguments and callback of the subscription", "%s", got)
}
