package receivers

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var controlChecks = []check{
	{name: "envelope-event", id: "CLI-5", title: "The receiver never handles a gap with the members of an event as an event", run: sendTypedEvent},
	{name: "envelope-unknown", id: "CLI-5", title: "The receiver accepts a control envelope of an unknown type", advice: true, run: unknownType},
	{name: "gap", id: "HOOK-7", title: "The receiver accepts a gap and handles it once", run: gaps(map[string]any{"cursor": "conform-gap"})},
	{name: "gap-no-cursor", id: "HOOK-7", title: "The receiver accepts a gap without a cursor", run: gaps(map[string]any{"cursor": nil})},
}

var crashChecks = []check{
	{name: "killed", id: "CLI-5", title: "The receiver handles an accepted event although it is killed", handled: true, command: true, run: killAfterAck},
	{name: "repeat-restart", id: "CLI-5", title: "The receiver handles an event or a gap once that returns after a restart", handled: true, command: true,
		run: repeatEarly(func(r *run) []message { return r.early[1:] })},
}

var lastChecks = []check{
	{name: "termination", id: "HOOK-7", title: "The receiver accepts a termination and handles it once", run: terminated},
	{name: "response-time", id: "HOOK-4", title: "Every response arrives within five seconds", looksBack: true, run: inTime},
}

// sendTypedEvent sends a gap with an eventId. Its type makes it a control envelope.
func sendTypedEvent(ctx context.Context, r *run) error {
	id := newEventID()
	x, err := r.post(ctx, r.signedMessage("msg_"+rand.Text(), time.Now(), r.occurrence(id, map[string]any{"type": wire.EnvelopeGap})))
	if err == nil {
		r.never(id, x)
	}
	return err
}

func unknownType(ctx context.Context, r *run) error {
	_, err := r.expectAccepted(ctx, r.newControl("mcpe_gen_conform", nil))
	return err
}

// gaps returns a check that sends two gaps that differ in the webhook-id only, and each of them twice. A later check
// repeats a third gap.
func gaps(members map[string]any) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for range 2 {
			m := r.newControl(wire.EnvelopeGap, members)
			for range 2 {
				if err := r.expectHandled(ctx, m); err != nil {
					return err
				}
			}
		}
		m := r.newControl(wire.EnvelopeGap, members)
		x, err := r.expectAccepted(ctx, m)
		if err == nil {
			r.early = append(r.early, m)
			r.atLeast(m.id, x)
		}
		return err
	}
}

// killAfterAck kills the program as soon as it has acknowledged an event. The program may handle the event again after
// its restart.
func killAfterAck(ctx context.Context, r *run) error {
	// Earlier events must be handled before the program is killed.
	if _, err := r.awaitLines(ctx); err != nil {
		return verdict.Unjudgedf("--handled: %v", err)
	}
	e := r.newEvent(nil)
	x, err := r.expectAccepted(ctx, e)
	r.program.Kill()
	again, failed := r.o.start()
	if failed == nil {
		r.program = again
		failed = r.awaitServer(ctx)
	}
	if failed != nil {
		return x.violation("the program to start again", "%v", failed)
	}
	if err == nil {
		r.atLeast(e.id, x)
	}
	return err
}

// terminated sends a termination twice. The second termination may find the endpoint closed.
func terminated(ctx context.Context, r *run) error {
	kind := draw.Pick(r.draw, []wire.Kind{wire.NotFound, wire.Forbidden, wire.Unsupported, wire.CallbackEndpointError})
	code := draw.Pick(r.draw, []wire.Dialect{wire.Sketch, wire.SEP}).Code(kind)
	m := r.newControl(wire.EnvelopeTerminated, map[string]any{"error": map[string]any{"code": code, "message": kind.String()}})
	if err := r.expectHandled(ctx, m); err != nil {
		return err
	}
	_, err := r.post(ctx, m)
	return err
}

// inTime judges two late responses. A busy machine may delay one.
func inTime(_ context.Context, r *run) error {
	if len(r.late) > 1 {
		return r.late[0].violation("an answer within "+r.o.pace.answer.String(), "%d later ones", len(r.late))
	}
	return nil
}
