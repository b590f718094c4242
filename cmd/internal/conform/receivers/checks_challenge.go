package receivers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var challengeChecks = []check{
	{name: "challenge", id: "VER-2", title: "The receiver responds to a signed challenge with the challenge", run: challengeEchoed},
	{name: "challenge-unknown-subscription", id: "D12", title: "The receiver accepts a challenge for a subscription that it does not know yet", run: challengeOfAnother},
	{name: "challenge-again", id: "VER-2", title: "The receiver responds to each challenge and handles none", run: sendChallengeAsEvent},
	{name: "challenge-forged", id: "CLI-5", title: "The receiver refuses a challenge without a valid signature", run: challengeForged},
	{name: "challenge-path", id: "CLI-5", title: "Another path does not respond to a challenge", advice: true, run: challengeElsewhere},
}

// challenge returns a challenge message with the nonce.
func (r *run) challenge(nonce string) message {
	return r.newControl(wire.EnvelopeVerification, map[string]any{"challenge": nonce})
}

// expectEcho checks that the receiver answers the challenge as a server expects.
func (r *run) expectEcho(ctx context.Context, nonce string, m message) (*exchange, error) {
	x, err := r.expectAccepted(ctx, m)
	if err == nil && !isEcho(x, nonce) {
		err = x.violation(`2xx with {"challenge":"`+nonce+`"}`, "another body")
	}
	return x, err
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

// challengeEchoed sends challenges of several sizes, with characters that JSON or HTML escapes.
func challengeEchoed(ctx context.Context, r *run) error {
	for _, begin := range []string{"", "a+/=", "\"\\/<&>", "\u00e9\u2028", strings.Repeat("x", r.draw.IntN(200))} {
		nonce := begin + rand.Text()
		if _, err := r.expectEcho(ctx, nonce, r.challenge(nonce)); err != nil {
			return err
		}
	}
	return nil
}

func challengeOfAnother(ctx context.Context, r *run) error {
	nonce := rand.Text()
	_, err := r.expectEcho(ctx, nonce, r.challenge(nonce).with(wire.HeaderSubscriptionID, "sub_"+rand.Text()))
	return err
}

// sendChallengeAsEvent sends a challenge with the members of an occurrence. The receiver must treat it as a challenge,
// and must neither handle the event nor record its eventId.
func sendChallengeAsEvent(ctx context.Context, r *run) error {
	nonce, event := rand.Text(), newEventID()
	id := "msg_" + wire.EnvelopeVerification + "_" + rand.Text()
	m := r.signedMessage(id, time.Now(), r.occurrence(event, map[string]any{"type": wire.EnvelopeVerification, "challenge": nonce}))
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

// challengeForged sends challenges without a signature, with the signatures of other secrets, with another body than the
// signed one, and with an old timestamp.
func challengeForged(ctx context.Context, r *run) error {
	nonce := rand.Text()
	m := r.challenge(nonce)
	changed := m
	changed.body = append(bytes.Clone(m.body), ' ')
	old := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
	for _, forged := range []message{m.with(wire.HeaderWebhookSignature, ""), m.with(wire.HeaderWebhookSignature, "v1,AAAA"),
		m.sign(otherKey()), m.sign(nil), changed, m.with(wire.HeaderWebhookTimestamp, old).sign(r.key)} {
		if err := r.expectNoEcho(ctx, nonce, forged); err != nil {
			return err
		}
	}
	return nil
}

func challengeElsewhere(ctx context.Context, r *run) error {
	nonce := rand.Text()
	m := r.challenge(nonce)
	m.url = replacePath(m.url)
	err := r.expectNoEcho(ctx, nonce, m)
	if err != nil && r.last != nil && r.last.status == 0 {
		// Another program may serve that path.
		return verdict.Skipf("the other path gave no answer: %v", err)
	}
	return err
}
