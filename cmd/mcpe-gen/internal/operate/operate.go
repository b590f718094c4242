// Package operate implements "mcpe-gen admin", which is a client for a server's operator API (package runtime/admin).
package operate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
)

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
	keep     bool   // keep connections open for further requests
	api      string // URL of the API
}

// maxAnswer is the maximum size of a response in bytes.
const maxAnswer = 64 << 20

// Run sends the request and prints the response.
func Run(ctx context.Context, o Options) error {
	v := Find(o.Verb)
	if v == nil {
		return cli.Refusef("admin has no verb %q: see mcpe-gen admin --help", o.Verb)
	}
	o.replaceFailing()
	ofMany := v.many != nil && len(o.Args) == 0
	if err := o.check(v, ofMany); err != nil {
		return err
	}
	base, err := serverOrigin(o.URL)
	if err != nil {
		return err
	}
	o.api = base.JoinPath("api").String()
	switch {
	case v.run != nil:
		return v.run(&o, ctx, v)
	case ofMany:
		return o.runMany(ctx, v)
	}
	if err := o.confirm(ctx, v); err != nil {
		return err
	}
	return o.perform(ctx, v)
}

// confirm asks for confirmation of a verb that cannot be undone and of a replay without a cursor.
func (o *Options) confirm(ctx context.Context, v *Verb) error {
	what := ""
	switch {
	case o.Confirm == nil:
		return nil
	case v.body != nil && len(o.From) > 0:
		text, err := o.describeReplay(ctx)
		if err != nil {
			return err
		}
		what = plain.Text(text)
	case v.final != "":
		what = fmt.Sprintf(v.final, plain.Text(o.Args[0]))
	default:
		return nil
	}
	return o.Confirm(ctx, what)
}

// perform sends the request of a verb, and one for each further page of a list. It prints the response.
func (o *Options) perform(ctx context.Context, v *Verb) error {
	body, err := o.requestBody(v)
	if err != nil {
		return err
	}
	target, q := o.target(v), o.query(v)
	all := []map[string]any{}
	for {
		answer, err := o.sendRequest(ctx, cmp.Or(v.method, http.MethodGet), target, q, body)
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
		if page["done"] == false {
			if err := o.finish(ctx, answer, page); err != nil {
				return err
			}
		}
		all = append(all, v.rows(page)...)
		if next == "" || next == q.Get("after") {
			if o.JSON {
				return o.checkFound(v, len(all))
			}
			return o.printText(ctx, v, page, all)
		}
		q.Set("after", next)
		if until != "" {
			q.Set("until", until) // the same time for all pages
		}
	}
}

// target returns the URL of a verb's request.
func (o *Options) target(v *Verb) string {
	path := v.path
	for _, arg := range o.Args[:strings.Count(path, "%s")] {
		path = strings.Replace(path, "%s", url.PathEscape(arg), 1)
	}
	return o.api + "/" + path
}

// query returns the query of a verb's first request.
func (o *Options) query(v *Verb) url.Values {
	q := url.Values{}
	addValues(q, o.Filters)
	if v.list != "" {
		addValues(q, o.From)
		if q.Has("failing") {
			q.Set("limit", "1000") // each page examines all subscriptions
		}
	}
	if v.query != "" {
		q.Set(v.query, o.Args[0])
	}
	return q
}

// addValues adds all values to a query that are not empty.
func addValues(q url.Values, values map[string]string) {
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
}

// rows returns the elements of the list in a page.
func (v *Verb) rows(page map[string]any) (all []map[string]any) {
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
	return all
}

// check rejects options and arguments that the verb does not support.
func (o *Options) check(v *Verb, ofMany bool) error {
	if o.Wait < 0 {
		return cli.Refusef("--wait must not be negative, but is %s", o.Wait)
	}
	if ofMany {
		return o.checkMany(v)
	}
	if o.DryRun || o.Rate != 0 || o.After != "" || o.Filters["all"] != "" {
		return cli.Refusef("--dry-run, --rate, --after and --all are for a verb on many subscriptions, without an ID")
	}
	begins := len(o.From)
	if o.From["until"] != "" {
		if begins--; begins == 0 || !v.accepts("until") {
			return cli.Refusef("--until is for events, replay and retry of many, together with a start")
		}
	}
	if begins > 0 && o.Verb != "replay" && (v.list == "" || !v.accepts("since") || o.From["since"] == "") || begins > 1 {
		return cli.Refusef("replay takes one of --since, --position and --event-id; events, audit and retry of many take --since; other verbs take none")
	}
	if o.Verb == "events" && begins == 0 {
		return cli.Refusef("events needs --since, such as 14:00, 90m or 2026-11-22T14:00:00Z")
	}
	args := v.args()
	if o.Verb == "replay" && len(o.From) > 0 {
		args = args[:1] // From replaces the cursor
	}
	if len(o.Args) != len(args) {
		return cli.Refusef("%s takes %d arguments (%s), got %d", o.Verb, len(args), strings.Join(args, " "), len(o.Args))
	}
	for name := range o.Filters {
		if v.many != nil || !v.accepts(name) {
			return cli.Refusef("%s takes no filter %s", strings.Join(append([]string{o.Verb}, args...), " "), name)
		}
	}
	if o.Verb == "test" && !json.Valid([]byte(o.Args[1])) {
		return cli.Refusef("the payload %q is not JSON", o.Args[1])
	}
	return nil
}

// finish waits for the outcome of the request that an answer names, and sets it in the page.
func (o *Options) finish(ctx context.Context, answer []byte, page map[string]any) error {
	event := ""
	if o.Verb == "retry" {
		event = o.Args[1]
	}
	attempt, err := o.awaitOutcome(ctx, o.api+"/subscriptions/"+url.PathEscape(o.Args[0]), answer, event)
	if err != nil {
		return err
	}
	if page["done"] = o.Wait > 0; attempt != nil {
		page["attempt"] = attempt
	}
	return nil
}

// requestBody returns the body of a request, or nil if it has none.
func (o *Options) requestBody(v *Verb) ([]byte, error) {
	switch {
	case v.body == nil:
		return nil, nil
	case len(o.From) == 0:
		return json.Marshal(v.body(o.Args))
	}
	content := map[string]any{}
	for name, value := range o.From {
		content[name] = value
		if name == "position" {
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || n == 0 {
				return nil, cli.Refusef("--position must be an integer of at least 1")
			}
			content[name] = n
		}
	}
	return json.Marshal(content)
}

// describeReplay describes the effect of replaying a subscription.
func (o *Options) describeReplay(ctx context.Context) (string, error) {
	q := url.Values{}
	addValues(q, o.From)
	answer, err := o.sendRequest(ctx, "GET", o.api+"/subscriptions/"+url.PathEscape(o.Args[0])+"/replay", q, nil)
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

// serverOrigin parses a URL and rejects it if a token must not be sent to it. Plain HTTP is allowed only for loopback.
func serverOrigin(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, cli.Refusef("%q is not the URL of an operator API: give scheme, host and path only", text)
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback()):
	default:
		return nil, cli.Refusef("%s: use https, or http to loopback: others could read the token", text)
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
