package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// quietPrincipals is the number of principals that are measured next to noisy ones.
const quietPrincipals = 20

// noisyTenants are the numbers of noisy principals.
var noisyTenants = []int{1, 2, 10}

// A noise is a number of principals whose 100 endpoints each begin to take so long.
type noise struct {
	took       string
	principals int
}

// benchNoise measures the age of events on arrival at webhooks of quiet principals, without and with principals whose
// endpoints at the same host are slow or hang. The limit of the first row is a post at a time.
func benchNoise(b *bench) {
	receiver := b.start("clock")
	sends := []func(){func() { // the limit, then each of noises
		for range 2 * quietPrincipals {
			body, err := json.Marshal(map[string]any{"data": payload()})
			b.check(errors.Join(err, post(b, http.DefaultClient, receiver.base, body, nil)))
		}
	}}
	noises := []noise{{}}
	for _, took := range []string{"3s", "1h"} {
		for _, n := range noisyTenants {
			noises = append(noises, noise{took, n})
		}
	}
	for _, noise := range noises {
		p := b.start("webhook", receiver.base, "memory", 0)
		sends = append(sends, func() { b.emit(p, 1) })
		for i := range quietPrincipals {
			b.subscribe(p, 2, fmt.Sprint("quiet/", i), matching)
		}
		for i := range noise.principals {
			b.subscribe(p, 100, fmt.Sprintf("noisy/%s/%d/%d", noise.took, noise.principals, i), matching)
		}
	}
	took := make([]latencies, len(sends))
	for range b.rounds {
		for i, send := range sends {
			n := 0
			for begin := time.Now(); time.Since(begin) < b.duration; time.Sleep(100 * time.Millisecond) {
				send()
				n += 2 * quietPrincipals
			}
			took[i].add(b.ages(receiver, n))
		}
	}
	alone := took[1]
	b.against("from an emit to 40 webhooks of 20 principals, p99; limit: a plain post", took[0].p99, alone.p99, duration, "")
	b.note("p50 " + duration(median(alone.p50)))
	most := max(100*time.Millisecond, time.Duration(3*median(alone.p99)*float64(time.Second)))
	for i, noise := range noises[1:] {
		b.ageWithin(fmt.Sprintf("the same, principals with 100 endpoints at the host that take %s: %d", noise.took, noise.principals), took[i+2], most)
	}
}
