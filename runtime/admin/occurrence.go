package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// maxEventID is the maximum size of an event id in a search, in bytes.
const maxEventID = 256

// An occurrenceList is the result of a search for an event id.
type occurrenceList struct {
	Occurrences []shownOccurrence `json:"occurrences"`
	// Whole reports whether the search examined all retained entries.
	Whole bool `json:"whole"`
}

// An occurrencePage is an occurrence with its deliveries.
type occurrencePage struct {
	Occurrence shownOccurrence `json:"occurrence"`
	Deliveries []delivery      `json:"deliveries"`
	Next       string          `json:"next,omitempty"`
}

// A delivery is the API's JSON form of an operator.Delivery.
type delivery struct {
	operator.Delivery
	Attempts []attempt `json:"attempts"`
}

// findOccurrence searches for an event id.
func (h *handler) findOccurrence(r *http.Request, actor string) (l occurrenceList, err error) {
	q := r.URL.Query()
	f, err := readFilter(q, "event", "eventId")
	id := q.Get("eventId")
	switch {
	case err != nil:
	case q.Has("after") || q.Has("limit"):
		err = badRequest("this list is not paginated: leave out after and limit")
	case id == "" || len(id) > maxEventID:
		err = badRequest("eventId must have 1 to " + strconv.Itoa(maxEventID) + " bytes")
	}
	if err := cmp.Or(h.allow(r, actor, Action{Verb: FindOccurrence, Event: f.Event}), err); err != nil {
		return l, err
	}
	found, whole, err := h.admin.FindOccurrences(r.Context(), f.Event, id)
	l = occurrenceList{[]shownOccurrence{}, whole}
	for _, o := range found {
		o.Data = nil // shown on the occurrence's page
		l.Occurrences = append(l.Occurrences, h.shownOccurrence(o))
	}
	return l, err
}

// occurrenceDetails returns an occurrence with its deliveries. If the actor may not see the attempts of all
// subscriptions, the deliveries are omitted.
func (h *handler) occurrenceDetails(r *http.Request, actor string) (p occurrencePage, err error) {
	event := r.PathValue("name")
	f, err := readFilter(r.URL.Query())
	if err := cmp.Or(h.allow(r, actor, Action{Verb: ShowOccurrence, Event: event}), err); err != nil {
		return p, err
	}
	at, err := strconv.ParseUint(r.PathValue("position"), 10, 63)
	if err != nil {
		return p, badRequest("a position must be a number")
	}
	o, err := h.admin.Occurrence(r.Context(), event, store.Position(at))
	if err != nil {
		return p, err
	}
	p = occurrencePage{Occurrence: h.shownOccurrence(o), Deliveries: []delivery{}}
	if h.authorize(r, actor, Action{Verb: Attempts, Event: event}) != nil {
		return p, nil
	}
	found, next, err := h.admin.Deliveries(r.Context(), event, o.Position, f.after, f.limit)
	p.Next = next
	for _, d := range found {
		d.URL = operator.ShownURL(d.URL)
		p.Deliveries = append(p.Deliveries, delivery{d, listed(d.Attempts)})
	}
	return p, err
}

// occurrencePages registers the pages of occurrences.
func (h *handler) occurrencePages(add adder) {
	add("GET", "/occurrences", func(w http.ResponseWriter, r *http.Request, actor string) {
		v := view{Title: "Find an event", Filter: r.URL.Query(), Found: &occurrenceList{Whole: true}}
		if v.Filter.Get("eventId") == "" {
			if h.authorizeOrFail(w, r, actor, Action{Verb: FindOccurrence}) {
				h.render(w, r, http.StatusOK, "find.html", v)
			}
			return
		}
		l, err := h.findOccurrence(r, actor)
		if err != nil {
			h.fail(w, r, "the occurrence", err)
			return
		}
		v.Found = &l
		if len(l.Occurrences) == 1 {
			http.Redirect(w, r, basePath(r)+occurrencePath(l.Occurrences[0].Event, l.Occurrences[0].Position), http.StatusSeeOther)
			return
		}
		h.render(w, r, http.StatusOK, "find.html", v)
	})
	details := reading(h, "the occurrence", h.occurrenceDetails, func(w http.ResponseWriter, r *http.Request, _ string, p occurrencePage) {
		h.render(w, r, http.StatusOK, "occurrence.html", view{Title: "Event " + p.Occurrence.EventID, Occurrence: &p, Payloads: h.payloads, More: nextPageURL(r, p.Next)})
	})
	add("GET", "/types/{name}/occurrences/{position}", func(w http.ResponseWriter, r *http.Request, actor string) {
		if q := r.URL.Query(); !q.Has("limit") {
			q.Set("limit", strconv.Itoa(maxDetails))
			r.URL.RawQuery = q.Encode()
		}
		details(w, r, actor)
	})
}

// occurrencePath returns the path of an occurrence's page.
func occurrencePath(event string, p store.Position) string {
	return "/types/" + url.PathEscape(event) + "/occurrences/" + strconv.FormatUint(uint64(p), 10)
}

const (
	// maxShownPayload is the maximum size of a payload on a page in bytes.
	maxShownPayload = 64 << 10
	// maxIndented is the maximum size of an indented payload in bytes. Deep nesting quickly increases the indentation.
	maxIndented = 256 << 10
)

// A pagePayload is a payload in the form shown on a page.
type pagePayload struct {
	Text string
	// Shown is the number of payload bytes in Text. It is 0 if Text contains the whole payload.
	Shown int64
}

func payload(data json.RawMessage) pagePayload {
	switch {
	case data == nil:
		return pagePayload{Text: "null"}
	case len(data) > maxShownPayload:
		n := maxShownPayload
		for n > 0 && !utf8.RuneStart(data[n]) {
			n--
		}
		return pagePayload{string(data[:n]), int64(n)}
	case indentedSize(data) > maxIndented:
		return pagePayload{Text: string(data)}
	}
	return pagePayload{Text: indent(data)}
}

// indentedSize estimates the size of JSON in bytes after indentation.
func indentedSize(data []byte) (n int) {
	depth, inText, escaped := 0, false, false
	for _, b := range data {
		n++
		switch {
		case escaped:
			escaped = false
		case inText:
			escaped, inText = b == '\\', b != '"'
		case b == '"':
			inText = true
		case b == '{', b == '[':
			depth++
			n += 1 + 2*depth
		case b == '}', b == ']':
			depth--
			n += 1 + 2*depth
		case b == ',':
			n += 1 + 2*depth
		}
	}
	return n
}
