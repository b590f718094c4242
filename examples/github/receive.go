package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// maxBody is the maximum size of a webhook body. GitHub does not send more than 25 MB.
const maxBody = 25 << 20

// An emitFunc maps the body of a GitHub event to a payload and emits it with the delivery's id. It returns errSkip for
// bodies without a matching event type.
type emitFunc func(ctx context.Context, delivery string, body []byte) error

// refusedSignature is the response to a body that is not authenticated.
const refusedSignature = "X-Hub-Signature-256 is missing or wrong: set the secret of -github-secret at GitHub"

// errSkip reports that no event type covers the action of a body.
var errSkip = errors.New("no event type covers this action")

// receiver is the endpoint for webhooks from GitHub.
type receiver struct {
	secret []byte // empty: bodies are not authenticated
	emit   map[string]emitFunc
	log    *slog.Logger
}

// ServeHTTP verifies the signature and emits the event. Only then does it respond with 2xx, so that GitHub redelivers
// bodies that were not accepted.
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "the method is not supported: send a POST request", http.StatusMethodNotAllowed)
		return
	}
	var signature []byte
	if len(rc.secret) > 0 {
		var ok bool
		if signature, ok = signatureOf(r.Header); !ok { // checked before the body is read
			http.Error(w, refusedSignature, http.StatusUnauthorized)
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(w, "the body is too large: GitHub sends at most 25 MB", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the body could not be read: redeliver it", http.StatusBadRequest)
		return
	}
	if len(rc.secret) > 0 && !isSigned(rc.secret, body, signature) {
		http.Error(w, refusedSignature, http.StatusUnauthorized)
		return
	}
	body = jsonOf(body)
	event, delivery := r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery")
	if event == "" || delivery == "" {
		http.Error(w, "X-GitHub-Event or X-GitHub-Delivery is missing: send the headers of GitHub's webhooks", http.StatusBadRequest)
		return
	}
	emit, ok := rc.emit[event]
	if !ok {
		w.WriteHeader(http.StatusNoContent) // for example ping, which needs no retry
		return
	}
	switch err := emit(r.Context(), delivery, body); {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case errors.Is(err, errSkip):
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, new(*bodyError)), errors.Is(err, events.ErrInvalidPayload):
		// Resending it would not help.
		rc.log.Warn("webhook body not understood", "event", event, "delivery", delivery, "error", err)
		http.Error(w, "the body does not match the event: see the server's log", http.StatusBadRequest)
	default:
		rc.log.Error("webhook not emitted", "event", event, "delivery", delivery, "error", err)
		http.Error(w, "the event was not stored: redeliver it later", http.StatusServiceUnavailable)
	}
}

// jsonOf returns the JSON in a body. In a form, which is GitHub's default content type, the JSON is the field payload.
func jsonOf(body []byte) []byte {
	text, isForm := strings.CutPrefix(string(body), "payload=")
	payload, err := url.QueryUnescape(text)
	if !isForm || err != nil {
		return body
	}
	return []byte(payload)
}

// signatureOf parses the signature header: "sha256=" and a hex HMAC-SHA256.
func signatureOf(h http.Header) (sum []byte, ok bool) {
	text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	sum, err := hex.DecodeString(text)
	return sum, ok && err == nil && len(sum) == sha256.Size
}

// isSigned reports whether sum is the HMAC-SHA256 of body with secret.
func isSigned(secret, body, sum []byte) bool {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hmac.Equal(sum, mac.Sum(nil))
}

// A bodyError reports a body that does not match GitHub's documentation of its event.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return fmt.Sprintf("read body: %v", e.err) }
func (e *bodyError) Unwrap() error { return e.err }
