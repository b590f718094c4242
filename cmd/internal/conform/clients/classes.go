package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Classes of values that scenes draw from.

// An event is the content of an occurrence. form describes it in reports. encodedID and data are JSON, rest contains
// further members, and space is white space after the commas.
type event struct {
	id, form, encodedID, timestamp, data, rest, space string
}

// newEvent returns a usual event.
func newEvent() *event {
	return &event{id: newToken(), form: "a usual event", timestamp: time.Now().UTC().Format(time.RFC3339Nano), data: `{"seq":1}`}
}

// members returns the event's members in a drawn order.
func (e *event) members(s *draw.Source) string {
	if e.encodedID == "" {
		e.encodedID = quote(e.id)
	}
	members := []string{`"eventId":` + e.encodedID, `"name":` + quote(EventType), `"timestamp":` + quote(e.timestamp), `"data":` + e.data}
	return strings.Join(draw.Some(s, len(members), members), ","+e.space) + e.rest
}

// quote returns a text as JSON.
func quote(text string) string {
	b, _ := json.Marshal(text) // A text always has JSON.
	return string(b)
}

// eventForms are unusual but valid forms of an event (OCC-1, OCC-2). previous is the eventId before it. Reports of
// programs may escape quotes, backslashes and angle brackets in ids, so no id has them.
var eventForms = []struct {
	name  string
	apply func(s *draw.Source, e *event, previous string)
}{
	{"data without members", func(_ *draw.Source, e *event, _ string) { e.data = `{}` }},
	{"a timestamp with an offset", func(s *draw.Source, e *event, _ string) {
		zone := draw.Pick(s, []int{-12 * 60, -3*60 - 30, 60, 5*60 + 45, 14 * 60})
		e.timestamp = time.Now().In(time.FixedZone("", zone*60)).Format(draw.Pick(s, []string{time.RFC3339, time.RFC3339Nano}))
	}},
	{"an old timestamp without a fraction", func(_ *draw.Source, e *event, _ string) { e.timestamp = "1999-12-31T23:59:59Z" }},
	{"an escaped eventId", func(_ *draw.Source, e *event, _ string) {
		e.encodedID = fmt.Sprintf(`"%s\u%04x"`, e.id[:len(e.id)-1], e.id[len(e.id)-1])
	}},
	{"an eventId of 256 bytes that begins like the one before it", func(_ *draw.Source, e *event, previous string) {
		e.id = (previous[:len(previous)-1] + "_" + strings.Repeat(e.id, 10))[:256]
	}},
	{"an eventId with punctuation", func(_ *draw.Source, e *event, _ string) { e.id = "!#$%'()*+,-./:;=?@[]^_`{|}~" + e.id }},
	{"the eventId before it in lower case", func(_ *draw.Source, e *event, previous string) { e.id = strings.ToLower(previous) }},
	{"more than 8 KiB", func(s *draw.Source, e *event, _ string) { e.data = longData(9<<10 + s.IntN(40<<10)) }},
	{"more than 64 KiB", func(s *draw.Source, e *event, _ string) { e.data = longData(65<<10 + s.IntN(150<<10)) }},
	{"text outside ASCII", func(_ *draw.Source, e *event, _ string) {
		e.data = "{\"text\":\"ü☃𝄞\u2028\u00a0\",\"ключ\":1}"
	}},
	{"escapes in data", func(_ *draw.Source, e *event, _ string) {
		e.data = `{"\u0073eq":1,"text":"\ud834\udd1e\/\b\u0000\"\\"}`
	}},
	{"unusual numbers", func(_ *draw.Source, e *event, _ string) {
		e.data = `{"seq":9007199254740993,"n":-0,"m":1E-7,"l":1e300}`
	}},
	{"nested data", func(_ *draw.Source, e *event, _ string) {
		e.data = `{"a":` + strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40) + `}`
	}},
	{"null and empty members of data", func(_ *draw.Source, e *event, _ string) { e.data = `{"":null,"list":[],"object":{},"text":""}` }},
	{"unknown members", func(_ *draw.Source, e *event, _ string) { e.rest = `,"x-nobody":{"cursor":1},"version":2` }},
	{"white space", func(_ *draw.Source, e *event, _ string) { e.space, e.data = " \t ", `{ "seq" :	1 }` }},
}

// longData returns data of a given size.
func longData(size int) string {
	return `{"seq":1,"text":"` + strings.Repeat("long text ", size/10) + `"}`
}

