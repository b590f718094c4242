package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A scene is one server that misbehaves in one way, and what a client has to make of it.
type scene struct {
	name string
	// mode is the one that the event type offers, "" for any that the client follows by.
	mode string
	// first scenes show what the client can do, before all others. They have a mode of their own.
	first bool
	// early is set if the scene misbehaves before the client follows, so that a client which never does is judged.
	early bool
	// within bounds the scene, from the first request that follows; it is over before when it has seen what it wants.
	within time.Duration

	// capability, delivery and bare change what the server says of itself: the place of its capability, the delivery
	// modes beside its own, and results without resultType.
	capability string
	delivery   []string
	bare       bool
	// strange adds members that nobody knows to whatever is sent.
	strange bool
	// replayless is a type whose cursors are null.
	replayless bool
	// grant is how long a webhook subscription lives.
	grant time.Duration

	// lax tells that answers of others have cursors of their own, and that grants do not end.
	lax bool

	// turn answers the nth request of a method, from 1; nil, or a nil reply, answers in order.
	turn func(s *stage, a *ask, n int) reply
	// live goes on beside it until the scene is over.
	live   func(ctx context.Context, s *stage)
	checks []check
}

// Places of the capability (D1).
const (
	bothPlaces    = ""
	topLevel      = "top level"
	extensionOnly = "extensions"
	nowhere       = "nowhere"
)

// A check judges one requirement by a scene that is over.
type check struct {
	// id is the requirement's, as in docs/requirements.md.
	id string
	// title says what holds when the check passes.
	title string
	// handled tells that the check says nothing without Options.Handled.
	handled bool
	// advice tells that no document demands it of every client: what is found does not fail the run.
	advice bool
	run    func(s *stage) error
}

// scenes are all of them, in the order of the report.
func scenes() []scene {
	return slices.Concat(plainScenes, toleranceScenes, pollScenes, pushScenes, webhookScenes, hostileScenes)
}

// Checks describes all of them, in the order of the report.
func Checks() (all []verdict.Check) {
	describe := func(c check) {
		v := verdict.Check{ID: c.id, Title: c.title, Advice: c.advice}
		if c.handled {
			v.Flags = []string{"--handled"}
		}
		all = append(all, v)
	}
	for _, sc := range scenes() {
		for _, c := range sc.checks {
			describe(c)
		}
	}
	for _, c := range alwaysChecks {
		describe(c.check)
	}
	return all
}

// modeOf is the mode that a scene is played in: its own, or the first that the client follows by.
func (r *run) modeOf(sc scene) string {
	if sc.mode != "" {
		return sc.mode
	}
	for _, mode := range []string{wire.ModePoll, wire.ModePush, wire.ModeWebhook} {
		if r.canFollow(mode) {
			return mode
		}
	}
	return wire.ModePoll
}

// methodOf is the method that follows by a mode.
func methodOf(mode string) string {
	return map[string]string{wire.ModePoll: wire.MethodPoll, wire.ModePush: wire.MethodStream, wire.ModeWebhook: wire.MethodSubscribe}[mode]
}

// judge holds the checks of a scene against what the client did.
func (s *stage) judge(ctx context.Context) []verdict.Finding {
	var all []verdict.Finding
	for _, c := range s.checks {
		err := s.lacks(ctx, c)
		if err == nil {
			err = c.run(s)
		}
		if v, ok := errors.AsType[*verdict.Violation](err); ok && v.Answer == nil {
			v.Answer = []byte(s.story())
		}
		all = append(all, s.run.Finding(c.id, c.title, c.advice, err))
	}
	return all
}

// lacks says why a check cannot be made.
func (s *stage) lacks(ctx context.Context, c check) error {
	switch {
	case c.handled && s.run.o.Handled == "":
		return verdict.Skipf("needs --handled")
	case ctx.Err() != nil || s.cutShort:
		return verdict.ErrRunEnded
	case s.unplayed != nil:
		return s.unplayed
	case len(s.all("")) == 0:
		return verdict.UnjudgedError("the client asked nothing of this server in time" + s.ending())
	case !s.first && !s.early && len(s.own()) == 0:
		return verdict.UnjudgedError("the client asked this server for no events in time" + s.ending())
	case s.handledErr != nil && c.handled:
		return verdict.Unjudgedf("--handled: %v", s.handledErr)
	}
	return nil
}

// wrong is what a scene shows; a is the request that shows it, nil for none.
func wrong(a *ask, expected, got string, args ...any) *verdict.Violation {
	v := &verdict.Violation{Expected: expected, Got: fmt.Sprintf(got, args...)}
	if a != nil {
		v.Request = a.raw
	}
	return v
}

// mild makes an advice of a violation.
func mild(v *verdict.Violation) *verdict.Violation {
	v.Mild = true
	return v
}
