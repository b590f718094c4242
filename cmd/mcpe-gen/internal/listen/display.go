package listen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/wake"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A display prints events to standard output and everything else to standard error. On a terminal, the last line of
// standard error shows counts.
type display struct {
	o     Options
	began time.Time

	mu                                sync.Mutex
	events, gaps, errors, passed, not int
	settled, retries, dead            int
	refused                           webhook.Refusals
	status                            bool // the line of counts is on the screen
}

func newDisplay(o Options) *display { return &display{o: o, began: time.Now()} }

// Escape sequences of the colors.
const (
	dim    = "2"
	bold   = "1"
	green  = "32"
	yellow = "33"
	red    = "31"
)

func (d *display) paint(code, s string) string {
	if !d.o.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// printNote prints a line about the run rather than an event.
func (d *display) printNote(format string, args ...any) {
	defer d.beginOutput()()
	fmt.Fprintf(d.o.Stderr, format+"\n", args...)
}

func (d *display) begin(event, mode string, o Options) {
	if o.Quiet {
		return
	}
	more := ""
	if o.Forward != "" {
		more = ", forwarded to " + plain.Text(o.Forward)
	}
	if o.Exec != nil {
		more = ", for " + plain.Text(strings.Join(o.Exec.Argv, " "))
	}
	if d.o.Live {
		more += "; Ctrl-C ends"
	}
	d.printNote("%s by %s from %s%s", d.paint(bold, plain.Text(event)), mode, o.Target, more)
}

// finish prints the totals.
func (d *display) finish(o Options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clearCounts()
	if o.Quiet {
		return
	}
	kept := ""
	if o.CursorFile != "" {
		kept = "; the next run with these arguments goes on from " + o.CursorFile
	}
	if o.Exec != nil && d.dead > 0 && o.CursorFile == "" {
		kept = "; dead letters are gone without --cursor-file"
	}
	fmt.Fprintf(o.Stderr, "%s in %s%s\n", d.counts(), time.Since(d.began).Round(time.Second), kept)
}

// A line is an occurrence in the output of --json. It contains the wire form, the delivery mode and the result of
// forwarding.
type line struct {
	wire.Occurrence
	Mode    string         `json:"mode"`
	Forward *forwardResult `json:"forward,omitempty"`
}

// event prints an occurrence.
func (d *display) event(o events.Occurrence, mode string, p *forwardResult) error {
	defer d.beginOutput()()
	d.events++
	if p != nil && p.isAccepted() {
		d.passed++
	} else if p != nil {
		d.not++
	}
	if d.o.JSON {
		return d.json(line{Occurrence: wireOccurrence(o), Mode: mode, Forward: p})
	}
	parts := []string{d.paint(dim, plain.Text(o.Timestamp.String())), d.paint(bold, plain.Text(o.Name)), d.paint(dim, plain.Text(o.ID))}
	if p != nil {
		parts = append(parts, d.receipt(p))
	}
	parts = append(parts, plain.Text(compact(o.Raw)))
	_, err := fmt.Fprintln(d.o.Stdout, strings.Join(parts, "  "))
	return err
}

func (d *display) receipt(p *forwardResult) string {
	switch {
	case p.isAccepted():
		return d.paint(green, fmt.Sprintf("-> %d", p.Status)) + fmt.Sprintf(" %dms", p.Millis)
	case p.Status != 0:
		return d.paint(red, fmt.Sprintf("-> %d", p.Status)) + fmt.Sprintf(" %dms", p.Millis)
	}
	return d.paint(red, "-> "+plain.Text(p.Error))
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func (d *display) json(v any) error {
	text, err := encode(v)
	if err == nil {
		_, err = d.o.Stdout.Write(text)
	}
	return err
}

// encode returns v as one line of JSON.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return plain.JSON(b.Bytes()), nil
}

// noticeWriter returns the writer for gaps and errors. With --print, standard output contains only events.
func (d *display) noticeWriter() io.Writer {
	if d.o.Print {
		return d.o.Stderr
	}
	return d.o.Stdout
}

// A commandResult is the result of the command for a batch in the output of --json.
type commandResult struct {
	Outcome string `json:"outcome"`
	Count   int    `json:"count"`
	Millis  int64  `json:"ms"`
	Error   string `json:"error,omitempty"`
}

// printBatch prints the latest occurrence of a batch and the result of its command.
func (d *display) printBatch(o events.Occurrence, mode string, r commandResult) error {
	defer d.beginOutput()()
	color := red
	switch r.Outcome {
	case wake.Settled.String():
		d.events += r.Count
		d.settled++
		color = green
	case wake.Retry.String():
		d.retries++
		color = yellow
	default:
		d.events += r.Count
		d.dead++
	}
	if d.o.JSON {
		return d.json(struct {
			line
			Exec commandResult `json:"exec"`
		}{line{Occurrence: wireOccurrence(o), Mode: mode}, r})
	}
	parts := []string{d.paint(dim, plain.Text(o.Timestamp.String())), d.paint(bold, plain.Text(o.Name)), d.paint(dim, plain.Text(o.ID))}
	if r.Count > 1 {
		parts = append(parts, fmt.Sprintf("and %d before", r.Count-1))
	}
	parts = append(parts, d.paint(color, "-> "+r.Outcome)+fmt.Sprintf(" %dms", r.Millis))
	if r.Error != "" {
		parts = append(parts, plain.Text(r.Error))
	}
	_, err := fmt.Fprintln(d.o.Stdout, strings.Join(parts, "  "))
	return err
}

// These limits, in bytes, apply to the length of a line of --print and of each name in it.
const (
	maxPrinted = 4 << 10
	maxName    = 128
)

// A printedEvent is a line of --print.
type printedEvent struct {
	Event     string `json:"event"`
	EventID   string `json:"eventId"`
	Timestamp string `json:"timestamp"`
	// Count is the number of events that the line represents.
	Count int `json:"count"`
	// Untrusted is always true because a third party wrote Data.
	Untrusted bool            `json:"untrusted"`
	Data      json.RawMessage `json:"data,omitempty"`
	// Beginning is the start of a payload that is too large. Bytes is the size of that payload.
	Beginning string `json:"beginning,omitempty"`
	Bytes     int    `json:"bytes,omitempty"`
}

// printedLine returns the line of --print for the latest of several occurrences.
func printedLine(o events.Occurrence, count int) ([]byte, error) {
	p := printedEvent{Event: plain.Cut(o.Name, maxName), EventID: plain.Cut(o.ID, maxName), Timestamp: plain.Cut(o.Timestamp.String(), maxName), Count: count, Untrusted: true, Data: o.Raw}
	if len(o.Raw) > maxPrinted {
		p.shorten(maxPrinted)
	}
	for {
		text, err := encode(p)
		if err != nil || len(text) <= maxPrinted {
			return text, err
		}
		p.shorten(max(len(p.Data), len(p.Beginning)) / 2)
	}
}

// shorten truncates the payload to n bytes.
func (p *printedEvent) shorten(n int) {
	if p.Data != nil {
		p.Bytes, p.Beginning, p.Data = len(p.Data), string(p.Data), nil
	}
	p.Beginning = plain.Cut(p.Beginning, n)
}

// printEvent prints a line of --print.
func (d *display) printEvent(o events.Occurrence, count int) error {
	defer d.beginOutput()()
	d.events += count
	text, err := printedLine(o, count)
	if err == nil {
		_, err = d.o.Stdout.Write(text)
	}
	return err
}

// printGap prints that occurrences may be missing.
func (d *display) printGap(g *client.GapError) {
	defer d.beginOutput()()
	d.gaps++
	if d.o.JSON {
		_ = d.json(map[string]any{"gap": true, "cursor": g.Cursor})
		return
	}
	fmt.Fprintln(d.noticeWriter(), d.paint(yellow, "-- gap: the server could not replay everything; events may be missing here --"))
}

// printError prints an error that does not end the subscription.
func (d *display) printError(err error) {
	defer d.beginOutput()()
	d.errors++
	if d.o.JSON {
		_ = d.json(map[string]any{"error": err.Error()})
		return
	}
	fmt.Fprintln(d.noticeWriter(), d.paint(red, "!! "+plain.Text(err.Error())))
}

// printInterruption prints that the connection was lost and is being restored.
func (d *display) printInterruption(why string) {
	if d.o.Quiet {
		return
	}
	d.printNote("%s", d.paint(yellow, "interrupted, trying again: "+plain.Text(why)))
}

// recordRefusals records the rejected requests of the local endpoint and prints the first one of each kind.
func (d *display) recordRefusals(r webhook.Refusals) {
	d.mu.Lock()
	known := d.refused
	d.refused = r
	d.mu.Unlock()
	if len(r.ByStatus) == len(known.ByStatus) || d.o.Quiet {
		return
	}
	hint := ""
	if r.ByStatus[http.StatusUnauthorized] > 0 && known.ByStatus[http.StatusUnauthorized] == 0 {
		hint = "; a server signs with the bytes that the base64 after whsec_ stands for, not with the text, and by a clock that is right"
	}
	d.printNote("%s", d.paint(yellow, plain.Text(r.Last.Error())+hint))
}

// watchInterval is how often the connection is checked.
const watchInterval = 500 * time.Millisecond

// watchConnection starts reporting interruptions. Calling stop ends the reports. The client recovers from interruptions
// without help.
func (d *display) watchConnection(status func() client.Status) (stop func()) {
	ending := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { d.reportInterruptions(ending, status) })
	return func() {
		close(ending)
		watching.Wait()
	}
}

