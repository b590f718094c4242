// Package clients implements the client checks of `mcpe-conform --client`. It runs a misbehaving server of the Events
// extension. It judges a client in any language by its requests and by the events that its program reports as handled.
//
// Start with [Run]. A scene (scene.go) is a server that misbehaves in one way. Each scene starts the client's program
// once. The files scenes_*.go have the scenes and the checks of the program's behavior, each with the ID of its
// requirement in docs/requirements.md. stage.go plays a scene. serve.go, headers.go and answers.go are the server;
// stream.go and callback.go send streams and webhooks. always.go checks what holds in every scene. Malformed answers
// come from internal/hostileserver.
package clients

import (
	"cmp"
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

	"golang.org/x/sync/errgroup"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
)

// Options configures the client to test and how to start it.
type Options struct {
	// Command starts the client. URLPlaceholder in its arguments is replaced with the URL of a server. Run starts the
	// command once for each scene, and plays several scenes concurrently.
	Command []string
	// Handled is a file. The program appends a line with the eventId of each event that it has handled. "-" is standard
	// output. If Handled is empty, Run skips the checks that need it.
	Handled string

	// rig is set only by tests.
	rig *rig
	// selectsScene selects the scenes to play in tests.
	selectsScene func(scene) bool

	// Seed selects the values that scenes draw.
	Seed uint64
}

// URLPlaceholder is the text in a command that Run replaces with the URL of a server.
const URLPlaceholder = "{url}"

// EventType is the name of the only event type in every scene.
const EventType = "tick"

// standardOutput is the value of Options.Handled that selects standard output.
const standardOutput = "-"

// A rig provides the network and the client's process.
type rig struct {
	// listen opens the endpoint of a scene's server and returns its URL.
	listen func() (net.Listener, string, error)
	// start starts the client.
	start func(url string, stdout, stderr io.Writer) (program, error)
	// dial connects to callbacks. If it is nil, the system's network is used.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// A program is a running client.
type program interface {
	// End asks the program to exit and reports whether it did.
	End() bool
	Exited() <-chan struct{}
	Status() string
}

// These limits apply to checks that have to wait for their result. They allow for slow machines. An expected message
// may be late. The wait for a forbidden message is long enough to detect one from a fast client.
const (
	// connectTime limits the time until a program sends its first request. modeTime limits the time from its first
	// request until it requests events.
	connectTime, modeTime = time.Minute, time.Minute
	// settleTime is how long the program may take to handle an event.
	settleTime = 4 * time.Second
	// concurrentScenes is the number of scenes to play concurrently.
	concurrentScenes = 6
)

// On a slow machine, each limit of a scene is longer (see run.patience). quickStart and quickTick are the times in which
// a program sends its first request and the checker wakes on a fast machine. maxSlowness limits the factor.
const (
	quickStart, quickTick = 2 * time.Second, 100 * time.Millisecond
	maxSlowness           = 6
)

// Check returns an error if the options are invalid. It does not start the command.
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

// Unreachable is the error of Run if no client connected.
type Unreachable struct{ message string }

// Error returns the message.
func (e *Unreachable) Error() string { return e.message }

// A run judges one client.
type run struct {
	o   Options
	rig rig
	verdict.Redactor

	source *draw.Source

	mu sync.Mutex
	// slowness is the factor of limits, at least 1.
	slowness float64
	// abilities contains the modes that the client supports, according to the first scenes, and its other abilities.
	abilities map[string]bool
	// unseenModes contains the modes that the client may support although their first scene received no request.
	unseenModes map[string]bool
}

// Run tests the client and returns the report. It returns a *cli.Exit if the options are invalid, and an
// *Unreachable if the program sends no request. It also fails if the command cannot be started. If ctx ends first, Run
// returns its error and a report of the findings so far.
func Run(ctx context.Context, o Options) (*verdict.Report, error) {
	r := &run{o: o, source: draw.New(o.Seed), slowness: 1, abilities: map[string]bool{}, unseenModes: map[string]bool{}}
	if o.rig != nil {
		r.rig = *o.rig
	} else {
		if err := o.Check(); err != nil {
			return nil, cli.Refusef("%v", err)
		}
		r.rig = rig{listen: listen, start: r.start}
	}
	began := time.Now()
	measuring, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { r.measure(measuring) })
	defer beside.Wait()
	defer stop()
	var first, later []scene
	for _, sc := range scenes() {
		switch {
		case o.selectsScene != nil && !sc.runsFirst && !o.selectsScene(sc):
		case sc.runsFirst:
			first = append(first, sc)
		default:
			later = append(later, sc)
		}
	}
	stages, err := r.playScenes(ctx, first)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(stages, func(s *stage) bool { return len(s.requestsOf("")) > 0 }) && ctx.Err() == nil {
		return nil, &Unreachable{r.name() + " asked nothing of " + stages[0].url + stages[0].exitSummary()}
	}
	for _, s := range stages {
		if s.capability != nowhere && len(s.requestsOf("")) == 0 {
			r.unseenModes[s.mode] = true
		}
	}
	more, err := r.playScenes(ctx, later)
	if err != nil {
		return nil, err
	}
	stages = append(stages, more...)
	report := &verdict.Report{Target: r.name(), Seed: r.o.Seed}
	for _, s := range stages {
		report.Findings = append(report.Findings, s.judge(ctx)...)
	}
	report.Findings = append(report.Findings, r.judgeAll(stages)...)
	report.Seconds = time.Since(began).Seconds()
	report.Count()
	if ctx.Err() != nil {
		report.End(ctx, 0, "")
	}
	return report, ctx.Err()
}

