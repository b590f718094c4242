package clients

import (
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// framingScenes use unusual but valid forms of server-sent events (PUSH-11, according to the HTML standard, section
// "Server-sent events"). They also split events/list into two pages (LIST-1).
var framingScenes = []scene{
	framedScene("sse-crlf", "The client accepts lines that end with CR LF", framing{lineEnd: "\r\n", space: " "}.write),
	framedScene("sse-data-lines", "The client accepts a message on several data lines", framing{lineEnd: "\n", space: " ", splitsData: true}.write),
	framedScene("sse-no-event", "The client accepts a message without an event field", framing{lineEnd: "\n", space: " ", omitsEvent: true}.write),
	framedScene("sse-id-retry", "The client accepts id and retry fields", framing{lineEnd: "\n", space: " ", addsFields: true}.write),
	framedScene("sse-comments", "The client accepts comments between fields", framing{lineEnd: "\n", space: " ", addsComments: true}.write),
	framedScene("sse-no-space", "The client accepts fields without a space after the colon", framing{lineEnd: "\n"}.write),
	withCursors(wideChar, framedScene("sse-split-character", "The client accepts a character in two parts", sendInParts)),
	{name: "sse-bom", mode: wire.ModePush, maxDuration: 20 * time.Second, background: emitAfter("left"), writeMessage: writeBOMFirst, turn: onStream(cutAfterActive), checks: []check{
		{name: "sse-bom", id: "PUSH-11", title: "The client accepts a byte order mark at the start of a stream", advice: true, run: expectResume(2, fixedPosition(0))}}},
	{name: "list-pages", misbehavesEarly: true, maxDuration: 20 * time.Second, background: emitWhenFollowing(1), turn: twoPages, checks: []check{
		{name: "list-pages", id: "LIST-1", title: "The client reads every page of the list", run: expectContinuation}}},
}

// framedScene returns a scene that writes its streams with write. The first stream ends so that the next request's
// cursor shows how much the client has read.
func framedScene(name, title string, write func(c *channel, text string) bool) scene {
	return scene{name: name, mode: wire.ModePush, maxDuration: 20 * time.Second, background: emitAfter("left"), writeMessage: write,
		turn: onStream(endFirstStream(func(c *channel) { c.writeResult() })), checks: []check{{name: name, id: "PUSH-11", title: title, run: expectResume(2, fixedPosition(2))}}}
}

// withCursors adds a suffix to the cursors of a scene. A cursor may contain any text (CUR-1).
func withCursors(end string, sc scene) scene {
	sc.cursorEnd = end
	return sc
}

// writeBOMFirst writes a byte order mark before the first message. No known server writes one, so the check is only
// advice.
func writeBOMFirst(c *channel, text string) bool {
	mark := "\ufeff"
	if c.hasBegun {
		mark = ""
	}
	return c.raw(mark + "data: " + text + "\n\n")
}

// wideChar is a character that takes three bytes in UTF-8.
const wideChar = "☃"

// partPause is the delay between two parts of a character.
const partPause = 50 * time.Millisecond

// sendInParts sends a message up to the middle of its first wide character, pauses, and sends the rest.
func sendInParts(c *channel, text string) bool {
	text = usualFraming.format(text)
	if i := strings.Index(text, wideChar); i >= 0 {
		if !c.raw(text[:i+1]) || !c.keepOpen(nil, partPause) {
			return false
		}
		text = text[i+1:]
	}
	return c.raw(text)
}

// secondPage is the cursor of the second page of a list.
const secondPage = "page-2"

// twoPages replies to events/list with an empty first page. The second page contains the event type.
func twoPages(s *stage, a *clientCall, _ int) reply {
	if a.method != wire.MethodList {
		return nil
	}
	switch cursor, ok := a.cursor(); {
	case !ok:
		return s.resultReply(a, `{"events":[],"nextCursor":"`+secondPage+`"}`)
	case cursor != secondPage:
		return refuse(a, wire.Sketch.Code(wire.InvalidParams), "InvalidParams", "null")
	}
	return nil
}
