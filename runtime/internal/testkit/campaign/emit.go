package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// An emitter opens tickets one after another through the load balancer. It retries each ticket with the same ID until a
// replica acknowledges it.
type emitter struct {
	name    string
	base    string
	ledger  *ledger
	hc      *http.Client
	pause   time.Duration
	outbox  bool         // in transactions, two tickets at a time
	newer   *atomic.Bool // a replica of the next build is running
	failure func(error)
}

// TicketTitle is the title of every ticket.
const TicketTitle = "The printer is on fire"

var severities = []string{"low", "normal", "high"}

// giveUp is the maximum number of attempts to emit a ticket that only some builds can emit.
const giveUp = 20

// emitter returns the emitter with the given number.
func (c *Campaign) emitter(name string, number int) *emitter {
	return &emitter{name: name, base: c.balancer.URL, ledger: c.ledger, hc: c.hc, pause: c.Pause,
		outbox: c.Transactions && number%2 == 1, newer: &c.newer, failure: c.fail}
}

func (e *emitter) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		one := func(suffix string) ticket {
			// A retry sends the same data, because the response to an earlier attempt may have been lost.
			return ticket{ID: fmt.Sprintf("%s-%d%s", e.name, n, suffix), Title: TicketTitle,
				Severity: severities[rand.IntN(len(severities))], Opened: events.NewTime(time.Now().UTC())}
		}
		if e.outbox {
			both := []ticket{one("a"), one("b")}
			e.open(ctx, "/transaction", both, both...)
		} else {
			t := one("")
			if n%8 == 0 && e.newer.Load() {
				t.Team = "facilities"
			}
			e.open(ctx, "/emit", t, t)
		}
		Sleep(ctx, e.pause/2+rand.N(e.pause))
	}
}

// open emits tickets and retries until a replica acknowledges them. It continues even after ctx is done, because the
// tickets have already been counted.
func (e *emitter) open(ctx context.Context, path string, body any, all ...ticket) {
	text, err := json.Marshal(body)
	if err != nil {
		e.failure(err)
		return
	}
	for _, t := range all {
		e.ledger.begin(t, e.outbox)
	}
	ctx = context.WithoutCancel(ctx)
	for try, end := 0, time.Now().Add(settleTime); ; try++ {
		status, answer, err := e.post(ctx, path, text)
		switch {
		case err == nil && status == http.StatusOK:
			for _, t := range all {
				e.ledger.acknowledged(t.ID)
			}
			return
		case err == nil && status == http.StatusConflict:
			e.failure(fmt.Errorf("%s of %s was refused: %s", path, all[0].ID, answer))
			return
		case all[0].Team != "" && try == giveUp:
			return // it may have been emitted
		case time.Now().After(end):
			e.failure(fmt.Errorf("%s of %s was never acknowledged: %d %s %w", path, all[0].ID, status, answer, err))
			return
		}
		e.ledger.retried()
		time.Sleep(20 * time.Millisecond)
	}
}

func (e *emitter) post(ctx context.Context, path string, body []byte) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := e.hc.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return resp.StatusCode, string(text), err
}

// Sleep waits for d. It returns false if ctx is done first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
