package admin

import (
	"bytes"
	"context"
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
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

const (
	// maxBody bounds the body of an action, in bytes.
	maxBody = 64 << 10
	// bodyTime bounds how long it may take to arrive.
	bodyTime = 10 * time.Second
	// actionTime bounds how long one may take.
	actionTime = 30 * time.Second
)

// A request is what an action's body may hold; which members it has to have depends on the verb.
type request struct {
	EventID   string   `json:"eventId,omitempty"`
	Cursor    *string  `json:"cursor,omitempty"`
	Principal string   `json:"principal,omitempty"`
	Events    []string `json:"events,omitempty"`
	Verb      string   `json:"verb,omitempty"`
	PerSecond float64  `json:"perSecond,omitempty"`
	Since     string   `json:"since,omitempty"`
	Until     string   `json:"until,omitempty"`
	Position  uint64   `json:"position,omitempty"`
	// Data is the payload of a test.
	Data json.RawMessage `json:"data,omitempty"`
}

// A task is an action with all that it needs.
type task struct {
	action  Action
	request request
	key     string
	bulk    bool // on all that filter takes
	filter  operator.Filter
	// since and until are what the request's members say.
	since, until time.Time
}

// posted serves an action by the API.
func (h *handler) posted(verb Verb) page {
	return func(w http.ResponseWriter, r *http.Request, actor string) {
		t, err := readTask(w, r, verb)
		if out, ok := h.act(w, r, actor, t, err); ok {
			out.write(w)
		}
	}
}

// readTask reads an action from a request of the API.
func readTask(w http.ResponseWriter, r *http.Request, verb Verb) (t task, err error) {
	t.key = r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	t.name(r, verb)
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
		// Names in another case are unknown, and none comes twice.
		if err := jsonv2.Unmarshal(body, &t.request, jsonv2.RejectUnknownMembers(true)); err != nil {
			return t, badRequest("the body: " + err.Error())
		}
	}
	return t, t.check()
}

// name says what the action is about.
func (t *task) name(r *http.Request, verb Verb) {
	t.action.Verb = verb
	switch verb {
	case Revoke:
	case beginTask:
		t.bulk = true
	case CancelTask:
		t.action.Task = r.PathValue("id")
	case Disconnect:
		t.action.Connection = r.PathValue("id")
	case PutBack, Drop:
		t.action.Rejected = r.PathValue("id")
	default:
		t.action.Subscription = r.PathValue("id")
	}
}

// check refuses a body whose members are not those of the verb.
func (t *task) check() error {
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
		{"since", q.Since != "" && !t.bulk, []Verb{Replay}, false},
		{"until", q.Until != "" && !t.bulk, []Verb{Replay}, false},
		{"principal", q.Principal != "", []Verb{Revoke}, true},
		{"events", len(q.Events) > 0, []Verb{Revoke}, false},
		{"data", len(q.Data) > 0, []Verb{Test}, true},
		{"verb", q.Verb != "" && !t.bulk, nil, false},
		{"perSecond", q.PerSecond != 0 && !t.bulk, nil, false},
	} {
		takes := slices.Contains(m.takes, t.action.Verb)
		if m.given && !takes {
			return badRequest(string(t.action.Verb) + " has no member " + m.name)
		}
		if !m.given && takes && m.needed {
			return badRequest("the member " + m.name + " is missing")
		}
	}
	if t.action.Verb == Replay && !t.bulk {
		given := 0
		for _, is := range []bool{q.Cursor != nil, q.EventID != "", q.Position != 0, q.Since != ""} {
			if is {
				given++
			}
		}
		if given != 1 {
			return badRequest("a replay needs one of the members cursor, since, position and eventId")
		}
		if q.Cursor != nil && q.Until != "" {
			return badRequest("a replay from a cursor has no member until")
		}
	}
	var err error
	if t.since, err = readTime("since", q.Since); err != nil {
		return err
	}
	if t.until, err = readTime("until", q.Until); err != nil {
		return err
	}
	if t.key == "" || len(t.key) > maxKey || strings.ContainsFunc(t.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return badRequest("an Idempotency-Key of 1 to " + strconv.Itoa(maxKey) + " visible ASCII characters is needed, this one has " + strconv.Itoa(len(t.key)) + " bytes")
	}
	return nil
}

