// Package operate implements "mcpe-gen admin", which is a client for a server's operator API (package runtime/admin).
package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
)

// A UsageError reports an error in the command line.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Options describes the server, the request and the output.
type Options struct {
	// URL is where the operator handler is mounted. Token authenticates the requests. It is only sent to the origin of
	// URL.
	URL, Token string
	// Verb is the action. Args are its arguments.
	Verb string
	Args []string
	// Filters contains the filters of a list.
	Filters map[string]string
	// From is the start of a replay or of the events that a verb for many subscriptions applies to. It contains one of
	// since, position and eventId, and optionally until as the end. position and eventId are valid only for a single
	// replay.
	From map[string]string
	// DryRun prints the actions of a verb for many subscriptions without performing them.
	DryRun bool
	// Rate is the maximum number of items per second for many subscriptions. If it is 0, the limit is 100.
	Rate float64
	// After is the ID of the subscription after which a verb for many subscriptions starts.
	After string
	// Wait is the maximum time to wait for the outcome of a request that the server performs later. If it is 0, the
	// command does not wait.
	Wait time.Duration
	// Confirm asks for confirmation of an irreversible verb. It receives a description of the effect. If it is nil, no
	// confirmation is required.
	Confirm func(ctx context.Context, what string) error
	// JSON prints answers unchanged.
	JSON   bool
	Stdout io.Writer
	// Stderr receives the progress of a verb for many subscriptions. If Terminal is true, the progress is a bar.
	Stderr   io.Writer
	Terminal bool
	keep     bool // keep connections open for further requests
}

// maxAnswer is the maximum size of a response in bytes.
const maxAnswer = 64 << 20

// A verb describes a request. %s is replaced with the first argument.
type verb struct {
	method, path string
	args         []string
	body         func(args []string) any
	columns      []string // of the list in the answer
	list         string
	head         string                    // the member to print before the list
	sum          []string                  // members of the answer itself to print before the list
	row          func(row map[string]any)  // sets the columns of an element of the list
	page         func(page map[string]any) // adds the list to an answer without one
	query        string                    // the query parameter for the first argument
	final        string                    // the effect of a verb that cannot be undone; %s stands for the first argument
}

// Verbs contains the names of the verbs in the order of the help text.
var Verbs = []string{"types", "subscriptions", "endpoints", "show", "attempts", "connections", "test", "retry", "pause", "unpause", "resume", "replay", "endreplay", "end", "disconnect", "revoke", "reopen", "events", "latency", "why", "event", "occurrence", "audit", "cluster", "outbox", "putback", "drop", "tail"}

