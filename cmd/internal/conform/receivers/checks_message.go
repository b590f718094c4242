package receivers

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var messageChecks = []check{
	{name: "webhook-id-other", id: "D10", title: "The receiver accepts a webhook-id that is not the eventId", run: accepts(withNewIDs(ids, webhookID))},
	{name: "content-type", id: "HOOK-1", title: "The receiver accepts application/json in any case and with parameters",
		run: accepts(headers("Content-Type", "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON", `application/json; charset="utf-8"`))},
	{name: "body-chunked", id: "HOOK-1", title: "The receiver accepts a body without Content-Length", run: accepts(of([]int{0, 5 << 10, 100 << 10}, chunked))},
	{name: "body-sizes", id: "HOOK-1", title: "The receiver accepts a body of up to 256 KiB", run: accepts(of([]int{1 << 10, 4096, 64 << 10, 100<<10 + 1, wire.MaxBody}, padded), these(drawnSize))},
	{name: "repeat", id: "CLI-5", title: "The receiver accepts a repeated event and handles it once",
		run: repeated(these(func(_ *run, e message) message { return e }, func(r *run, e message) message { return r.repeat(e, e.id, e.body) }))},
	{name: "repeat-webhook-id", id: "CLI-5", title: "The receiver handles an event once that returns with another webhook-id",
		run: repeated(these(func(r *run, e message) message { return webhookID(r, e, "msg_"+rand.Text()) }))},
	{name: "repeat-changed", id: "CLI-5", title: "The receiver handles an event once that returns with another cursor or form",
		run: repeated(bodies(replaced("conform-evt", "conform-later"), replaced(`{"`, `{ "`)))},
	{name: "repeat-concurrent", id: "CLI-5", title: "The receiver handles an event once that arrives twenty times concurrently", run: sendSame},
	{name: "events-concurrent", id: "CLI-5", title: "The receiver handles each of many different events that arrive concurrently", run: sendBursts},
	{name: "repeat-later", id: "CLI-5", title: "The receiver handles an event once that returns after many others", run: repeatEarly(func(r *run) []message { return r.early[:1] })},
	{name: "event-ids", id: "OCC-2", title: "The receiver accepts any visible ASCII of at most 256 bytes as an eventId", run: accepts(withNewIDs(ids, eventID))},
	{name: "event-ids-alike", id: "CLI-5", title: "The receiver handles each of several events with similar eventIds", handled: true, run: accepts(withNewIDs(similarIDs, eventID))},
	{name: "events-alike", id: "CLI-5", title: "The receiver handles both of two events with one webhook-id or one cursor", handled: true,
		run: accepts(these(sharedWebhookID, sharedWebhookID, sharedCursor, sharedCursor))},
	{name: "unknown-members", id: "CLI-2", title: "The receiver ignores unknown members", run: accepts(members("mcpeGenConform", nil, map[string]any{"a": []any{1, nil}}),
		members("_meta", map[string]any{"b.example/c": true, "type": wire.EnvelopeVerification, "eventId": "x", "challenge": "x"}))},
	{name: "event-cursor", id: "OCC-3", title: "The receiver accepts an event with or without a cursor",
		run: accepts(members("cursor", nil, "", visible+" é", strings.Repeat("c", 1<<10)))},
	{name: "event-timestamp", id: "OCC-1", title: "The receiver accepts any time of an event, also an earlier one than before",
		run: accepts(of([]int{0, 2 * 3600, -7 * 1800}, earlier))},
	{name: "text", id: "HOOK-1", title: "The receiver accepts any text and number", run: accepts(of(unusual, value))},
	{name: "body-malformed", id: "CLI-5", title: "The receiver refuses a body that is not a message", advice: true,
		run: refuses(bodies(fixed(""), fixed("[]"), fixed("null"), fixed("\xff\xfe"), replaced("{", "[{"), replaced("}", "")))},
	{name: "subscription-unknown", id: "CLI-5", title: "The receiver refuses an event of an unknown subscription so that the server retries it", run: sendUnknownSubscription},
}

// visible is all visible ASCII.
const visible = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// ids returns new ids of several lengths, with all visible characters, of digits only, and in the form of a UUID.
func ids(s *draw.Source, id, digits string) []string {
	return []string{
		id[:12],
		visible + id,
		strings.Join(draw.Some(s, 20+s.IntN(70), strings.Split(visible, "")), "") + id,
		id + strings.Repeat("x", wire.MaxEventID-len(id)),
		digits,
		"0191e0a4-7c1b-7" + digits[:3] + "-8" + digits[3:6] + "-" + digits[6:18],
	}
}

// similarIDs returns ids that are equal in lower case, as numbers, at the beginning, without special characters, or
// after URL decoding.
func similarIDs(_ *draw.Source, id, digits string) []string {
	id, long := strings.ToLower(id), id+strings.Repeat("x", wire.MaxEventID-len(id)-1)
	return []string{id, strings.ToUpper(id), digits, "0" + digits, digits + ".0", digits[:len(digits)-1] + "0", long + "1", long + "2",
		id + "-1", id + "_1", id + ".1", id + "1", id + "%41", id + "A", id + "/"}
}

// withNewIDs returns a class of events with the ids that list returns for a new id and new digits.
func withNewIDs(list func(s *draw.Source, id, digits string) []string, change func(*run, message, string) message) class {
	return func(r *run) []variant {
		digits := strings.Map(func(c rune) rune { return '1' + c%9 }, rand.Text())
		return of(list(r.draw, rand.Text(), digits), change)(r)
	}
}

