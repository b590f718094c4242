package receivers

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var messageChecks = []check{
	{name: "webhook-id-other", id: "D10", title: "The receiver accepts a webhook-id that is not the eventId", run: anyWebhookID},
	{name: "repeat", id: "CLI-5", title: "The receiver accepts a repeated event and handles it once", run: again},
	{name: "repeat-webhook-id", id: "CLI-5", title: "The receiver handles an event once that returns with another webhook-id", run: againOtherwise},
	{name: "repeat-later", id: "CLI-5", title: "The receiver handles an event once that returns after another event", run: repeatLater},
	{name: "repeat-cursor", id: "CLI-5", title: "The receiver handles an event once that returns with another cursor", run: repeatWithCursor},
	{name: "event-id-case", id: "CLI-5", title: "The receiver handles both of two events whose eventIds differ in case", handled: true, run: caseCounts},
	{name: "repeat-concurrent", id: "CLI-5", title: "The receiver handles an event once that arrives twenty times concurrently", run: sendConcurrently},
	{name: "webhook-id-shared", id: "CLI-5", title: "The receiver handles both of two events with one webhook-id", handled: true, run: sharedWebhookID},
	{name: "unknown-members", id: "CLI-2", title: "The receiver ignores unknown members", run: unknownMembers},
	{name: "event-no-cursor", id: "OCC-3", title: "The receiver accepts an event without a cursor", run: noCursor},
	{name: "event-id-long", id: "OCC-2", title: "The receiver accepts an eventId of 256 bytes", run: longEventID},
	{name: "text", id: "HOOK-1", title: "The receiver accepts any text", run: sendUnusualText},
	{name: "body-256k", id: "HOOK-1", title: "The receiver accepts a body of 256 KiB", run: largest},
	{name: "body-large", id: "HOOK-1", title: "A body of more than 256 KiB fails with 413", advice: true, run: tooLarge},
	{name: "method", id: "HOOK-1", title: "A method other than POST fails with 405", advice: true, run: otherMethods},
	{name: "content-type", id: "HOOK-1", title: "The receiver refuses content other than application/json", advice: true, run: otherContent},
	{name: "body-malformed", id: "CLI-5", title: "The receiver refuses a body that is not a message", run: sendInvalidMessages},
	{name: "subscription-unknown", id: "CLI-5", title: "The receiver refuses an event of an unknown subscription so that the server retries it", advice: true, run: sendUnknownSubscription},
}

func anyWebhookID(ctx context.Context, r *run) error {
	id := newEventID()
	return r.expectEventAccepted(ctx, id, r.signedMessage(r.key, "msg_"+rand.Text(), time.Now(), r.occurrence(id, nil)))
}

