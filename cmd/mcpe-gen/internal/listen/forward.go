package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// forwardTimeout is the timeout of a request to the URL of --forward.
const forwardTimeout = 10 * time.Second

// A forwarder posts occurrences to a URL in sequence.
type forwarder struct {
	url string
	hc  *http.Client
}

func newForwarder(url string) *forwarder {
	if url == "" {
		return nil
	}
	return &forwarder{url: url, hc: &http.Client{
		Timeout: forwardTimeout,
		// The user named one URL; do not follow redirects to others.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A forwardResult is the result of forwarding an occurrence.
type forwardResult struct {
	// Status is the HTTP status, or 0 if no response was received.
	Status int `json:"status,omitempty"`
	// Error is the reason why no response was received.
	Error string `json:"error,omitempty"`
	// Millis is the duration in milliseconds.
	Millis int64 `json:"ms"`
}

// isAccepted reports whether the receiver accepted the occurrence.
func (p *forwardResult) isAccepted() bool { return p.Status >= 200 && p.Status < 300 }

// post sends an occurrence in its wire form.
func (f *forwarder) post(ctx context.Context, o events.Occurrence) *forwardResult {
	began := time.Now()
	p := &forwardResult{}
	status, err := f.send(ctx, o)
	p.Status, p.Millis = status, time.Since(began).Milliseconds()
	if err != nil {
		p.Error = err.Error()
	}
	return p
}

func (f *forwarder) send(ctx context.Context, o events.Occurrence) (int, error) {
	body, err := json.Marshal(wireOccurrence(o))
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", useragent.Default())
	res, err := f.hc.Do(r)
	if err != nil {
		return 0, fmt.Errorf("forwarding: %w", err)
	}
	defer res.Body.Close()
	// Reading to the end allows the next request to reuse the connection.
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	return res.StatusCode, nil
}

// wireOccurrence returns the wire form of a received occurrence.
func wireOccurrence(o events.Occurrence) wire.Occurrence {
	w := wire.Occurrence{EventID: o.ID, Name: o.Name, Timestamp: o.Timestamp.String(), Data: o.Raw, Meta: o.Meta}
	if o.Cursor != "" {
		w.Cursor = &o.Cursor
	}
	return w
}
