package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// A need is what a check cannot do without.
type need uint

const (
	needPoll     need = 1 << iota // an event type that offers poll
	needPush                      // one that offers push
	needWebhook                   // one that offers webhook
	needOccurred                  // an occurrence of the type of the mode above
	needReceiver                  // a receiver of webhooks
	needToken                     // a token, so that there is somebody to be without it
	needStdio                     // a server on standard input and output
	needHTTP                      // a server over HTTP
	needSSRF                      // --ssrf
	needReplay                    // cursors that are not null
	needMain                      // the webhook subscription that was made
)

// A check tries one requirement.
type check struct {
	// id is the requirement's, as in docs/requirements.md.
	id string
	// title says what holds when the check passes.
	title string
	needs need
	// advice tells that no document demands it of every server: what is found does not fail the run.
	advice bool
	run    func(ctx context.Context, r *run) error
}

// A violation is what a check found wrong.
type violation struct {
	request, answer []byte
	expected, got   string
}

func (v *violation) Error() string { return "expected " + v.expected + ", got " + v.got }

// A skip tells why a check could not be made.
type skip string

func (s skip) Error() string { return string(s) }

func skipf(format string, args ...any) error { return skip(fmt.Sprintf(format, args...)) }

// checks are all of them, in the order in which they run.
func checks() []check {
	var all []check
	for _, group := range [][]check{listChecks, errorChecks, pollChecks, pushChecks, occurrenceChecks,
		subscribeChecks, deliveryChecks, endChecks, ssrfChecks, lastChecks} {
		all = append(all, group...)
	}
	return all
}

// try runs one check and makes its finding.
func (r *run) try(ctx context.Context, c check) Finding {
	f := Finding{ID: c.id, Title: c.title, Outcome: Pass}
	err := r.lacks(ctx, c)
	if err == nil {
		r.last = nil
		err = c.run(ctx, r)
	}
	var found *violation
	var why skip
	switch {
	case err == nil:
		return f
	case errors.As(err, &why):
		f.Outcome, f.Got = Skip, r.shown([]byte(why))
		return f
	case ctx.Err() != nil:
		f.Outcome, f.Got = Skip, "the run ended before"
		return f
	case !errors.As(err, &found):
		// The server did not answer, or with what is no message.
		found = &violation{expected: "an answer", got: err.Error()}
		if r.last != nil {
			found.request, found.answer = r.last.request, r.last.answer.raw
		}
	}
	f.Outcome = Fail
	if c.advice {
		f.Outcome = Advice
	}
	f.Expected, f.Got = r.shown([]byte(found.expected)), r.shown([]byte(found.got))
	f.Request, f.Answer = r.shown(found.request), r.shown(found.answer)
	return f
}

// lacks says why a check cannot be made.
func (r *run) lacks(ctx context.Context, c check) error {
	has := func(n need) bool { return c.needs&n != 0 }
	switch {
	case ctx.Err() != nil:
		return skip("the run ended before")
	case has(needStdio) && r.o.Target.URL != "":
		return skip("only for a server on standard input and output")
	case has(needHTTP) && r.o.Target.URL == "":
		return skip("only for a server over HTTP")
	case has(needPoll) && r.poll == nil:
		return skip("no event type offers poll")
	case has(needPush) && r.push == nil:
		return skip("no event type offers push")
	case has(needWebhook) && r.hook == nil:
		return skip("no event type offers webhook to this caller")
	case has(needSSRF) && !r.o.SSRF:
		return skip("only with --ssrf")
	case has(needReceiver) && r.receiver == nil:
		return skip("needs a receiver: --listen")
	case has(needToken) && r.o.Target.Token == "":
		return skip("needs --token")
	case has(needReceiver) && r.nobody:
		return skip("the server knows no principal for this caller; give --token")
	case has(needMain) && r.main == nil:
		return skip("there is no webhook subscription to try it on")
	case has(needOccurred) && !r.occurred(ctx, c.needs):
		return skipf("nothing occurred within %v", r.o.Wait)
	case has(needReplay) && !r.subject(c.needs).replay:
		return skipf("%s has no replay: its cursors are null", r.subject(c.needs).Name)
	}
	return nil
}

// subject is the event type of a check's mode.
func (r *run) subject(n need) *subject {
	switch {
	case n&needPush != 0:
		return r.push
	case n&needWebhook != 0:
		return r.hook
	}
	return r.poll
}

// member is a member of an object, or nil.
func member(raw json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	return object[name]
}
