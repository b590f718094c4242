// Package receivers is the judge behind `mcpe-gen conform --receiver`: it plays a server of the Events extension and
// tries the webhook receiver of anybody's program, in whatever language it is written.
//
// It makes and signs its messages itself, so that nothing that both ends share can hide a fault. Start with [Run];
// check.go says what a check is, and the checks are in the files checks_*.go, each one function with the ID of its
// requirement in docs/requirements.md. post.go sends, and handled.go reads what the program says it took.
package receivers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/procgroup"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options says what to judge and how.
type Options struct {
	// URL is the callback of one subscription, and Secret its whsec_ secret.
	URL, Secret string
	// Subscription is the id of that subscription, which the program knows.
	Subscription string
	// Event names the type of the occurrences, and Data is their data, an object.
	Event string
	Data  json.RawMessage
	// Handled is the file with a line for each message that the program took: the eventId of an occurrence, the
	// webhook-id of a gap or a termination. "" leaves out what needs it.
	Handled string
	// Command starts the program that serves URL; empty means that it runs already.
	Command []string
	// Stderr receives what the program writes to its standard output and error.
	Stderr io.Writer

	// pace is nil for the real one.
	pace *pace
	// dial and start stand for the network and for the start of Command in tests.
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	start func() (program, error)
}

// A program is a receiver that runs.
type program interface {
	// End asks it to end, kills it otherwise, and reports whether it ended by itself.
	End() bool
	// Kill ends it as a crash does.
	Kill()
	Exited() <-chan struct{}
	HasEnded() bool
	Status() string
}

// Defaults of [Options] that have one.
const (
	DefaultSubscription = "sub_conform"
	DefaultEvent        = "conform.tried"
)

// A pace is how long is waited where nothing but time can tell.
type pace struct {
	// answer is how long a server waits for an answer, and give how long this one does.
	answer, give time.Duration
	// start is how long the program may take until it can be reached.
	start time.Duration
	// settle is how long what was taken may take to be in the file, and quiet how long what must not come is
	// waited for.
	settle, quiet time.Duration
	// run bounds all of it.
	run time.Duration
}

var realPace = pace{answer: 5 * time.Second, give: 7 * time.Second, start: 15 * time.Second, settle: 5 * time.Second,
	quiet: 500 * time.Millisecond, run: 110 * time.Second}

// Check refuses options that cannot work, before anything is sent.
func (o Options) Check() error {
	if !peer.IsURL(o.URL) {
		return fmt.Errorf("--receiver: %q is not the URL of a receiver: it begins with http:// or https://", o.URL)
	}
	if o.Secret == "" {
		return errors.New("--receiver needs --secret, the secret that the receiver has for this URL")
	}
	if _, err := keyOf(o.Secret); err != nil {
		return fmt.Errorf("--secret: %w", err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(o.Data, &object); err != nil || object == nil {
		return errors.New("--data: must be a JSON object")
	}
	switch {
	case len(o.Data) > maxData:
		return fmt.Errorf("--data: has %d bytes, more than %d", len(o.Data), maxData)
	case o.Event == "":
		return errors.New("--event: must not be empty")
	case o.Subscription == "" || strings.ContainsFunc(o.Subscription, unfitForHeader):
		return errors.New("--subscription: must be visible ASCII")
	case len(o.Command) > 0 && isRemote(o.URL):
		return errors.New("a command after -- serves a URL of this machine")
	}
	return nil
}

// maxData bounds Options.Data, so that what is added to it stays below the bound of a body.
const maxData = 64 << 10

func unfitForHeader(c rune) bool { return c <= ' ' || c > '~' }

// isRemote reports whether the host is named and not this one.
func isRemote(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Hostname() != "localhost" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "::1"
}

// keyOf is the key that a secret's text stands for (SUB-3).
func keyOf(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, wire.SecretPrefix)
	if !ok {
		return nil, fmt.Errorf("must begin with %s", wire.SecretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("must be standard base64 behind %s", wire.SecretPrefix)
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("must hold 24 to 64 bytes, has %d", len(key))
	}
	return key, nil
}

// A run is one judgement.
type run struct {
	o      Options
	key    []byte
	client *http.Client
	// What is shown of the run is without its secret.
	verdict.Redactor
	// program is nil when it runs already, else the one that runs now.
	program program
	// trying is the index of the check that runs, to which promises belong.
	trying   int
	promises []promise

	mu sync.Mutex
	// last is the latest exchange, for a check that ends without an answer.
	last *exchange
	// hung is the message that had no answer when the run ended.
	hung []byte
	// slow and endless are the first answers that came late and that did not end.
	slow, endless *exchange
	// unanswered counts the requests in a row that got no answer.
	unanswered int
}

// Run judges the receiver. It fails with a *verdict.UsageError, and when nobody can be reached at the URL. What was
// found before ctx ended is in the report, with ctx's error.
func Run(ctx context.Context, o Options) (*verdict.Report, error) {
	if err := o.Check(); err != nil {
		return nil, verdict.Usagef("%v", err)
	}
	if o.pace == nil {
		o.pace = &realPace
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	key, _ := keyOf(o.Secret) // checked above
	if o.dial == nil {
		o.dial = new(net.Dialer).DialContext
	}
	if o.start == nil {
		o.start = func() (program, error) {
			return procgroup.Start(o.Command, []string{childenv.Secret + "=" + o.Secret}, o.Stderr, o.Stderr)
		}
	}
	r := &run{o: o, key: key, client: newClient(o.dial)}
	r.Hide(o.Secret)
	r.Hide(strings.TrimPrefix(o.Secret, wire.SecretPrefix))
	began := time.Now()
	trying, cancel := context.WithTimeout(ctx, o.pace.run)
	defer cancel()
	if len(o.Command) > 0 {
		var err error
		if r.program, err = o.start(); err != nil {
			return nil, err
		}
		defer func() { r.program.End() }()
	}
	if err := r.reach(trying); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	report := &verdict.Report{Target: peer.Target{URL: o.URL}.String()}
	all := checks()
	for i, c := range all {
		r.trying = i
		report.Findings = append(report.Findings, r.try(trying, c))
	}
	r.settle(trying, all, report.Findings)
	report.Seconds = time.Since(began).Seconds()
	report.Count()
	if trying.Err() != nil {
		report.End(ctx, o.pace.run, r.Shown(r.hung))
	}
	return report, ctx.Err()
}
