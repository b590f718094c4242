package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

// A row is a subscription or an event of a crowd's list.
type row = map[string]any

// A crowd is an operator's handler with many subscriptions. It lists them in pages of 3, in the order in which they
// stand.
type crowd struct {
	*httptest.Server
	subscriptions, abandoned []row

	mu sync.Mutex
	// lists and acts are what was asked for, in order; keys are those of actions.
	lists, acts []string
	keys        map[string]bool
	// answer answers an action by the path below /api/subscriptions/; nil with done.
	answer func(path string) (status int, body string)
	// shown are the answers to GET by the path below /api/subscriptions/.
	shown map[string]string
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{keys: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	q := r.URL.Query()
	name := strings.TrimPrefix(r.URL.Path, "/api/")
	if text, ok := c.shown[strings.TrimPrefix(name, "subscriptions/")]; ok && r.Method == http.MethodGet {
		io.WriteString(w, text)
		return
	}
	if r.Method == http.MethodGet {
		all, id := c.subscriptions, "id"
		if name == "abandoned" {
			all, id = c.abandoned, "subscription"
		}
		after := q.Get("after")
		q.Del("after")
		c.lists = append(c.lists, name+"?"+q.Encode())
		begin := 0
		if after != "" {
			if _, err := fmt.Sscanf(after, "@%d", &begin); err != nil {
				begin = slices.IndexFunc(all, func(r row) bool { return r[id].(string) > after })
			}
		}
		page := map[string]any{name: all[begin:min(begin+3, len(all))]}
		if begin+3 < len(all) {
			page["next"] = fmt.Sprintf("@%d", begin+3)
		}
		json.NewEncoder(w).Encode(page)
		return
	}
	c.keys[r.Header.Get("Idempotency-Key")] = true
	path := strings.TrimPrefix(name, "subscriptions/")
	c.acts = append(c.acts, strings.TrimSpace(path+" "+string(body)))
	status, answer := http.StatusOK, `{"done":true}`
	if c.answer != nil {
		status, answer = c.answer(path)
	}
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

// people are subscriptions of which each third one is paused.
func (c *crowd) people(n int) {
	for i := range n {
		id, state := fmt.Sprintf("sub_%03d", i), "active"
		if i%3 == 2 {
			state = "paused"
		}
		c.subscriptions = append(c.subscriptions, row{"id": id, "state": state, "principal": "a\x1bnn", "event": "e", "url": "https://a.test/"})
	}
}

// ids returns the subscriptions that were acted on, in order.
func (c *crowd) ids() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.acts {
		id, _, _ := strings.Cut(a, "/")
		ids = append(ids, id)
	}
	return ids
}

// run runs a verb on many.
func (c *crowd) run(ctx context.Context, verb string, change ...func(o *Options)) (stdout, stderr string, err error) {
	var out, progress bytes.Buffer
	o := Options{URL: c.URL, Token: "secret", Verb: verb, Rate: 1000, Wait: DefaultWait, Filters: map[string]string{"host": "a.test"}, From: map[string]string{}, Stdout: &out, Stderr: &progress}
	for _, f := range change {
		f(&o)
	}
	err = Run(ctx, o)
	return out.String(), progress.String(), err
}

func since(o *Options)   { o.From["since"] = "90m" }
func failing(o *Options) { o.Filters["failing"] = "true" }

// E1, E6, SRV-8: a verb without an ID acts on each subscription of all pages that needs it, with a key of its own, and
// says what came of them; what is not there any more and what somebody else does is passed over.
func TestMany(t *testing.T) {
	c := newCrowd(t)
	c.people(10)
	c.answer = func(path string) (int, string) {
		switch path {
		case "sub_001/pause":
			return 404, `{"code":"not_found","detail":"it is not there"}`
		case "sub_003/pause":
			return 409, `{"code":"under_way","detail":"somebody does it"}`
		case "sub_004/pause":
			return 500, `{"code":"internal","detail":"an internal\u001b error"}`
		}
		return 200, `{"done":true}`
	}
	out, _, err := c.run(t.Context(), "pause")
	if want := "pause: 4 done, 2 skipped, 1 failed\n  sub_004: 500: an internal\\x1b error\n"; out != want || err == nil || err.Error() != "1 of 7 failed" {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if got := c.ids(); !slices.Equal(got, []string{"sub_000", "sub_001", "sub_003", "sub_004", "sub_006", "sub_007", "sub_009"}) || len(c.keys) != 7 {
		t.Errorf("%q, %d keys", got, len(c.keys))
	}
	if got := c.lists[0]; got != "subscriptions?host=a.test&limit=500" {
		t.Errorf("listed %q", got)
	}
	c.answer, c.acts, c.lists = nil, nil, nil
	out, _, err = c.run(t.Context(), "unpause", func(o *Options) { o.JSON = true })
	if want := `{"verb":"unpause","done":3,"skipped":0,"failed":0}` + "\n"; out != want || err != nil {
		t.Errorf("%s %v", out, err)
	}
	if got := c.lists[0]; got != "subscriptions?host=a.test&limit=500&state=paused" {
		t.Errorf("listed %q", got)
	}
	c.acts = nil
	for _, verb := range []string{"resume", "endreplay"} {
		if out, _, err = c.run(t.Context(), verb); out != verb+": 0 done, 0 skipped, 0 failed\n" || err != nil || len(c.acts) != 0 {
			t.Errorf("%s %v %q", out, err, c.acts)
		}
	}
	c.subscriptions[4]["replay"], c.subscriptions[7]["replay"] = row{"left": 3}, row{"left": 1}
	if out, _, err = c.run(t.Context(), "endreplay"); err != nil || !slices.Equal(c.ids(), []string{"sub_004", "sub_007"}) {
		t.Errorf("%s %v %q", out, err, c.acts)
	}
}

// E1, E6: what was given up is sent again by its event ids and last attempts, up to one moment, which is that of all
// requests.
func TestManySince(t *testing.T) {
	c := newCrowd(t)
	c.people(4)
	for i := range 5 {
		id := fmt.Sprint("sub_00", i/3)
		c.abandoned = append(c.abandoned, row{"subscription": id, "principal": "ann", "url": "https://a.test/",
			"attempt": row{"eventId": fmt.Sprint("evt_", i), "event": "e", "at": fmt.Sprint("2026-11-22T14:00:0", i, ".123456789Z")}})
	}
	c.answer = func(string) (int, string) {
		return 202, `{"done":false,"kind":"send","number":7}`
	}
	const attempts = `{"attempts":[{"eventId":"evt_4"},{"eventId":"evt_3"},{"eventId":"evt_1","category":"timeout"},{"eventId":"evt_1"}]}`
	const performed = `{"requests":[{"kind":"replay","number":9,"done":8},{"kind":"send","number":9,"done":8}]}`
	c.shown = map[string]string{"sub_000": performed, "sub_001": performed, "sub_000/attempts": attempts, "sub_001/attempts": attempts}
	out, _, err := c.run(t.Context(), "retry", since)
	if want := "retry: 4 done, 0 skipped, 1 failed\n  sub_000 evt_1: the attempt failed again: timeout\n"; out != want || err == nil {
		t.Errorf("%v\n%s", err, out)
	}
	if c.acts[0] != `sub_000/send {"eventId":"evt_0","seen":"2026-11-22T14:00:00.123456789Z"}` || len(c.acts) != 5 || !strings.HasPrefix(c.acts[4], "sub_001/send ") {
		t.Errorf("%q", c.acts)
	}
	if !strings.HasPrefix(c.lists[0], "abandoned?host=a.test&limit=500&since=20") || !strings.Contains(c.lists[0], "&until=20") {
		t.Errorf("%q", c.lists)
	}
	for _, l := range c.lists {
		if l != c.lists[0] {
			t.Errorf("%q and %q are of two moments", l, c.lists[0])
		}
	}
	c.acts, c.answer = nil, nil
	if _, _, err := c.run(t.Context(), "replay", since, func(o *Options) { o.From["until"] = "2026-11-22T15:00:00+01:00" }); err != nil || len(c.acts) != 4 {
		t.Fatalf("%v %q", err, c.acts)
	}
	for _, a := range c.acts {
		_, body, _ := strings.Cut(a, " ")
		_, first, _ := strings.Cut(c.acts[0], " ")
		if body != first || !strings.Contains(body, `"until":"2026-11-22T14:00:00Z"`) || strings.Contains(body, "90m") {
			t.Errorf("%q", c.acts)
		}
	}
}

// A dry run names what would be done and sends nothing.
func TestManyDryRun(t *testing.T) {
	c := newCrowd(t)
	c.people(4)
	out, _, err := c.run(t.Context(), "pause", func(o *Options) { o.DryRun = true })
	if want := "would pause  sub_000  a\\x1bnn  e  https://a.test/\n"; !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 3 || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = c.run(t.Context(), "pause", func(o *Options) { o.DryRun, o.JSON = true, true })
	if !strings.HasPrefix(out, `{"event":"e","eventId":"","principal":"a\u001bnn","subscription":"sub_000"`) || err != nil || len(c.acts) != 0 {
		t.Errorf("%v %q\n%s", err, c.acts, out)
	}
}

// The list of failing subscriptions, whose order changes by what is done to them, is read whole first, and each is done
// once.
func TestManyFailing(t *testing.T) {
	c := newCrowd(t)
	c.people(9)
	slices.Reverse(c.subscriptions)
	c.subscriptions = append(c.subscriptions, c.subscriptions[3]) // it has failed once more while the list was read
	if _, _, err := c.run(t.Context(), "replay", since, failing, func(o *Options) { o.After = "sub_001" }); err != nil {
		t.Error(err)
	}
	if got := c.ids(); !slices.Equal(got, []string{"sub_002", "sub_003", "sub_004", "sub_005", "sub_006", "sub_007", "sub_008"}) {
		t.Errorf("%q", got)
	}
}

// An interrupt ends it after the item that is under way; the summary has the command that does the rest.
func TestManyInterrupted(t *testing.T) {
	c := newCrowd(t)
	c.people(9)
	ctx, cancel := context.WithCancel(t.Context())
	c.answer = func(string) (int, string) {
		if len(c.acts) == 4 {
			cancel()
		}
		return 200, `{"done":true}`
	}
	out, _, err := c.run(ctx, "replay", since, func(o *Options) { o.Filters["principal"] = "an n's" })
	if err == nil || err.Error() != "interrupted" || !strings.HasPrefix(out, "replay: 4 done, 0 skipped, 0 failed\nTo continue: mcpe-gen admin replay "+c.URL+" --principal 'an n'\\''s' --host a.test --since 20") ||
		!strings.HasSuffix(out, "Z --after sub_003 --rate 1000\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := c.run(t.Context(), "replay", since, func(o *Options) { o.After = "sub_003" }); err != nil {
		t.Error(err)
	}
	if got := c.ids(); !slices.Equal(got, []string{"sub_000", "sub_001", "sub_002", "sub_003", "sub_004", "sub_005", "sub_006", "sub_007", "sub_008"}) {
		t.Errorf("%q", got)
	}
	if _, _, err := c.run(ctx, "replay", since); err == nil || err.Error() != "interrupted before the first action" {
		t.Errorf("before anything was done: %v", err)
	}
}

// Twenty failures in a row stop it; fewer do not.
func TestManyFails(t *testing.T) {
	c := newCrowd(t)
	c.people(60)
	c.answer = func(string) (int, string) {
		if len(c.acts) == 15 {
			return 200, `{"done":true}`
		}
		return 403, `{"code":"forbidden","detail":"this is not allowed"}`
	}
	out, _, err := c.run(t.Context(), "pause")
	if err == nil || err.Error() != "stopped after 20 failures in a row, the last one: 403: this is not allowed" || len(c.acts) != 35 {
		t.Errorf("%v after %d", err, len(c.acts))
	}
	if !strings.HasPrefix(out, "pause: 1 done, 0 skipped, 34 failed\n  sub_000: 403: this is not allowed\n") || !strings.Contains(out, "and 29 more\nTo continue: ") || !strings.Contains(out, "--after sub_051") {
		t.Errorf("%s", out)
	}
}

// It keeps to its rate, and shows how far it is: by a bar on a terminal, else by lines.
func TestManyProgress(t *testing.T) {
	c := newCrowd(t)
	c.people(9)
	began := time.Now()
	_, stderr, err := c.run(t.Context(), "pause", func(o *Options) { o.Rate, o.Terminal = 50, true })
	if took := time.Since(began); err != nil || took < 5*time.Second/50 {
		t.Errorf("%v in %v", err, took)
	}
	if !strings.Contains(stderr, "\r\x1b[K[###############               ] 3 of 6, 0 failed") || !strings.HasSuffix(stderr, "[##############################] 6 of 6, 0 failed\n") {
		t.Errorf("%q", stderr)
	}
	c.people(300)
	if _, stderr, err = c.run(t.Context(), "pause"); err != nil || stderr != "pause: 100 of 206, 0 failed\npause: 200 of 206, 0 failed\n" {
		t.Errorf("%v %q", err, stderr)
	}
}

// Many are counted and confirmed first; a no leaves all as it is.
func TestManyConfirm(t *testing.T) {
	c := newCrowd(t)
	c.people(9)
	no := errors.New("no")
	question := ""
	for verb, want := range map[string]string{"pause": "pause 6 subscriptions", "unpause": "unpause 3 subscriptions", "replay": "replay 9 subscriptions", "resume": ""} {
		question = ""
		_, _, err := c.run(t.Context(), verb, func(o *Options) {
			o.Confirm = func(_ context.Context, what string) error { question = what; return no }
			if verb == "replay" {
				since(o)
			}
		})
		if question != want || (err == no) != (want != "") || len(c.acts) != 0 {
			t.Errorf("%s: %q %v, %q", verb, question, err, c.acts)
		}
	}
}

// What is wrong is refused before anything is sent.
func TestManyUsage(t *testing.T) {
	c := newCrowd(t)
	c.people(3)
	none := func(o *Options) { o.Filters = map[string]string{} }
	for name, f := range map[string]func(o *Options){
		"no filter":            none,
		"a filter and all":     func(o *Options) { o.Filters["all"] = "true" },
		"another's filter":     func(o *Options) { o.Filters["mode"] = "push" },
		"a time":               since,
		"an end":               func(o *Options) { o.From["until"] = "1h" },
		"a position":           func(o *Options) { o.From["position"] = "1" },
		"no time":              func(o *Options) { o.Verb = "replay" },
		"a time that is none":  func(o *Options) { o.Verb, o.From["since"] = "retry", "yesterday" },
		"an end that is none":  func(o *Options) { o.Verb, o.From["since"], o.From["until"] = "retry", "1h", "-1h" },
		"a negative rate":      func(o *Options) { o.Rate = -1 },
		"a rate":               func(o *Options) { o.Rate = 1001 },
		"a dry run of one":     func(o *Options) { none(o); o.Args, o.Rate, o.DryRun = []string{"sub_1"}, 0, true },
		"a rate of one":        func(o *Options) { none(o); o.Args = []string{"sub_1"} },
		"a beginning of one":   func(o *Options) { none(o); o.Args, o.Rate, o.After = []string{"sub_1"}, 0, "sub_0" },
		"all of another verb":  func(o *Options) { o.Verb, o.Rate, o.Filters = "subscriptions", 0, map[string]string{"all": "true"} },
		"one with filters":     func(o *Options) { o.Args, o.Rate = []string{"sub_1"}, 0 },
		"a verb that has none": func(o *Options) { o.Verb, o.Rate = "end", 0 },
	} {
		var wrong *cli.Exit
		if _, _, err := c.run(t.Context(), "pause", f); !errors.As(err, &wrong) || len(c.acts)+len(c.lists) != 0 {
			t.Errorf("%s: %v, %q %q", name, err, c.lists, c.acts)
		}
	}
}
