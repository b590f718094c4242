package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// hooks is the webhook side of a fake server: it keeps subscriptions, challenges new endpoints, and
// posts what a test says. A cursor cN is the position after event eN.
type hooks struct {
	t *testing.T
	f *fake
	// post sends one request to a callback; by default it goes to receiver.
	post     func(r *http.Request) (status int, body string)
	receiver http.Handler
	// transport is that of all clients of the test, one after the other.
	transport mcp.Transport

	noReplay bool
	ttl      time.Duration // granted when not asked for less; negative for ever
	skew     time.Duration // of the server's clock
	// refuse may refuse a subscribe after it was counted; it runs after the challenge.
	refuse func(p wire.SubscribeParams) *jsonrpc.Error
	// status is the deliveryStatus of the next refresh; default active.
	status string
	// stuck holds answers to events/unsubscribe up.
	stuck chan struct{}
	// early is called before a subscribe is answered.
	early func(sub *hookSub)

	mu           sync.Mutex
	subs         map[string]*hookSub // by URL
	head         int
	subscribed   []subscribeCall
	unsubscribed []string
}

type hookSub struct {
	id, url string
	ring    webhook.Ring
	settled int
}

type subscribeCall struct {
	wire.SubscribeParams
	at time.Time
}

func (c subscribeCall) cursor() string {
	if c.Cursor == nil {
		return "null"
	}
	return *c.Cursor
}

func newHooks(t *testing.T, f *fake, receiver http.Handler) *hooks {
	h := &hooks{t: t, f: f, receiver: receiver, ttl: 24 * time.Hour, subs: map[string]*hookSub{}}
	h.post = func(r *http.Request) (int, string) {
		w := httptest.NewRecorder()
		h.receiver.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	f.hooks = h
	f.list = func() []wire.Descriptor { return []wire.Descriptor{descriptor("tick", "poll", "push", "webhook")} }
	return h
}

func (h *hooks) answer(m *jsonrpc.Request) (any, *jsonrpc.Error) {
	if m.Method == wire.MethodUnsubscribe {
		p, err := wire.DecodeUnsubscribeParams(m.Params)
		if err != nil {
			h.t.Error(err)
		}
		if h.stuck != nil {
			<-h.stuck
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unsubscribed = append(h.unsubscribed, p.Delivery.URL)
		if h.subs[p.Delivery.URL] == nil {
			return nil, h.f.err(wire.NotFound, `{"kind":"subscription"}`)
		}
		delete(h.subs, p.Delivery.URL)
		return empty, nil
	}
	p, err := wire.DecodeSubscribeParams(m.Params)
	if err != nil {
		h.t.Error(err)
	}
	return h.subscribe(p)
}

func (h *hooks) subscribe(p wire.SubscribeParams) (any, *jsonrpc.Error) {
	h.mu.Lock()
	h.subscribed = append(h.subscribed, subscribeCall{p, time.Now()})
	sub := h.subs[p.Delivery.URL]
	h.mu.Unlock()
	secret, err := webhook.ParseSecret(p.Delivery.Secret)
	if err != nil {
		h.t.Error(err)
	}
	fresh := sub == nil
	if fresh {
		sub = &hookSub{id: "sub_1", url: p.Delivery.URL, ring: webhook.NewRing(secret)}
		body, _ := webhook.Verification("nonce")
		id := webhook.NewMessageID(wire.EnvelopeVerification)
		if status, echo := h.exchange(sub, id, body); status != 200 || !strings.Contains(echo, `"nonce"`) {
			return nil, h.f.err(wire.CallbackEndpointError, `{"reason":"challenge_failed"}`)
		}
	}
	h.mu.Lock()
	refuse, early := h.refuse, h.early
	h.mu.Unlock()
	if refuse != nil {
		if e := refuse(p); e != nil {
			return nil, e
		}
	}
	if early != nil {
		early(sub)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if fresh {
		sub.settled = h.head
		if p.Cursor != nil {
			fmt.Sscanf(*p.Cursor, "c%d", &sub.settled)
		}
		h.subs[sub.url] = sub
	} else {
		sub.ring = sub.ring.Rotate(secret, time.Now(), 5*time.Minute)
	}
	res := map[string]any{"id": sub.id, "truncated": false, "cursor": h.cursor(sub.settled), "refreshBefore": nil}
	if ttl := h.ttl; ttl >= 0 && !p.NoExpiry || ttl > 0 {
		if p.TTLMs != nil {
			ttl = min(ttl, time.Duration(*p.TTLMs)*time.Millisecond)
		}
		res["refreshBefore"] = time.Now().Add(ttl + h.skew).UTC().Format(time.RFC3339)
	}
	if !fresh {
		res["deliveryStatus"] = json.RawMessage(`{"active":true,"lastDeliveryAt":null,"lastError":null}`)
		if h.status != "" {
			res["deliveryStatus"], h.status = json.RawMessage(h.status), ""
		}
	}
	return res, nil
}

func (h *hooks) cursor(n int) any {
	if h.noReplay {
		return nil
	}
	return fmt.Sprint("c", n)
}

// send posts one message and returns the status.
func (h *hooks) send(sub *hookSub, id string, body []byte) int {
	status, _ := h.exchange(sub, id, body)
	return status
}

func (h *hooks) exchange(sub *hookSub, id string, body []byte) (int, string) {
	now := h.copyOf(sub)
	r, err := webhook.Signer{Ring: now.ring}.NewRequest(h.t.Context(), now.url, webhook.Message{ID: id, Subscription: now.id, Body: body})
	if err != nil {
		h.t.Error(err)
	}
	return h.post(r)
}

// event posts event eN with the given cursor, "" for null.
func (h *hooks) event(sub *hookSub, n int, cursor string) int {
	id := fmt.Sprint("e", n)
	return h.send(sub, id, []byte(eventJSON(id, cursor)))
}

func (h *hooks) gap(sub *hookSub, id, cursor string) int {
	body, _ := webhook.Gap(&cursor)
	return h.send(sub, id, body)
}

func (h *hooks) terminated(sub *hookSub, kind wire.Kind, data string) int {
	e := h.f.err(kind, data)
	body, _ := webhook.Terminated(webhook.ErrorObject{Code: e.Code, Message: e.Message, Data: e.Data})
	return h.send(sub, webhook.NewMessageID(wire.EnvelopeTerminated), body)
}

// emit appends n events.
func (h *hooks) emit(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head += n
}

// deliver posts what is due to every subscription, in order, until one is refused.
func (h *hooks) deliver() {
	h.mu.Lock()
	subs := slices.Collect(maps.Values(h.subs))
	h.mu.Unlock()
	for _, sub := range subs {
		for h.deliverOne(sub) {
		}
	}
}

func (h *hooks) deliverOne(sub *hookSub) bool {
	h.mu.Lock()
	now, due := *sub, h.subs[sub.url] == sub && sub.settled < h.head
	h.mu.Unlock()
	if !due {
		return false
	}
	n := now.settled + 1
	cursor := fmt.Sprint("c", n)
	if h.noReplay {
		cursor = ""
	}
	if h.event(&now, n, cursor)/100 != 2 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	sub.settled = max(sub.settled, n)
	return true
}

// sub is the one live subscription.
func (h *hooks) sub() *hookSub {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) != 1 {
		h.t.Fatalf("%d subscriptions at the server", len(h.subs))
	}
	for _, sub := range h.subs {
		return sub
	}
	return nil
}

func (h *hooks) copyOf(sub *hookSub) hookSub {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *sub
}

// set changes the script when everything is quiet.
func (h *hooks) set(change func()) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	change()
}

func (h *hooks) live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// lose forgets all subscriptions, as a restart without a durable store does.
func (h *hooks) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.subs)
}

