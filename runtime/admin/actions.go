package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/timetext"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// maxBody is the maximum size of an action's body in bytes.
	maxBody = 64 << 10
	// bodyTime is the maximum time for reading the body.
	bodyTime = 10 * time.Second
	// actionTime is the timeout of an action.
	actionTime = 30 * time.Second
	// maxKey is the maximum size of an idempotency key in bytes.
	maxKey = 128
)

// A request is the body of an action request. The verb determines the required members.
type request struct {
	EventID   string   `json:"eventId,omitempty"`
	Cursor    *string  `json:"cursor,omitempty"`
	Principal string   `json:"principal,omitempty"`
	Events    []string `json:"events,omitempty"`
	Seen      string   `json:"seen,omitempty"`
	Since     string   `json:"since,omitempty"`
	Until     string   `json:"until,omitempty"`
	Position  uint64   `json:"position,omitempty"`
	// Data is the payload of a test event.
	Data json.RawMessage `json:"data,omitempty"`
}

// A task is an action to perform, with its parameters.
type task struct {
	action  Action
	request request
	key     string
	// since, until and seen are the parsed times of the request.
	since, until, seen time.Time
}

// apiAction returns a handler for API requests to perform an action.
func (h *handler) apiAction(verb Verb) page {
	return func(w http.ResponseWriter, r *http.Request, actor string) {
		t, err := readTask(w, r, verb)
		if out, ok := h.authorizeAndPerform(w, r, actor, t, err); ok {
			out.respond(w)
		}
	}
}

// readTask parses the action of an API request.
func readTask(w http.ResponseWriter, r *http.Request, verb Verb) (t task, err error) {
	t.key = r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	t.setObject(r, verb)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return t, badRequest("the body has more than " + strconv.Itoa(maxBody) + " bytes")
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return t, errSlow
		}
		return t, badRequest("the body cannot be read")
	}
	inbound.Lift(w)
	if len(bytes.TrimSpace(body)) > 0 {
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			return t, badRequest("the body's Content-Type is not application/json")
		}
		// Names in another case are unknown, and duplicates are errors.
		if err := jsonv2.Unmarshal(body, &t.request, jsonv2.RejectUnknownMembers(true)); err != nil {
			return t, badRequest("the body: " + err.Error())
		}
	}
	return t, t.validate()
}

// setObject sets the object of the action.
func (t *task) setObject(r *http.Request, verb Verb) {
	t.action.Verb = verb
	switch verb {
	case Revoke:
	case Disconnect:
		t.action.Connection = r.PathValue("id")
	case PutBack, Drop:
		t.action.Rejected = r.PathValue("id")
	case Reopen:
		t.action.Event = r.PathValue("name")
	default:
		t.action.Subscription = r.PathValue("id")
	}
}

// validate returns an error if the members of the body are not valid for the verb.
func (t *task) validate() error {
	q := &t.request
	for _, m := range []struct {
		name   string
		given  bool
		takes  []Verb
		needed bool
	}{
		{"eventId", q.EventID != "", []Verb{Send, Replay}, t.action.Verb == Send},
		{"cursor", q.Cursor != nil, []Verb{Replay}, false},
		{"position", q.Position != 0, []Verb{Replay}, false},
		{"since", q.Since != "", []Verb{Replay}, false},
		{"until", q.Until != "", []Verb{Replay}, false},
		{"seen", q.Seen != "", []Verb{Send}, false},
		{"principal", q.Principal != "", []Verb{Revoke}, true},
		{"events", len(q.Events) > 0, []Verb{Revoke}, false},
		{"data", len(q.Data) > 0, []Verb{Test}, true},
	} {
		takes := slices.Contains(m.takes, t.action.Verb)
		if m.given && !takes {
			return badRequest(string(t.action.Verb) + " does not accept the member " + m.name)
		}
		if !m.given && takes && m.needed {
			return badRequest("the member " + m.name + " is missing")
		}
	}
	if t.action.Verb == Replay {
		given := 0
		for _, is := range []bool{q.Cursor != nil, q.EventID != "", q.Position != 0, q.Since != ""} {
			if is {
				given++
			}
		}
		if given != 1 {
			return badRequest("a replay requires exactly one of the members cursor, since, position and eventId")
		}
		if q.Cursor != nil && q.Until != "" {
			return badRequest("a replay from a cursor does not accept the member until")
		}
	}
	var err error
	if t.since, err = readTime("since", q.Since); err != nil {
		return err
	}
	if t.until, err = readTime("until", q.Until); err != nil {
		return err
	}
	if q.Seen != "" {
		if t.seen, err = time.Parse(time.RFC3339, q.Seen); err != nil || t.seen.IsZero() {
			return badRequest("seen must be the time of an attempt, such as 2026-11-22T14:00:00.123456Z")
		}
	}
	return checkKey(t.key)
}

// checkKey returns an error if the idempotency key is invalid.
func checkKey(key string) error {
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return badRequest("the Idempotency-Key must have 1 to " + strconv.Itoa(maxKey) + " visible ASCII characters; it has " + strconv.Itoa(len(key)) + " bytes")
	}
	return nil
}

// An outcome is the result of an action or a problem.
type outcome struct {
	Status int
	Code   string // of a problem; "" for a result
	Detail string
	Result any
}

