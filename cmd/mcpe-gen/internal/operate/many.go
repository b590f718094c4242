package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/timetext"
)

const (
	usualRate = 100
	minRate   = 0.01
	maxRate   = 1000
	// listPage is the number of subscriptions or events per list request.
	listPage = 500
	// maxConsecutiveFailures is the number of consecutive failures after which the remaining items are skipped.
	maxConsecutiveFailures = 20
	// maxShownErrors is the maximum number of failures that the summary lists.
	maxShownErrors = 5
)

// A many describes how a verb applies to all subscriptions that match the filters.
type many struct {
	// isNeeded reports whether the verb is needed for the subscription. It is nil for a verb that applies to events.
	isNeeded func(s *listedSubscription) bool
	// state is the only state in which the verb applies, or "" if it applies in any state.
	state string
	// question is the text that asks for confirmation of the action. It contains %d for the number of items.
	question string
}

// A listedSubscription is a subscription in a list response.
type listedSubscription struct {
	ID, Principal, Event, URL, State, Unreadable string
	Replay                                       *struct{}
}

// An abandonedEvent is an event in the list of abandoned events.
type abandonedEvent struct {
	Subscription, Principal, URL string
	Attempt                      struct{ EventID, Event, At string }
}

// An item is the target of a request, which is a subscription or one of its events.
type item struct {
	id, principal, event, url string
	eventID, seen             string // of an event
}

// description describes the action and its target on one line.
func (i *item) description(verb string) string {
	words := []string{verb}
	for _, w := range []string{i.id, i.eventID, i.principal, i.event, i.url} {
		if w != "" {
			words = append(words, plain.Text(w))
		}
	}
	return strings.Join(words, "  ")
}

// checkMany rejects options that the verb does not support for many subscriptions.
func (o *Options) checkMany(v *Verb) error {
	filters := 0
	for name := range o.Filters {
		if !v.accepts(name) {
			return cli.Refusef("%s takes no filter %s", o.Verb, name)
		}
		if name != "all" {
			filters++
		}
	}
	appliesSince := v.accepts("since")
	switch {
	case (filters > 0) == (o.Filters["all"] != ""):
		return cli.Refusef("%s takes an ID, or either filters or --all for many subscriptions", o.Verb)
	case o.From["position"] != "" || o.From["eventId"] != "":
		return cli.Refusef("--position and --event-id are for the replay of one subscription")
	case appliesSince != (o.From["since"] != ""), !appliesSince && o.From["until"] != "":
		return cli.Refusef("on many subscriptions, replay and retry require --since and take --until; other verbs take neither")
	case o.Rate != 0 && !(o.Rate >= minRate && o.Rate <= maxRate):
		return cli.Refusef("--rate must be from %v to %v, not %v", minRate, maxRate, o.Rate)
	}
	return nil
}

// A run is an execution of a verb for many subscriptions.
type run struct {
	*Options
	verb         *Verb
	since, until string // "" if unbounded
}