func (h *hooks) calls() []subscribeCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.subscribed)
}

// unsigned posts to a callback as somebody who knows the path only.
func (h *hooks) unsigned(url string) int {
	r, _ := http.NewRequestWithContext(h.t.Context(), http.MethodPost, url, bytes.NewReader([]byte(`{"type":"verification","challenge":"x"}`)))
	stranger := webhook.Signer{Ring: webhook.NewRing(webhook.NewSecret())}
	if err := stranger.Sign(r.Header, webhook.Message{ID: "msg_x", Body: []byte(`{"type":"verification","challenge":"x"}`)}, time.Now()); err != nil {
		h.t.Error(err)
	}
	status, _ := h.post(r)
	return status
}

// hooked is a fake server and a client of it that receives by webhook.
func hooked(t *testing.T, c carrier, o Options) (*hooks, *Client) {
	t.Helper()
	f := newFake(c.legacy)
	h := newHooks(t, f, nil)
	return h, h.client(c, o)
}

// client connects another client with a receiver of its own, to which all is posted from now on.
func (h *hooks) client(c carrier, o Options) *Client {
	h.t.Helper()
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.receiver = receiver
	w := WebhookOptions{}
	if o.Webhook != nil {
		w = *o.Webhook
	}
	w.PublicURL, w.Receiver = "https://receiver.example/base/", receiver
	// A proxy takes "/base" away.
	h.receiver = http.StripPrefix("/base", receiver)
	o.Webhook = &w
	if h.transport == nil {
		h.transport = h.f.transport(h.t, c)
	}
	cl, err := Connect(h.t.Context(), h.transport, o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { cl.Close() })
	return cl
}