// respond writes the outcome as the response of the API.
func (o outcome) respond(w http.ResponseWriter) {
	if o.Code != "" {
		problem(w, o.Status, o.Code, o.Detail)
		return
	}
	answer(w, o.Status, o.Result)
}

// authorizeAndPerform authorizes the action, performs it and records it, even if the client cancels the request. If
// Authorize rejects it, authorizeAndPerform writes the response and returns false. A non-nil err means that the request
// is invalid.
func (h *handler) authorizeAndPerform(w http.ResponseWriter, r *http.Request, actor string, t task, err error) (out outcome, ok bool) {
	missing := h.addOwner(r.Context(), &t)
	if !h.authorizeOrFail(w, r, actor, t.action) {
		return out, false
	}
	if err != nil {
		return h.failureOutcome(r.Context(), "the request", err), true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTime)
	defer cancel()
	return h.perform(ctx, actor, &t, missing), true
}

// perform performs the task and writes an audit entry.
func (h *handler) perform(ctx context.Context, actor string, t *task, missing error) outcome {
	at := time.Now()
	out := h.do(operator.WithKey(operator.WithActor(ctx, actor), t.callKey(actor)), t, missing)
	h.recordAudit(ctx, t.auditEntry(at, actor, out))
	return out
}

// callKey returns the key that the same request of the same actor has, and no other.
func (t *task) callKey(actor string) string {
	call, _ := json.Marshal([]any{actor, t.key, t.action, t.request}) // cannot fail
	hashed := sha256.Sum256(call)
	return hex.EncodeToString(hashed[:16])
}

// failureOutcome converts an error to an outcome.
func (h *handler) failureOutcome(ctx context.Context, what string, err error) outcome {
	status, code, detail := h.classify(ctx, what, err)
	return outcome{Status: status, Code: code, Detail: detail}
}

// addOwner adds the owner of the object to the action for Authorize. It returns an error if the object does not exist
// or cannot be read.
func (h *handler) addOwner(ctx context.Context, t *task) error {
	switch a := &t.action; {
	case a.Verb == Revoke:
		a.Principal = t.request.Principal
		if len(t.request.Events) == 1 {
			a.Event = t.request.Events[0]
		}
	case a.Rejected != "", a.Verb == Reopen:
	case a.Connection != "":
		c, err := h.admin.Connection(a.Connection)
		if err != nil {
			return err
		}
		a.Subscription, a.Principal, a.Event = c.Subscription, c.Principal, c.Event
	default:
		i, err := h.admin.Get(ctx, a.Subscription)
		if err != nil {
			return err
		}
		a.Principal, a.Event = i.Principal, i.Event
		if i.Unreadable != "" { // a request changes the record
			return unreadable(i.Unreadable)
		}
	}
	return nil
}

// requestKinds contains the kinds of the requests that verbs make, see [operator.Request].
var requestKinds = map[Verb]store.RequestKind{Send: store.RequestSend, Replay: store.RequestReplay, EndReplay: store.RequestReplay,
	Resume: store.RequestResume, End: store.RequestEnd}

// do performs the task.
func (h *handler) do(ctx context.Context, t *task, err error) outcome {
	a, found := &t.action, err == nil
	result := map[string]any{"done": true}
	var number uint64
	if err == nil {
		switch a.Verb {
		case Test:
			if t.request.EventID, err = h.admin.Test(ctx, a.Subscription, t.request.Data); err == nil {
				result["eventId"] = t.request.EventID
			}
		case Send:
			number, err = h.admin.SendAgain(ctx, a.Subscription, t.request.EventID, t.seen)
		case Replay:
			number, err = h.replay(ctx, t, result)
		case EndReplay:
			number, err = h.admin.EndReplay(ctx, a.Subscription)
		case Pause:
			err = h.admin.Pause(ctx, a.Subscription)
		case Unpause:
			err = h.admin.Unpause(ctx, a.Subscription)
		case Resume:
			number, err = h.admin.Resume(ctx, a.Subscription)
		case End:
			number, err = h.admin.End(ctx, a.Subscription, nil)
		case Disconnect:
			err = h.admin.EndConnection(a.Connection, nil)
		case Reopen:
			err = h.admin.Reopen(ctx, a.Event)
		case PutBack, Drop:
			var id int64
			if id, err = t.rejectedID(); err != nil {
				break
			}
			if a.Verb == Drop {
				err = h.admin.Drop(ctx, id)
			} else {
				err = h.admin.PutBack(ctx, id)
			}
		case Revoke:
			result["ended"], err = h.admin.RevokePrincipal(ctx, t.request.Principal, t.request.Events...)
		}
	}
	if err != nil {
		out := h.failureOutcome(ctx, string(a.Verb), err)
		if found && a.Verb == EndReplay && out.Status == http.StatusNotFound {
			out.Detail = "endreplay: no replay of this subscription is running"
		}
		return out
	}
	status := http.StatusOK
	if kind, ok := requestKinds[a.Verb]; ok {
		status, result["done"], result["kind"], result["number"] = http.StatusAccepted, false, kind, number
	}
	return outcome{Status: status, Result: result}
}

// readTime parses a time with [timetext.Parse].
func readTime(name, text string) (time.Time, error) {
	at, ok := timetext.Parse(text, time.Now())
	if !ok {
		return at, badRequest(name + " must be " + timetext.Forms)
	}
	return at, nil
}