// runMany lists all subscriptions that match the filters and applies the verb to each.
func (o *Options) runMany(ctx context.Context, v *Verb) error {
	o.keep = true
	r := &run{Options: o, verb: v}
	var err error
	now := time.Now()
	if r.since, err = timestampOf("--since", o.From["since"], now); err != nil {
		return err
	}
	if r.until, err = timestampOf("--until", o.From["until"], now); err != nil {
		return err
	}
	if o.Verb == "retry" && r.until == "" {
		r.until = now.UTC().Format(time.RFC3339Nano) // do not resend an event that fails again
	}
	total := 0
	err = r.forEachItem(ctx, func(i *item) error {
		total++
		if o.DryRun {
			return r.printItem(i)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted before the first action")
	case err != nil || o.DryRun:
		return err
	}
	if o.Confirm != nil && total > 0 {
		if err := o.Confirm(ctx, fmt.Sprintf(r.verb.many.question, total)); err != nil {
			return err
		}
	}
	return r.applyToAll(ctx, total)
}

// timestampOf parses a time with [timetext.Parse] and returns the timestamp that all requests use.
func timestampOf(flag, text string, now time.Time) (string, error) {
	at, ok := timetext.Parse(text, now)
	if !ok {
		return "", cli.Refusef("%s %q must be %s", flag, text, timetext.Forms)
	}
	if at.IsZero() {
		return "", nil
	}
	return at.UTC().Format(time.RFC3339Nano), nil
}

// printItem prints an item instead of sending a request for it.
func (r *run) printItem(i *item) (err error) {
	if r.JSON {
		return json.NewEncoder(r.Stdout).Encode(map[string]string{"verb": r.Verb, "subscription": i.id, "principal": i.principal, "event": i.event, "eventId": i.eventID, "url": i.url})
	}
	_, err = fmt.Fprintln(r.Stdout, i.description("would "+r.Verb))
	return err
}

// forEachItem calls do for each item, ordered by subscription ID, until do fails. It reads the list page by page.
func (r *run) forEachItem(ctx context.Context, do func(i *item) error) error {
	q := url.Values{"limit": {strconv.Itoa(listPage)}}
	addValues(q, r.Filters)
	q.Del("all")
	if r.verb.many.state != "" && !q.Has("state") {
		q.Set("state", r.verb.many.state)
	}
	if r.verb.many.isNeeded == nil {
		q.Set("since", r.since)
		q.Set("until", r.until)
	}
	// Actions on failing subscriptions change their order, so read the whole list first.
	whole := q.Has("failing") && r.verb.many.isNeeded != nil
	if r.After != "" && !whole {
		q.Set("after", r.After)
	}
	var all []item
	for {
		page, next, err := r.listItems(ctx, q)
		if err != nil {
			return err
		}
		if whole {
			all = append(all, page...)
		} else if err := walk(page, do); err != nil {
			return err
		}
		if next == "" || next == q.Get("after") {
			break
		}
		q.Set("after", next)
	}
	slices.SortFunc(all, func(a, b item) int { return cmp.Compare(a.id, b.id) })
	all = slices.DeleteFunc(all, func(i item) bool { return i.id <= r.After })
	return walk(slices.CompactFunc(all, func(a, b item) bool { return a.id == b.id }), do)
}

func walk(items []item, do func(i *item) error) error {
	for n := range items {
		if err := do(&items[n]); err != nil {
			return err
		}
	}
	return nil
}

// listItems returns the items of one page of the list and the parameter that selects the next page.
func (r *run) listItems(ctx context.Context, q url.Values) (items []item, next string, err error) {
	list := "/subscriptions"
	if r.verb.many.isNeeded == nil {
		list = "/abandoned"
	}
	answer, err := r.sendRequest(ctx, "GET", r.api+list, q, nil)
	if err != nil {
		return nil, "", err
	}
	var p struct {
		Subscriptions []listedSubscription
		Abandoned     []abandonedEvent
		Next          string
	}
	if err := json.Unmarshal(answer, &p); err != nil {
		return nil, "", fmt.Errorf("the response is not a list: %w", err)
	}
	for _, s := range p.Subscriptions {
		if r.verb.many.isNeeded != nil && r.verb.many.isNeeded(&s) {
			items = append(items, item{id: s.ID, principal: s.Principal, event: s.Event, url: s.URL})
		}
	}
	for _, a := range p.Abandoned {
		items = append(items, item{id: a.Subscription, principal: a.Principal, event: a.Attempt.Event, url: a.URL, eventID: a.Attempt.EventID, seen: a.Attempt.At})
	}
	return items, p.Next, nil
}

// A failure describes an item that failed.
type failure struct {
	Subscription string `json:"subscription"`
	EventID      string `json:"eventId,omitempty"`
	Error        string `json:"error"`
}

// A summary is the result of a run.
type summary struct {
	Verb string `json:"verb"`
	// Skipped is the number of items that no longer existed or that another operator was handling.
	Done    int `json:"done"`
	Skipped int `json:"skipped"`
	Failed  int `json:"failed"`
	// Errors are the first failures.
	Errors []failure `json:"errors,omitempty"`
	// Stopped is the reason why the run ended early. GoOn is the command that continues it.
	Stopped string `json:"stopped,omitempty"`
	GoOn    string `json:"goOn,omitempty"`
}

func (s *summary) items() int { return s.Done + s.Skipped + s.Failed }

// errStopped ends a run early. The summary contains the reason.
var errStopped = errors.New("stopped")

// applyToAll sends the requests for the items one after another and prints the summary.
func (r *run) applyToAll(ctx context.Context, total int) error {
	limit := rate.NewLimiter(rate.Limit(cmp.Or(r.Rate, usualRate)), 1)
	sum := summary{Verb: r.Verb}
	shown := progress{w: r.Stderr, bar: r.Terminal, verb: r.Verb, total: total}
	inARow := 0
	last, whole := "", r.After // ids of subscriptions: of the last item, and the last one whose items are complete
	err := r.forEachItem(ctx, func(i *item) error {
		if limit.Wait(ctx) != nil {
			return errStopped
		}
		if i.id != last && last != "" {
			whole = last
		}
		// Check for an interrupt between two items.
		err := r.applyTo(context.WithoutCancel(ctx), i)
		last = i.id
		if inARow++; !sum.recordResult(i, err) {
			inARow = 0
		}
		shown.step(&sum)
		if inARow == maxConsecutiveFailures {
			sum.Stopped = fmt.Sprintf("stopped after %d failures in a row, the last one: %v", inARow, err)
			return errStopped
		}
		return nil
	})
	shown.endLine()
	switch {
	case sum.Stopped != "":
	case ctx.Err() != nil:
		sum.Stopped = "interrupted"
	case err != nil:
		sum.Stopped = fmt.Sprintf("the list cannot be read: %v", err)
	}
	if sum.Stopped != "" {
		if r.verb.many.isNeeded != nil {
			whole = cmp.Or(last, whole) // a subscription has one item
		}
		sum.GoOn = r.continueCommand(whole)
	}
	if err := r.print(&sum); err != nil {
		return err
	}
	switch {
	case sum.Stopped != "":
		return errors.New(sum.Stopped)
	case sum.Failed > 0:
		return fmt.Errorf("%d of %d failed", sum.Failed, sum.items())
	}
	return nil
}

// applyTo sends the request for a single item and waits for its outcome.
func (r *run) applyTo(ctx context.Context, i *item) error {
	var body []byte
	content := map[string]string{}
	if i.eventID != "" {
		content["eventId"], content["seen"] = i.eventID, i.seen
	} else if r.since != "" {
		content["since"] = r.since
		if r.until != "" {
			content["until"] = r.until
		}
	}
	if len(content) > 0 {
		var err error
		if body, err = json.Marshal(content); err != nil {
			return err
		}
	}
	id := url.PathEscape(i.id)
	answer, err := r.sendRequest(ctx, r.verb.method, r.api+"/"+fmt.Sprintf(r.verb.path, id), nil, body)
	if err != nil {
		return err
	}
	attempt, err := r.awaitOutcome(ctx, r.api+"/subscriptions/"+id, answer, i.eventID)
	if err != nil {
		return err
	}
	if category, _ := attempt["category"].(string); category != "" {
		return errors.New("the attempt failed again: " + plain.Text(category))
	}
	return nil
}

// recordResult records the result for an item and reports whether the item failed.
func (s *summary) recordResult(i *item, err error) (failed bool) {
	p, answered := errors.AsType[*problem](err)
	switch {
	case err == nil:
		s.Done++
	case answered && (p.Code == "not_found" || p.Code == "under_way"):
		s.Skipped++
	default:
		s.Failed++
		if len(s.Errors) < maxShownErrors {
			s.Errors = append(s.Errors, failure{i.id, i.eventID, err.Error()})
		}
		return true
	}
	return false
}

// print prints the summary.
func (r *run) print(s *summary) error {
	if r.JSON {
		return json.NewEncoder(r.Stdout).Encode(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d done, %d skipped, %d failed\n", r.Verb, s.Done, s.Skipped, s.Failed)
	for _, e := range s.Errors {
		fmt.Fprintf(&b, "  %s: %s\n", strings.TrimSpace(plain.Text(e.Subscription)+" "+plain.Text(e.EventID)), e.Error)
	}
	if more := s.Failed - len(s.Errors); more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	if s.GoOn != "" {
		fmt.Fprintf(&b, "To continue: %s\n", s.GoOn)
	}
	_, err := fmt.Fprint(r.Stdout, b.String())
	return err
}

// continueCommand returns the command line that continues the run after a subscription.
func (r *run) continueCommand(after string) string {
	words := []string{"mcpe-gen", "admin", r.Verb, quoteWord(r.URL)}
	values := maps.Clone(r.Filters)
	values["since"], values["until"], values["after"] = r.since, r.until, after
	for _, flag := range slices.Concat(ofSubscriptions, []string{"all", "since", "until", "after"}) {
		switch value := values[Parameter(flag)]; {
		case value == "":
		case flag == "failing" || flag == "all":
			words = append(words, "--"+flag)
		default:
			words = append(words, "--"+flag, quoteWord(value))
		}
	}
	if r.Wait != DefaultWait {
		words = append(words, "--wait", plain.Duration(r.Wait))
	}
	if r.Rate != 0 {
		words = append(words, "--rate", strconv.FormatFloat(r.Rate, 'f', -1, 64))
	}
	return strings.Join(words, " ")
}

// quoteWord returns a word quoted for a POSIX shell.
func quoteWord(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@%+,", c))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
