package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// DefaultWait is the usual time limit for waiting for the outcome of a request.
const DefaultWait = time.Minute

// firstPause and maxPause limit the pause between two reads of a request.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// awaitOutcome waits until the request that an answer names has been performed, at most o.Wait. The argument
// subscription is the URL of its subscription. If the request resends an event, awaitOutcome returns the attempt, unless
// it is not recorded. It does nothing for an action that is done.
func (o *Options) awaitOutcome(ctx context.Context, subscription string, answer []byte, eventID string) (attempt map[string]any, err error) {
	var asked struct {
		Kind   string
		Number uint64
	}
	if err := json.Unmarshal(answer, &asked); err != nil || asked.Kind == "" || o.Wait == 0 {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Wait, fmt.Errorf("request %d to %s is stored, but was not performed within %s: see show", asked.Number, plain.Text(asked.Kind), plain.Duration(o.Wait)))
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		done, err := o.isPerformed(ctx, subscription, asked.Kind, asked.Number)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil || done && eventID == "":
			return nil, err
		case done:
			return o.attemptAt(ctx, subscription, eventID)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// isPerformed reports whether a request has been performed. It returns an error if the request failed or was replaced.
func (o *Options) isPerformed(ctx context.Context, subscription, kind string, number uint64) (bool, error) {
	answer, err := o.sendRequest(ctx, "GET", subscription, nil, nil)
	if p, answered := errors.AsType[*problem](err); answered && p.Code == "not_found" && kind == "end" {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var s struct {
		Requests []struct {
			Kind, Failure string
			Number, Done  uint64
		}
	}
	if err := json.Unmarshal(answer, &s); err != nil {
		return false, fmt.Errorf("the response is not a subscription: %w", err)
	}
	for _, q := range s.Requests {
		if q.Kind != kind || q.Number < number {
			continue
		}
		merges := kind == "send" // a request includes the events of earlier ones
		switch {
		case q.Done == number || merges && q.Done > number:
			if q.Failure != "" {
				return false, fmt.Errorf("request %d to %s failed: %s", q.Done, plain.Text(kind), plain.Text(q.Failure))
			}
			return true, nil
		case q.Number > number && !merges:
			return false, fmt.Errorf("request %d to %s was replaced by %d, or was performed just before: see audit", number, plain.Text(kind), q.Number)
		}
		return false, nil
	}
	if kind == "end" { // another subscription has begun
		return true, nil
	}
	return false, errors.New("the subscription has ended meanwhile")
}

// attemptAt returns the latest attempt at an event, or nil if none is recorded.
func (o *Options) attemptAt(ctx context.Context, subscription, eventID string) (map[string]any, error) {
	answer, err := o.sendRequest(ctx, "GET", subscription+"/attempts", nil, nil)
	if err != nil {
		return nil, err
	}
	var list struct{ Attempts []map[string]any }
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("the response is not a list of attempts: %w", err)
	}
	for _, a := range list.Attempts {
		if a["eventId"] == eventID {
			return a, nil
		}
	}
	return nil, nil
}
