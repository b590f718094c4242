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

// A scene is a server that misbehaves in one way. Its checks examine how the client reacts.
type scene struct {
	name string
	// mode is the delivery mode of the event type. If it is "", the scene uses any mode that the client supports.
	mode string
	// runsFirst reports whether the scene runs before the others, to detect the client's abilities. Each sets its mode.
	runsFirst bool
	// misbehavesEarly reports whether the scene misbehaves before the client requests events. Such a scene also judges
	// a client that never requests any.
	misbehavesEarly bool
	// maxDuration limits the duration of the scene from the first request for events. The scene ends earlier once it
	// has received enough.
	maxDuration time.Duration

	// These fields modify the server's description. capability is the location of its capability, delivery lists
	// additional delivery modes, and bare omits resultType from results.
	capability string
	delivery   []string
	bare       bool
	// addsUnknown adds unknown members to every message.
	addsUnknown bool
	// replayless makes all cursors null.
	replayless bool
	// charset adds a charset to content types.
	charset bool
	// grant is the lifetime of a webhook subscription.
	grant time.Duration

	// acceptsHostile allows cursors from responses of hostileserver, and grants that do not expire.
	acceptsHostile bool

	// turn returns the reply to the nth request of a method, counted from 1. poll is like turn, but only for polls,
	// and takes precedence. If a function or its reply is nil, the default reply is used.
	turn, poll func(s *stage, a *clientCall, n int) reply
	// stream plays the nth stream. If it is nil or returns false, the default stream follows.
	stream func(s *stage, c *channel, n int) bool
	// background runs concurrently until the scene ends.
	background func(ctx context.Context, s *stage)
	checks     []check
}

// Places of the capability (D1).
const (
	bothPlaces    = ""
	topLevel      = "top level"
	extensionOnly = "extensions"
	nowhere       = "nowhere"
)

// A check judges one requirement after its scene has ended.
type check struct {
	// name identifies the check.
	name string
	// id is the requirement's ID in docs/requirements.md.
	id string
	// title describes what the client does if the check passes.
	title string
	// handled reports whether the check needs Options.Handled.
	handled bool
	// advice reports whether the check is a recommendation, which no specification requires of every client. The
	// findings of such a check do not fail the run.
	advice bool
	run    func(s *stage) error
}

// scenes returns all scenes in report order.
func scenes() []scene {
	return slices.Concat(plainScenes, toleranceScenes, pollScenes, pushScenes, refusalScenes(), webhookScenes, classScenes, hostileScenes)
}

// Checks describes all checks in report order.
func Checks() (all []verdict.Check) {
	for _, sc := range scenes() {
		for _, c := range sc.checks {
			all = append(all, c.describe())
		}
	}
	for _, c := range alwaysChecks {
		all = append(all, c.describe())
	}
	return all
}

func (c check) describe() verdict.Check {
	v := verdict.Check{Name: c.name, ID: c.id, Title: c.title, Advice: c.advice}
	if c.handled {
		v.Flags = []string{"--handled"}
	}
	return v
}

// modeOf returns the mode of a scene. If the scene does not specify one, it returns the first mode that the client
// supports.
func (r *run) modeOf(sc scene) string {
	if sc.mode != "" {
		return sc.mode
	}
	for _, mode := range wire.DeliveryModes {
		if r.can(mode) {
			return mode
		}
	}
	return wire.ModePoll
}

// methodOf returns the method that requests events in a mode.
func methodOf(mode string) string {
	return map[string]string{wire.ModePoll: wire.MethodPoll, wire.ModePush: wire.MethodStream, wire.ModeWebhook: wire.MethodSubscribe}[mode]
}

// judge runs the checks of a scene.
func (s *stage) judge(ctx context.Context) []verdict.Finding {
	var all []verdict.Finding
	for _, c := range s.checks {
		err := s.skipReason(ctx, c)
		if err == nil {
			err = s.try(c)
		}
		all = append(all, s.run.Finding(c.describe(), err))
	}
	return all
}

// try runs a check and adds the summary of the scene to a violation.
func (s *stage) try(c check) error {
	err := c.run(s)
	if v, ok := errors.AsType[*verdict.Violation](err); ok && v.Answer == nil {
		v.Answer = []byte(s.summary())
	}
	return err
}

// skipReason returns the reason to skip a check, or nil if the check can run.
func (s *stage) skipReason(ctx context.Context, c check) error {
	switch {
	case c.handled && s.run.o.Handled == "":
		return verdict.Skipf("needs --handled")
	case ctx.Err() != nil || s.cutShort:
		return verdict.ErrRunEnded
	case s.unplayed != nil:
		return s.unplayed
	case len(s.requestsOf("")) == 0:
		return verdict.UnjudgedError("the client asked nothing of this server in time" + s.exitSummary())
	case !s.runsFirst && !s.misbehavesEarly && len(s.eventRequests()) == 0:
		return verdict.UnjudgedError("the client asked this server for no events in time" + s.exitSummary())
	case s.handledErr != nil && c.handled:
		return verdict.Unjudgedf("--handled: %v", s.handledErr)
	}
	return nil
}

// newViolation returns a violation. a is the request that shows it, or nil.
func newViolation(a *clientCall, expected, got string, args ...any) *verdict.Violation {
	v := &verdict.Violation{Expected: expected, Got: fmt.Sprintf(got, args...)}
	if a != nil {
		v.Request = a.raw
	}
	return v
}
