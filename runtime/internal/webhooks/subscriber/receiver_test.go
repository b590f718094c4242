package subscriber_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A receiver is every callback.
type receiver struct {
	*memnet.Network
	t      *testing.T
	mu     sync.Mutex
	got    []*received
	answer func(d *received) int // the status; nil or 0 accepts
}

// A received request is one to a callback.
type received struct {
	path   string
	what   string // the eventId, or the kind of an envelope with the data of its error
	try    int    // 1 for the first of this webhook-id and subscription
	at     time.Time
	header http.Header
	raw    []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{Network: memnet.New(), t: t}
	s := &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(r)
	}()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return r
}

func (r *receiver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == wire.PathReceivers {
		http.NotFound(w, req)
		return
	}
	d := &received{path: strings.TrimPrefix(req.URL.Path, "/"), header: req.Header, at: time.Now()}
	d.raw, _ = io.ReadAll(req.Body)
	var body struct {
		Type, Challenge, EventID string
		Error                    *wire.ErrorObject
	}
	if err := json.Unmarshal(d.raw, &body); err != nil {
		r.t.Error(err)
	}
	if d.what = body.EventID; d.what == "" {
		d.what = body.Type
	}
	if body.Error != nil {
		d.what += " " + string(body.Error.Data)
	}
	r.mu.Lock()
	for _, g := range r.got {
		if g.path == d.path && g.what == d.what {
			d.try++
		}
	}
	d.try++
	r.got = append(r.got, d)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if status := answer(d); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	if body.Type == wire.EnvelopeVerification {
		fmt.Fprintf(w, `{"challenge":%q}`, body.Challenge)
	}
}

// on has requests answered by a function, which returns the status, 0 to accept.
func (r *receiver) on(answer func(d *received) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// all is what came.
func (r *receiver) all() []*received {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// to is what came to a callback but challenges.
func (r *receiver) to(path string) (all []*received) {
	for _, d := range r.all() {
		if d.path == path && d.what != wire.EnvelopeVerification {
			all = append(all, d)
		}
	}
	return all
}

// wants fails unless the callback got these requests in this order. Requests of the same moment may come in any order:
// events are delivered side by side.
func (r *receiver) wants(what, path string, want ...string) {
	r.t.Helper()
	var got []string
	ordered := slices.Clone(want)
	came := r.to(path)
	for i := 0; i < len(came); {
		first := i
		for ; i < len(came) && came[i].at.Equal(came[first].at); i++ {
			got = append(got, came[i].what)
		}
		slices.Sort(got[first:])
		if i <= len(ordered) {
			slices.Sort(ordered[first:i])
		}
	}
	if !slices.Equal(got, ordered) {
		r.t.Errorf("%s: %s got %q, want %q", what, path, got, want)
	}
}

// signedBy reports whether the secret alone would accept the message.
func (d *received) signedBy(secret string) bool {
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		return false
	}
	_, err = (webhook.Verifier{Secrets: []webhook.Secret{s}, Tolerance: 1000 * time.Hour}).Verify(d.header, d.raw)
	return err == nil
}

// terminated is the envelope that ends a subscription for a reason.
func terminated(reason *events.Error) string {
	return strings.TrimSpace(wire.EnvelopeTerminated + " " + string(reason.Data))
}
