package campaign

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// An attempt is one webhook request that delivers an occurrence to a receiver.
type attempt struct {
	receiver, event string
	source          string // the address of the replica that made it
	begin, end      time.Time
	accepted        bool
	signed          time.Time // by the store's clock, in whole seconds
	id              string    // the webhook-id
}

// terms are the conditions that delivery attempts to one endpoint must satisfy.
type terms struct {
	over   time.Time      // end of the subscription; zero while it lives
	why    string         // why it ended
	secret webhook.Secret // the signing secret
	since  time.Time      // when the replica that responded received the secret
	anew   time.Time      // when the current subscription had definitely begun; it may repeat deliveries of an earlier one
}

const (
	// changeDelay is the maximum time that replicas may take to apply a change (REP-11). clockError is the maximum
	// error of their estimate of the store's clock while the store is slow.
	changeDelay = 2 * time.Second
	clockError  = 500 * time.Millisecond
)

// check returns an error if an attempt violates the terms.
func (t terms) check(a attempt, header http.Header, body []byte) error {
	if late := a.signed.Sub(t.over); !t.over.IsZero() && late > changeDelay+clockError {
		return fmt.Errorf("%s was attempted at %s by %s %v after its %s", a.event, a.receiver, a.source, late, t.why)
	}
	if late := a.signed.Sub(t.since); !t.since.IsZero() && late > changeDelay+clockError {
		if _, err := (webhook.Verifier{Secrets: []webhook.Secret{t.secret}, Tolerance: time.Hour}).Verify(header, body); err != nil {
			return fmt.Errorf("%s was not signed with the new secret by %s %v after the rotation: %w", a.event, a.source, late, err)
		}
	}
	return nil
}

// A reception is the HTTP server of all receivers. It identifies its callers and sometimes fails.
type reception struct {
	handler *webhook.Receiver
	server  *httptest.Server

	mu         sync.Mutex
	attempts   []attempt
	envelopes  []attempt // of gaps and ends, with the type as the event
	operations []operation
	steady     bool             // it no longer fails
	terms      map[string]terms // by path
	fail       func(error)
}

// forgetRotations forgets all rotations. After a restore, replicas sign with the restored secrets until the next
// rotation.
func (r *reception) forgetRotations() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, t := range r.terms {
		t.since = time.Time{}
		r.terms[path] = t
	}
}

// update changes the terms of an endpoint.
func (r *reception) update(e *webhook.Endpoint, change func(*terms)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.terms[e.Path()]
	change(&t)
	r.terms[e.Path()] = t
}

// failureRate is the fraction of requests that receivers reject.
const failureRate = 0.03

func newReception(fail func(error)) (*reception, error) {
	handler, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	r := &reception{handler: handler, fail: fail, terms: map[string]terms{}}
	r.server = httptest.NewServer(r)
	return r, nil
}

func (r *reception) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steady = true
}

