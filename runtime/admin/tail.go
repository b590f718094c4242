package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

const (
	// maxTails bounds how many live tails a handler serves at once.
	maxTails = 32
	// tailBeat is how often something is written when nothing happens, so that a connection that is gone
	// is noticed.
	tailBeat = 15 * time.Second
	// tailAuthorize is how often Authorize is asked again.
	tailAuthorize = time.Minute
	// tailWrite bounds how long a client may take to read what is written.
	tailWrite = 10 * time.Second
	// tailRetry is after how many milliseconds a browser connects again.
	tailRetry = 2000
)

// tail serves occurrences as they pass, as server-sent events: "occurrence", "skipped" when the client was
// too slow, and "end" with a problem, after which nothing follows.
func (h *handler) tail(w http.ResponseWriter, r *http.Request) {
	f, err := readFilter(r.URL.Query(), "event")
	if q := r.URL.Query(); err == nil && (q.Has("after") || q.Has("limit")) {
		err = badRequest("a live tail has no pages")
	}
	action := Action{Verb: Tail, Event: f.event}
	if _, ok := h.allowed(w, r, action); !ok {
		return
	}
	if err != nil {
		h.fail(w, r, "the tail", err)
		return
	}
	t, err := h.admin.Tail(f.event)
	if err != nil {
		h.fail(w, r, "the event type", err)
		return
	}
	select {
	case h.tails <- struct{}{}:
		defer func() { <-h.tails }()
	default:
		w.Header().Set("Retry-After", "60")
		problem(w, http.StatusServiceUnavailable, "too_many", fmt.Sprintf("%d live tails are open, no more are served", maxTails))
		return
	}
	s := &sse{w: w, c: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of proxies
	if err := s.write(fmt.Sprintf("retry: %d\n\n", tailRetry)); err != nil {
		return
	}
	if err := h.follow(r, s, t, action); err != nil {
		status, code, detail := h.classify(r.Context(), "the tail", err)
		_ = s.event("end", problemDocument{"about:blank", http.StatusText(status), status, detail, code})
	}
}

// follow returns nil when the client is gone.
func (h *handler) follow(r *http.Request, s *sse, t *server.Tail, action Action) error {
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
			if _, refused := h.authorize(r, action); refused != nil {
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

// show writes what has passed.
func (h *handler) show(s *sse, found []server.Tailed, skipped int64) error {
	if skipped > 0 {
		if err := s.event("skipped", map[string]int64{"count": skipped}); err != nil {
			return err
		}
	}
	for i := range found {
		if !h.payloads {
			found[i].Data = nil
		}
		if err := s.event("occurrence", shownOccurrence{Tailed: found[i], Data: found[i].Data}); err != nil {
			return err
		}
	}
	return nil
}

// A shownOccurrence has its payload only where payloads are shown.
type shownOccurrence struct {
	server.Tailed
	Data json.RawMessage `json:"data,omitempty"`
}

// Why a tail ends.
var (
	errRefused  = errors.New("this is not allowed any more")
	errShutDown = errors.New("the server is shutting down")
)

// An sse writes server-sent events.
type sse struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (s *sse) event(name string, v any) error {
	b, err := json.Marshal(v) // one line
	if err != nil {
		return err
	}
	return s.write("event: " + name + "\ndata: " + string(b) + "\n\n")
}

// write ends with the connection when the client does not read.
func (s *sse) write(text string) error {
	if err := s.c.SetWriteDeadline(time.Now().Add(tailWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}
