package conform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A need is a bit set of preconditions of a check.
type need uint

const (
	needPoll      need = 1 << iota // an event type that offers poll
	needPush                       // an event type that offers push
	needWebhook                    // an event type that offers webhook
	needOccurred                   // an occurrence of the type for the mode above
	needReceiver                   // a webhook receiver
	needToken                      // a bearer token, so that the check can leave it out
	needStdio                      // a server on standard input and output
	needHTTP                       // a server over HTTP
	needSSRF                       // --ssrf
	needReplay                     // cursors that are not null
	needMain                       // the main webhook subscription
	needWitness                    // the results of the witness
	needOther                      // another caller's token
	needRetrial                    // the results of the retrial
	needQuiet                      // the results of quiet
	needDelivered                  // a delivery to the main webhook subscription
	needSlow                       // --slow
	needRestart                    // --restart
)

// A check tests one requirement.
type check struct {
	// name identifies the check.
	name string
	// id is the requirement's ID in docs/requirements.md.
	id string
	// title describes what the server does if the check passes.
	title string
	needs need
	// advice reports whether the check is a recommendation, which no specification requires of every server. The
	// findings of such a check do not fail the run.
	advice bool
	run    func(ctx context.Context, r *run) error
}

func skipf(format string, args ...any) error { return verdict.Skipf(format, args...) }

// checks returns all checks in execution order.
func checks() []check {
	return slices.Concat(parallelChecks, listChecks, errorChecks, pollWay.checks(), pollChecks, streamWay.checks(), pushChecks, polled.checks(), pushed.checks(), occurrenceChecks,
		subscribeChecks, subscribeWay.checks(), delivered.checks(), deliveryChecks, witnessChecks, quietChecks, retryChecks, endChecks, ssrfChecks, challengeChecks, observedChecks, lastChecks, slowChecks, restartChecks)
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
	for _, n := range []struct {
		need need
		flag string
	}{{needReceiver, "--listen"}, {needToken, "--token"}, {needOther, "--other-token"}, {needSSRF, "--ssrf"},
		{needSlow, "--slow"}, {needRestart, "--restart"}} {
		if c.needs&n.need != 0 {
			v.Flags = append(v.Flags, n.flag)
		}
	}
	return v
}

// tryCheck runs one check and returns its finding.
func (r *run) tryCheck(ctx context.Context, c check) verdict.Finding {
	return r.runCheck(ctx, c, r.skipReason(ctx, c))
}

// runCheck runs a check and returns its finding. If lacks is not nil, it skips the check for that reason.
func (r *run) runCheck(ctx context.Context, c check, lacks error) verdict.Finding {
	err, limited := lacks, r.gate.count()
	if err == nil {
		r.lastExchange = nil
		if err = c.run(context.WithValue(ctx, checkKey{}, true), r); ctx.Err() != nil {
			err = r.interrupt()
		}
		defer r.endOpened(ctx)
	}
	_, violated := errors.AsType[*verdict.Violation](err)
	if violated && r.gate.count() > limited {
		err, violated = errLimited, false // the limit delayed or omitted a request
	}
	_, skipped := errors.AsType[verdict.Skipped](err)
	_, unjudged := errors.AsType[verdict.UnjudgedError](err)
	if c.needs&(needPoll|needPush|needWebhook) != 0 && !skipped && !unjudged {
		r.triedMode = true
	}
	if err != nil && !violated && !skipped && !unjudged && r.lastExchange != nil {
		// The server did not answer, or its answer is not a message.
		err = &verdict.Violation{Expected: "an answer", Got: err.Error(), Request: r.lastExchange.request, Answer: r.lastExchange.answer.raw}
	}
	r.failed[c.name] = err != nil && !skipped && !unjudged
	return r.Finding(c.describe(), err)
}

// interrupt records the request that was unanswered when the run ended, and returns the error for the check that sent
// it.
func (r *run) interrupt() error {
	if r.pendingRequest == nil && r.lastExchange != nil && r.lastExchange.answer.raw == nil {
		r.pendingRequest = r.lastExchange.request
	}
	return verdict.ErrRunEnded
}

// skipReason returns the reason to skip a check, or nil if the check can run.
func (r *run) skipReason(ctx context.Context, c check) error {
	has := func(n need) bool { return c.needs&n != 0 }
	switch {
	case has(needStdio) && r.o.Target.URL != "":
		return skipf("only for a server on standard input and output")
	case has(needHTTP) && r.o.Target.URL == "":
		return skipf("only for a server over HTTP")
	case has(needPoll) && r.poll == nil:
		return cmp.Or(r.barred[wire.ModePoll], skipf("no event type offers poll"))
	case has(needPush) && r.push == nil:
		return cmp.Or(r.barred[wire.ModePush], skipf("no event type offers push"))
	case has(needWebhook) && r.hook == nil:
		return skipf("no event type offers webhook to this caller")
	case has(needSlow) && !r.o.Slow:
		return skipf("only with --slow")
	case has(needRestart) && r.o.restart == nil:
		return skipf("only with --restart")
	case has(needSSRF) && !r.o.SSRF:
		return skipf("only with --ssrf")
	case has(needReceiver) && r.receiver == nil:
		return r.quietf("webhooks need a receiver: --listen")
	case has(needToken) && r.o.Target.Token == "":
		return skipf("needs --token")
	case has(needOther) && r.o.OtherToken == "":
		return skipf("needs --other-token")
	case ctx.Err() != nil:
		return verdict.ErrRunEnded
	case has(needMain) && r.mainSubscription == nil:
		return cmp.Or(r.barred[wire.ModeWebhook], skipf("the run has no webhook subscription"))
	case has(needOccurred) && !r.awaitOccurrence(ctx, c.needs):
		if ctx.Err() != nil {
			return verdict.ErrRunEnded
		}
		return r.quietf("no event of %s occurred within %v; --emit can cause one", r.subject(c.needs).Name, r.o.Wait)
	case has(needDelivered) && !r.awaitDelivery(ctx):
		if ctx.Err() != nil {
			return verdict.ErrRunEnded
		}
		return r.quietf("no event of %s was delivered within %v; --emit can cause one", r.hook.Name, r.o.Wait)
	case has(needWitness) && r.witness == nil:
		return skipf("nothing was followed")
	case has(needReplay) && !r.subject(c.needs).has(wire.ModePoll):
		return skipf("%s offers no poll, whose cursor it is tried with", r.subject(c.needs).Name)
	case has(needReplay) && !r.subject(c.needs).replay:
		return skipf("%s has no replay: its cursors are null", r.subject(c.needs).Name)
	}
	return nil
}

// unusedMode returns the reason why the run tried a delivery mode with no event type, or nil.
func (r *run) unusedMode() error {
	unused := map[string]bool{wire.ModePoll: r.poll == nil, wire.ModePush: r.push == nil, wire.ModeWebhook: r.mainSubscription == nil}
	for _, mode := range wire.DeliveryModes {
		if why := r.barred[mode]; unused[mode] && why != nil {
			return why
		}
	}
	if !r.triedMode {
		return skipf("no delivery mode of an event type was tried")
	}
	return nil
}

// subject returns the event type under test for the check's delivery mode.
func (r *run) subject(n need) *subject {
	switch {
	case n&needPush != 0:
		return r.push
	case n&needWebhook != 0:
		return r.hook
	}
	return r.poll
}

// member returns the named member of a JSON object, or nil.
func member(raw json.RawMessage, name string) json.RawMessage { return objectOf(raw)[name] }

// objectOf returns the members of a JSON object, or nil for any other value.
func objectOf(raw json.RawMessage) (object map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &object)
	return object
}
