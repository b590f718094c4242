package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// challengeChecks run late, and after ssrfChecks, because a server limits a caller's failed challenges and then rejects
// further challenges for a while.
var challengeChecks = []check{
	{name: "challenge-wrong", id: "VER-2", title: "A wrong response to the challenge fails with the reason challenge_failed", needs: needHook,
		run: answersFail(challengeAnswer{status: 200, body: `{"challenge":"` + marker + `"}`, reasons: []wire.Category{wire.ChallengeFailed}})},
	{name: "challenge-error", id: "VER-2", title: "An error response to the challenge fails with CallbackEndpointError", needs: needHook,
		run: answersFail(challengeAnswer{status: 500, body: marker, reasons: []wire.Category{wire.ChallengeFailed, wire.HTTP5xx}})},
	{name: "challenge-status", id: "VER-2", title: "The challenge in a response with a status other than 2xx does not verify a callback", needs: needHook,
		run: answersFail(challengeAnswer{status: 500, body: echo}, challengeAnswer{status: 404, body: echo}, challengeAnswer{status: 302, body: echo})},
	{name: "challenge-missing", id: "VER-2", title: "A 2xx response without the challenge does not verify a callback", needs: needHook,
		run: answersFail(challengeAnswer{status: 200}, challengeAnswer{status: 200, body: `{"nonce":%s}`})},
	{name: "challenge-redirect", id: "SSRF-2", title: "The server does not follow a redirect of a challenge", needs: needHook, run: checkRedirect},
	{name: "challenge-timeout", id: "VER-2", title: "The server refuses a callback that does not respond to its challenge within ten seconds", needs: needHook, run: checkSilent},
}

// errChallengesLimited skips a check that fails a challenge.
const errChallengesLimited = verdict.Skipped("the server takes no more failed challenges for now")

func isChallenge(p post) bool { return p.kind == wire.EnvelopeVerification }

func checkChallenge(_ context.Context, r *run) error {
	posts := r.mainSubscription.callback.receivedPosts()
	if len(posts) == 0 || !slices.ContainsFunc(posts, isChallenge) {
		// The server may verify a callback by other means that are not visible here.
		return r.mainSubscription.made.violation("a verification within the call (do not put the receiver on an allow-list)", "none").AsAdvice()
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

// answersFail returns a check that the server rejects a subscription if its callback gives one of the answers to the
// challenge, and sends nothing more to that callback.
func answersFail(list ...challengeAnswer) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for _, a := range list {
			if err := r.expectFailedChallenge(ctx, r.newCallback(a)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *run) expectFailedChallenge(ctx context.Context, c *callback) error {
	x, err := r.subscribe(ctx, r.hook, c, nil)
	if err != nil {
		return err
	}
	if x.answer.err == nil && !c.hasChallenge() {
		return skipf("no challenge came: the server knows the callback by other means")
	}
	if isKind(x, wire.ResourceExhausted) {
		return errChallengesLimited
	}
	if err := r.expectError(x, wire.CallbackEndpointError); err != nil {
		return err
	}
	var reason wire.Category
	_ = json.Unmarshal(member(x.answer.err.Data, "reason"), &reason)
	if reasons := c.challenge.reasons; len(reasons) > 0 && !slices.Contains(reasons, reason) {
		return x.violation(fmt.Sprintf("data with a reason of %v", reasons), "%s", orNone(x.answer.err.Data))
	}
	for i, p := range c.receivedPosts() {
		if i > 0 || !isChallenge(p) {
			return p.exchange(x).violation("one challenge and nothing else", "%s", p.summary())
		}
	}
	return nil
}

func checkRedirect(ctx context.Context, r *run) error {
	next := r.newCallback(echoes)
	x, err := r.subscribe(ctx, r.hook, r.newCallback(challengeAnswer{status: http.StatusTemporaryRedirect, location: next.url}), nil)
	if err != nil {
		return err
	}
	if isKind(x, wire.ResourceExhausted) {
		return errChallengesLimited
	}
	if list := next.receivedPosts(); len(list) > 0 {
		return list[0].exchange(x).violation("no request to where the callback redirects", "%s", list[0].summary())
	}
	return r.expectError(x, wire.CallbackEndpointError)
}

func checkCreated(ctx context.Context, r *run) error {
	c := r.newCallback(challengeAnswer{status: http.StatusCreated, body: echo})
	_, err := r.mustSubscribe(ctx, r.hook, c, nil)
	return err
}

// silenceTimeout is how long events/subscribe may take if the callback does not respond.
const silenceTimeout = 10 * time.Second

func checkSilent(ctx context.Context, r *run) error {
	err := r.expectFailedChallenge(ctx, r.newCallback(challengeAnswer{hangs: true}))
	if x := r.lastExchange; x != nil && x.took > silenceTimeout+time.Second {
		return x.violation("an answer within "+silenceTimeout.String(), "none within %v", x.took.Round(time.Second))
	}
	return err
}
