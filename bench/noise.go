package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// quietPrincipals have two subscriptions each.
const quietPrincipals = 20

// noises are the principals whose 100 endpoints each begin to take so long.
var noises = []struct {
	took       string
	principals int
}{{"", 0}, {"3s", 1}, {"3s", 3}, {"3s", 10}, {"1h", 1}, {"1h", 3}, {"1h", 10}}

// benchNoise measures the age of occurrences on arrival at webhooks of quiet principals, without and with principals
// whose endpoints at the same host are slow or hang. The limit of the first row is a post at a time.
func benchNoise(ctx context.Context, s settings) ([]row, error) {
	receiver, err := start(ctx, "clock")
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	sends := []func() error{func() (failed error) { // the limit, then each of noises
		for range 2 * quietPrincipals {
			body, err := json.Marshal(map[string]any{"data": payload()})
			failed = errors.Join(failed, err, post(ctx, http.DefaultClient, receiver.base, body, nil))
		}
		return failed
	}}
	for _, noise := range noises {
		p, err := start(ctx, "webhook")
		if err != nil {
			return nil, err
		}
		defer p.stop()
		sends = append(sends, func() error { return p.emit(1) })
		for i := range quietPrincipals + noise.principals {
			n, principal := 2, fmt.Sprint("quiet/", i)
			if i >= quietPrincipals {
				n, principal = 100, fmt.Sprintf("noisy/%s/%d/%d", noise.took, noise.principals, i)
			}
			if _, err := p.get(fmt.Sprintf("/admin/subscribe?n=%d&matching=%[1]d&url=%s&principal=%s", n, receiver.base, principal)); err != nil {
				return nil, err
			}
		}
	}
	took := make([][]time.Duration, len(sends))
	for range s.rounds {
		for i, send := range sends {
			n := 0
			for begin := time.Now(); time.Since(begin) < s.duration && err == nil; time.Sleep(100 * time.Millisecond) {
				err = send()
				n += 2 * quietPrincipals
			}
			some, failed := ages(receiver, n)
			if err = errors.Join(err, failed); err != nil {
				return nil, err
			}
			took[i] = append(took[i], some...)
		}
	}
	p99 := func(of []time.Duration) time.Duration {
		slices.Sort(of)
		return of[len(of)*99/100].Round(100 * time.Microsecond)
	}
	rows := []row{ageRow("from an emit to 40 webhooks of 20 principals, p50 and p99; limit: a plain post, p99", took[1], p99(took[0]))}
	rows[0].target = "" // a post does not wait for others
	for i, noise := range noises[1:] {
		what := fmt.Sprintf("the same, principals with 100 endpoints at the host that take %s: %d (limit: target)", noise.took, noise.principals)
		rows = append(rows, ageRow(what, took[i+2], max(100*time.Millisecond, 3*p99(took[1]))))
	}
	return rows, nil
}
