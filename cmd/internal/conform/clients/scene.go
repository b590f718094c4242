package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A scene is a server that misbehaves in one way, with the checks of the client's reaction.
type scene struct {
	name string
	// mode is the delivery mode of the event type, or "" for any mode that the client supports.
	mode string
	// first scenes run before all others and show the client's abilities. Each sets its mode.
	first bool
	// early marks a scene that misbehaves before the client follows, so that it also judges a client that never
	// follows.
	early bool
	// within bounds the scene, from the first request that follows; the scene ends earlier once it has seen enough.
	within time.Duration

	// capability, delivery and bare change the server's description: the place of its capability, additional delivery
	// modes, and results without resultType.
	capability string
	delivery   []string
	bare       bool
	// strange adds unknown members to every message.
	strange bool
	// replayless makes all cursors null.
	replayless bool
	// cursorEnd is the suffix of every cursor.
	cursorEnd string
	// grant is how long a webhook subscription lives.
	grant time.Duration

	// lax allows cursors from hostileserver's answers, and grants that do not end.
	lax bool

	// write writes a message of a stream and reports whether the stream is open; nil selects the usual form.
	write func(c *channel, text string) bool

	// turn answers the nth request of a method, from 1; nil or a nil reply selects the orderly answer.
	turn func(s *stage, a *ask, n int) reply
	// live runs concurrently until the scene is over.
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

// A check judges one requirement after its scene is over.
type check struct {
	// id is the requirement's ID in docs/requirements.md.
	id string
	// title says what the client does if the check passes.
	title string
	// handled marks a check that needs Options.Handled.
	handled bool
	// advice marks a check that no specification requires of every client. Its findings do not fail the run.
	advice bool
	run    func(s *stage) error
}

// scenes returns all scenes in the order of the report.
func scenes() []scene {
	return slices.Concat(plainScenes, toleranceScenes, pollScenes, pushScenes, framingScenes, webhookScenes, hostileScenes)
}

// Checks describes all checks in the order of the report.
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

// modeOf returns the mode of a scene: the scene's mode, or the first mode that the client supports.
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

// methodOf returns the method that follows by a mode.
func methodOf(mode string) string {
	return map[string]string{wire.ModePoll: wire.MethodPoll, wire.ModePush: wire.MethodStream, wire.ModeWebhook: wire.MethodSubscribe}[mode]
}

// judge runs the checks of a scene.
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

// lacks returns the reason why a check cannot run, or nil.
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

// wrong returns a violation; a is the request that shows it, or nil.
func wrong(a *ask, expected, got string, args ...any) *verdict.Violation {
	v := &verdict.Violation{Expected: expected, Got: fmt.Sprintf(got, args...)}
	if a != nil {
		v.Request = a.raw
	}
	return v
}

// mild turns a violation into advice.
func mild(v *verdict.Violation) *verdict.Violation {
	v.Mild = true
	return v
}