func eventID(r *run, _ message, id string) message { return r.eventOf(id, nil) }

func webhookID(r *run, e message, id string) message { return r.repeat(e, id, e.body) }

func sharedWebhookID(r *run, e message) message { return webhookID(r, e, "msg_"+r.shared) }

func sharedCursor(r *run, _ message) message {
	return r.newEvent(map[string]any{"cursor": "conform-" + r.shared})
}

// members returns events with the values of a member.
func members(name string, values ...any) class {
	return of(values, func(r *run, _ message, value any) message { return r.newEvent(map[string]any{name: value}) })
}

// unusual are text with characters that JSON or HTML escapes, without width and outside the basic plane, numbers, and
// nested values.
var unusual = []any{"\u0000\u001f\"\\/ <&> \u2028 \u202e \ufeff \ufffd", "é 日本語 \U0001f9ea", 1e300, -0.1, uint64(1)<<63 + 1, []any{[]any{[]any{[]any{nil}}}},
	[]any{}, map[string]any{"": nil}}

func value(r *run, _ message, value any) message {
	return r.newEvent(map[string]any{"_meta": map[string]any{"value": value}})
}

// earlier returns an event of a drawn time in a zone, given in seconds. A delivery may be much later than its event.
func earlier(r *run, _ message, zone int) message {
	layout := draw.Pick(r.draw, []string{time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04:05.000Z07:00"})
	at := time.Now().Add(-time.Duration(2+r.draw.IntN(10_000)) * time.Hour)
	return r.newEvent(map[string]any{"timestamp": at.In(time.FixedZone("", zone)).Format(layout)})
}

// padded returns an event whose body is size bytes long, or the event if size is 0.
func padded(r *run, e message, size int) message {
	if size == 0 {
		return e
	}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	pad := func(n int) []byte {
		return r.occurrence(e.id, map[string]any{"timestamp": at, "_meta": map[string]any{"pad": strings.Repeat("x", n)}})
	}
	return r.repeat(e, e.id, pad(max(0, size-len(pad(0)))))
}

func drawnSize(r *run, e message) message {
	return padded(r, e, wire.MaxBody/2+r.draw.IntN(wire.MaxBody/2))
}

func chunked(r *run, e message, size int) message {
	e = padded(r, e, size)
	e.chunked = true
	return e
}

// repeated returns a check that the receiver accepts an event and each of its repetitions, and handles it once.
func repeated(again class) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		e := r.newEvent(nil)
		if err := r.expectHandled(ctx, e); err != nil {
			return err
		}
		for _, change := range again(r) {
			if err := r.expectHandled(ctx, change(r, e)); err != nil {
				return err
			}
		}
		return nil
	}
}

// repeatEarly returns a check that repeats early messages of the run, like a server that retries each message
// independently (HOOK-3).
func repeatEarly(choose func(*run) []message) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if len(r.early) == 0 {
			return verdict.Skipf("the receiver accepted no event at first")
		}
		for _, m := range choose(r) {
			if err := r.expectHandled(ctx, r.repeat(m, m.id, m.body)); err != nil {
				return err
			}
		}
		return nil
	}
}

// sendAtOnce posts events concurrently, and each of them once more. The receiver may request that the server sends any
// of them again, which it does after every status but 410 and 413 (HOOK-3).
func (r *run) sendAtOnce(ctx context.Context, events []message) error {
	var group sync.WaitGroup
	failures := make([]error, len(events))
	for i, e := range events {
		group.Go(func() {
			x, err := r.post(ctx, e)
			if err == nil && isFinal(x.status) {
				err = x.violation("2xx, or 5xx while the receiver is busy", "%d", x.status)
			}
			failures[i] = err
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	for _, e := range events {
		if err := r.expectHandled(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// isFinal reports whether a server never sends a message again after the status.
func isFinal(status int) bool {
	return status == http.StatusGone || status == http.StatusRequestEntityTooLarge
}

func sendSame(ctx context.Context, r *run) error {
	return r.sendAtOnce(ctx, slices.Repeat([]message{r.newEvent(nil)}, 20))
}

func sendBursts(ctx context.Context, r *run) error {
	for _, n := range []int{2, 2, 3 + r.draw.IntN(8), 40} {
		burst := make([]message, n)
		for i := range burst {
			burst[i] = r.newEvent(nil)
		}
		if err := r.sendAtOnce(ctx, burst); err != nil {
			return err
		}
	}
	return nil
}

// sendUnknownSubscription sends an event for a subscription that the receiver does not know. The receiver may learn its
// ID later because the subscribe response may still be in flight. A server therefore has to send the event again, which
// it does after any status except 410 and 413 (HOOK-3). A receiver that routes by path only may accept the event.
func sendUnknownSubscription(ctx context.Context, r *run) error {
	e := r.newEvent(nil).with(wire.HeaderSubscriptionID, "sub_"+rand.Text())
	x, err := r.post(ctx, e)
	switch {
	case err != nil:
		return err
	case x.taken():
		return x.violation("503, so that it is sent again", "%d", x.status).AsAdvice()
	case isFinal(x.status):
		return x.violation("503, so that it is sent again", "%d, after which no server does", x.status)
	}
	r.never(e.id, x)
	return nil
}