// measure measures how late the checker itself wakes, until ctx is done.
func (r *run) measure(ctx context.Context) {
	for due := time.Now().Add(quickTick); sleep(ctx, time.Until(due)); due = time.Now().Add(quickTick) {
		r.noteDelay(time.Since(due), quickTick)
	}
}

// noteDelay extends the limits if something took longer than on a fast machine.
func (r *run) noteDelay(took, quick time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slowness = min(max(r.slowness, took.Seconds()/quick.Seconds()), maxSlowness)
}

// patience returns the limit d, extended by the slowness of the machine.
func (r *run) patience(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.slowness * float64(d))
}

// lacksMode returns the reason to skip the checks of a mode, or nil if the client supports it.
func (r *run) lacksMode(mode string) error {
	switch {
	case r.can(mode):
		return nil
	case r.unseenModes[mode]:
		return verdict.UnjudgedError("the client asked nothing of the server that offers " + mode + " in time")
	}
	return verdict.Skipf("the client does not follow by %s", mode)
}

// name returns the client's name in the report.
func (r *run) name() string {
	if len(r.o.Command) == 0 {
		return "the client"
	}
	return filepath.Base(r.o.Command[0])
}

// playScenes plays the scenes, several of them concurrently, and returns their stages in order. It returns an error if
// a program cannot be started.
func (r *run) playScenes(ctx context.Context, all []scene) ([]*stage, error) {
	stages := make([]*stage, len(all))
	for i, sc := range all {
		stages[i] = newStage(r, sc)
	}
	// Start with the longest scenes to finish early.
	longest := slices.Clone(stages)
	slices.SortStableFunc(longest, func(a, b *stage) int { return cmp.Compare(b.maxDuration, a.maxDuration) })
	playing, ctx := errgroup.WithContext(ctx)
	playing.SetLimit(concurrentScenes)
	for _, s := range longest {
		playing.Go(func() error { return s.play(ctx) })
	}
	return stages, playing.Wait()
}

// Abilities of a client besides its modes. returns is followed by a mode.
const (
	answersChallenge = "answers a challenge"
	returns          = "goes on after NotFound by "
)

// note records an ability of the client.
func (r *run) note(ability string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.abilities[ability] = true
}

func (r *run) can(ability string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.abilities[ability]
}

func listen() (net.Listener, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return l, "http://" + l.Addr().String() + endpoint, nil
}

// start starts the command for one scene. It sets the environment of the public conformance suite, so clients written
// for that suite run long enough.
func (r *run) start(url string, stdout, stderr io.Writer) (program, error) {
	command := make([]string, len(r.o.Command))
	for i, word := range r.o.Command {
		command[i] = strings.ReplaceAll(word, URLPlaceholder, url)
	}
	return procgroup.Start(command, []string{`MCP_CONFORMANCE_CONTEXT={"durationMs":180000}`}, stdout, stderr)
}
