package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	// maxTails is the maximum number of open live tails of an actor.
	maxTails = 32
	// tailBeat is the interval between comments that are written in the absence of events to detect a closed
	// connection.
	tailBeat = 15 * time.Second
	// tailAuthorize is the interval for reauthorizing the request while the tail is open.
	tailAuthorize = time.Minute
	// tailWrite is the timeout for writing to a client.
	tailWrite = 10 * time.Second
	// tailRetry is the time in milliseconds after which a browser reconnects.
	tailRetry = 2000
)

// serveTail streams new occurrences as server-sent events. The events are "occurrence", "skipped" if the client is too
// slow, and finally "end" with a problem.
func (h *handler) serveTail(w http.ResponseWriter, r *http.Request, actor string) {
	f, err := readFilter(r.URL.Query(), "event")
	if q := r.URL.Query(); err == nil && (q.Has("after") || q.Has("limit")) {
		err = badRequest("a live tail has no pages")
	}
	action := Action{Verb: Tail, Event: f.Event}
	if !h.authorizeOrFail(w, r, actor, action) {
		return
	}
	if err != nil {
		h.fail(w, r, "the tail", err)
		return
	}
	t, err := h.admin.Tail(f.Event)
	if err != nil {
		h.fail(w, r, "the event type", err)
		return
	}
	if h.tails.take(actor) {
		defer h.tails.give(actor)
	} else {
		w.Header().Set("Retry-After", "60")
		problem(w, http.StatusServiceUnavailable, "too_many", fmt.Sprintf("%d of your live tails are open, the maximum", maxTails))
		return
	}
	s := &sse{w: w, c: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies
	if err := s.write(fmt.Sprintf("retry: %d\n\n", tailRetry)); err != nil {
		return
	}
	if err := h.follow(r, s, t, actor, action); err != nil {
		status, code, detail := h.classify(r.Context(), "the tail", err)
		_ = s.event("end", problemDocument{"about:blank", http.StatusText(status), status, detail, code})
	}
}

// follow writes occurrences until the tail ends. It returns nil if the client has disconnected.
func (h *handler) follow(r *http.Request, s *sse, t operator.Tail, actor string, action Action) error {
	ctx := r.Context()
	ask := time.Now().Add(tailAuthorize)
	for ctx.Err() == nil {
		beat := time.Now().Add(tailBeat)
		if ask.Before(beat) {
			beat = ask
		}
		wait, cancel := context.WithDeadline(ctx, beat)
		found, skipped, err := t.Next(wait)
		cancel()
		if now := time.Now(); !now.Before(ask) {
			if refused := h.reauthorize(r, actor, action); refused != nil {
				h.log.LogAttrs(ctx, slog.LevelInfo, "admin: refused", slog.String("verb", string(action.Verb)), slog.Any("error", refused))
				return errRefused
			}
			ask = now.Add(tailAuthorize)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, events.ErrClosed):
			return errShutDown
		case errors.Is(err, context.DeadlineExceeded):
			err = s.write(": nothing new\n\n")
		case err != nil:
			return err
		default:
			err = h.show(s, found, skipped)
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// reauthorize repeats the authentication and authorization of the request.
func (h *handler) reauthorize(r *http.Request, actor string, a Action) error {
	now, err := h.authenticate(r)
	if err == nil && now != actor {
		err = fmt.Errorf("it is %q's now", now)
	}
	if err == nil {
		err = h.authorize(r, actor, a)
	}
	return err
}

// A tailCounter counts the open live tails of each actor.
type tailCounter struct {
	mu   sync.Mutex
	open map[string]int
}

func (t *tailCounter) take(actor string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]int{}
	}
	if t.open[actor] >= maxTails {
		return false
	}
	t.open[actor]++
	return true
}

func (t *tailCounter) give(actor string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[actor]--; t.open[actor] == 0 {
		delete(t.open, actor)
	}
}

// show writes new occurrences.
func (h *handler) show(s *sse, found []operator.Occurrence, skipped int64) error {
	if skipped > 0 {
		if err := s.event("skipped", map[string]int64{"count": skipped}); err != nil {
			return err
		}
	}
	for i := range found {
		if err := s.event("occurrence", h.shownOccurrence(found[i])); err != nil {
			return err
		}
	}
	return nil
}

// A shownOccurrence is an occurrence in the form shown to operators. It includes the payload only if payloads are
// shown.
type shownOccurrence struct {
	operator.Occurrence
	Data json.RawMessage `json:"data,omitempty"`
}

// shownOccurrence returns the part of an occurrence that operators may see.
func (h *handler) shownOccurrence(o operator.Occurrence) shownOccurrence {
	if !h.payloads {
		o.Data = nil
	}
	return shownOccurrence{Occurrence: o, Data: h.redact.apply(o.Data)}
}

// Errors that end a tail.
var (
	errRefused  = errors.New("access was revoked")
	errShutDown = errors.New("the server is shutting down")
)

// An sse writes server-sent events.
type sse struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (s *sse) event(name string, v any) error {
	b, err := json.Marshal(v) // on one line
	if err != nil {
		return err
	}
	return s.write("event: " + name + "\ndata: " + string(b) + "\n\n")
}

// write writes an event. It returns an error if the client does not read the event in time.
func (s *sse) write(text string) error {
	if err := s.c.SetWriteDeadline(time.Now().Add(tailWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}