func (r *reception) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	begin := time.Now()
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return
	}
	var o occurrence
	json.Unmarshal(body, &o) // other messages are checked by the handler
	answer := httptest.NewRecorder()
	r.mu.Lock()
	refuses := !r.steady && o.Data.TicketID != "" && rand.Float64() < failureRate
	r.mu.Unlock()
	if refuses {
		answer.WriteHeader(http.StatusServiceUnavailable)
	} else {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		r.handler.ServeHTTP(answer, again)
	}
	if o.Data.TicketID != "" || o.Type != "" {
		source, _, _ := net.SplitHostPort(req.RemoteAddr)
		seconds, _ := strconv.ParseInt(req.Header.Get(wire.HeaderWebhookTimestamp), 10, 64)
		a := attempt{req.URL.Path, o.Data.TicketID, source, begin, time.Now(), answer.Code/100 == 2, time.Unix(seconds, 0),
			req.Header.Get(wire.HeaderWebhookID)}
		r.mu.Lock()
		if o.Type != "" {
			a.event = o.Type
			r.envelopes = append(r.envelopes, a)
		} else {
			r.attempts = append(r.attempts, a)
		}
		holds := r.terms[req.URL.Path]
		r.mu.Unlock()
		if err := holds.check(a, req.Header, body); err != nil && o.Type == "" {
			r.fail(err)
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// A hook is a consumer with a webhook subscription and an endpoint.
type hook struct {
	caller
	reception *reception
	endpoint  *webhook.Endpoint
	ttl       time.Duration // 0 for an hour
	every     time.Duration // between refreshes, each with a new secret; 0 for none

	answers answers
}

// answers are the responses to the last requests for a webhook, with their times.
type answers []string

// maxAnswers is the number of responses that answers keep.
const maxAnswers = 40

func (a *answers) add(asked time.Time, what ...any) {
	kept := (*a)[max(0, len(*a)+1-maxAnswers):]
	*a = append(kept, fmt.Sprintf("%s to %s: %v", asked.UTC().Format(stamp), time.Now().UTC().Format(stamp), what))
}

func newHook(c caller, r *reception) (*hook, error) {
	e, err := r.handler.Open(webhook.EndpointOptions{})
	return &hook{caller: c, reception: r, endpoint: e}, err
}

// run subscribes at any replica and receives deliveries until ctx is done.
func (h *hook) run(ctx context.Context) {
	for {
		asked := time.Now()
		id, err := h.subscribe(ctx)
		if err == nil {
			h.endpoint.Activate(id, h.take)
			h.refresh(ctx, asked.Add(h.ttl))
			return
		}
		if !Sleep(ctx, 50*time.Millisecond) {
			h.fail(fmt.Errorf("it never subscribed: %w", err))
			return
		}
		h.trouble()
	}
}

// refresh extends the subscription until ctx is done, each time with a new secret. The subscription does not expire
// before expiry. If no refresh receives a response before that time, one of them may have created a new subscription,
// which has only the new secret and starts at the first cursor.
func (h *hook) refresh(ctx context.Context, expiry time.Time) {
	for h.every > 0 && Sleep(ctx, h.every) {
		secret := webhook.NewSecret()
		h.endpoint.Rotate(secret, time.Minute)
		for {
			asked := time.Now()
			late := asked.Add(answerTime + clockError).After(expiry)
			if late {
				h.reception.update(h.endpoint, func(t *terms) { t.since = time.Time{} })
			}
			_, err := h.subscribe(ctx)
			if err == nil {
				expiry = asked.Add(h.ttl)
				h.reception.update(h.endpoint, func(t *terms) {
					t.secret, t.since = secret, time.Now()
					if late {
						t.anew = t.since
					}
				})
				break
			}
			if !Sleep(ctx, 50*time.Millisecond) {
				break
			}
			h.trouble()
		}
	}
	<-ctx.Done()
}

func (h *hook) subscribe(ctx context.Context) (id string, err error) {
	asked := time.Now()
	defer func() {
		h.answers.add(asked, "subscribe", id, err)
	}()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := call(ctx, h.hc, h.base, wire.MethodSubscribe, map[string]any{
		"name": tickets.TicketCreatedEventName, "arguments": arguments(h.severity), "cursor": h.cursor,
		"ttlMs": cmp.Or(h.ttl, time.Hour).Milliseconds(),
		"delivery": wire.Delivery{Mode: "webhook", URL: h.reception.server.URL + h.endpoint.Path(),
			Secret: h.endpoint.Secret().Text()},
	})
	if err != nil {
		return "", err
	}
	var result struct {
		ID string `json:"id"`
	}
	if err := decode(resp, &result); err != nil {
		return "", fmt.Errorf("subscribe: %w", err)
	}
	if result.ID == "" {
		return "", errors.New("subscribe: the answer has no id")
	}
	return result.ID, nil
}

// A refusal is a JSON-RPC error response.
type refusal struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.Code, r.Message) }

// decode decodes the result of a response and closes its body. If the call was refused, the error is a *refusal.
func decode(resp *http.Response, result any) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	// The SDK responds with an event stream that contains one message.
	if _, data, ok := bytes.Cut(body, []byte("data: ")); ok {
		body = data
	}
	a := struct {
		Result any      `json:"result"`
		Error  *refusal `json:"error"`
	}{Result: result}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&a); err != nil {
		return fmt.Errorf("%q: %w", body, err)
	}
	if a.Error != nil {
		return a.Error
	}
	return nil
}

func (h *hook) take(_ context.Context, d webhook.Delivery) error {
	switch d.Type {
	case "":
		var o occurrence
		if err := json.Unmarshal(d.Body, &o); err != nil {
			h.fail(err)
		}
		h.took(o)
	case wire.EnvelopeGap:
		h.gap()
	case wire.EnvelopeTerminated:
		h.fail(fmt.Errorf("the subscription was terminated: %s", d.Body))
	}
	return nil
}