var verbs = map[string]verb{
	"types":         {method: "GET", path: "types", list: "types", columns: []string{"name", "head", "perMinute", "behind", "streams", "pollers", "webhooks", "terminated", "description"}, row: setTermination},
	"subscriptions": {method: "GET", path: "subscriptions", list: "subscriptions", columns: []string{"id", "principal", "event", "state", "behind", "failedSince", "lastError", "url"}, row: dropOldError},
	"endpoints": {method: "GET", path: "endpoints", list: "endpoints", row: setEndpoint,
		columns: []string{"total", "suspended", "paused", "failing", "abandoned", "failedSince", "behind", "waitingSince", "endpoint"}},
	"events": {method: "GET", path: "events", list: "occurrences", row: dropUnknownOutcomes,
		columns: []string{"timestamp", "event", "accepted", "waiting", "failed", "lastError", "eventId"}},
	"latency": {method: "GET", path: "latency", list: "rows", page: mergeLatencies,
		columns: []string{"of", "p95Ms", "p50Ms", "timed", "attempts", "failures", "name"}},
	"why":         {method: "GET", path: "subscriptions/%s/why", args: []string{"ID"}},
	"connections": {method: "GET", path: "connections", list: "connections", columns: []string{"id", "mode", "since", "behind", "event", "principal"}},
	"show":        {method: "GET", path: "subscriptions/%s", args: []string{"ID"}},
	"attempts": {method: "GET", path: "subscriptions/%s/attempts", args: []string{"ID"}, list: "attempts",
		columns: []string{"at", "number", "tookMs", "status", "category", "nextAt", "eventId"}},
	"test": {method: "POST", path: "subscriptions/%s/test", args: []string{"ID", "PAYLOAD"},
		body: func(args []string) any { return map[string]any{"data": json.RawMessage(args[1])} }},
	"retry": {method: "POST", path: "subscriptions/%s/send", args: []string{"ID", "EVENT-ID"},
		body: func(args []string) any { return map[string]string{"eventId": args[1]} }},
	"replay": {method: "POST", path: "subscriptions/%s/replay", args: []string{"ID", "CURSOR"},
		body: func(args []string) any { return map[string]string{"cursor": args[1]} }},
	"endreplay":  {method: "POST", path: "subscriptions/%s/endreplay", args: []string{"ID"}},
	"pause":      {method: "POST", path: "subscriptions/%s/pause", args: []string{"ID"}},
	"unpause":    {method: "POST", path: "subscriptions/%s/unpause", args: []string{"ID"}},
	"resume":     {method: "POST", path: "subscriptions/%s/resume", args: []string{"ID"}},
	"end":        {method: "POST", path: "subscriptions/%s/end", args: []string{"ID"}, final: "end the subscription %s, whose client may subscribe again unless server.Options.Authorize rejects it"},
	"disconnect": {method: "POST", path: "connections/%s/disconnect", args: []string{"ID"}},
	"tail":       {method: "GET"},
	"event": {method: "GET", path: "occurrences", query: "eventId", args: []string{"EVENT-ID"}, list: "occurrences",
		columns: []string{"event", "position", "timestamp", "bytes", "eventId"}},
	"occurrence": {method: "GET", path: "types/%s/occurrences/%s", args: []string{"TYPE", "POSITION"}, list: "deliveries", head: "occurrence",
		columns: []string{"outcome", "subscription", "principal", "state", "at", "category", "status", "url"}, row: lastAttempt},
	"audit": {method: "GET", path: "audit", list: "entries", row: setTarget,
		columns: []string{"at", "actor", "verb", "status", "outcome", "asked", "target"}},
	"cluster": {method: "GET", path: "cluster", list: "replicas", columns: []string{"name", "this", "shards"},
		sum: []string{"leased", "generation", "heardAt", "outboxAgeMs", "unowned", "problems"}},
	"outbox":  {method: "GET", path: "outbox", list: "rejected", columns: []string{"id", "at", "log", "eventId", "bytes", "reason"}},
	"putback": {method: "POST", path: "outbox/%s/putback", args: []string{"ID"}},
	"drop":    {method: "POST", path: "outbox/%s/drop", args: []string{"ID"}, final: "delete the rejected event %s"},
	"reopen":  {method: "POST", path: "types/%s/reopen", args: []string{"TYPE"}},
	"revoke": {method: "POST", path: "revoke", args: []string{"PRINCIPAL"}, final: "end all subscriptions of %s, who may subscribe again unless server.Options.Authorize rejects it",
		body: func(args []string) any { return map[string]string{"principal": args[0]} }},
}

