package receivers

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var signatureChecks = []check{
	{id: "CLI-5", title: "an event with a right signature is taken", run: rightTaken},
	{id: "CLI-5", title: "the signature is over the bytes as they came", run: bytesAsSent},
	{id: "CLI-5", title: "an event without a signature is refused", run: unsignedRefused},
	{id: "CLI-5", title: "an event with a wrong signature is refused", run: wrongRefused},
	{id: "CLI-5", title: "an event signed by another secret is refused", run: forgedRefused},
	{id: "CLI-5", title: "an event whose body was changed is refused", run: changedRefused},
	{id: "CLI-5", title: "the signature is over the webhook-id and the timestamp", run: headersSigned},
	{id: "SUB-5", title: "of two signatures one that is right will do", run: oneOfTwo},
	{id: "HOOK-10", title: "signatures of unknown schemes are passed over", run: otherSchemes},
	{id: "HOOK-2", title: "names of headers may be in any case", run: anyCase},
	{id: "CLI-5", title: "an event that is four minutes old is taken", run: fourMinutes},
	{id: "CLI-5", title: "an event that is six minutes old is refused", run: ofMinutes(-6)},
	{id: "CLI-5", title: "an event that is six minutes ahead is refused", run: ofMinutes(6)},
	{id: "HOOK-2", title: "a timestamp in milliseconds is refused", run: milliseconds},
}

func rightTaken(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	return r.takesEvent(ctx, id, m)
}

// Whoever signs what it has parsed and written anew gets other bytes.
func bytesAsSent(ctx context.Context, r *run) error {
	id := newEventID()
	body := bytes.Replace(r.occurrence(id, nil), []byte(`{"`), []byte("{ \t\r\n \""), 1)
	body = bytes.Replace(body, []byte(`"eventId":"evt_`), []byte(`"eventId" : "\u0065vt_`), 1)
	return r.takesEvent(ctx, id, r.signed(r.key, id, time.Now(), body))
}

func unsignedRefused(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	delete(m.header, wire.HeaderWebhookSignature)
	return r.refusesEvent(ctx, id, m)
}

func wrongRefused(ctx context.Context, r *run) error {
	for _, signature := range []string{"v1,", "v1,AAAA", "v1," + strings.Repeat("A", 43) + "="} {
		id, m := r.event(nil)
		m.header[wire.HeaderWebhookSignature] = signature
		if err := r.refusesEvent(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

func forgedRefused(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	m.sign(otherKey())
	return r.refusesEvent(ctx, id, m)
}

// A space more leaves the JSON the same.
func changedRefused(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	m.body = append(bytes.Clone(m.body), ' ')
	return r.refusesEvent(ctx, id, m)
}

func headersSigned(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	m.header[wire.HeaderWebhookID] = newEventID()
	if err := r.refusesEvent(ctx, id, m); err != nil {
		return err
	}
	id, m = r.event(nil)
	m.header[wire.HeaderWebhookTimestamp] = strconv.FormatInt(time.Now().Add(-time.Minute).Unix(), 10)
	return r.refusesEvent(ctx, id, m)
}

func oneOfTwo(ctx context.Context, r *run) error {
	for _, front := range []bool{true, false} {
		id, m := r.event(nil)
		right := m.header[wire.HeaderWebhookSignature]
		m.sign(otherKey())
		other := m.header[wire.HeaderWebhookSignature]
		m.header[wire.HeaderWebhookSignature] = other + " " + right
		if front {
			m.header[wire.HeaderWebhookSignature] = right + " " + other
		}
		if err := r.takesEvent(ctx, id, m); err != nil {
			return err
		}
	}
	return nil
}

func otherSchemes(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	m.header[wire.HeaderWebhookSignature] = "v9,AAAA v1a," + strings.Repeat("A", 86) + "== " + m.header[wire.HeaderWebhookSignature]
	return r.takesEvent(ctx, id, m)
}

func anyCase(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	names := map[string]string{}
	for name, value := range m.header {
		names[strings.ToUpper(name)] = value
	}
	m.header = names
	return r.takesEvent(ctx, id, m)
}

func fourMinutes(ctx context.Context, r *run) error {
	id := newEventID()
	return r.takesEvent(ctx, id, r.signed(r.key, id, time.Now().Add(-4*time.Minute), r.occurrence(id, nil)))
}

func ofMinutes(n time.Duration) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		id := newEventID()
		return r.refusesEvent(ctx, id, r.signed(r.key, id, time.Now().Add(n*time.Minute), r.occurrence(id, nil)))
	}
}

func milliseconds(ctx context.Context, r *run) error {
	id, m := r.event(nil)
	m.header[wire.HeaderWebhookTimestamp] = strconv.FormatInt(time.Now().UnixMilli(), 10)
	m.sign(r.key)
	return r.refusesEvent(ctx, id, m)
}
