package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A problemDocument is an error document (RFC 9457). Code is an extension that allows programs to distinguish errors.
type problemDocument struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	b, _ := json.Marshal(problemDocument{"about:blank", http.StatusText(status), status, detail, code}) // of strings: cannot fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// fail writes an error as the response. Internal errors are logged but not shown.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	status, code, detail := h.classify(r.Context(), what, err)
	h.refuse(w, r, status, code, detail)
}

// refuse writes a problem as the response, or as a page if the client is a browser.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, status int, code, detail string) {
	if strings.HasPrefix(r.URL.Path, "/api/") || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		problem(w, status, code, detail)
		return
	}
	h.render(w, r, status, "failed.html", view{Title: http.StatusText(status), Note: detail, Bad: true})
}

// aSubscription is the prefix of errors about the subscription in the path.
const aSubscription = "the subscription"

func (h *handler) classify(ctx context.Context, what string, err error) (status int, code, detail string) {
	switch {
	case errors.Is(err, errBadRequest):
		return http.StatusBadRequest, "bad_request", err.Error()
	case errors.Is(err, events.ErrNotFound):
		detail = what + ": not found, or already removed"
		if what == aSubscription {
			detail += "; give its id or a unique prefix of it"
		}
		return http.StatusNotFound, "not_found", detail
	case errors.Is(err, errSlow):
		return http.StatusRequestTimeout, "timeout", err.Error()
	case errors.Is(err, events.ErrInvalidParams):
		return http.StatusBadRequest, "invalid", what + ": " + fault.Answer(err, wire.Sketch).Message
	case errors.Is(err, events.ErrUnsupported):
		return http.StatusConflict, "unsupported", what + ": " + fault.Answer(err, wire.Sketch).Message
	case errors.Is(err, operator.ErrUnderWay):
		return http.StatusConflict, "under_way", what + ": a request to send this event is pending, or another attempt was made since"
	case errors.As(err, new(unreadable)):
		return http.StatusConflict, "unreadable", what + ": cannot act on the subscription: " + err.Error()
	case errors.Is(err, errForbidden):
		return http.StatusForbidden, "forbidden", err.Error()
	case errors.Is(err, errRefused):
		return http.StatusForbidden, "forbidden", what + ": " + err.Error()
	case errors.Is(err, errShutDown):
		return http.StatusServiceUnavailable, "shutting_down", what + ": " + err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusGatewayTimeout, "timeout", what + ": timed out"
	}
	h.log.LogAttrs(ctx, slog.LevelError, "admin: "+what, slog.Any("error", err))
	return http.StatusInternalServerError, "internal", what + ": internal error, see the log of the server"
}

// errForbidden is returned for an action that Authorize has rejected.
var errForbidden = errors.New("this is not allowed")

// errSlow is returned if the body does not arrive in time.
var errSlow = errors.New("the body did not arrive within " + plain.Duration(bodyTime))

// unreadable is the error for an action on a subscription whose record cannot be read, see
// [operator.WebhookInfo.Unreadable].
type unreadable string

func (u unreadable) Error() string { return string(u) }

// errBadRequest matches all errors about an invalid request.
var errBadRequest = errors.New("bad request")

type badRequest string

func (b badRequest) Error() string        { return string(b) }
func (b badRequest) Is(target error) bool { return target == errBadRequest }