// act authorizes the action, does it once and writes it down; ok is false when Authorize refused, and
// then the answer is written. err is what is wrong with the request.
func (h *handler) act(w http.ResponseWriter, r *http.Request, actor string, t task, err error) (out outcome, ok bool) {
	var missing error
	if !t.bulk {
		missing = h.complete(r.Context(), &t)
	}
	if !h.allowed(w, r, actor, t.action) {
		return out, false
	}
	if err != nil {
		status, code, detail := h.classify(r.Context(), "the request", err)
		return outcome{Status: status, Code: code, Detail: detail}, true
	}
	content, _ := json.Marshal([]any{t.action.Verb, t.action.Subscription, t.action.Connection + t.action.Rejected + t.action.Task, t.request, t.filter}) // cannot fail
	key, _ := json.Marshal([]string{actor, t.key})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTime)
	defer cancel()
	stored, err := h.admin.Once(r.Context(), string(key), content, func() ([]byte, error) {
		at := time.Now()
		out := h.do(operator.WithActor(ctx, actor), &t, missing)
		h.write(ctx, t.entry(at, actor, out))
		if out.Status >= http.StatusInternalServerError {
			return nil, &unfinished{out} // the next request tries again
		}
		return out.encode(), nil
	})
	if failed, ok := errors.AsType[*unfinished](err); ok {
		return failed.outcome, true
	}
	if err == nil {
		err = json.Unmarshal(stored, &out)
	}
	switch {
	case err == nil:
		return out, true
	case errors.Is(err, operator.ErrKeyReused):
		return outcome{Status: http.StatusUnprocessableEntity, Code: "key_reused", Detail: "this Idempotency-Key was used for another request"}, true
	case errors.Is(err, operator.ErrUnderWay):
		return outcome{Status: http.StatusConflict, Code: "under_way",
			Detail: "the first request with this key is still running; if its process died, check what it did before you use another key"}, true
	}
	status, code, detail := h.classify(r.Context(), "remembering the action", err)
	return outcome{Status: status, Code: code, Detail: detail}, true
}

// complete adds whose it is, so that Authorize can decide; an error tells that it is not there, or cannot be read.
func (h *handler) complete(ctx context.Context, t *task) error {
	switch a := &t.action; {
	case a.Verb == Revoke:
		a.Principal = t.request.Principal
		if len(t.request.Events) == 1 {
			a.Event = t.request.Events[0]
		}
	case a.Rejected != "", a.Task != "":
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
		// A live one goes on; to hold it back is to change its record.
		if i.State == operator.StateUnreadable || i.Unreadable != "" && (a.Verb == Pause || a.Verb == Unpause) {
			return unreadable(i.Unreadable)
		}
	}
	return nil
}

// do does what the task says. It goes on when the request is given up: an action is whole or not at
// all.
func (h *handler) do(ctx context.Context, t *task, err error) outcome {
	a, found := &t.action, err == nil
	result := map[string]any{"done": true}
	if err == nil && t.bulk {
		var began operator.Task
		if began, err = h.admin.Begin(ctx, t.asked()); err == nil {
			a.Task = began.ID
			result["task"], result["total"] = began.ID, began.Total
		}
	} else if err == nil {
		switch a.Verb {
		case Test:
			if t.request.EventID, err = h.admin.Test(ctx, a.Subscription, t.request.Data); err == nil {
				result["eventId"] = t.request.EventID
			}
		case Send:
			made, sendErr := h.admin.SendAgain(ctx, a.Subscription, t.request.EventID)
			if err = sendErr; err == nil {
				result["attempt"] = shownAttempt(made)
			}
		case Replay:
			err = h.replay(ctx, t, result)
		case EndReplay:
			err = h.admin.EndReplay(ctx, a.Subscription)
		case Pause:
			err = h.admin.Pause(ctx, a.Subscription)
		case Unpause:
			err = h.admin.Unpause(ctx, a.Subscription)
		case Resume:
			err = h.admin.Resume(ctx, a.Subscription)
		case End:
			err = h.admin.End(ctx, a.Subscription, nil)
		case CancelTask:
			err = h.admin.Cancel(ctx, a.Task)
		case Disconnect:
			err = h.admin.EndConnection(a.Connection, nil)
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
		status, code, detail := h.classify(ctx, string(a.Verb), err)
		if found && a.Verb == EndReplay && status == http.StatusNotFound {
			detail = "endreplay: no replay of this subscription is running"
		}
		return outcome{Status: status, Code: code, Detail: detail}
	}
	b, err := json.Marshal(result)
	if err != nil {
		status, code, detail := h.classify(ctx, string(a.Verb), err)
		return outcome{Status: status, Code: code, Detail: detail}
	}
	return outcome{Status: http.StatusOK, Result: b}
}

// readTime reads a time of RFC 3339, or how long ago it was; "" is none.
func readTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && !at.IsZero() {
		return at, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return time.Now().Add(-ago), nil
	}
	return time.Time{}, badRequest(name + " is a time such as 2026-11-22T14:00:00Z, or how long ago it was, such as 90m")
}
