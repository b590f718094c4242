package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// controls is what a hostile server puts wherever it may write text: both sets of control characters, a
// mark of direction, a line that looks like ours.
const controls = `\u001b]0;t\u0007\u009b2J\u202e\r\nmcpe-gen: all is well\u007f`

// A texts server speaks just enough of the protocol to have its texts printed.
func textsServer(t *testing.T, answers map[string]string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result, ok := answers[m.Method]
		switch {
		case m.Method == "server/discover" && !ok:
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"events":{}}}`
		case !ok:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result = strings.ReplaceAll(result, "$C", controls)
		if status, body, ok := strings.Cut(result, "|"); ok && len(status) == 3 {
			code := 0
			fmt.Sscan(status, &code)
			w.WriteHeader(code)
			io.WriteString(w, "\x1b[2J\x9b\n"+body)
			return
		}
		if frames, ok := strings.CutPrefix(result, "stream:"); ok {
			w.Header().Set("Content-Type", "text/event-stream")
			for frame := range strings.SplitSeq(frames, "\n") {
				p := strings.TrimSuffix(frame, "}") + `,"_meta":{"x":"` + controls + `","io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `}}`
				method, params, _ := strings.Cut(p, " ")
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s\",\"params\":%s}\n\n", method, params)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if e, ok := strings.CutPrefix(result, "error:"); ok {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, e)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Whatever a server says, no verb prints it raw: neither listen nor import, neither its events nor its
// errors nor its list, in no format.
func TestServerTextIsEscaped(t *testing.T) {
	const tick = `{"name":"tick","delivery":["push","poll"]}`
	const list = `{"events":[` + tick + `]}`
	occurrence := `{"eventId":"e1$C","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{"k$C":"$C"},"cursor":"$C"}`
	bad := `{"eventId":"e2$C","name":"tock$C","timestamp":"$C","data":"$C"}`
	denied := `{"error":{"code":-32012,"message":"$C","data":{"reason":"$C"}}}`
	refusals := map[string]string{
		"error":     `error:{"code":-32602,"message":"$C","data":{"errors":[{"path":"$C","message":"$C"}]}}`,
		"forbidden": `error:{"code":-32012,"message":"$C","data":"$C"}`,
		"unknown":   `error:{"code":7,"message":"$C"}`,
		"status":    "500|\u202e",
		"unauth":    "401|\u202e",
		"page":      "200|<html>",
		"bad":       `{"id":"$C","events":"$C","cursor":5}`,
	}
	for name, tt := range map[string]struct {
		verb    string
		answers map[string]string
		says    string
	}{
		"events":     {"listen tick -n 1", map[string]string{"events/list": list, "events/stream": "stream:active {\"cursor\":\"c\"}\nevent " + bad + "\nerror " + denied + "\nevent " + occurrence}, "tick"},
		"terminated": {"listen tick", map[string]string{"events/list": list, "events/stream": "stream:active {\"cursor\":\"c\"}\nterminated " + denied}, "ended the subscription"},
		"names":      {"listen nothing", map[string]string{"events/list": `{"events":[{"name":"a$C"},{"name":"b$C","delivery":5},` + tick + `]}`}, "warning: "},
		"choice":     {"listen", map[string]string{"events/list": `{"events":[{"name":"a$C","description":"$C","delivery":["$C"]},` + tick + `]}`}, "Event types of"},
		"modes":      {"listen tick", map[string]string{"events/list": `{"events":[{"name":"tick","delivery":["$C"]}]}`}, "not delivered by"},
		"arguments": {"listen tick --arg n=5", map[string]string{"events/list": `{"events":[{"name":"tick","delivery":["poll"],
			"inputSchema":{"type":"object","required":["$C"],"properties":{"$C":{"enum":["$C"]}},"additionalProperties":false}}]}`}, "are not valid"},
		"import": {"import", map[string]string{"events/list": `{"events":[{"name":"a$C"},{"name":"b$C","delivery":5},{"name":"ok","description":"$C","delivery":["poll"],
			"inputSchema":{"type":"object","description":"$C","properties":{"$C":{"type":"string","enum":["$C"]}}},"payloadSchema":{"type":"object","$C":1},"_meta":{"$C":"$C"}}]}`}, "is left out: /delivery"},
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(name+" "+format, func(t *testing.T) { printsPlain(t, tt.verb, format, tt.answers, tt.says) })
		}
	}
	for name, refusal := range refusals {
		for _, method := range []string{"server/discover", "events/list", "events/stream"} {
			t.Run(name+" "+method, func(t *testing.T) {
				answers := map[string]string{"events/list": list, method: refusal}
				printsPlain(t, "listen tick", "text", answers, "mcpe-gen: ")
				if method != "events/stream" {
					printsPlain(t, "import", "text", answers, "mcpe-gen: ")
				}
			})
		}
	}
}

// printsPlain runs a verb against a server with these answers.
func printsPlain(t *testing.T, verb, format string, answers map[string]string, says string) {
	t.Helper()
	args := strings.Fields(verb)
	args = append([]string{"--format", format, args[0], textsServer(t, answers)}, args[1:]...)
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(args, &stdout, &stderr, cli.Version{})
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("does not end: %q %q", stdout.String(), stderr.String())
	}
	for _, text := range []string{stdout.String(), stderr.String()} {
		if escaped := plain.Lines(text); escaped != text {
			t.Errorf("raw: %s", escaped)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(line, "mcpe-gen: all is well") {
				t.Errorf("a forged line: %s", text)
			}
		}
	}
	if all := stdout.String() + stderr.String(); format == "text" && !strings.Contains(all, says) {
		t.Errorf("%q is not in: %s", says, all)
	}
}