// reportInterruptions reports interruptions until stop is closed.
func (d *display) reportInterruptions(stop <-chan struct{}, status func() client.Status) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now, st := "", status()
		if st.ID == "" {
			continue // there is no subscription
		}
		d.recordRefusals(st.Refused)
		if err := st.LastError; err != nil && err != st.Refused.Last {
			now = err.Error()
		}
		if now != last && now != "" {
			d.printInterruption(now)
		}
		last = now
	}
}

// beginOutput locks the display and removes the line of counts. The returned function writes the line again and unlocks
// the display.
func (d *display) beginOutput() (end func()) {
	d.mu.Lock()
	d.clearCounts()
	return func() {
		d.writeCounts()
		d.mu.Unlock()
	}
}

// clearCounts removes the line of counts, and writeCounts writes it. The caller must hold mu.
func (d *display) clearCounts() {
	if d.status {
		fmt.Fprint(d.o.Stderr, "\r\x1b[K")
		d.status = false
	}
}

func (d *display) writeCounts() {
	if d.o.Live && !d.o.Quiet {
		fmt.Fprint(d.o.Stderr, d.paint(dim, d.counts()))
		d.status = true
	}
}

func (d *display) counts() string {
	text := fmt.Sprintf("%s, %s, %s", plural(d.events, "event"), plural(d.gaps, "gap"), plural(d.errors, "error"))
	if d.o.Forward != "" {
		text += fmt.Sprintf(", %d forwarded, %d not", d.passed, d.not)
	}
	if d.o.Exec != nil {
		text += fmt.Sprintf(", %d settled, %s, %s", d.settled, plural(d.retries, "failed try"), plural(d.dead, "dead letter"))
	}
	refused := 0
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(d.refused.ByStatus)) {
		n := int(d.refused.ByStatus[status])
		refused += n
		parts = append(parts, fmt.Sprintf("%d with %d", n, status))
	}
	if refused > 0 {
		text += fmt.Sprintf(", %s refused: %s", plural(refused, "delivery"), strings.Join(parts, ", "))
	}
	return text
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if stem, ok := strings.CutSuffix(word, "y"); ok {
		word = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, word)
}