func again(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	for range 3 {
		if err := r.expectEventAccepted(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

func againOtherwise(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	for range 2 {
		if err := r.expectEventAccepted(ctx, id, m); err != nil {
			return err
		}
		m = r.signedMessage(r.key, "msg_"+rand.Text(), time.Now(), m.body)
	}
	return nil
}

// repeatLater repeats an event after others, like a server that retries each event independently (HOOK-3).
func repeatLater(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	if err := r.expectEventAccepted(ctx, id, m); err != nil {
		return err
	}
	for range 3 {
		between, other := r.newEvent(nil)
		if err := r.expectEventAccepted(ctx, between, other); err != nil {
			return err
		}
	}
	return r.expectEventAccepted(ctx, id, m)
}

// repeatWithCursor repeats an event with the cursor of its second attempt, which covers events accepted since the first
// (HOOK-6).
func repeatWithCursor(ctx context.Context, r *run) error {
	id := newEventID()
	at := time.Now()
	for _, cursor := range []string{"conform-before", "conform-" + id} {
		body := r.occurrence(id, map[string]any{"timestamp": at.UTC().Format(time.RFC3339Nano), "cursor": cursor})
		if err := r.expectEventAccepted(ctx, id, r.signedMessage(r.key, id, time.Now(), body)); err != nil {
			return err
		}
	}
	return nil
}

func caseCounts(ctx context.Context, r *run) error {
	lower := strings.ToLower(newEventID())
	for _, id := range []string{lower, strings.ToUpper(lower)} {
		if err := r.expectEventAccepted(ctx, id, r.signedMessage(r.key, id, time.Now(), r.occurrence(id, nil))); err != nil {
			return err
		}
	}
	return nil
}

// sendConcurrently sends an event several times concurrently. While the receiver handles the first copy, it may request
// retries of the others.
func sendConcurrently(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	var found error
	taken := false
	for range 20 {
		all.Go(func() {
			x, err := r.post(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && x.taken():
				taken = true
			case err == nil && x.status < 500:
				err = x.violation("2xx, or 5xx while it is being handled", "%d", x.status)
			}
			found = errors.Join(found, err)
		})
	}
	all.Wait()
	if found != nil {
		return found
	}
	if !taken {
		return r.last.violation("one of them to be answered 2xx", "%d", r.last.status)
	}
	return r.expectEventAccepted(ctx, id, m)
}

func sharedWebhookID(ctx context.Context, r *run) error {
	shared := "msg_" + rand.Text()
	for range 2 {
		id := newEventID()
		if err := r.expectEventAccepted(ctx, id, r.signedMessage(r.key, shared, time.Now(), r.occurrence(id, nil))); err != nil {
			return err
		}
	}
	return nil
}

func unknownMembers(ctx context.Context, r *run) error {
	id, m := r.newEvent(map[string]any{"mcpeGenConform": map[string]any{"a": []any{1, nil}}, "_meta": map[string]any{"b.example/c": true}})
	return r.expectEventAccepted(ctx, id, m)
}

func noCursor(ctx context.Context, r *run) error {
	id, m := r.newEvent(map[string]any{"cursor": nil})
	return r.expectEventAccepted(ctx, id, m)
}

func longEventID(ctx context.Context, r *run) error {
	id := newEventID()
	id += strings.Repeat("x", wire.MaxEventID-len(id))
	return r.expectEventAccepted(ctx, id, r.signedMessage(r.key, id, time.Now(), r.occurrence(id, nil)))
}

// sendUnusualText sends text with characters that JSON or HTML escapes, characters without width, and characters
// outside the basic plane.
func sendUnusualText(ctx context.Context, r *run) error {
	id, m := r.newEvent(map[string]any{"_meta": map[string]any{"text": "\u0000\u001f\"\\/ <&> é \u2028 \u202e \U0001f9ea \ufeff \ufffd"}})
	return r.expectEventAccepted(ctx, id, m)
}

// paddedOccurrence returns the body of an occurrence that is exactly size bytes long.
func (r *run) paddedOccurrence(id string, size int) []byte {
	pad := func(n int) []byte {
		return r.occurrence(id, map[string]any{"timestamp": "2026-01-02T03:04:05Z", "_meta": map[string]any{"pad": strings.Repeat("x", n)}})
	}
	return pad(size - len(pad(0)))
}

func largest(ctx context.Context, r *run) error {
	id := newEventID()
	return r.expectEventAccepted(ctx, id, r.signedMessage(r.key, id, time.Now(), r.paddedOccurrence(id, wire.MaxBody)))
}

func tooLarge(ctx context.Context, r *run) error {
	id := newEventID()
	m := r.signedMessage(r.key, id, time.Now(), r.paddedOccurrence(id, wire.MaxBody+1<<10))
	m.header["Expect"] = "100-continue" // a receiver can refuse the length without reading the body
	x, err := r.post(ctx, m)
	if err != nil {
		// Closing the connection during the body is a refusal as well.
		return verdict.Skipf("no status came: %v", err)
	}
	if x.status != http.StatusRequestEntityTooLarge {
		return x.violation("413", "%d", x.status)
	}
	r.never(id, x)
	return nil
}

func otherMethods(ctx context.Context, r *run) error {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		id, m := r.newEvent(nil)
		m.method = method
		x, err := r.post(ctx, m)
		if err != nil {
			return err
		}
		if x.status != http.StatusMethodNotAllowed {
			return x.violation("405", "%d", x.status)
		}
		r.never(id, x)
	}
	return nil
}

func otherContent(ctx context.Context, r *run) error {
	for _, content := range []string{"text/plain", "application/x-www-form-urlencoded"} {
		id, m := r.newEvent(nil)
		m.header["Content-Type"] = content
		if err := r.expectEventRefused(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

// sendInvalidMessages sends signed bodies that are not valid messages. The receiver must not acknowledge them.
func sendInvalidMessages(ctx context.Context, r *run) error {
	id := newEventID()
	for _, body := range []string{"", "[]", `{"eventId":`, `"` + id + `"`} {
		x, err := r.post(ctx, r.signedMessage(r.key, id, time.Now(), []byte(body)))
		if err != nil {
			return err
		}
		if x.taken() {
			return x.violation("4xx", "%d", x.status)
		}
		r.never(id, x)
	}
	return nil
}

// sendUnknownSubscription sends an event for a subscription that the receiver does not know. The receiver may learn its
// ID later because the subscribe response may still be in flight. A server therefore has to resend the event. It
// resends an event after any status except 410 and 413 (HOOK-3). According to the sketch, a receiver should choose a
// status after which every server retries.
func sendUnknownSubscription(ctx context.Context, r *run) error {
	id, m := r.newEvent(nil)
	m.header[wire.HeaderSubscriptionID] = "sub_" + rand.Text()
	x, err := r.post(ctx, m)
	if err != nil {
		return err
	}
	if x.taken() {
		return x.violation("503, so that it is sent again", "%d", x.status)
	}
	r.never(id, x)
	switch x.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return nil
	}
	if x.status < 500 {
		return x.violation("503, so that it is sent again", "%d, after which not every server does", x.status)
	}
	return nil
}
