package clients

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

func (w *wrongClient) hook(ctx context.Context) error {
	l, host := w.n.open("callback")
	secret := make([]byte, 32)
	if w.is("makes-short-secrets") {
		secret = secret[:8]
	}
	rand.Read(secret)
	delivery := map[string]any{"mode": wire.ModeWebhook, "url": "https://" + host + "/cb", "secret": "whsec_" + base64.StdEncoding.EncodeToString(secret)}
	if w.is("http-callbacks") {
		delivery["url"] = "http://" + host + "/cb"
	}
	again := make(chan struct{}, 10)
	verifier := webhook.Verifier{Tolerance: 5 * time.Minute}
	if parsed, err := webhook.ParseSecret(delivery["secret"].(string)); err == nil {
		verifier.Secrets = []webhook.Secret{parsed}
	}
	if w.is("accepts-old-deliveries") {
		verifier.Tolerance = time.Hour
	}
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { w.called(out, r, verifier, again) }),
		TLSConfig: memnet.ServerTLS()}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeTLS(l, "", "") })
	defer serving.Wait()
	defer server.Close()
	defer func() {
		if w.is("never-unsubscribes") {
			return
		}
		ending, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		params := map[string]any{"name": EventType, "delivery": map[string]any{"url": delivery["url"]}}
		switch w.fault {
		case "unsubscribes-another-callback":
			params["delivery"] = map[string]any{"url": "https://" + host + "/other"}
		case "unsubscribes-other-arguments":
			params["arguments"] = map[string]any{"severity": "P1"}
		case "unsubscribes-without-name":
			delete(params, "name")
		}
		_, _ = w.call(ending, wire.MethodUnsubscribe, params)
	}()
	var first json.RawMessage
	for failures, n := 0, 0; ctx.Err() == nil; n++ {
		params := w.following()
		params["delivery"] = delivery
		if n > 0 && w.is("refreshes-no-cursor") {
			params["cursor"] = nil
		}
		if n > 0 && w.is("refreshes-first-cursor") {
			params["cursor"] = first
		}
		if n > 0 && w.is("refreshes-another-callback") {
			delivery["url"] = fmt.Sprint("https://", host, "/cb", n)
		}
		got, err := w.call(ctx, wire.MethodSubscribe, params)
		var id string
		if err == nil && (json.Unmarshal(got["id"], &id) != nil || id == "") {
			err = errBad
		}
		if err != nil && n > 0 && w.is("gives-up-refreshing") {
			<-ctx.Done()
		}
		if err != nil {
			failures++
			if again, err := w.failed(ctx, err, failures); !again {
				return err
			}
			continue
		}
		failures = 0
		var before time.Time
		if json.Unmarshal(got["refreshBefore"], &before) != nil || before.IsZero() {
			if w.is("silent-on-malformed") {
				_ = server.Close()
				<-ctx.Done()
			}
			before = time.Now().Add(30 * time.Minute)
		}
		w.mu.Lock()
		if string(mustJSON(params["cursor"])) == string(w.cursor) && (n == 0 || !w.is("ignores-cursors-of-refreshes")) {
			w.cursor = got["cursor"]
		}
		if len(w.cursor) == 0 {
			w.cursor = json.RawMessage("null")
		}
		if n == 0 {
			first = w.cursor
		}
		w.mu.Unlock()
		wait := time.Until(before) * 2 / 3
		switch {
		case w.is("never-refreshes"):
			wait = time.Hour
		case w.is("refreshes-late"):
			wait = time.Until(before) * 97 / 100
		}
		t := time.NewTimer(max(wait, 100*time.Millisecond))
		select {
		case <-t.C:
		case <-again:
			if again, err := w.refused(ctx, -32011); !again {
				return err
			}
		case <-ctx.Done():
		}
		t.Stop()
	}
	return nil
}

// called answers a callback.
func (w *wrongClient) called(out http.ResponseWriter, r *http.Request, verifier webhook.Verifier, again chan struct{}) {
	if !strings.HasPrefix(r.UserAgent(), "mcpe-gen") { // as firewalls do
		out.WriteHeader(http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	for text := ""; w.is("has a callback that hangs", "has a callback that drips", "has a callback that floods"); {
		switch {
		case w.is("has a callback that drips"):
			text = "x"
		case w.is("has a callback that floods"):
			text = strings.Repeat("x", 1<<20)
		}
		if _, err := io.WriteString(out, text); err != nil || http.NewResponseController(out).Flush() != nil || !sleep(r.Context(), time.Second) {
			return
		}
	}
	if w.is("requires-exact-content-type") && strings.Contains(r.Header.Get("Content-Type"), ";") {
		out.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	if _, err := verifier.Verify(r.Header, body); err != nil && !w.is("accepts-any-signature") {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	var m map[string]json.RawMessage
	_ = json.Unmarshal(body, &m)
	var kind string
	_ = json.Unmarshal(m["type"], &kind)
	switch {
	case kind == wire.EnvelopeVerification && !w.is("answers-no-challenge"):
		fmt.Fprintf(out, `{"challenge":%s}`, m["challenge"])
	case kind == wire.EnvelopeGap && w.is("refuses-gaps"), kind == wire.EnvelopeTerminated && w.is("refuses-terminations"),
		kind == "" && w.is("refuses-deliveries"):
		out.WriteHeader(http.StatusBadRequest)
	case kind == wire.EnvelopeGap:
		w.gap()
	case kind == wire.EnvelopeTerminated && !w.is("ignores-terminations"):
		again <- struct{}{}
	case kind == "" && w.is("identifies-by-webhook-id") && !w.isFirst(r.Header.Get(wire.HeaderWebhookID)):
	case kind == "" && !w.take(body) && w.is("reads-8-kib", "reads-64-kib"):
		out.WriteHeader(http.StatusRequestEntityTooLarge)
	}
}
