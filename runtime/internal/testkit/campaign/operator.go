package campaign

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Names of the operator's verbs in the report.
const (
	paused      = "operator: pause and unpause"
	replayed    = "operator: replay"
	replayEnded = "operator: replay and endreplay"
	sent        = "operator: send"
	gapped      = "operator: gap"
	ended       = "operator: end"
	kept        = "operator: all events between the verbs"
)

// operated is the number of subscriptions on which an operator acts at a time.
const operated = 2

// An operation is one action of an operator on a subscription.
type operation struct {
	verb     string
	receiver string
	event    string    // of a send
	since    time.Time // start of a replay
	asked    time.Time // before the first request; for a pause, after the response
	done     time.Time // after the last response; for a pause, before the unpause is requested
	fault    bool      // a process or the store had a fault meanwhile
}

// repeats reports whether the operation may cause an attempt at an event whose attempt before was accepted.
func (o *operation) repeats(before, a attempt) bool {
	return (o.verb == replayed || o.verb == sent && o.event == a.event) && o.receiver == a.receiver &&
		a.begin.After(o.asked) && (o.done.IsZero() || before.end.Before(o.done.Add(storeTime)))
}

// check returns an error while a promise of docs/operating.md about the operation is broken. Attempts and envelopes are
// those of its receiver.
func (o *operation) check(attempts, envelopes []attempt, l *ledger) error {
	accepted, again := map[string]bool{}, map[string]bool{}
	for _, a := range attempts {
		if a.accepted && a.end.Before(o.asked) {
			accepted[a.event] = true
		}
		again[a.event] = again[a.event] || a.begin.After(o.asked)
	}
	has := func(kind string) bool {
		return slices.ContainsFunc(envelopes, func(a attempt) bool { return a.event == kind && a.accepted && a.begin.After(o.asked) })
	}
	switch o.verb {
	case paused:
		for _, a := range attempts {
			if a.begin.Before(o.done) && a.signed.Sub(o.asked) > changeDelay+clockError {
				return fmt.Errorf("pause holds deliveries: %s was attempted by %s at %s, %v after the pause", a.event, a.source,
					a.begin.UTC().Format(stamp), a.signed.Sub(o.asked))
			}
		}
	case replayed:
		for event := range accepted {
			if e, ok := l.get(event); ok && e.Opened.After(o.since.Add(time.Second)) && !again[event] {
				return fmt.Errorf("a replay resends all events since a point: %s did not come again", event)
			}
		}
	case sent:
		if !again[o.event] {
			return fmt.Errorf("send resends one event: %s did not come again", o.event)
		}
	case gapped:
		if !has(wire.EnvelopeGap) {
			return fmt.Errorf("a subscription gets a gap: no envelope came")
		}
	case ended:
		if !has(wire.EnvelopeTerminated) && !o.fault {
			return fmt.Errorf("end notifies the endpoint: no envelope came")
		}
	case kept:
		all := map[string]bool{}
		for _, a := range attempts {
			all[a.event] = all[a.event] || a.accepted
		}
		for _, id := range l.expected("") {
			if e, _ := l.get(id); e.Opened.After(o.asked) && e.Opened.Before(o.done) && !all[id] {
				return fmt.Errorf("deliveries continue after a pause, a replay and its end: %s did not arrive", id)
			}
		}
	}
	return nil
}

// of returns the attempts at a receiver and its envelopes.
func (r *reception) of(receiver string) (attempts, envelopes []attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		if a.receiver == receiver {
			attempts = append(attempts, a)
		}
	}
	for _, a := range r.envelopes {
		if a.receiver == receiver {
			envelopes = append(envelopes, a)
		}
	}
	return attempts, envelopes
}

// begin records an operation, which may cause repetitions from now on. The function it returns records its end.
func (r *reception) begin(o *operation) (finish func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.asked = time.Now()
	i := len(r.operations)
	r.operations = append(r.operations, *o)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		o.done = time.Now()
		r.operations[i] = *o
	}
}

