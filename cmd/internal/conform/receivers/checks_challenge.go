package receivers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var challengeChecks = []check{
	{name: "challenge", id: "VER-2", title: "The receiver responds to a signed challenge with the challenge", run: challengeEchoed},
	{name: "challenge-unknown-subscription", id: "D12", title: "The receiver accepts a challenge for a subscription that it does not know yet", run: challengeOfAnother},
	{name: "challenge-again", id: "VER-2", title: "The receiver responds to each challenge and handles none", run: sendChallengeAsEvent},
	{name: "challenge-unsigned", id: "CLI-5", title: "The receiver refuses a challenge without a signature", run: challengeUnsigned},
	{name: "challenge-other-secret", id: "CLI-5", title: "The receiver refuses a challenge that another secret signs", run: challengeForged},
	{name: "challenge-path", id: "CLI-5", title: "Another path does not respond to a challenge", advice: true, run: challengeElsewhere},
}

// challenge returns a new challenge message with its nonce and its webhook-id.
func (r *run) challenge() (nonce, id string, m message) {
	nonce = rand.Text()
	id, m = r.newControl(wire.EnvelopeVerification, map[string]any{"challenge": nonce})
	return nonce, id, m
}

// expectEcho checks that the receiver answers the challenge as a server expects.
func (r *run) expectEcho(ctx context.Context, nonce string, m message) (*exchange, error) {
	expected := `2xx with {"challenge":"` + nonce + `"}`
	x, err := r.post(ctx, m)
	if err != nil {
		return x, err
	}
	if !x.taken() {
		return x, x.violation(expected, "%d", x.status)
	}
	if !isEcho(x, nonce) {
		return x, x.violation(expected, "another body")
	}
	return x, nil
}

// isEcho reports whether the response body is an object that contains the challenge.
func isEcho(x *exchange, nonce string) bool {
	var answer map[string]json.RawMessage
	var got string
	return json.Unmarshal(x.body, &answer) == nil && json.Unmarshal(answer["challenge"], &got) == nil && got == nonce
}

// expectNoEcho checks that the receiver does not answer the challenge.
func (r *run) expectNoEcho(ctx context.Context, nonce string, m message) error {
	x, err := r.post(ctx, m)
	if err == nil && x.taken() && isEcho(x, nonce) {
		err = x.violation("4xx, without the challenge", "%d with it", x.status)
	}
	return err
}

func challengeEchoed(ctx context.Context, r *run) error {
	nonce, _, m := r.challenge()
	_, err := r.expectEcho(ctx, nonce, m)
	return err
}

func challengeOfAnother(ctx context.Context, r *run) error {
	nonce, _, m := r.challenge()
	m.header[wire.HeaderSubscriptionID] = "sub_" + rand.Text()
	_, err := r.expectEcho(ctx, nonce, m)
	return err
}

// sendChallengeAsEvent sends a challenge with the members of an occurrence. The receiver must treat it as a challenge,
// and must neither handle the event nor record its eventId.
func sendChallengeAsEvent(ctx context.Context, r *run) error {
	nonce, event := rand.Text(), newEventID()
	id := "msg_" + wire.EnvelopeVerification + "_" + rand.Text()
	m := r.signedMessage(r.key, id, time.Now(), r.occurrence(event, map[string]any{"type": wire.EnvelopeVerification, "challenge": nonce}))
	for range 2 {
		x, err := r.expectEcho(ctx, nonce, m)
		if err != nil {
			return err
		}
		r.never(id, x)
		r.never(event, x)
	}
	return nil
}

func challengeUnsigned(ctx context.Context, r *run) error {
	nonce, _, m := r.challenge()
	delete(m.header, wire.HeaderWebhookSignature)
	return r.expectNoEcho(ctx, nonce, m)
}

func challengeForged(ctx context.Context, r *run) error {
	nonce, _, m := r.challenge()
	m.sign(otherKey())
	return r.expectNoEcho(ctx, nonce, m)
}

func challengeElsewhere(ctx context.Context, r *run) error {
	nonce, _, m := r.challenge()
	m.url = replacePath(m.url)
	err := r.expectNoEcho(ctx, nonce, m)
	if err != nil && r.last != nil && r.last.status == 0 {
		// Another program may serve that path.
		return verdict.Skipf("the other path gave no answer: %v", err)
	}
	return err
}

func otherKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}
