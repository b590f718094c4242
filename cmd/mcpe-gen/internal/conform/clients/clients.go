// Package clients is the judge behind `mcpe-gen conform --client`: it plays a server of the Events extension that
// misbehaves, and tries anybody's client, in whatever language it is written, by what it asks and by what its program
// says it took.
//
// Start with [Run]. A scene (scene.go) is one server that misbehaves in one way, and a program of its own to face it;
// the scenes, with the checks that judge what the program did, are in the files scenes_*.go, each check with the ID of its
// requirement in docs/requirements.md. stage.go plays a scene. serve.go, headers.go and answers.go are its server, and
// stream.go and callback.go send what nobody has requested. always.go judges what holds in every scene. Malformed answers
// come from internal/hostileserver.
package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/procgroup"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options says what to judge and how.
type Options struct {
	// Command starts the client. URLPlaceholder in its arguments becomes the URL of a server; it is started once for
	// each scene, and several run at once.
	Command []string
	// Handled is the file with a line for each event that the program took, which has its eventId; "-" is its
	// standard output, and "" leaves out what needs it.
	Handled string

	// rig is nil for the real one; tests have another.
	rig *rig
	// only chooses the scenes, for tests.
	only func(scene) bool
}

// URLPlaceholder stands for the server's URL in a command.
const URLPlaceholder = "{url}"

// EventType is the name of the one event type that every scene has.
const EventType = "tick"

// Standard output as Options.Handled.
const standardOutput = "-"

// A rig is what a run stands on.
type rig struct {
	// listen opens the endpoint of a scene's server, and says its URL.
	listen func() (net.Listener, string, error)
	// start starts the client.
	start func(url string, stdout, stderr io.Writer) (program, error)
	// dial is how callbacks are reached; nil for the network.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A program is a client that runs.
type program interface {
	// End asks it to end and reports whether it did.
	End() bool
	Exited() <-chan struct{}
	Status() string
}

// How long is waited where nothing but time can tell. A slow machine may take its time: what has to come may come
// late, and what must not come is waited for long enough to see it from a client that is quick.
const (
	// connectTime is how long a program may take until it asks something, and modeTime from its last request until it asks
	// for events; slowModeTime bounds that from its first request.
	connectTime, modeTime, slowModeTime = 20 * time.Second, 15 * time.Second, 30 * time.Second
	// settleTime is how long what was sent may take to be handled.
	settleTime = 4 * time.Second
	// runTime bounds all of it.
	runTime = 115 * time.Second
	// together is how many scenes are played at once.
	together = 6
)

// Check refuses options that cannot work, before anything is started.
func (o Options) Check() error {
	if len(o.Command) == 0 {
		return errors.New("--client needs the command that starts the client, after --")
	}
	if !slices.ContainsFunc(o.Command, func(word string) bool { return strings.Contains(word, URLPlaceholder) }) {
		return fmt.Errorf("the command after -- has no %s, where the URL of the server belongs", URLPlaceholder)
	}
	if o.Handled == "" || o.Handled == standardOutput {
		return nil
	}
	if info, err := os.Stat(o.Handled); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--handled: %s is not a file", o.Handled)
	}
	return nil
}

// Unreachable says that no client came.
type Unreachable struct{ message string }

// Error returns the message.
func (e *Unreachable) Error() string { return e.message }

// A run is one judgement.
type run struct {
	o   Options
	rig rig
	verdict.Redactor

	mu sync.Mutex
	// follows tells by which modes the client can follow, as the first scenes have shown.
	follows map[string]bool
	// unseen are the modes whose first scene saw no request, so that nothing is known of them.
	unseen map[string]bool
	// deaf tells that its callback has not answered a challenge.
	deaf bool
}

// Run judges the client. It fails with a *verdict.UsageError, with *Unreachable when the command asks no server
// anything, and when it cannot be started. What was found before ctx ended is in the report, with ctx's error.
func Run(ctx context.Context, o Options) (*verdict.Report, error) {
	r := &run{o: o, follows: map[string]bool{}, unseen: map[string]bool{}}
	if o.rig != nil {
		r.rig = *o.rig
	} else {
		if err := o.Check(); err != nil {
			return nil, verdict.Usagef("%v", err)
		}
		r.rig = rig{listen: listen, start: r.start}
	}
	began := time.Now()
	trying, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	var first, later []scene
	for _, sc := range scenes() {
		switch {
		case o.only != nil && !sc.first && !o.only(sc):
		case sc.first:
			first = append(first, sc)
		default:
			later = append(later, sc)
		}
	}
	stages, err := r.play(trying, first)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(stages, func(s *stage) bool { return len(s.all("")) > 0 }) && ctx.Err() == nil {
		return nil, &Unreachable{r.name() + " asked nothing of " + stages[0].url + stages[0].ending()}
	}
	for _, s := range stages {
		if s.capability != nowhere && len(s.all("")) == 0 {
			r.unseen[s.mode] = true
		}
		_, answered := s.when("challenged")
		r.deaf = r.deaf || s.mode == wire.ModeWebhook && !answered
	}
	more, err := r.play(trying, later)
	if err != nil {
		return nil, err
	}
	stages = append(stages, more...)
	report := &verdict.Report{Target: r.name()}
	for _, s := range stages {
		report.Findings = append(report.Findings, s.judge(ctx)...)
	}
	report.Findings = append(report.Findings, r.judgeAll(stages)...)
	report.Seconds = time.Since(began).Seconds()
	report.Count()
	if trying.Err() != nil {
		report.End(ctx, runTime, "")
	}
	return report, ctx.Err()
}

// name is what the report calls the client.
func (r *run) name() string {
	if len(r.o.Command) == 0 {
		return "the client"
	}
	return filepath.Base(r.o.Command[0])
}

// play plays the scenes, some at once, and returns them in order. A program that cannot be started ends it.
func (r *run) play(ctx context.Context, all []scene) ([]*stage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stages := make([]*stage, len(all))
	errs := make([]error, len(all))
	slots := make(chan struct{}, together)
	var playing sync.WaitGroup
	for i, sc := range all {
		stages[i] = newStage(r, sc)
		playing.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = stages[i].play(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	playing.Wait()
	return stages, errors.Join(errs...)
}

// noteMode keeps by which mode the client can follow.
func (r *run) noteMode(mode string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follows[mode] = true
}

func (r *run) canFollow(mode string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.follows[mode]
}

func listen() (net.Listener, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return l, "http://" + l.Addr().String() + endpoint, nil
}

// start starts the command for one scene. Its environment is that which the public conformance suite gives to clients,
// so that those who are made for it go on long enough.
func (r *run) start(url string, stdout, stderr io.Writer) (program, error) {
	command := make([]string, len(r.o.Command))
	for i, word := range r.o.Command {
		command[i] = strings.ReplaceAll(word, URLPlaceholder, url)
	}
	return procgroup.Start(command, []string{`MCP_CONFORMANCE_CONTEXT={"durationMs":180000}`}, stdout, stderr)
}
