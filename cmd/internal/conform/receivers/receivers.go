// Package receivers implements the webhook receiver checks of `mcpe-conform --receiver`. It acts as a server of the
// Events extension and checks the webhook receiver of a program in any language.
//
// It creates and signs messages with its own code, so the checks can detect faults in the runtime's code. Start with
// [Run]. check.go defines a check. Each checks_*.go file has one function per check, with the ID of its requirement in
// docs/requirements.md. post.go sends messages, and handled.go reads the file of handled messages.
package receivers

import (
	"context"
	"crypto/rand"
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
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options configures the receiver to test and its subscription.
type Options struct {
	// URL is the callback of a subscription. Secret is its whsec_ secret.
	URL, Secret string
	// Subscription is the ID of that subscription, which the program must know.
	Subscription string
	// Event is the event type of the occurrences. Data is their data, a JSON object.
	Event string
	Data  json.RawMessage
	// Handled is a file. The program appends a line to it for each message that it has handled. The line is the eventId
	// of an occurrence, or the webhook-id of a gap or termination. If Handled is empty, Run skips the checks that need
	// it.
	Handled string
	// Command starts the program that serves URL. If it is empty, the program must already be running.
	Command []string
	// Stderr receives the program's standard output and standard error. If it is nil, they are discarded.
	Stderr io.Writer
	// Seed chooses the values that the checks draw. A run with the same seed tries the same values.
	Seed uint64

	// pace is set only by tests.
	pace *pace
	// dial and start replace the network and the start of Command in tests.
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	start func() (program, error)
}

// A program is a running receiver.
type program interface {
	// End asks the program to exit, kills it if it does not, and reports whether it exited on request.
	End() bool
	// Kill kills the program, as a crash would.
	Kill()
	Exited() <-chan struct{}
	HasEnded() bool
	Status() string
}

// Defaults of [Options].
const (
	DefaultSubscription = "sub_conform"
	DefaultEvent        = "conform.tried"
)

// A pace holds the timeouts and delays of a run.
type pace struct {
	// answer is how long a server waits for a response. patience is how long this run waits.
	answer, patience time.Duration
	// start is how long the program may take to accept connections. ready is how long it may then answer 502, 503 or 504.
	start, ready time.Duration
	// settle is how long the next handled message may take to appear in the file. quiet is how long to wait for messages that
	// must not appear.
	settle, quiet time.Duration
	// run bounds the whole run.
	run time.Duration
}

var realPace = pace{answer: 5 * time.Second, patience: 7 * time.Second, start: 15 * time.Second, ready: 30 * time.Second,
	settle: 5 * time.Second, quiet: 500 * time.Millisecond, run: 5 * time.Minute}

// Check returns an error if the options are invalid. It sends nothing.
func (o Options) Check() error {
	if !peer.IsURL(o.URL) {
		return fmt.Errorf("--receiver: %q is not the URL of a receiver: it begins with http:// or https://", o.URL)
	}
	if o.Secret == "" {
		return errors.New("--receiver needs --secret, the secret that the receiver has for this URL")
	}
	if _, err := parseKey(o.Secret); err != nil {
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

// maxData is the maximum size of Options.Data. It keeps an occurrence below the size limit of a body.
const maxData = 64 << 10

func unfitForHeader(c rune) bool { return c <= ' ' || c > '~' }

// isRemote reports whether the URL refers to another host.
func isRemote(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Hostname() != "localhost" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "::1"
}

// parseKey returns the key of a secret (SUB-3).
func parseKey(secret string) ([]byte, error) {
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

// A run judges one receiver.
type run struct {
	o      Options
	key    []byte
	client *http.Client
	// The Redactor removes the secret from everything that the report shows.
	verdict.Redactor
	// program is the running program, or nil if Run did not start it.
	program program
	// currentCheck is the index of the current check. New promises are assigned to it. name is its name.
	currentCheck int
	name         string
	promises     []promise
	// draw draws the values of the current check.
	draw *draw.Source
	// early contains accepted messages that later checks repeat, two events and then gaps. shared is a text that only this run has.
	early  []message
	shared string
	// mistaken is the name of the first check that failed because of a mistake in signatures, or "". accepted reports
	// whether the receiver has accepted any correct message.
	mistaken string
	accepted bool
	// ready reports whether the receiver has started. It must be ready by readyBy.
	ready   atomic.Bool
	readyBy time.Time

	mu sync.Mutex
	// last is the latest exchange. A check that fails without a response reports it.
	last *exchange
	// pendingMessage is the message that was unanswered when the run ended.
	pendingMessage []byte
	// late contains the late responses.
	late []*exchange
	// unanswered is the number of consecutive requests without a response.
	unanswered int
}

// Run tests the receiver and returns the report. It returns a *cli.Exit if the options are invalid or the URL
// does not accept connections. If ctx ends first, Run returns its error and a report of the findings so far.
func Run(ctx context.Context, o Options) (*verdict.Report, error) {
	if err := o.Check(); err != nil {
		return nil, cli.Refusef("%v", err)
	}
	if o.pace == nil {
		o.pace = &realPace
	}
	key, _ := parseKey(o.Secret) // checked above
	if o.dial == nil {
		o.dial = new(net.Dialer).DialContext
	}
	if o.start == nil {
		o.start = func() (program, error) {
			return procgroup.Start(o.Command, []string{childenv.Secret + "=" + o.Secret}, o.Stderr, o.Stderr)
		}
	}
	r := &run{o: o, key: key, client: newClient(o.dial), shared: rand.Text()}
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
	if err := r.awaitServer(trying); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	report := &verdict.Report{Target: peer.Target{URL: o.URL}.String(), Seed: o.Seed}
	all, source := checks(), draw.New(o.Seed)
	for i, c := range all {
		r.currentCheck, r.name, r.draw = i, c.name, source.For(c.name)
		report.Findings = append(report.Findings, r.tryCheck(trying, c))
	}
	r.awaitHandled(trying, all, report.Findings)
	report.Seconds = time.Since(began).Seconds()
	report.Count()
	if trying.Err() != nil {
		report.End(ctx, o.pace.run, r.Shown(r.pendingMessage))
	}
	return report, ctx.Err()
}