// cursorTexts returns cursors in a drawn order. A cursor may contain any text (CUR-1), but clients may take an empty one
// for none.
func cursorTexts(s *draw.Source) []string {
	all := []string{"0", "null", "false", "1234567890" + fmt.Sprint(1e9+s.IntN(1e9)), "0x1F", "1e3", `{"a":1}`, " a\t", "a b ",
		"+/=%2F&?#", `"\` + "\n", "e\u0301\u00e9☃𝄞", strings.Repeat("long", 500)}
	return draw.Some(s, len(all), all)
}

// failures returns replies that fail for a while, in a drawn order. The first ones answer and the last two break.
func failures(s *draw.Source) []reply {
	answered := []reply{statusReply(http.StatusInternalServerError, ""), statusReply(http.StatusBadGateway, ""), statusReply(http.StatusServiceUnavailable, ""),
		statusReply(http.StatusGatewayTimeout, ""), statusReply(http.StatusTooManyRequests, "1")}
	broken := []reply{breakReply(""), breakReply(`{"jsonrpc":"2.0","id":1,"resu`)}
	return append(draw.Some(s, len(answered), answered), draw.Some(s, len(broken), broken)...)
}

// breakReply returns a reply that ends the connection after a part of a body.
func breakReply(part string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		if part != "" {
			w.Header().Set(headerContentType, "application/json")
			io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// fail returns a reply that fails, and marks the request as failed.
func (s *stage) fail(a *clientCall, failed reply) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.failed = true
	return failed
}

// upstreamError returns the answer of a check that fails upstream.
func upstreamError(a *clientCall) reply {
	return refuse(a, wire.Sketch.Code(wire.UpstreamError), "UpstreamError", "null")
}

// A framing is a valid form of server-sent events (PUSH-11, according to the HTML standard, section "Server-sent
// events"). name describes it in reports.
type framing struct {
	name, lineEnd, space                             string
	omitsEvent, splitsData, addsFields, addsComments bool
	// splitIn is a text within which a message is split into two parts, or "".
	splitIn string
}

// usualFraming is the form in which the MCP SDKs write messages.
var usualFraming = framing{lineEnd: "\n", space: " "}

// wideChar is a character that takes three bytes in UTF-8.
const wideChar = "☃"

// partPause is the delay between two parts of a message.
const partPause = 50 * time.Millisecond

// framings returns each unusual form, and then drawn combinations in two parts.
func framings(s *draw.Source) []framing {
	all := []framing{{name: "lines that end with CR LF", lineEnd: "\r\n", space: " "},
		{name: "several data lines", lineEnd: "\n", space: " ", splitsData: true},
		{name: "no event field", lineEnd: "\n", space: " ", omitsEvent: true},
		{name: "id and retry fields", lineEnd: "\n", space: " ", addsFields: true},
		{name: "comments between fields", lineEnd: "\n", space: " ", addsComments: true},
		{name: "no space after the colon", lineEnd: "\n"},
		{name: "a character in two parts", lineEnd: "\n", space: " ", splitIn: wideChar}}
	coin := func() bool { return s.IntN(2) == 0 }
	for range 4 {
		f := framing{name: "a combination of forms in two parts", lineEnd: draw.Pick(s, []string{"\n", "\r\n"}), space: draw.Pick(s, []string{"", " "}),
			omitsEvent: coin(), splitsData: coin(), addsFields: coin(), addsComments: coin()}
		f.splitIn = draw.Pick(s, []string{wideChar, f.lineEnd, "data:", `":"`})
		all = append(all, f)
	}
	return all
}

// format returns a message as an event.
func (f framing) format(text string) string {
	var lines []string
	if f.addsComments {
		lines = append(lines, ": one", "", ":")
	}
	if !f.omitsEvent {
		lines = append(lines, "event:"+f.space+"message")
	}
	if f.addsFields {
		lines = append(lines, "id:"+f.space+newToken(), "retry:"+f.space+"1000", "unknown:"+f.space+"1")
	}
	if f.splitsData {
		text = strings.ReplaceAll(text, `,"`, ",\n\"")
	}
	for part := range strings.SplitSeq(text, "\n") {
		lines = append(lines, "data:"+f.space+part)
		if f.addsComments {
			lines = append(lines, ": more")
		}
	}
	return strings.Join(append(lines, "", ""), f.lineEnd)
}
