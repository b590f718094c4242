package receivers

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
)

// A check tests one requirement.
type check struct {
	// name identifies the check.
	name string
	// id is the requirement's ID in docs/requirements.md.
	id string
	// title describes what the receiver does if the check passes.
	title string
	// handled reports whether the check needs Options.Handled. command reports whether it needs Options.Command.
	handled, command bool
	// advice reports whether the check is a recommendation, which no specification requires of every receiver. The
	// findings of such a check do not fail the run.
	advice bool
	// looksBack reports whether the check sends nothing and examines all responses, even if the run was interrupted.
	looksBack bool
	run       func(ctx context.Context, r *run) error
}

// checks returns all checks in execution order. The termination check is the last one because it ends the subscription.
func checks() []check {
	return slices.Concat(challengeChecks, signatureChecks, messageChecks, controlChecks, crashChecks, lastChecks)
}

// Checks describes all checks in execution order.
func Checks() (all []verdict.Check) {
	for _, c := range checks() {
		all = append(all, c.describe())
	}
	return all
}

func (c check) describe() verdict.Check {
	v := verdict.Check{Name: c.name, ID: c.id, Title: c.title, Advice: c.advice}
	if c.handled {
		v.Flags = append(v.Flags, "--handled")
	}
	if c.command {
		v.Flags = append(v.Flags, "--")
	}
	return v
}

// A variant changes a new event.
type variant func(r *run, e message) message

// A class returns the variants of an event that a check tries.
type class func(r *run) []variant

// of returns the class with a variant for each value.
func of[T any](values []T, change func(r *run, e message, value T) message) class {
	return func(*run) (all []variant) {
		for _, value := range values {
			all = append(all, func(r *run, e message) message { return change(r, e, value) })
		}
		return all
	}
}

// these returns the class of the variants.
func these(all ...variant) class { return func(*run) []variant { return all } }

// accepts returns a check that the receiver accepts each variant of an event and handles it once.
func accepts(classes ...class) func(context.Context, *run) error {
	return each((*run).expectHandled, classes)
}

// refuses returns a check that the receiver refuses each variant of an event and never handles it.
func refuses(classes ...class) func(context.Context, *run) error {
	return each((*run).expectRefused, classes)
}

func each(expect func(*run, context.Context, message) error, classes []class) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, c := range classes {
			for _, change := range c(r) {
				if err := expect(r, ctx, change(r, r.newEvent(nil))); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// maxUnanswered is the number of consecutive unanswered requests after which the run stops sending.
const maxUnanswered = 3

// tryCheck runs one check and returns its finding.
func (r *run) tryCheck(ctx context.Context, c check) verdict.Finding {
	err := r.skipReason(ctx, c)
	if c.looksBack {
		if found := c.run(ctx, r); found != nil {
			return r.Finding(c.describe(), found)
		}
	} else if err == nil {
		r.last = nil
		if err = c.run(ctx, r); ctx.Err() != nil {
			err = r.interrupt()
		}
	}
	_, violated := errors.AsType[*verdict.Violation](err)
	_, skipped := errors.AsType[verdict.Skipped](err)
	_, unjudged := errors.AsType[verdict.UnjudgedError](err)
	if err != nil && !violated && !skipped && !unjudged && r.last != nil {
		err = &verdict.Violation{Expected: "an answer", Got: err.Error(), Request: r.last.request, Answer: r.last.answer}
	}
	if violated && r.mistaken != "" && r.mistaken != c.name && !r.accepted {
		err = verdict.Skipf("no correct message is accepted, see %s", r.mistaken)
	}
	return r.Finding(c.describe(), err)
}

// interrupt records the message that was unanswered when the run ended, and returns the error for the check that sent
// it.
func (r *run) interrupt() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pendingMessage == nil && r.last != nil && r.last.answer == nil {
		r.pendingMessage = r.last.request
	}
	return verdict.ErrRunEnded
}

// skipReason returns the reason to skip a check, or nil if the check can run.
func (r *run) skipReason(ctx context.Context, c check) error {
	switch {
	case c.handled && r.o.Handled == "":
		return verdict.Skipf("needs --handled")
	case c.command && r.program == nil:
		return verdict.Skipf("needs the command that starts the program, after --")
	case ctx.Err() != nil:
		return verdict.ErrRunEnded
	case r.unanswered > 0 && r.program != nil && r.program.HasEnded():
		return verdict.Unjudgedf("%s has ended: %s", filepath.Base(r.o.Command[0]), r.program.Status())
	case r.unanswered >= maxUnanswered:
		return verdict.Unjudgedf("%d requests in a row had no answer in time", r.unanswered)
	}
	return nil
}
