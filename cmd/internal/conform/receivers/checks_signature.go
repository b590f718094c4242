package receivers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var signatureChecks = []check{
	{name: "signed", id: "CLI-5", title: "The receiver accepts an event with a valid signature", run: rightTaken},
	{name: "signature-bytes", id: "CLI-5", title: "The signature covers the received bytes", run: sendUnusualJSON},
	{name: "signature-missing", id: "CLI-5", title: "The receiver refuses an event without a signature", run: unsignedRefused},
	{name: "signature-wrong", id: "CLI-5", title: "The receiver refuses an event with a wrong signature", run: wrongRefused},
	{name: "signature-other-secret", id: "CLI-5", title: "The receiver refuses an event that another secret signs", run: forgedRefused},
	{name: "signature-part", id: "CLI-5", title: "The receiver refuses an event with a part of its signature", run: expectSignaturesRefused(truncatedMACs)},
	{name: "signature-encoding", id: "HOOK-2", title: "The receiver refuses an event with its signature in another encoding", advice: true, run: expectSignaturesRefused(otherEncodings)},
	{name: "signature-scheme", id: "HOOK-10", title: "The receiver refuses an event with its signature only under another scheme", run: expectSignaturesRefused(otherSchemeNames)},
	{name: "body-changed", id: "CLI-5", title: "The receiver refuses an event with a changed body", run: sendChangedBody},
	{name: "signature-headers", id: "CLI-5", title: "The signature covers the webhook-id and the timestamp", run: headersSigned},
	{name: "signature-second", id: "SUB-5", title: "One valid signature of two is enough", run: oneOfTwo},
	{name: "signature-unknown-scheme", id: "HOOK-10", title: "The receiver ignores signatures of unknown schemes", run: otherSchemes},
	{name: "header-case", id: "HOOK-2", title: "The receiver accepts header names in any case", run: anyCase},
	{name: "timestamp-4m", id: "CLI-5", title: "The receiver accepts an event that is four minutes old", run: fourMinutes},
	{name: "timestamp-old", id: "CLI-5", title: "The receiver refuses an event that is six minutes old", run: ofMinutes(-6)},
	{name: "timestamp-ahead", id: "CLI-5", title: "The receiver refuses an event that is six minutes ahead", run: ofMinutes(6)},
	{name: "timestamp-ms", id: "HOOK-2", title: "The receiver refuses a timestamp in milliseconds", run: milliseconds},
}

func rightTaken(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	return r.expectEventAccepted(ctx, id, m)
}

// sendUnusualJSON sends JSON with unusual formatting. A receiver that re-encodes the body before verifying it gets
// different bytes.
func sendUnusualJSON(ctx context.Context, r *run) error {
	id := newEventID()
	body := bytes.Replace(r.occurrence(id, nil), []byte(`{"`), []byte("{ \t\r\n \""), 1)
	body = bytes.Replace(body, []byte(`"eventId":"evt_`), []byte(`"eventId" : "\u0065vt_`), 1)
	return r.expectEventAccepted(ctx, id, r.signedMessage(r.key, id, time.Now(), body))
}

func unsignedRefused(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	delete(m.header, wire.HeaderWebhookSignature)
	return r.expectEventRefused(ctx, id, m)
}

func wrongRefused(ctx context.Context, r *run) error {
	for _, signature := range []string{"v1,", "v1,AAAA", "v1," + strings.Repeat("A", 43) + "="} {
		id, m := r.newEvent(nil)
		m.header[wire.HeaderWebhookSignature] = signature
		if err := r.expectEventRefused(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

func forgedRefused(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	m.sign(otherKey())
	return r.expectEventRefused(ctx, id, m)
}

// expectSignaturesRefused returns a check that the receiver rejects events with each signature that forms derives from
// the HMAC.
func expectSignaturesRefused(forms func(mac []byte) []string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for i := range forms(nil) {
			id, m := r.newEvent(nil)
			for !strings.ContainsAny(m.header[wire.HeaderWebhookSignature], "+/") {
				id, m = r.newEvent(nil) // both base64 alphabets encode this signature alike
			}
			mac, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.header[wire.HeaderWebhookSignature], "v1,"))
			if err != nil {
				return err
			}
			m.header[wire.HeaderWebhookSignature] = forms(mac)[i]
			if err := r.expectEventRefused(ctx, id, m); err != nil {
				return err
			}
		}
		return nil
	}
}