// runOperated repeatedly creates a subscription, lets an operator act on it in random order, and lets the operator end
// it.
func (g *guest) runOperated(ctx context.Context) {
	verbs := []func(*guest, context.Context) bool{(*guest).pause, (*guest).replay, (*guest).endReplay, (*guest).send, (*guest).gap}
	for ctx.Err() == nil {
		r := g.c.reception
		r.update(g.endpoint, func(t *terms) { *t = terms{anew: time.Now()} })
		g.secret = webhook.NewSecret()
		g.endpoint.Rotate(g.secret, time.Minute)
		if _, ok := g.subscribe(ctx, time.Hour); !ok {
			return
		}
		began := time.Now()
		r.update(g.endpoint, func(t *terms) { t.anew = began })
		for _, n := range rand.Perm(len(verbs)) {
			if !Sleep(ctx, rand.N(stayTime)) || !verbs[n](g, ctx) {
				return
			}
		}
		if g.unsure { // a stopped replica may apply a pause when it continues
			g.unsure = false
			if !Sleep(ctx, actTime) || !g.act(ctx, "unpause", nil) {
				return
			}
		}
		if !g.await(ctx, &operation{verb: kept, receiver: g.endpoint.Path(), asked: began, done: time.Now()}) || !g.end(ctx) {
			return
		}
	}
}

func (g *guest) pause(ctx context.Context) bool {
	o := &operation{verb: paused, receiver: g.endpoint.Path()}
	if !g.act(ctx, "pause", nil) {
		return false
	}
	o.asked = time.Now()
	Sleep(ctx, changeDelay+clockError+rand.N(2*g.c.Lease)) // also across a takeover
	o.done = time.Now()
	return g.act(ctx, "unpause", nil) && g.await(ctx, o)
}

func (g *guest) replay(ctx context.Context) bool {
	o := &operation{verb: replayed, receiver: g.endpoint.Path(), since: time.Now().Add(-3 * time.Second)}
	finish := g.c.reception.begin(o)
	ok := g.act(ctx, "replay", map[string]any{"since": o.since})
	finish()
	return ok && g.await(ctx, o)
}

// endReplay ends the replay of a paused subscription. Nothing comes again, so judgeAttempts reports any
// repetition.
func (g *guest) endReplay(ctx context.Context) bool {
	since := time.Now().Add(-3 * time.Second)
	ok := g.act(ctx, "pause", nil) && Sleep(ctx, changeDelay+clockError) && g.act(ctx, "replay", map[string]any{"since": since}) &&
		g.act(ctx, "endreplay", nil) && g.act(ctx, "unpause", nil)
	if ok {
		g.c.happened(replayEnded)
	}
	return ok
}

func (g *guest) send(ctx context.Context) bool {
	o := &operation{verb: sent, receiver: g.endpoint.Path()}
	var id string
	for id == "" && Sleep(ctx, 500*time.Millisecond) { // until an attempt is recorded
		attempts, _ := g.c.reception.of(o.receiver)
		for _, a := range attempts {
			if a.accepted && time.Since(a.end) > storeTime && time.Since(a.end) < 3*storeTime {
				o.event, id = a.event, a.id
			}
		}
	}
	if ctx.Err() != nil {
		return false
	}
	if found, err := g.recorded(ctx, id); err != nil || !found {
		return ctx.Err() == nil // attempts that a killed process had not written
	}
	finish := g.c.reception.begin(o)
	ok := g.act(ctx, "send", map[string]any{"eventId": id})
	finish()
	if attempts, _ := g.c.reception.of(o.receiver); ok && g.unknown && o.check(attempts, nil, g.c.ledger) != nil {
		return true
	}
	return ok && g.await(ctx, o)
}

func (g *guest) gap(ctx context.Context) bool {
	o := &operation{verb: gapped, receiver: g.endpoint.Path()}
	defer g.c.reception.begin(o)()
	return g.retryWithin(ctx, "gap", actTime, retryTime, func(ctx context.Context) error {
		status, text, err := g.request(ctx, http.MethodPost, "/gap?id="+g.id, "", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	}) && g.await(ctx, o)
}

func (g *guest) end(ctx context.Context) bool {
	o := &operation{verb: ended, receiver: g.endpoint.Path()}
	finish := g.c.reception.begin(o)
	ok := g.act(ctx, "end", nil)
	finish()
	if !ok {
		return false
	}
	g.c.reception.update(g.endpoint, func(t *terms) { t.over, t.why = time.Now(), "end by an operator" })
	if status, text, err := g.request(ctx, http.MethodGet, "/ops/api/subscriptions/"+g.id, "", nil); err == nil && status == http.StatusOK {
		g.c.fail(fmt.Errorf("%s: end ends a subscription: it is still listed: %s", g.token, text))
	}
	Sleep(ctx, awayTime) // the fault may end later
	o.fault = g.c.hadFault(o.asked, o.done.Add(storeTime))
	return g.await(ctx, o)
}

// hadFault reports whether a fault overlaps the period.
func (c *Campaign) hadFault(from, to time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.windows, func(w window) bool { return w.from.Before(to) && w.to.After(from) })
}