// Run sends the request and prints the response.
func Run(ctx context.Context, o Options) error {
	v, ok := verbs[o.Verb]
	if !ok {
		return usage("admin has no verb %q; it has %s", o.Verb, strings.Join(Verbs, ", "))
	}
	o.replaceFailing()
	ofMany := manyVerbs[o.Verb] != nil && len(o.Args) == 0
	if err := o.check(&v, ofMany); err != nil {
		return err
	}
	base, err := serverOrigin(o.URL)
	switch {
	case err != nil:
		return err
	case o.Verb == "tail":
		return o.tail(ctx, base)
	case ofMany:
		return o.runMany(ctx, base)
	}
	q := url.Values{}
	for name, value := range o.Filters {
		if value != "" {
			q.Set(name, value)
		}
	}
	located := o.Verb == "replay" && len(o.From) > 0
	if (v.final != "" || located) && o.Confirm != nil {
		about := o.Args[0]
		if located {
			v.final = "%s"
			if about, err = o.describeReplay(ctx, base); err != nil {
				return err
			}
		}
		if err := o.Confirm(ctx, fmt.Sprintf(v.final, plain.Text(about))); err != nil {
			return err
		}
	}
	path := v.path
	if n := strings.Count(path, "%s"); n > 0 {
		escaped := make([]any, n)
		for i := range escaped {
			escaped[i] = url.PathEscape(o.Args[i])
		}
		path = fmt.Sprintf(path, escaped...)
	}
	if timedLists[o.Verb] {
		for name, value := range o.From {
			q.Set(name, value)
		}
	}
	if v.query != "" {
		q.Set(v.query, o.Args[0])
	}
	target := base.JoinPath("api").String() + "/" + path
	var body []byte
	if content, err := o.requestBody(v); err != nil {
		return err
	} else if content != nil {
		if body, err = json.Marshal(content); err != nil {
			return err
		}
	}
	if q.Has("failing") && v.list != "" {
		q.Set("limit", "1000") // each page examines all subscriptions
	}
	all := []map[string]any{}
	for {
		answer, err := o.sendRequest(ctx, v.method, target, q, body)
		if err != nil {
			return err
		}
		if o.JSON {
			if _, err := fmt.Fprintln(o.Stdout, string(bytes.TrimSpace(answer))); err != nil {
				return err
			}
		}
		var page map[string]any
		if err := json.Unmarshal(answer, &page); err != nil {
			return notOperatorAPI(target, "200 without JSON")
		}
		next, _ := page["next"].(string)
		until, _ := page["until"].(string)
		formatMember("", page)
		if v.method == http.MethodPost && page["done"] == false {
			if err := o.finish(ctx, base, answer, page); err != nil {
				return err
			}
		}
		if v.page != nil {
			v.page(page)
		}
		rows, _ := page[v.list].([]any)
		for _, r := range rows {
			if m, ok := r.(map[string]any); ok {
				if v.row != nil {
					v.row(m)
				}
				all = append(all, m)
			}
		}
		if next == "" || next == q.Get("after") {
			if o.JSON {
				return o.checkFound(len(all))
			}
			return o.printText(ctx, &v, page, all)
		}
		q.Set("after", next)
		if until != "" {
			q.Set("until", until) // the same time for all pages
		}
	}
}

// check rejects options and arguments that the verb does not support.
func (o *Options) check(v *verb, ofMany bool) error {
	if ofMany {
		return o.checkMany()
	}
	if o.DryRun || o.Rate != 0 || o.After != "" || o.Filters["all"] != "" {
		return usage("--dry-run, --rate, --after and --all are for a verb on many subscriptions, without an ID: %s", strings.Join(slices.Sorted(maps.Keys(manyVerbs)), ", "))
	}
	begins := len(o.From)
	if o.From["until"] != "" {
		if begins--; begins == 0 || o.Verb == "audit" {
			return usage("--until is for events, replay and retry of many, together with a start")
		}
	}
	if begins > 0 && o.Verb != "replay" && (!timedLists[o.Verb] || o.From["since"] == "") || begins > 1 {
		return usage("replay takes one of --since, --position and --event-id; events, audit and retry of many take --since; other verbs take none")
	}
	if o.Verb == "events" && begins == 0 {
		return usage("events needs --since, such as 14:00, 90m or 2026-11-22T14:00:00Z")
	}
	if o.Verb == "replay" && len(o.From) > 0 {
		v.args = v.args[:1] // From replaces the cursor
	}
	if len(o.Args) != len(v.args) {
		return usage("%s takes %d arguments (%s), got %d", o.Verb, len(v.args), strings.Join(v.args, " "), len(o.Args))
	}
	if len(o.Filters) > 0 && !slices.Contains([]string{"subscriptions", "endpoints", "connections", "tail", "event", "events", "latency", "audit"}, o.Verb) {
		return usage("%s takes no filters", o.Verb)
	}
	if o.Verb == "test" && !json.Valid([]byte(o.Args[1])) {
		return usage("the payload %q is not JSON", o.Args[1])
	}
	return nil
}

// finish waits for the outcome of the request that an answer names, and sets it in the page.
func (o *Options) finish(ctx context.Context, base *url.URL, answer []byte, page map[string]any) error {
	event := ""
	if o.Verb == "retry" {
		event = o.Args[1]
	}
	attempt, err := o.awaitOutcome(ctx, base.JoinPath("api").String()+"/subscriptions/"+url.PathEscape(o.Args[0]), answer, event)
	if err != nil {
		return err
	}
	if page["done"] = o.Wait > 0; attempt != nil {
		page["attempt"] = attempt
	}
	return nil
}

