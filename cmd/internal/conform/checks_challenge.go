package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// challengeChecks run late because a server limits a caller's failed challenges and then rejects further challenges for
// a while.
var challengeChecks = []check{
	{name: "challenge-wrong", id: "VER-2", title: "A wrong response to the challenge fails with the reason challenge_failed", needs: needHook, run: checkMistake},
	{name: "challenge-error", id: "VER-2", title: "An error response to the challenge fails with CallbackEndpointError",
		needs: needHook, run: checkFailing},
	{name: "challenge-status", id: "VER-2", title: "The challenge in a response with a status other than 2xx does not verify a callback", needs: needHook,
		run: answersFail([]challengeAnswer{{500, `{"challenge":%s}`}, {404, `{"challenge":%s}`}, {302, `{"challenge":%s}`}})},
	{name: "challenge-missing", id: "VER-2", title: "A 2xx response without the challenge does not verify a callback", needs: needHook,
		run: answersFail([]challengeAnswer{{200, ""}, {200, `{"nonce":%s}`}})},
	{name: "endpoint-text-subscribe", id: "ERR-1", title: "Errors do not contain text from the response of a callback", needs: needHook, run: checkPassedOn},
	{name: "challenge-redirect", id: "SSRF-2", title: "The server does not follow a redirect of a challenge", needs: needHook, run: checkRedirect},
	{name: "challenge-timeout", id: "VER-2", title: "The server refuses a callback that does not respond to its challenge within ten seconds", needs: needHook, run: checkSilent},
}

func isChallenge(p post) bool { return p.kind == wire.EnvelopeVerification }

func checkChallenge(_ context.Context, r *run) error {
	posts := r.mainSubscription.callback.receivedPosts()
	if len(posts) == 0 || !slices.ContainsFunc(posts, isChallenge) {
		// The server may verify a callback by other means that are not visible here.
		v := r.mainSubscription.made.violation("a verification within the call (do not put the receiver on an allow-list)", "none")
		v.Mild = true
		return v
	}
	p := posts[0]
	x := p.exchange(r.mainSubscription.made)
	if !isChallenge(p) {
		return x.violation("a verification before anything else", "%s", p.summary())
	}
	const prefix = wire.MessagePrefix + wire.EnvelopeVerification + "_"
	if id := p.header.Get(wire.HeaderWebhookID); !strings.HasPrefix(id, prefix) {
		return x.violation("a webhook-id that begins with "+prefix, "%s", wire.Shown(id))
	}
	if err := p.verify(r.mainSubscription.callback.secrets[0]); err != nil {
		return x.violation("the signature of the secret that was given", "%v", err)
	}
	var challenge string
	if json.Unmarshal(member(p.body, "challenge"), &challenge) != nil || len(challenge) < 8 {
		return x.violation("a challenge that nobody can guess", "%s", orNone(member(p.body, "challenge")))
	}
	return nil
}

func checkChallengeID(_ context.Context, r *run) error {
	for _, p := range r.mainSubscription.callback.receivedPosts() {
		if !isChallenge(p) {
			continue
		}
		if got := p.header.Get(wire.HeaderSubscriptionID); got != r.mainSubscription.id {
			return p.exchange(r.mainSubscription.made).violation(wire.HeaderSubscriptionID+": "+r.mainSubscription.id, "%q", wire.Shown(got))
		}
		return nil
	}
	return skipf("no challenge came")
}

// expectFailedChallenge checks that the server rejects a subscription if its callback fails the challenge, and sends
// nothing more to that callback.
func (r *run) expectFailedChallenge(ctx context.Context, c *callback, reasons ...string) error {
	x, err := r.subscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	return r.expectCallbackRefused(c, x, reasons...)
}

