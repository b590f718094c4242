package operate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

// A peer is an operator's handler that answers by a table, and what it was asked.
func peer(t *testing.T, answers map[string]string) (*httptest.Server, *[]string) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		line := r.Method + " " + r.URL.RequestURI() + " " + string(body)
		asked = append(asked, line+" "+r.Header.Get("Authorization"))
		if (r.Method == "POST") != (r.Header.Get("Idempotency-Key") != "") {
			t.Errorf("%s has the key %q", line, r.Header.Get("Idempotency-Key"))
		}
		if !strings.HasPrefix(r.UserAgent(), "mcpe-gen") {
			t.Errorf("%s comes from %q", line, r.UserAgent())
		}
		answer, ok := answers[strings.TrimSpace(line)]
		if !ok {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(404)
			answer = `{"detail":"it is not there\u001b[31m"}`
		}
		if answer == "elsewhere" {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return
		}
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// serveAlways is an operator's handler that gives the same answer to every request.
func serveAlways(t *testing.T, answer string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
	t.Cleanup(s.Close)
	return s
}

func TestRun(t *testing.T) {
	s, asked := peer(t, map[string]string{
		"GET /ops/api/subscriptions?principal=ann":                                               `{"subscriptions":[{"id":"sub_1","principal":"a\u001b[2Jnn","behind":3}],"next":"sub_1"}`,
		"GET /ops/api/subscriptions?after=sub_1&principal=ann":                                   `{"subscriptions":[{"id":"sub_2","principal":"ann"}]}`,
		"GET /ops/api/subscriptions?failing=true&limit=1000":                                     `{"subscriptions":[{"id":"sub_2","failedSince":"2026-01-02T03:04:05Z"}]}`,
		"GET /ops/api/endpoints?late=5m":                                                         `{"endpoints":[{"host":"a.test","subscriptions":2,"failing":1,"abandoned":3}],"missing":["b has not written its figures."]}`,
		"GET /ops/api/occurrences?event=order&eventId=e%2F1%3F":                                  `{"occurrences":[{"event":"order","position":7,"eventId":"e/1?","cursor":"c"}],"whole":true}`,
		"GET /ops/api/types/order/occurrences/7":                                                 `{"occurrence":{"event":"order","position":7,"eventId":"e/1?"},"deliveries":[]}`,
		"GET /ops/api/occurrences?eventId=two":                                                   `{"occurrences":[{"event":"a","position":1,"eventId":"two"},{"event":"b","position":2,"eventId":"two"}],"whole":true}`,
		"GET /ops/api/occurrences?eventId=none":                                                  `{"occurrences":[],"whole":true}`,
		"GET /ops/api/events?event=push&since=90m&until=80m":                                     `{"since":"2026-01-02T14:00:00Z","until":"2026-01-02T14:10:00Z","occurrences":[{"timestamp":"T","event":"push","eventId":"evt\u001b","accepted":1,"waiting":0,"failed":2,"attempts":9,"lastError":"timeout"}],"attempts":4,"failures":3,"subscriptions":2,"whole":false,"next":"push/7"}`,
		"GET /ops/api/events?after=push%2F7&event=push&since=90m&until=2026-01-02T14%3A10%3A00Z": `{"since":"2026-01-02T14:00:00Z","until":"2026-01-02T14:10:00Z","occurrences":[],"attempts":4,"failures":3,"subscriptions":2,"whole":false}`,
		"GET /ops/api/events?since=1m":                                                           `{"since":"2026-01-02T14:00:00Z","until":"2026-01-02T14:10:00Z","occurrences":[],"attempts":0,"failures":0,"subscriptions":2,"whole":true}`,
		"GET /ops/api/latency?host=a.test":                                                       `{"endpoints":[{"host":"a.test","url":"https://a.test/x","p95Ms":3000,"p50Ms":12,"timed":4,"attempts":5,"failures":1}],"types":[{"event":"push","p95Ms":3000,"p50Ms":12,"timed":4,"attempts":5,"failures":1}],"attempts":5,"subscriptions":1,"whole":true}`,
		"GET /ops/api/subscriptions/sub_1/why":                                                   `{"reason":"retrying","text":"It is in retry.","help":"send","eventId":"evt 1"}`,
		"GET /ops/api/subscriptions/sub_2/why":                                                   `{"reason":"","text":"Nothing\u001b waits."}`,
		"GET /ops/api/subscriptions?event=healthy":                                               `{"subscriptions":[{"id":"sub_3","state":"active","lastError":"timeout"},{"id":"sub_4","state":"suspended","lastError":"http_4xx","lastStatus":401}]}`,
		"GET /ops/api/types/order%2F..%2Fx/occurrences/7": `{"occurrence":{"event":"order","position":7,"data":{"a":"\u001b"}},"deliveries":[{"outcome":"failed","subscription":"sub_1",` +
			`"attempts":[{"at":"T","category":"timeout"},{"at":"S"}]},{"outcome":"waiting","subscription":"sub_2","attempts":[]}]}`,
		`POST /ops/api/subscriptions/sub_1/replay {"since":"90m"}`:               `{"done":true,"begins":{"eventId":"evt_7"}}`,
		`POST /ops/api/subscriptions/sub_1/replay {"since":"90m","until":"30m"}`: `{"done":true,"begins":{"eventId":"evt_8"}}`,
		`POST /ops/api/subscriptions/sub_1/replay {"position":7}`:                `{"done":true,"begins":{"eventId":"evt_7"}}`,
		"GET /ops/api/subscriptions/sub_1":                                       `{"id":"sub_1","state":"active","url":"https://a.test/"}`,
		"GET /ops/api/subscriptions/sub_1/attempts":                              `{"attempts":[{"eventId":"evt_1","number":2,"tookMs":1.5,"askedBy":"ol\u001bga","category":"http_4xx","status":401},{"eventId":"evt_2","number":1,"tookMs":2,"status":204}]}`,
		`POST /ops/api/subscriptions/sub_1/send {"eventId":"evt_1"}`:             `{"done":false,"kind":"send","number":7}`,
		`POST /ops/api/subscriptions/sub_1/replay {"cursor":"c"}`:                `{"done":true}`,
		"POST /ops/api/subscriptions/sub_1/pause":                                `{"done":true}`,
		`POST /ops/api/revoke {"principal":"ann"}`:                               `{"done":true,"ended":3}`,
		"GET /ops/api/connections":                                               "elsewhere",
		`POST /ops/api/subscriptions/sub_1/test {"data":{"a":1}}`:                `{"done":true,"eventId":"test_1"}`,
		"GET /ops/api/audit?actor=olga&since=24h":                                `{"entries":[{"actor":"olga","verb":"pause","subscription":"sub_1","status":200}]}`,
		"GET /ops/api/cluster":                                                   `{"replicas":[{"name":"a\u001b","this":true,"shards":{"e":16}}],"leased":false,"unowned":{"/outbox":1},"problems":["no lease"]}`,
		"GET /ops/api/outbox":                                                    `{"rejected":[{"id":"7","log":"e","reason":"it is\u001b no JSON"}]}`,
		"POST /ops/api/outbox/7/putback":                                         `{"done":true}`,
		"POST /ops/api/outbox/7/drop":                                            `{"done":true}`,
		"POST /ops/api/subscriptions/..%2F..%2Frevoke/end":                       `{"done":true}`,
	})
	for _, c := range []struct {
		line, want    string
		filters, from map[string]string
		json          bool
	}{
		{line: "subscriptions", filters: map[string]string{"principal": "ann"}, want: "id     principal      event  state  behind failedSince lastError  url\nsub_1  a\\x1b[2Jnn     -      -      3       -          - -\nsub_2  ann            -      -      -       -          - -\n"},
		{line: "subscriptions", filters: map[string]string{"failing": "true"}, want: "sub_2 - - - - 2026-01-02 03:04:05Z - -"},
		{line: "endpoints", filters: map[string]string{"late": "5m"}, want: "total suspended paused failing abandoned failedSince behind waitingSince endpoint 2 - - 1 3 - - - a.test b has not written its figures."},
		{line: "event e/1?", filters: map[string]string{"event": "order"}, want: "eventId e/1? position 7 event order outcome subscription"},
		{line: "event two", want: "a 1 - - two b 2 - - two"},
		{line: "event none", want: "no event has the id none"},
		{line: "event none", json: true, want: "no event has the id none"},
		{line: "events", filters: map[string]string{"event": "push"}, from: map[string]string{"since": "90m", "until": "80m"},
			want: `lastError eventId T push 1 0 2 timeout evt\x1b 4 attempts in this time, 3 failed, at 2 subscriptions; the others were not examined.`},
		{line: "events", from: map[string]string{"since": "1m"}, want: "0 attempts in this time, 0 failed, at 2 subscriptions."},
		{line: "latency", filters: map[string]string{"host": "a.test"}, want: "of p95 p50 timed attempts failures name endpoint 3s 12ms 4 5 1 https://a.test/x type 3s 12ms 4 5 1 push Based on 5 recorded attempts at 1 subscriptions."},
		{line: "why sub_1", want: "It is in retry. Try: mcpe-gen admin retry " + s.URL + "/ops/ sub_1 'evt 1'"},
		{line: "why sub_2", want: `Nothing\x1b waits.`},
		{line: "subscriptions", filters: map[string]string{"event": "healthy"}, want: "sub_3 - - active - - - - sub_4 - - suspended - - HTTP 401 -"},
		{line: "subscriptions", filters: map[string]string{"state": "failing"}, want: "sub_2 - - - - 2026-01-02 03:04:05Z - -"},
		{line: "occurrence order/../x 7", want: `position 7 data {"a":"\u001b"} event order outcome subscription principal state at result url ` +
			`failed sub_1 - - T timeout - waiting sub_2 - - - - -`},
		{line: "replay sub_1", from: map[string]string{"since": "90m"}, want: `done true begins {"eventId":"evt_7"}`},
		{line: "replay sub_1", from: map[string]string{"since": "90m", "until": "30m"}, want: `done true begins {"eventId":"evt_8"}`},
		{line: "replay sub_1", from: map[string]string{"position": "7"}, want: `done true begins {"eventId":"evt_7"}`},
		{line: "show sub_1", want: "id     sub_1\nurl    https://a.test/\nstate  active\n"},
		{line: "show sub_1", json: true, want: `{"id":"sub_1","state":"active","url":"https://a.test/"}` + "\n"},
		{line: "attempts sub_1", want: "at number took result nextAt eventId - 2 1.5ms HTTP 401 - evt_1 - 1 2ms HTTP 204 - evt_2"},
		{line: "retry sub_1 evt_1", want: "done    false\nkind    send\nnumber  7\n"},
		{line: "replay sub_1 c", want: "done  true\n"},
		{line: "cluster", want: `leased false unowned {"/outbox":1} problems ["no lease"] name this shards a\x1b true {"e":16}`},
		{line: "outbox", want: `7 - e - - it is\x1b no JSON`},
		{line: "putback 7", want: "done  true\n"},
		{line: "drop 7", want: "done  true\n"},
		{line: `test sub_1 {"a":1}`, want: "done true eventId test_1"},
		{line: "audit", filters: map[string]string{"actor": "olga"}, from: map[string]string{"since": "24h"}, want: "- olga pause 200 - - sub_1"},
		{line: "pause sub_1", want: "done  true\n"},
		{line: "end ../../revoke", want: "done  true\n"},
		{line: "revoke ann", want: "ended  3"},
		{line: "show sub_x", want: `404: it is not there\x1b[31m`},
		{line: "connections", want: "the server redirects"},
	} {
		words := strings.Fields(c.line)
		var out bytes.Buffer
		err := Run(t.Context(), Options{URL: s.URL + "/ops/", Token: "secret", Verb: words[0], Args: words[1:], Filters: c.filters, From: c.from, JSON: c.json, Stdout: &out})
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if squeeze(got) != squeeze(c.want) && !strings.Contains(squeeze(got), squeeze(c.want)) {
			t.Errorf("%s:\n%s\nwant\n%s", c.line, got, c.want)
		}
	}
	for _, line := range *asked {
		if !strings.HasSuffix(line, " Bearer secret") {
			t.Errorf("asked without the token: %s", line)
		}
	}
}

