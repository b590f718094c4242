package serve

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/google/uuid"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// maxEmit is the maximum size of an emit request body in bytes. It is the size of the largest payload that the server
// accepts.
const maxEmit = 1 << 20

// An emitResponse is the response to an emit request. It contains the eventId, or an error with its location.
type emitResponse struct {
	EventID string              `json:"eventId,omitempty"`
	Error   string              `json:"error,omitempty"`
	Errors  []events.FieldError `json:"errors,omitempty"`
}

// emit handles POST /emit/EVENT. The body is the payload. The query parameter id, if present, is the eventId.
func (t *trial) emit(w http.ResponseWriter, r *http.Request) {
	status, answer := t.take(w, r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(answer)
}

func (t *trial) take(w http.ResponseWriter, r *http.Request) (int, emitResponse) {
	typ := t.typesByName[r.PathValue("event")]
	if typ == nil {
		return http.StatusNotFound, emitResponse{Error: "no event type " + wire.Shown(r.PathValue("event"))}
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return http.StatusUnsupportedMediaType, emitResponse{Error: "the payload has to be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEmit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, emitResponse{Error: "the payload is larger than 1 MiB"}
	}
	if err != nil {
		return http.StatusBadRequest, emitResponse{Error: "the body broke off"}
	}
	id := r.URL.Query().Get("id")
	if id == "" {
		id = uuid.Must(uuid.NewV7()).String()
	} else if err := wire.CheckEventID(id); err != nil {
		return http.StatusBadRequest, emitResponse{Error: "id: " + err.Error()}
	}
	err = typ.emit.Emit(r.Context(), body, events.WithID(id))
	bad, _ := errors.AsType[*validate.Error](err)
	switch {
	case err == nil:
		t.printMessage("%s %s emitted", typ.name, plain.Text(id))
		return http.StatusOK, emitResponse{EventID: id}
	case bad != nil:
		return http.StatusBadRequest, emitResponse{Error: "the payload does not match payloadSchema", Errors: bad.Fields}
	case errors.Is(err, events.ErrInvalidPayload):
		return http.StatusBadRequest, emitResponse{Error: err.Error()}
	case errors.Is(err, events.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, emitResponse{Error: err.Error()}
	case errors.Is(err, events.ErrIDReused):
		return http.StatusConflict, emitResponse{Error: err.Error()}
	}
	t.warn("%s %s: not emitted: %s", typ.name, plain.Text(id), plain.Text(err.Error()))
	return http.StatusInternalServerError, emitResponse{Error: "the event was not emitted; what went wrong is on the server's standard error"}
}