// expectCallbackRefused checks the response to a subscription whose callback failed the challenge.
func (r *run) expectCallbackRefused(c *callback, x *exchange, reasons ...string) error {
	if x.answer.err == nil && !c.hasChallenge() {
		return skipf("no challenge came: the server knows the callback by other means")
	}
	if isKind(x, wire.ResourceExhausted) {
		return skipf("the server takes no more failed challenges for now")
	}
	if err := r.expectError(x, wire.CallbackEndpointError); err != nil {
		return err
	}
	var reason string
	_ = json.Unmarshal(member(x.answer.err.Data, "reason"), &reason)
	if len(reasons) > 0 && !slices.Contains(reasons, reason) {
		return x.violation("data with the reason "+strings.Join(reasons, " or "), "%s", orNone(x.answer.err.Data))
	}
	for i, p := range c.receivedPosts() {
		if i > 0 || !isChallenge(p) {
			return p.exchange(x).violation("one challenge and nothing else", "%s", p.summary())
		}
	}
	return nil
}

// subscribeFailing subscribes a callback that answers its challenge with an error, once per run.
func (r *run) subscribeFailing(ctx context.Context) (*exchange, error) {
	if r.failedResponse == nil {
		c, x, err := r.subscribeNew(ctx, fails)
		if err != nil {
			return x, err
		}
		r.failedResponse, r.failedCallback = x, c
	}
	return r.failedResponse, nil
}

func checkPassedOn(ctx context.Context, r *run) error {
	x, err := r.subscribeFailing(ctx)
	if err != nil {
		return err
	}
	if bytes.Contains(x.answer.raw, []byte(marker)) {
		return x.violation("nothing of what the endpoint said", "its text")
	}
	return nil
}

func checkMistake(ctx context.Context, r *run) error {
	return r.expectFailedChallenge(ctx, r.newCallback(mistakes), string(wire.ChallengeFailed))
}

func checkFailing(ctx context.Context, r *run) error {
	x, err := r.subscribeFailing(ctx)
	if err != nil {
		return err
	}
	return r.expectCallbackRefused(r.failedCallback, x, string(wire.ChallengeFailed), string(wire.HTTP5xx))
}

func checkRedirect(ctx context.Context, r *run) error {
	next := r.newCallback(echoes)
	c := r.newCallback(redirects)
	c.next = next.url
	x, err := r.subscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	if isKind(x, wire.ResourceExhausted) {
		return skipf("the server takes no more failed challenges for now")
	}
	if list := next.receivedPosts(); len(list) > 0 {
		return list[0].exchange(x).violation("no request to where the callback redirects", "%s", list[0].summary())
	}
	return r.expectError(x, wire.CallbackEndpointError)
}

// A challengeAnswer is an invalid or unusual response to a challenge. The verb %s in body is replaced with the
// challenge as a JSON string.
type challengeAnswer struct {
	status int
	body   string
}

func (r *run) answering(a challengeAnswer) *callback {
	c := r.newCallback(answers)
	c.status, c.echo = a.status, a.body
	return c
}

func checkCreated(ctx context.Context, r *run) error {
	c := r.answering(challengeAnswer{201, `{"challenge":%s}`})
	c.validEcho = true
	if _, err := r.mustSubscribe(ctx, r.hook, c, nil); err != nil {
		return err
	}
	_, err := r.unsubscribe(ctx, r.hook, c)
	return err
}

func answersFail(list []challengeAnswer) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, a := range list {
			if err := r.expectFailedChallenge(ctx, r.answering(a)); err != nil {
				return err
			}
		}
		return nil
	}
}

// silenceTimeout is how long events/subscribe may take if the callback does not respond.
const silenceTimeout = 10 * time.Second

func checkSilent(ctx context.Context, r *run) error {
	err := r.expectFailedChallenge(ctx, r.newCallback(hangs))
	if x := r.lastExchange; x != nil && x.took > silenceTimeout+time.Second {
		return x.violation("an answer within "+silenceTimeout.String(), "none within %v", x.took.Round(time.Second))
	}
	return err
}
