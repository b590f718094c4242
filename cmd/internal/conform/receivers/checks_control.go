package receivers

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var controlChecks = []check{
	{name: "envelope-event", id: "CLI-5", title: "The receiver never handles a body with a type as an event", run: sendTypedEvent},
	{name: "envelope-unknown", id: "CLI-5", title: "The receiver accepts a control envelope of an unknown type", advice: true, run: unknownType},
	{name: "gap", id: "HOOK-7", title: "The receiver accepts a gap and handles it once", run: gap},
	{name: "gap-no-cursor", id: "HOOK-7", title: "The receiver accepts a gap without a cursor", run: gapWithoutCursor},
}

var crashChecks = []check{
	{name: "killed", id: "CLI-5", title: "The receiver handles an accepted event although it is killed", handled: true, command: true, run: killAfterAck},
}

var lastChecks = []check{
	{name: "termination", id: "HOOK-7", title: "The receiver accepts a termination and handles it once", run: terminated},
	{name: "termination-last", id: "CLI-5", title: "The receiver handles no event after a termination", handled: true, run: afterTermination},
	{name: "response-time", id: "HOOK-4", title: "Every response arrives within five seconds", looksBack: true, run: inTime},
	{name: "response-size", id: "SSRF-2", title: "Every response is short and complete", advice: true, looksBack: true, run: shortAnswers},
}

// sendTypedEvent sends an envelope with a type and an eventId. It is a control envelope, regardless of the type.
func sendTypedEvent(ctx context.Context, r *run) error {
	for _, kind := range []string{wire.EnvelopeGap, "mcpe_gen_conform"} {
		id := newEventID()
		x, err := r.post(ctx, r.signedMessage(r.key, "msg_"+rand.Text(), time.Now(), r.occurrence(id, map[string]any{"type": kind})))
		if err != nil {
			return err
		}
		r.never(id, x)
	}
	return nil
}

func unknownType(ctx context.Context, r *run) error {
	_, m := r.newControl("mcpe_gen_conform", nil)
	_, err := r.expectAccepted(ctx, m)
	return err
}

func gap(ctx context.Context, r *run) error {
	id, m := r.newControl(wire.EnvelopeGap, map[string]any{"cursor": "conform-gap"})
	for range 2 {
		if err := r.expectEventAccepted(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

func gapWithoutCursor(ctx context.Context, r *run) error {
	id, m := r.newControl(wire.EnvelopeGap, map[string]any{"cursor": nil})
	return r.expectEventAccepted(ctx, id, m)
}

// killAfterAck kills the program as soon as it has acknowledged an event. The program may handle the event again after
// its restart.
func killAfterAck(ctx context.Context, r *run) error {
	// Earlier events must be handled before the program is killed.
	if _, err := r.awaitLines(ctx); err != nil {
		return verdict.Unjudgedf("--handled: %v", err)
	}
	id, m := r.newEvent(nil)
	x, err := r.expectAccepted(ctx, m)
	r.program.Kill()
	again, failed := r.o.start()
	if failed != nil {
		return x.violation("the program to start again", "%v", failed)
	}
	r.program = again
	if err != nil {
		return err
	}
	if err := r.awaitServer(ctx); err != nil {
		return x.violation("the program to start again", "%v", err)
	}
	r.atLeast(id, x)
	return nil
}

// terminated sends a termination twice. The second termination may find the endpoint closed.
func terminated(ctx context.Context, r *run) error {
	id, m := r.newControl(wire.EnvelopeTerminated, map[string]any{"error": map[string]any{
		"code": wire.SEP.Code(wire.Forbidden), "message": "Forbidden"}})
	if err := r.expectEventAccepted(ctx, id, m); err != nil {
		return err
	}
	_, err := r.post(ctx, m)
	return err
}

func afterTermination(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	x, err := r.post(ctx, m)
	if err == nil {
		r.never(id, x)
	}
	return err
}

func inTime(_ context.Context, r *run) error {
	if r.lateExchange != nil {
		return r.lateExchange.violation("an answer within "+r.o.pace.answer.String(), "a later one")
	}
	return nil
}

func shortAnswers(_ context.Context, r *run) error {
	if r.endlessExchange != nil {
		return r.endlessExchange.violation("an answer that ends within 64 KiB", "more, or no end")
	}
	return nil
}
