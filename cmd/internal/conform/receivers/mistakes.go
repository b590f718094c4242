package receivers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A mistake is a usual fault in the code that verifies signatures.
type mistake struct {
	// accepts describes the messages that a receiver with this mistake accepts.
	accepts string
	// sign returns the message signed as such a receiver expects. x is the refusal of the correct message.
	sign func(r *run, m message, x *exchange) message
}

// mistakes are the mistakes that findMistake tries.
var mistakes = []mistake{
	{"signatures that have the text of the secret as their key", func(r *run, m message, _ *exchange) message {
		return m.sign([]byte(r.o.Secret))
	}},
	{"signatures that have the text of the secret without whsec_ as their key", func(r *run, m message, _ *exchange) message {
		return m.sign([]byte(strings.TrimPrefix(r.o.Secret, wire.SecretPrefix)))
	}},
	{"signatures whose key is decoded together with whsec_", func(r *run, m message, _ *exchange) message {
		text := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(r.o.Secret)
		if len(text)%4 == 1 { // such a decoder ignores the last character
			text = text[:len(text)-1]
		}
		key, _ := base64.RawURLEncoding.DecodeString(text) // text has characters of its alphabet only
		return m.sign(key)
	}},
	{"signatures in hex", otherSignature(func(mac []byte) string { return "v1," + hex.EncodeToString(mac) })},
	{"signatures in hex without v1", otherSignature(hex.EncodeToString)},
	{"signatures in hex behind sha256=", otherSignature(func(mac []byte) string { return "sha256=" + hex.EncodeToString(mac) })},
	{"signatures without v1", otherSignature(base64.StdEncoding.EncodeToString)},
	{"signatures in URL-safe base64", otherSignature(func(mac []byte) string { return "v1," + base64.URLEncoding.EncodeToString(mac) })},
	{"signatures of the body alone", func(r *run, m message, _ *exchange) message {
		return m.with(wire.HeaderWebhookSignature, signatureOf(r.key, m.body))
	}},
	{"signatures of the timestamp and the body without the webhook-id", func(r *run, m message, _ *exchange) message {
		return m.with(wire.HeaderWebhookSignature, signatureOf(r.key, []byte(m.header[wire.HeaderWebhookTimestamp]+"."), m.body))
	}},
	{"timestamps in milliseconds", func(r *run, m message, _ *exchange) message {
		return m.with(wire.HeaderWebhookTimestamp, strconv.FormatInt(time.Now().UnixMilli(), 10)).sign(r.key)
	}},
	{"timestamps of the receiver's clock, which the header Date shows", func(r *run, m message, x *exchange) message {
		at, err := http.ParseTime(x.header.Get("Date"))
		if err != nil || time.Since(at).Abs() < time.Minute {
			return m
		}
		return m.with(wire.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10)).sign(r.key)
	}},
	{"signatures of the body as JSON without blanks", otherBody(func(body []byte) []byte {
		var b bytes.Buffer
		_ = json.Compact(&b, body) // an invalid body remains empty
		return b.Bytes()
	})},
	{"signatures of the body as JSON with a blank after each comma and colon", otherBody(func(body []byte) []byte {
		var b bytes.Buffer
		_ = json.Indent(&b, body, "", "") // an invalid body remains empty
		return []byte(strings.NewReplacer(",\n", ", ", "\n", "").Replace(b.String()))
	})},
	{"signatures of the body without the blanks around it", otherBody(bytes.TrimSpace)},
}

// otherSignature returns the sign function of a mistake about the form of the signature.
func otherSignature(form func(mac []byte) string) func(*run, message, *exchange) message {
	return func(_ *run, m message, _ *exchange) message {
		return m.with(wire.HeaderWebhookSignature, form(m.mac()))
	}
}

// otherBody returns the sign function of a mistake about the signed bytes. The message has the original body.
func otherBody(form func(body []byte) []byte) func(*run, message, *exchange) message {
	return func(r *run, m message, _ *exchange) message {
		other := m
		other.body = form(m.body)
		return m.with(wire.HeaderWebhookSignature, other.sign(r.key).header[wire.HeaderWebhookSignature])
	}
}

// findMistake sends a refused message again as receivers with usual mistakes expect it. It returns a description of the
// messages that the receiver accepts, or "" if it accepts none. A receiver that accepts wrong signatures makes no such
// mistake.
func (r *run) findMistake(ctx context.Context, m message, refused *exchange) string {
	wrong, err := r.post(ctx, m.sign(otherKey()))
	if err != nil || wrong.taken() {
		return ""
	}
	for _, each := range mistakes {
		changed := each.sign(r, m, refused)
		if changed.header[wire.HeaderWebhookSignature] == m.header[wire.HeaderWebhookSignature] {
			continue
		}
		x, err := r.post(ctx, changed)
		if err != nil {
			return ""
		}
		if x.taken() {
			return each.accepts
		}
	}
	return ""
}
