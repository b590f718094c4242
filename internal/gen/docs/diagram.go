package docs

import (
	"fmt"
	"html"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Diagram shows a sequence of messages.
type Diagram struct {
	// Actors are the columns.
	Actors []string
	Steps  []Step
}

// A Step is a message from one actor to another, or a note if both are the same.
type Step struct {
	From, To int
	Text     string
	// Answer draws a dashed line.
	Answer bool
}

// modes describes each delivery mode.
var modes = []Mode{
	{Name: wire.ModePoll, Title: "Poll", Text: "The client requests the events after its cursor, as often as it likes but not before nextPollMs has passed. " +
		"It works with any server, and the client alone keeps the position.",
		Diagram: Diagram{Actors: []string{"Client", "Server"}, Steps: []Step{
			{0, 1, "events/poll, cursor null", false}, {1, 0, "no events, cursor A", true}, {0, 0, "waits nextPollMs", false},
			{0, 1, "events/poll, cursor A", false}, {1, 0, "events, cursor B", true},
		}}},
	{Name: wire.ModePush, Title: "Push", Text: "The client opens a stream and the server sends events as they happen. After a loss the client opens it again from its last cursor, " +
		"which every event and heartbeat carries.",
		Diagram: Diagram{Actors: []string{"Client", "Server"}, Steps: []Step{
			{0, 1, "events/stream, cursor null", false}, {1, 0, "active, cursor A", true}, {1, 0, "event, cursor B", true},
			{1, 0, "heartbeat, cursor B", true}, {1, 0, "event, cursor C", true},
		}}},
	{Name: wire.ModeWebhook, Title: "Webhook", Text: "The server posts events to an HTTPS endpoint of the client, signed as Standard Webhooks describe. It asks the endpoint to prove that it wants " +
		"them first, and the client refreshes the subscription before it expires.",
		Diagram: Diagram{Actors: []string{"Client", "Server", "Endpoint"}, Steps: []Step{
			{0, 1, "events/subscribe, url, secret", false}, {1, 2, "POST challenge", false}, {2, 1, "200, challenge", true},
			{1, 0, "id, refreshBefore", true}, {1, 2, "POST event, signed", false}, {2, 1, "2xx", true}, {0, 1, "events/subscribe again", false},
		}}},
}

// Dimensions of a drawing, in SVG units.
const (
	laneWidth, laneLeft = 260, 90
	headHeight          = 44
	stepHeight          = 46
)

// SVG draws the diagram in the colors of the surrounding page. The id must be unique in the page.
func (d Diagram) SVG(id, title string) string {
	width := 2*laneLeft + (len(d.Actors)-1)*laneWidth
	height := headHeight + len(d.Steps)*stepHeight + 24
	x := func(actor int) int { return laneLeft + actor*laneWidth }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="sequence" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="%s-title %s-text">`, width, height, width, height, id, id)
	fmt.Fprintf(&b, `<title id="%s-title">%s</title><desc id="%s-text">%s</desc>`, id, html.EscapeString(title), id, html.EscapeString(d.Words()))
	for i, actor := range d.Actors {
		fmt.Fprintf(&b, `<line class="life" x1="%d" y1="%d" x2="%d" y2="%d"/>`, x(i), headHeight, x(i), height-8)
		fmt.Fprintf(&b, `<rect class="actor" x="%d" y="4" width="120" height="34" rx="6"/><text class="name" x="%d" y="26">%s</text>`, x(i)-60, x(i), html.EscapeString(actor))
	}
	for n, s := range d.Steps {
		y := headHeight + n*stepHeight + 38
		if s.From == s.To {
			fmt.Fprintf(&b, `<text class="remark" x="%d" y="%d">%s</text>`, x(s.From)+12, y-6, html.EscapeString(s.Text))
			continue
		}
		class, tip, towards := "arrow", x(s.To)-1, 9
		if s.Answer {
			class = "arrow answer"
		}
		if s.To < s.From {
			tip, towards = x(s.To)+1, -9
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/>`, class, x(s.From), y, tip-towards, y)
		fmt.Fprintf(&b, `<path class="tip" d="M%d %d l%d -5 v10 z"/>`, tip, y, -towards)
		fmt.Fprintf(&b, `<text class="message" x="%d" y="%d">%s</text>`, (x(s.From)+x(s.To))/2, y-9, html.EscapeString(s.Text))
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// Words returns a text description of the diagram for screen readers.
func (d Diagram) Words() string {
	var parts []string
	for _, s := range d.Steps {
		if s.From == s.To {
			parts = append(parts, d.Actors[s.From]+" "+s.Text+".")
			continue
		}
		parts = append(parts, d.Actors[s.From]+" to "+d.Actors[s.To]+": "+s.Text+".")
	}
	return strings.Join(parts, " ")
}

// Mermaid returns the diagram in Mermaid syntax, which code hosts render.
func (d Diagram) Mermaid() string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, a := range d.Actors {
		fmt.Fprintf(&b, "  participant %s\n", a)
	}
	for _, s := range d.Steps {
		switch {
		case s.From == s.To:
			fmt.Fprintf(&b, "  Note right of %s: %s\n", d.Actors[s.From], s.Text)
		case s.Answer:
			fmt.Fprintf(&b, "  %s-->>%s: %s\n", d.Actors[s.From], d.Actors[s.To], s.Text)
		default:
			fmt.Fprintf(&b, "  %s->>%s: %s\n", d.Actors[s.From], d.Actors[s.To], s.Text)
		}
	}
	return b.String()
}