// await waits until the operation passes its check. It reports a finding if that takes too long.
func (g *guest) await(ctx context.Context, o *operation) bool {
	for end := time.Now().Add(retryTime); ; {
		attempts, envelopes := g.c.reception.of(o.receiver)
		err := o.check(attempts, envelopes, g.c.ledger)
		switch {
		case err == nil:
			g.c.happened(o.verb)
			return true
		case time.Now().After(end), o.verb == paused:
			g.c.fail(fmt.Errorf("%s of %s, asked at %s, done at %s: %w: %s", o.verb, g.id,
				o.asked.UTC().Format(stamp), o.done.UTC().Format(stamp), err, g.c.history(ctx, o.receiver, g.answers)))
			return ctx.Err() == nil
		case !Sleep(ctx, 200*time.Millisecond):
			return false
		}
	}
}

// recorded reports whether an attempt at the event is recorded.
func (g *guest) recorded(ctx context.Context, id string) (found bool, err error) {
	status, text, err := g.request(ctx, http.MethodGet, "/ops/api/subscriptions/"+g.id+"/attempts", "", nil)
	return status == http.StatusOK && bytes.Contains(text, []byte(`"`+id+`"`)), err
}

const (
	// actTime is the timeout of a request for an action.
	actTime = 20 * time.Second
	// retryTime is the maximum time until an action is done. Several faults in a row can take up actTime each.
	retryTime = 3 * time.Minute
)

// act requests an action through the operators' API until it is done.
func (g *guest) act(ctx context.Context, verb string, body any) bool {
	tries, key := 0, crand.Text()
	var accepted stored
	return g.retryWithin(ctx, verb, actTime, retryTime, func(ctx context.Context) error {
		if accepted.Number > 0 {
			return g.checkDone(ctx, accepted)
		}
		tries++
		g.unsure = g.unsure || verb == "pause" && tries > 1
		status, text, err := g.request(ctx, http.MethodPost, "/ops/api/subscriptions/"+g.id+"/"+verb, key, body)
		switch {
		case err != nil:
			if ctx.Err() != nil { // the process that has the key is stopped or dead
				key = crand.Text()
			}
			return err
		case status == http.StatusOK, status == http.StatusNotFound && tries > 1 && slices.Contains([]string{"end", "endreplay", "send"}, verb):
			g.unknown = status == http.StatusNotFound
			return nil
		case status == http.StatusAccepted:
			if err := json.Unmarshal(text, &accepted); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d %s", status, text)
	})
}

// A stored is a request that a server has stored.
type stored struct {
	Kind   string `json:"kind"`
	Number uint64 `json:"number"`
}

// checkDone returns an error while a stored request is not performed.
func (g *guest) checkDone(ctx context.Context, asked stored) error {
	status, text, err := g.request(ctx, http.MethodGet, "/ops/api/subscriptions/"+g.id, "", nil)
	if err != nil || status == http.StatusNotFound {
		return err
	}
	var s struct {
		Requests []struct {
			stored
			Done uint64 `json:"done"`
		} `json:"requests"`
	}
	if err := json.Unmarshal(text, &s); err != nil || status != http.StatusOK {
		return fmt.Errorf("%d %s: %w", status, text, err)
	}
	for _, q := range s.Requests {
		if q.Kind == asked.Kind && q.Done < asked.Number {
			return fmt.Errorf("request %d to %s is stored, but not performed", asked.Number, asked.Kind)
		}
	}
	return nil
}

// request sends a request to a random replica. The balancer would not wait long enough.
func (g *guest) request(ctx context.Context, method, path, key string, body any) (status int, text []byte, err error) {
	var b []byte
	if body != nil {
		if b, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.c.slots[rand.IntN(len(g.c.slots))].options.addr+path, bytes.NewReader(b))
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		asked := time.Now()
		defer func() { g.answers.add(asked, path, key, status, string(text[:min(len(text), 200)]), err) }()
	}
	resp, err := g.c.hc.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, text, err
}
