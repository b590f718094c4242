package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// readPoint parses the start and the optional end of a replay. The start must be a time, a position or an event id.
func readPoint(q url.Values) (p operator.Point, err error) {
	given := 0
	for name, values := range q {
		text := strings.TrimSpace(values[0])
		switch {
		case len(values) > 1:
			return p, badRequest("the query parameter " + name + " is given twice")
		case text == "":
			continue
		case name == "since":
			p.Since, err = readTime(name, text)
		case name == "until":
			if p.Until, err = readTime(name, text); err == nil {
				continue // until is not a start
			}
		case name == "position":
			var n uint64
			n, err = readPosition(text)
			p.Position = store.Position(n)
		case name == "eventId":
			p.EventID = text
		default:
			return p, badRequest("unknown query parameter " + strconv.Quote(cut(name)))
		}
		if err != nil {
			return p, err
		}
		given++
	}
	if given != 1 {
		return p, badRequest("a replay requires exactly one of since, position and eventId")
	}
	return p, nil
}

func readPosition(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, badRequest("a position must be an integer of at least 1")
	}
	return n, nil
}

// replay replays one subscription.
func (h *handler) replay(ctx context.Context, t *task, result map[string]any) (number uint64, err error) {
	q := &t.request
	if q.Cursor != nil {
		return h.admin.Replay(ctx, t.action.Subscription, *q.Cursor, 0)
	}
	at, err := h.admin.Locate(ctx, t.action.Event, operator.Point{Since: t.since, Position: store.Position(q.Position), EventID: q.EventID, Until: t.until})
	if err != nil {
		return 0, err
	}
	result["begins"] = at
	return h.admin.Replay(ctx, t.action.Subscription, at.Cursor, at.Last)
}

// previewing returns a page that passes the position at which a replay of the subscription would begin to show.
func (h *handler) previewing(show func(w http.ResponseWriter, r *http.Request, i operator.WebhookInfo, at operator.Beginning)) page {
	return h.withSubscription(Replay, func(w http.ResponseWriter, r *http.Request, _ string, i operator.WebhookInfo) {
		var at operator.Beginning
		p, err := readPoint(r.URL.Query())
		if err == nil {
			at, err = h.admin.Locate(r.Context(), i.Event, p)
		}
		if err != nil {
			h.fail(w, r, "replay", err)
			return
		}
		show(w, r, i, at)
	})
}

// replayPages registers the preview of a replay in the API and the console.
func (h *handler) replayPages(add adder) {
	add("GET", "/api/subscriptions/{id}/replay", h.previewing(func(w http.ResponseWriter, _ *http.Request, _ operator.WebhookInfo, at operator.Beginning) {
		answer(w, http.StatusOK, at)
	}))
	add("GET", "/subscriptions/{id}/replay", h.previewing(func(w http.ResponseWriter, r *http.Request, i operator.WebhookInfo, at operator.Beginning) {
		i = withShownURL(i)
		until, _ := readTime("until", strings.TrimSpace(r.URL.Query().Get("until"))) // readPoint has validated it
		h.render(w, r, http.StatusOK, "replay.html", view{Title: "Replay of " + i.ID, Subscription: &i, Begins: &at, Until: until})
	}))
}