// TestEventsInUTC expects the times of a window in UTC, whatever the zone of this machine is.
func TestEventsInUTC(t *testing.T) {
	defer func(was *time.Location) { time.Local = was }(time.Local)
	time.Local = time.FixedZone("here", 2*60*60)
	s, _ := peer(t, map[string]string{"GET /api/events?since=14%3A00&until=14%3A10%3A30": `{"since":"2026-01-02T14:00:00+02:00","until":"2026-01-02T12:10:30Z","occurrences":[],"attempts":0,"failures":0,"subscriptions":0,"whole":true}`})
	var out bytes.Buffer
	err := Run(t.Context(), Options{URL: s.URL, Verb: "events", From: map[string]string{"since": "14:00", "until": "14:10:30"}, Stdout: &out})
	if want := "No events happened from 2026-01-02 12:00:00Z to 2026-01-02 12:10:30Z.\n"; err != nil || !strings.HasPrefix(out.String(), want) {
		t.Errorf("%v %s", err, &out)
	}
}

// TestWrongURL expects a hint for the URL of something else, and for a token that is missing.
func TestWrongURL(t *testing.T) {
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{404, "404 page not found\n", "answered 404 Not Found, so it is not the operator API, and may be the MCP endpoint: give the URL of the console"},
		{400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`, "is not the operator API"},
		{200, "<html>", "answered 200 without JSON"},
		{502, "<html>", "502: Bad Gateway"},
		{401, `{"detail":"the operator token is wrong","code":"unauthenticated"}`, "401: the operator token is wrong (--token-file FILE, or the environment's MCPE_ADMIN_TOKEN)"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.answer)
		}))
		err := Run(t.Context(), Options{URL: s.URL + "/mcp", Verb: "types", Stdout: io.Discard})
		if s.Close(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v", c.status, err)
		}
	}
}

// squeeze leaves the width of columns out.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// Nothing is sent for a command line that is wrong, and no token over plain http.
func TestUsage(t *testing.T) {
	for _, o := range []Options{
		{URL: "https://ops.example.com/", Verb: "test", Args: []string{"sub_1", "{"}},
		{URL: "https://ops.example.com/", Verb: "audit", From: map[string]string{"position": "7"}},
		{URL: "https://ops.example.com/", Verb: "events"},
		{URL: "https://ops.example.com/", Verb: "events", From: map[string]string{"until": "1h"}},
		{URL: "https://ops.example.com/", Verb: "events", From: map[string]string{"position": "7"}},
		{URL: "https://ops.example.com/", Verb: "why"},
		{URL: "https://ops.example.com/", Verb: "resume", Args: []string{"sub_1"}, Wait: -time.Second},
		{URL: "https://ops.example.com/", Verb: "audit", From: map[string]string{"since": "7h", "until": "1h"}},
		{URL: "https://ops.example.com/", Verb: "replay", Args: []string{"sub_1", "c"}, From: map[string]string{"until": "1h"}},
		{URL: "http://ops.example.com/", Verb: "types"},
		{URL: "http://192.0.2.1/", Verb: "types"},
		{URL: "http://localhost.example.com/", Verb: "types"},
		{URL: "ops.example.com", Verb: "types"},
		{URL: "https://u:p@ops.example.com/", Verb: "types"},
		{URL: "https://ops.example.com/?a=b", Verb: "types"},
		{URL: "ftp://127.0.0.1/", Verb: "types"},
		{URL: "https://ops.example.com/", Verb: "follow"},
		{URL: "https://ops.example.com/", Verb: "tail", Args: []string{"x"}},
		{URL: "https://ops.example.com/", Verb: "tail", Filters: map[string]string{"principal": "ann"}},
		{URL: "https://ops.example.com/", Verb: "show"},
		{URL: "https://ops.example.com/", Verb: "replay", Args: []string{"sub_1"}},
		{URL: "https://ops.example.com/", Verb: "replay", Args: []string{"sub_1", "c"}, From: map[string]string{"since": "1h"}},
		{URL: "https://ops.example.com/", Verb: "replay", Args: []string{"sub_1"}, From: map[string]string{"since": "1h", "position": "1"}},
		{URL: "https://ops.example.com/", Verb: "replay", Args: []string{"sub_1"}, From: map[string]string{"position": "x"}},
		{URL: "https://ops.example.com/", Verb: "show", Args: []string{"sub_1"}, From: map[string]string{"since": "1h"}},
		{URL: "https://ops.example.com/", Verb: "types", Args: []string{"x"}},
		{URL: "https://ops.example.com/", Verb: "types", Filters: map[string]string{"event": "e"}},
	} {
		o.Stdout = io.Discard
		var wrong *cli.Exit
		if err := Run(t.Context(), o); !errors.As(err, &wrong) || wrong.Code != cli.Usage {
			t.Errorf("%s %s: %v", o.URL, o.Verb, err)
		}
	}
}

// A live tail is printed as it comes, escaped, until the server or the operator ends it.
func TestTail(t *testing.T) {
	stream := "retry: 2000\n\n: nothing new\n\nevent: occurrence\ndata: " +
		`{"event":"ping","eventId":"e\u001b[2J1","timestamp":"2026-01-02T03:04:05Z","position":7,"bytes":12,"targeted":true,"data":{"a":"b"}}` +
		"\n\nevent: skipped\ndata: {\"count\":40}\n\n"
	const ended = "event: end\ndata: {\"detail\":\"not any\\u001b[m more\"}\n\n"
	s, _ := peer(t, map[string]string{
		"GET /api/tail?event=ping":  stream + ended,
		"GET /api/tail":             stream,
		"GET /api/tail?event=moved": "elsewhere",
	})
	for _, c := range []struct {
		name, event, want, err string
		json                   bool
	}{
		{name: "text", event: "ping", err: `the server ended the tail: not any\x1b[m more`,
			want: "2026-01-02 03:04:05Z  ping  e\\x1b[2J1  #7  12 bytes  targeted  {\"a\":\"b\"}\n40 events were skipped, because they came too fast\n"},
		{name: "json", json: true, err: "the server closed the connection",
			want: `{"event":"ping","eventId":"e\u001b[2J1","timestamp":"2026-01-02T03:04:05Z","position":7,"bytes":12,"targeted":true,"data":{"a":"b"}}` + "\n" + `{"skipped":40}` + "\n"},
		{name: "moved", event: "moved", err: "the server redirects"},
		{name: "unknown", event: "nothing", err: "404: it is not there"},
	} {
		var out bytes.Buffer
		err := Run(t.Context(), Options{URL: s.URL, Token: "secret", Verb: "tail", Filters: map[string]string{"event": c.event}, JSON: c.json, Stdout: &out})
		if out.String() != c.want || err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v\n%s", c.name, err, &out)
		}
	}
}

// Ending it is no error.
func TestTailInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "retry: 2000\n\n")
		http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	if err := Run(ctx, Options{URL: s.URL, Verb: "tail", Stdout: io.Discard}); err != nil {
		t.Error(err)
	}
}

// E18: what cannot be taken back is asked for first, and a no leaves everything as it is.
func TestConfirm(t *testing.T) {
	s, asked := peer(t, map[string]string{
		"POST /ops/api/subscriptions/sub_1/end":                    `{"done":true}`,
		"POST /ops/api/subscriptions/sub_1/pause":                  `{"done":true}`,
		"GET /ops/api/subscriptions/sub_1/replay?since=90m":        `{"eventId":"evt\n7","timestamp":"T","entries":3,"truncated":true}`,
		`POST /ops/api/subscriptions/sub_1/replay {"since":"90m"}`: `{"done":true}`,
		`POST /ops/api/revoke {"principal":"a\nnn"}`:               `{"done":true,"ended":3}`,
	})
	no := errors.New("no")
	for _, c := range []struct {
		verb, argument, what string
	}{{"end", "sub_1", "end the subscription sub_1, whose client may subscribe again unless server.Options.Authorize rejects it"}, {"revoke", "a\nnn", `end all subscriptions of a\nnn, who may subscribe again unless server.Options.Authorize rejects it`}, {"pause", "sub_1", ""},
		{"replay", "sub_1", `redeliver up to 3 events, starting at evt\n7 of T, the oldest that remains of the requested events`}} {
		*asked = nil
		var question string
		o := Options{URL: s.URL + "/ops", Verb: c.verb, Args: []string{c.argument}, Stdout: io.Discard,
			Confirm: func(_ context.Context, what string) error { question = what; return no }}
		if c.verb == "replay" {
			o.From = map[string]string{"since": "90m"}
		}
		err := Run(t.Context(), o)
		if question != c.what || (err == no) != (c.what != "") || (len(*asked) == 0) != (c.what != "" && c.verb != "replay") {
			t.Errorf("%s: asked %q, %v, requests %q", c.verb, question, err, *asked)
		}
		o.Confirm = nil
		if err := Run(t.Context(), o); err != nil {
			t.Errorf("%s: %v", c.verb, err)
		}
	}
}