// requestBody returns the body of a request, or nil if it has none.
func (o *Options) requestBody(v verb) (any, error) {
	switch {
	case v.body == nil:
		return nil, nil
	case len(o.From) == 0:
		return v.body(o.Args), nil
	}
	content := map[string]any{}
	for name, value := range o.From {
		content[name] = value
		if name == "position" {
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || n == 0 {
				return nil, usage("--position must be an integer of at least 1")
			}
			content[name] = n
		}
	}
	return content, nil
}

// describeReplay describes the effect of replaying a subscription.
func (o *Options) describeReplay(ctx context.Context, base *url.URL) (string, error) {
	q := url.Values{}
	for name, value := range o.From {
		q.Set(name, value)
	}
	answer, err := o.sendRequest(ctx, "GET", base.JoinPath("api").String()+"/subscriptions/"+url.PathEscape(o.Args[0])+"/replay", q, nil)
	if err != nil {
		return "", err
	}
	var b struct {
		EventID, Timestamp string
		Entries, Last      int64
		Truncated          bool
	}
	if err := json.Unmarshal(answer, &b); err != nil {
		return "", fmt.Errorf("the response is not a JSON object: %w", err)
	}
	text := fmt.Sprintf("redeliver up to %d events, starting at %s of %s", b.Entries, b.EventID, timeText(b.Timestamp))
	if o.From["until"] != "" {
		text = fmt.Sprintf("redeliver up to %d events, from %s of %s to position %d", b.Entries, b.EventID, timeText(b.Timestamp), b.Last)
	}
	if b.Truncated {
		text += ", the oldest that remains of the requested events"
	}
	return text, nil
}

// lastAttempt sets the columns for the latest attempt of a delivery.
func lastAttempt(row map[string]any) {
	if made, _ := row["attempts"].([]any); len(made) > 0 {
		last, _ := made[0].(map[string]any)
		for _, name := range []string{"at", "category", "status"} {
			row[name] = last[name]
		}
	}
}

// serverOrigin parses a URL and rejects it if a token must not be sent to it. Plain HTTP is allowed only for loopback.
func serverOrigin(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usage("%q is not the URL of an operator API: give scheme, host and path only", text)
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback()):
	default:
		return nil, usage("%s: use https, or http to loopback: others could read the token", text)
	}
	return u, nil
}

// sendRequest sends a request and reads the response.
func (o *Options) sendRequest(ctx context.Context, method, target string, q url.Values, body []byte) ([]byte, error) {
	resp, err := o.send(ctx, method, target, q, body, time.Minute)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return read(resp)
}

// send sends one request. A redirect is an error because the token is meant only for this origin.
func (o *Options) send(ctx context.Context, method, target string, q url.Values, body []byte, timeout time.Duration) (*http.Response, error) {
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", useragent.Default())
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", rand.Text())
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req.Close = !o.keep
	return client.Do(req)
}

// read reads a whole response. It returns an error if the response describes a problem.
func read(resp *http.Response) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the response has more than %d bytes", maxAnswer)
	case resp.StatusCode/100 == 3:
		return nil, errors.New("the server redirects, but the token is sent to no other URL")
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted:
		p := problem{status: resp.StatusCode}
		if json.Unmarshal(answer, &p) != nil || p.Detail == "" {
			if p.Detail = http.StatusText(resp.StatusCode); resp.StatusCode < 500 {
				return nil, notOperatorAPI(resp.Request.URL.String(), fmt.Sprintf("%d %s", resp.StatusCode, p.Detail))
			}
		}
		return nil, &p
	}
	return answer, nil
}

// A problem is an error response from the server.
type problem struct {
	status       int
	Code, Detail string
}

func (p *problem) Error() string {
	text := fmt.Sprintf("%d: %s", p.status, plain.Text(p.Detail))
	if p.Code == "unauthenticated" {
		text += " (--token-file FILE, or the environment's " + childenv.AdminToken + ")"
	}
	return text
}
