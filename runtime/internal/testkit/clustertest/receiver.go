package clustertest

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
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	secretA = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	secretB = "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA="
	origin  = "http://receiver.test"
)

// hook returns the URL of a callback.
func hook(i int) string { return fmt.Sprint(origin, "/hooks/", i) }

// A webhookRequest is a webhook request received by a receiver.
type webhookRequest struct {
	url    string
	header http.Header
	raw    []byte
	body   struct {
		Type      string            `json:"type"`
		Challenge string            `json:"challenge"`
		EventID   string            `json:"eventId"`
		Cursor    *string           `json:"cursor"`
		Error     *wire.ErrorObject `json:"error"`
	}
}

// summary returns the eventId of an occurrence or a summary of an envelope.
func (d *webhookRequest) summary() string {
	switch {
	case d.body.EventID != "":
		return d.body.EventID
	case d.body.Error != nil:
		name, _, _ := strings.Cut(d.body.Error.Message, ": ")
		return fmt.Sprintf("%s %d %s %s", d.body.Type, d.body.Error.Code, name, d.body.Error.Data)
	default:
		return d.body.Type
	}
}

// signedBy reports whether the request has a valid signature for the given secret.
func (d *webhookRequest) signedBy(secret string) bool {
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		return false
	}
	_, err = (webhook.Verifier{Secrets: []webhook.Secret{s}}).Verify(d.header, d.raw)
	return err == nil
}

// A receiver serves all callbacks of a test. It responds to challenges and accepts all other requests unless handle
// responds differently.
type receiver struct {
	net    *memnet.Network
	mu     sync.Mutex
	got    []*webhookRequest
	handle func(w http.ResponseWriter, d *webhookRequest)
}

// serve starts a receiver that runs until the test ends.
func serve(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{net: memnet.New()}
	hs := &http.Server{Handler: r, ReadTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = hs.Serve(r.net)
	}()
	t.Cleanup(func() {
		hs.Close()
		<-served
	})
	return r
}

// callbacks returns the options for servers that deliver to the receiver.
func (r *receiver) callbacks() callbacks.Options {
	return callbacks.Options{AllowOrigins: []string{origin}, DialContext: r.net.DialContext, Resolver: r,
		Timeout: time.Minute} // so that delayed attempts do not time out on a busy machine
}

// LookupNetIP implements [callbacks.Resolver].
func (r *receiver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, ctx.Err()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d := &webhookRequest{url: "http://" + req.Host + req.RequestURI, header: req.Header}
	var err error
	if d.raw, err = io.ReadAll(req.Body); err == nil {
		err = json.Unmarshal(d.raw, &d.body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if d.body.Type == wire.EnvelopeVerification {
		fmt.Fprintf(w, `{"challenge":%q}`, d.body.Challenge)
		return
	}
	r.mu.Lock()
	r.got = append(r.got, d)
	f := r.handle
	r.mu.Unlock()
	if f != nil {
		f(w, d)
	}
}

// setHandler makes f handle all later requests. If f is nil, the receiver accepts them.
func (r *receiver) setHandler(f func(w http.ResponseWriter, d *webhookRequest)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = f
}

// refuse responds with status 503 (Service Unavailable).
func refuse(w http.ResponseWriter, _ *webhookRequest) { w.WriteHeader(http.StatusServiceUnavailable) }

// requestsTo returns summaries of the requests to a callback, in order of arrival.
func (r *receiver) requestsTo(url string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.got {
		if d.url == url {
			ids = append(ids, d.summary())
		}
	}
	return ids
}

// all returns all requests, in order of arrival.
func (r *receiver) all() []*webhookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// last returns the last request.
func (r *receiver) last() *webhookRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) == 0 {
		return &webhookRequest{}
	}
	return r.got[len(r.got)-1]
}

// sameSet reports whether got contains exactly the elements of want, in any order and with any repetition.
func sameSet(got, want []string) bool {
	set := slices.Compact(slices.Sorted(slices.Values(got)))
	return slices.Equal(set, slices.Sorted(slices.Values(want)))
}
