package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

func catalog(names ...string) []client.Descriptor {
	var ds []client.Descriptor
	for _, n := range names {
		ds = append(ds, client.Descriptor{Name: n, Description: "About " + n + ".", Delivery: []string{"poll"}})
	}
	return ds
}

// A person chooses by number, name or a beginning that only one has, and is asked again otherwise.
func TestChoose(t *testing.T) {
	types := catalog("incident.created", "incident.updated", "push")
	for _, test := range []struct {
		answers, want string
		asked         int
	}{
		{"2\n", "incident.updated", 1},
		{"push\n", "push", 1},
		{"p\n", "push", 1},
		{"incident\n\n0\n9\nincident.c\n", "incident.created", 5},
		{"", "", 1},
	} {
		var out bytes.Buffer
		o := Options{Target: peer.Target{URL: "http://a.example/?key=secret"}, Stdin: strings.NewReader(test.answers), Stderr: &out}
		d, err := o.chooseEvent(t.Context(), types)
		if d.Name != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: got %q, %v", test.answers, d.Name, err)
		}
		if n := strings.Count(out.String(), "Listen to (1-3 or a name): "); n != test.asked {
			t.Errorf("%q: asked %d times:\n%s", test.answers, n, &out)
		}
		if strings.Contains(out.String(), "secret") {
			t.Error("the query of the URL is shown")
		}
	}
	var out bytes.Buffer
	o := Options{Target: peer.Target{Command: []string{"server"}}, Stdin: strings.NewReader(""), Stderr: &out}
	if d, err := o.chooseEvent(t.Context(), catalog("only")); err != nil || d.Name != "only" {
		t.Error("the only type is not chosen:", err)
	}
	if _, err := o.chooseEvent(t.Context(), nil); err == nil {
		t.Error("no types, no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nobody, end := io.Pipe() // a standard input on which nobody types
	defer end.Close()
	o.Stdin = nobody
	if _, err := o.chooseEvent(ctx, types); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What a server sends cannot reach the terminal's controls.
func TestUntrustedText(t *testing.T) {
	var out, log bytes.Buffer
	d := newDisplay(Options{Stdout: &out, Stderr: &log})
	hostile := "a\x1b]0;title\a\r\n\u202eb\u009bc"
	data, err := json.Marshal(map[string]string{"k": "\u202e\u009b ok é"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.event(events.Occurrence{ID: hostile, Name: hostile, Raw: data}, "poll", nil); err != nil {
		t.Fatal(err)
	}
	d.printError(errors.New(hostile))
	d.printInterruption(hostile)
	for _, text := range []string{out.String(), log.String()} {
		for _, r := range text {
			if r != '\n' && plain.Hidden(r) {
				t.Errorf("%U reaches the terminal: %q", r, text)
			}
		}
	}
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), "ok é") {
		t.Errorf("%q", out.String())
	}
}

// On a terminal the counts stand below the last event, and gaps and errors are counted.
func TestLiveCounts(t *testing.T) {
	var screen bytes.Buffer
	o := Options{Stdout: &screen, Stderr: &screen, Live: true, Forward: "http://127.0.0.1/"}
	d := newDisplay(o)
	d.begin("a", "push", o)
	for range 2 {
		if err := d.event(events.Occurrence{ID: "1", Name: "a", Raw: json.RawMessage(`{ "x": 1 }`)}, "push", &forwardResult{Status: 200}); err != nil {
			t.Fatal(err)
		}
	}
	d.printGap(&client.GapError{})
	d.printError(errors.New("bad"))
	d.finish(o)
	lines := strings.Split(strings.TrimSpace(screen.String()), "\n")
	for i, want := range []string{
		"a by push from ",
		"0 events, 0 gaps, 0 errors, 0 forwarded, 0 not\r\x1b[K", // taken away by the first event
		"1 event, 0 gaps, 0 errors, 1 forwarded, 0 not\r\x1b[K",
		"2 events, 0 gaps, 0 errors, 2 forwarded, 0 not\r\x1b[K-- gap",
		"2 events, 1 gap, 0 errors, 2 forwarded, 0 not\r\x1b[K!! bad",
		"2 events, 1 gap, 1 error, 2 forwarded, 0 not\r\x1b[K2 events, 1 gap, 1 error, 2 forwarded, 0 not in 0s",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d is not %q:\n%q", i, want, lines)
		}
	}
}

// P6: a refused delivery is shown once for each status, with a hint for 401, and counted in the last line.
func TestRefusals(t *testing.T) {
	var screen bytes.Buffer
	o := Options{Stdout: &screen, Stderr: &screen}
	d := newDisplay(o)
	bad := func(status int) error { return fmt.Errorf("a delivery was refused with %d: why", status) }
	d.recordRefusals(webhook.Refusals{})
	d.recordRefusals(webhook.Refusals{ByStatus: map[int]int64{401: 1}, Last: bad(401)})
	d.recordRefusals(webhook.Refusals{ByStatus: map[int]int64{401: 5}, Last: bad(401)})
	d.recordRefusals(webhook.Refusals{ByStatus: map[int]int64{401: 5, 400: 1}, Last: bad(400)})
	d.finish(o)
	want := "a delivery was refused with 401: why; a server signs with the bytes that the base64 after whsec_ stands for, not with the text, and by a clock that is right\n" +
		"a delivery was refused with 400: why\n" +
		"0 events, 0 gaps, 0 errors, 6 deliveries refused: 1 with 400, 5 with 401 in 0s\n"
	if screen.String() != want {
		t.Errorf("%q", screen.String())
	}
}
