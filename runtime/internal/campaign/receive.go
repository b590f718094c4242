package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// An attempt is one request with an occurrence that a receiver got.
type attempt struct {
	receiver, event string
	source          string // the address of the replica that made it
	begin, end      time.Time
	accepted        bool
}

// A reception is the host of all receivers. It knows who called it, and fails at times.
type reception struct {
	handler *webhook.Receiver
	server  *httptest.Server

	mu       sync.Mutex
	attempts []attempt
	steady   bool // it fails no more
}

// failing is the share of requests that receivers refuse.
const failing = 0.03

func newReception() (*reception, error) {
	handler, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	r := &reception{handler: handler}
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
	json.Unmarshal(body, &o) // it may be another message, which the handler judges
	answer := httptest.NewRecorder()
	r.mu.Lock()
	refuses := !r.steady && o.Data.TicketID != "" && rand.Float64() < failing
	r.mu.Unlock()
	if refuses {
		answer.WriteHeader(http.StatusServiceUnavailable)
	} else {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		r.handler.ServeHTTP(answer, again)
	}
	if o.Data.TicketID != "" {
		source, _, _ := net.SplitHostPort(req.RemoteAddr)
		r.mu.Lock()
		r.attempts = append(r.attempts, attempt{
			req.URL.Path, o.Data.TicketID, source, begin, time.Now(), answer.Code/100 == 2})
		r.mu.Unlock()
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// A hook is a webhook subscription with its endpoint.
type hook struct {
	caller
	reception *reception
	endpoint  *webhook.Endpoint
}

func newHook(c caller, r *reception) (*hook, error) {
	e, err := r.handler.Open(webhook.EndpointOptions{})
	return &hook{c, r, e}, err
}

// run subscribes, which any replica may be asked for, and waits for the end.
func (h *hook) run(ctx context.Context) {
	for {
		id, err := h.subscribe(ctx)
		if err == nil {
			h.endpoint.Activate(id, h.take)
			<-ctx.Done()
			return
		}
		if !sleep(ctx, 50*time.Millisecond) {
			h.fail(fmt.Errorf("it never subscribed: %w", err))
			return
		}
		h.trouble()
	}
}

func (h *hook) subscribe(ctx context.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := call(ctx, h.hc, h.base, wire.MethodSubscribe, map[string]any{
		"name": tickets.TicketCreatedEventName, "arguments": arguments(h.severity), "cursor": h.cursor,
		"ttlMs": time.Hour.Milliseconds(),
		"delivery": wire.Delivery{Mode: "webhook", URL: h.reception.server.URL + h.endpoint.Path(),
			Secret: h.endpoint.Secret().Text()},
	})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var a struct {
		Result struct {
			ID string `json:"id"`
		} `json:"result"`
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	// The SDK answers as a stream of one message.
	if _, data, ok := bytes.Cut(body, []byte("data: ")); ok {
		body = data
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&a); err != nil {
		return "", fmt.Errorf("%q: %w", body, err)
	}
	if a.Error != nil {
		return "", fmt.Errorf("subscribe: %d %s", a.Error.Code, a.Error.Message)
	}
	if a.Result.ID == "" {
		return "", errors.New("subscribe: the answer has no id")
	}
	return a.Result.ID, nil
}

func (h *hook) take(_ context.Context, d webhook.Delivery) error {
	switch d.Type {
	case "":
		var o occurrence
		if err := json.Unmarshal(d.Body, &o); err != nil {
			h.fail(err)
		}
		h.got(o.Data.TicketID, h.ledger)
	case wire.EnvelopeGap:
		h.gap()
	case wire.EnvelopeTerminated:
		h.fail(fmt.Errorf("the subscription was terminated: %s", d.Body))
	}
	return nil
}
