package clients

import (
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// framingScenes stream in other valid forms of server-sent events (PUSH-11, according to the HTML standard, section
// "Server-sent events"). They also split events/list into two pages (LIST-1).
var framingScenes = []scene{
	framed("lines that end with CR LF", "lines of a stream may end with CR LF", func(c *channel, text string) bool {
		return c.raw("event: message\r\ndata: " + text + "\r\n\r\n")
	}),
	framed("several data lines", "a message may be on several data lines", func(c *channel, text string) bool {
		return c.raw("event: message\ndata: " + strings.ReplaceAll(text, `,"`, ",\ndata: \"") + "\n\n")
	}),
	framed("no event field", "a message need not have an event field", func(c *channel, text string) bool {
		return c.raw("data: " + text + "\n\n")
	}),
	framed("id and retry fields", "a message may have id and retry fields", func(c *channel, text string) bool {
		return c.raw("id: " + token() + "\nevent: message\nretry: 1000\ndata: " + text + "\n\n")
	}),
	framed("comments between fields", "comments may come anywhere", func(c *channel, text string) bool {
		return c.raw(": one\n\n:\nevent: message\n: two\ndata: " + text + "\n: three\n\n")
	}),
	framed("no blank after data:", "a field need not have a blank after its colon", func(c *channel, text string) bool {
		return c.raw("event:message\ndata:" + text + "\n\n")
	}),
	withCursors(wide, framed("characters in two parts", "a character may come in two parts", inParts)),
	{name: "a byte order mark", mode: wire.ModePush, within: 20 * time.Second, live: after("left"), write: markFirst, turn: onStream(cutAfterActive), checks: []check{
		{id: "PUSH-11", title: "a stream may begin with a byte order mark", advice: true, run: resumes(2, position(0))}}},
	{name: "a list of two pages", early: true, within: 20 * time.Second, live: occur(1), turn: twoPages, checks: []check{
		{id: "LIST-1", title: "every page of the list is read", run: goesOn}}},
}

// framed returns a scene that writes its streams with write. The first stream ends so that the next request's cursor
// shows how much the client has read.
func framed(name, title string, write func(c *channel, text string) bool) scene {
	return scene{name: name, mode: wire.ModePush, within: 20 * time.Second, live: after("left"), write: write,
		turn: onStream(endFirst(func(c *channel) { c.final() })), checks: []check{{id: "PUSH-11", title: title, run: resumes(2, position(2))}}}
}

// withCursors adds a suffix to the cursors of a scene. A cursor may contain any text (CUR-1).
func withCursors(end string, sc scene) scene {
	sc.cursorEnd = end
	return sc
}

// markFirst writes a byte order mark before the first message. No known server does so, so the check is only advice.
func markFirst(c *channel, text string) bool {
	mark := "\ufeff"
	if c.begun {
		mark = ""
	}
	return c.raw(mark + "data: " + text + "\n\n")
}

// wide is a character that takes three bytes in UTF-8.
const wide = "☃"

// partPause is the delay between two parts of a character.
const partPause = 50 * time.Millisecond

// inParts sends a message up to the middle of its first wide character, pauses, and sends the rest.
func inParts(c *channel, text string) bool {
	text = "event: message\ndata: " + text + "\n\n"
	if i := strings.Index(text, wide); i >= 0 {
		if !c.raw(text[:i+1]) || !c.wait(nil, partPause) {
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
		return s.result(a, `{"events":[],"nextCursor":"`+secondPage+`"}`)
	case cursor != secondPage:
		return refuse(a, wire.Sketch.Code(wire.InvalidParams), "InvalidParams", "null")
	}
	return nil
}