// truncatedMACs returns prefixes of the HMAC, and the HMAC with an additional byte. A receiver that compares only as
// many bytes as the signature has accepts one in 256 signatures of a single byte.
func truncatedMACs(mac []byte) (all []string) {
	mac = append(bytes.Clone(mac), make([]byte, sha256.Size+1-len(mac))...)
	for _, size := range []int{1, 16, sha256.Size - 1, sha256.Size + 1} {
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac[:size]))
	}
	return all
}

// otherEncodings returns the HMAC in hex and in URL-safe base64. Only the owner of the secret can compute them, so a
// receiver that accepts them does not accept forgeries.
func otherEncodings(mac []byte) []string {
	return []string{"v1," + hex.EncodeToString(mac), "v1," + base64.URLEncoding.EncodeToString(mac)}
}

// otherSchemeNames returns the HMAC under the names of other schemes, which compute their signatures differently.
func otherSchemeNames(mac []byte) (all []string) {
	for _, scheme := range []string{"v9", "v1a", "v10", ""} {
		all = append(all, scheme+","+base64.StdEncoding.EncodeToString(mac))
	}
	return all
}

// sendChangedBody appends a space to a signed body, which does not change the JSON value.
func sendChangedBody(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	m.body = append(bytes.Clone(m.body), ' ')
	return r.expectEventRefused(ctx, id, m)
}

func headersSigned(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	m.header[wire.HeaderWebhookID] = newEventID()
	if err := r.expectEventRefused(ctx, id, m); err != nil {
		return err
	}
	id, m = r.newEvent(nil)
	m.header[wire.HeaderWebhookTimestamp] = strconv.FormatInt(time.Now().Add(-time.Minute).Unix(), 10)
	return r.expectEventRefused(ctx, id, m)
}

func oneOfTwo(ctx context.Context, r *run) error {
	for _, front := range []bool{true, false} {
		id, m := r.newEvent(nil)
		right := m.header[wire.HeaderWebhookSignature]
		m.sign(otherKey())
		other := m.header[wire.HeaderWebhookSignature]
		m.header[wire.HeaderWebhookSignature] = other + " " + right
		if front {
			m.header[wire.HeaderWebhookSignature] = right + " " + other
		}
		if err := r.expectEventAccepted(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

func otherSchemes(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	m.header[wire.HeaderWebhookSignature] = "v9,AAAA v1a," + strings.Repeat("A", 86) + "== " + m.header[wire.HeaderWebhookSignature]
	return r.expectEventAccepted(ctx, id, m)
}

func anyCase(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	names := map[string]string{}
	for name, value := range m.header {
		names[strings.ToUpper(name)] = value
	}
	m.header = names
	return r.expectEventAccepted(ctx, id, m)
}

func fourMinutes(ctx context.Context, r *run) error {
	id := newEventID()
	return r.expectEventAccepted(ctx, id, r.signedMessage(r.key, id, time.Now().Add(-4*time.Minute), r.occurrence(id, nil)))
}

func ofMinutes(n time.Duration) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		id := newEventID()
		return r.expectEventRefused(ctx, id, r.signedMessage(r.key, id, time.Now().Add(n*time.Minute), r.occurrence(id, nil)))
	}
}

func milliseconds(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	m.header[wire.HeaderWebhookTimestamp] = strconv.FormatInt(time.Now().UnixMilli(), 10)
	m.sign(r.key)
	return r.expectEventRefused(ctx, id, m)
}
