// Command mcpe-jetstream is for operators of servers that keep their events in NATS JetStream:
//
//	mcpe-jetstream prepare  [flags] [URL]   make the streams, so that servers need no right to
//	mcpe-jetstream doctor   [flags] [URL]   say what is wrong with the servers and streams
//	mcpe-jetstream new-life [flags] [URL]   begin new epochs, after a restore
//
// URL is one nats-server or several with commas between them; without it NATS_URL is. See docs/jetstream.md.
// The package makes no promise of compatibility.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// Exit codes, those of mcpe-gen: a failure, a mistake in the command line, and what doctor finds.
const (
	exitFailure = 1
	exitUsage   = 2
	exitDoctor  = 7
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

const help = `Usage:
  mcpe-jetstream prepare  [flags] -event NAME … [URL]   make the streams, so that servers need no right to
  mcpe-jetstream doctor   [flags] [URL]                 say what is wrong with the servers and streams
  mcpe-jetstream new-life [flags] [URL]                 begin new epochs, after a restore

URL is one nats-server or several with commas between them; without it NATS_URL is.
EVENTS_KEY is the store's key (Options.Key), in hexadecimal, where it has one.
"mcpe-jetstream VERB -h" lists a verb's flags.
`

// errUsage is a mistake in the command line, errFound what doctor has found.
var (
	errUsage = errors.New("usage")
	errFound = errors.New("doctor found something")
)

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	err := command(ctx, args, env, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errFound):
		return exitDoctor
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "mcpe-jetstream: interrupted")
		return exitFailure
	}
	fmt.Fprintln(stderr, "mcpe-jetstream:", strings.TrimPrefix(err.Error(), "usage: "))
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailure
}

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// A place is where a store is and how it is reached.
type place struct {
	url string
	jetstream.Options
}

// flags are those of every verb.
func flags(verb, about string, stderr io.Writer) (fs *flag.FlagSet, at func(env func(string) string) (place, error)) {
	fs = flag.NewFlagSet(verb, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "Usage: mcpe-jetstream %s [flags] [URL]\n\n%s\n\nFlags:\n", verb, about)
		fs.PrintDefaults()
	}
	var o jetstream.Options
	fs.StringVar(&o.Namespace, "namespace", jetstream.DefaultNamespace, "the store's Options.Namespace")
	fs.BoolVar(&o.Single, "single", false, "the store's Options.Single: one server, for development")
	creds := fs.String("creds", "", "`file` with the user's credentials")
	ca := fs.String("tlsca", "", "`file` with the certificates that sign the servers'")
	cert := fs.String("tlscert", "", "`file` with the client's certificate, with -tlskey")
	key := fs.String("tlskey", "", "`file` with its key")
	return fs, func(env func(string) string) (place, error) {
		p := place{url: env("NATS_URL"), Options: o}
		switch fs.NArg() {
		case 0:
		case 1:
			p.url = fs.Arg(0)
		default:
			return p, usage("%s takes one URL, got %d", verb, fs.NArg())
		}
		if p.url == "" {
			return p, usage("%s needs the URL of a nats-server, as an argument or in NATS_URL", verb)
		}
		if (*cert == "") != (*key == "") {
			return p, usage("-tlscert and -tlskey go together")
		}
		if *creds != "" {
			p.Connect = append(p.Connect, nats.UserCredentials(*creds))
		}
		if *ca != "" {
			p.Connect = append(p.Connect, nats.RootCAs(*ca))
		}
		if *cert != "" {
			p.Connect = append(p.Connect, nats.ClientCert(*cert, *key))
		}
		if text := env("EVENTS_KEY"); text != "" {
			var err error
			if p.Key, err = keyOf(text); err != nil {
				return p, err
			}
		}
		p.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		return p, nil
	}
}

func command(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, help)
		return usage("name a verb: prepare, doctor or new-life")
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "prepare":
		return prepare(ctx, rest, env, stdout, stderr)
	case "doctor":
		return doctor(ctx, rest, env, stdout, stderr)
	case "new-life":
		return newLife(ctx, rest, env, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, help)
		return nil
	default:
		return usage("%q is no verb: name prepare, doctor or new-life", verb)
	}
}

// parse parses a verb's flags; what is wrong with them has been said then.
func parse(fs *flag.FlagSet, args []string) error {
	err := fs.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		err = usage("%v", err)
	}
	return err
}

// names are values of a flag that may come several times.
type names []string

func (n *names) String() string { return strings.Join(*n, " ") }

func (n *names) Set(s string) error {
	*n = append(*n, s)
	return nil
}

func prepare(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	fs, at := flags("prepare", "Make the streams of a store, of the servers' own logs, and of the logs of the event types that are named, so that\nservers need no right to make any. "+
		"What exists stays, but for its limits: they have to be those of the servers' Retention,\nwhich change them otherwise and need the right to.", stderr)
	var events names
	fs.Var(&events, "event", "`name` of an event type, as often as there are types")
	age := fs.Duration("max-age", time.Hour, "the types' Retention.MaxAge, 0 for no bound")
	count := fs.Int("max-count", 10_000, "the types' Retention.MaxCount, 0 for no bound")
	if err := parse(fs, args); err != nil {
		return err
	}
	p, err := at(env)
	if err != nil {
		return err
	}
	s, err := jetstream.Open(ctx, p.url, p.Options)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(stdout, "The state of namespace %s is there, generation %d.\n", p.Namespace, s.Generation())
	limits := map[string]store.LogOptions{engine.ControlLog: {MaxAge: engine.ControlAge}, engine.AuditLog: {MaxAge: engine.AuditAge, MaxCount: engine.MaxAudit}}
	for _, name := range events {
		limits[name] = store.LogOptions{MaxAge: *age, MaxCount: *count}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		log, err := s.OpenLog(ctx, name, limits[name])
		if err != nil {
			return err
		}
		_, head, err := log.Bounds(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "The log of %s is there, at position %d.\n", name, head)
	}
	return nil
}

func newLife(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	fs, at := flags("new-life", "Begin new epochs of all logs, and a new generation: after a restore, while no server runs. Clients and webhook\nsubscriptions begin again at the oldest event and are told so.", stderr)
	if err := parse(fs, args); err != nil {
		return err
	}
	p, err := at(env)
	if err != nil {
		return err
	}
	s, err := jetstream.Open(ctx, p.url, p.Options)
	if err != nil {
		return err
	}
	defer s.Close()
	before := s.Generation()
	if err := s.BeginEpochs(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Generation %d has begun in the place of %d. Start the servers.\n", s.Generation(), before)
	return nil
}

func doctor(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	fs, at := flags("doctor", "Look at the nats-servers and streams of a store and say what is wrong with them. Nothing is written. Ask as the\nservers' user, from one of their machines.\n\n"+
		"Exit codes: 0 when nothing fails, 1 when there is no connection, 7 when something fails, or with -strict is a warning.", stderr)
	var monitors names
	fs.Var(&monitors, "monitor", "`URL` of a nats-server's monitoring, such as http://nats-1:8222, once for each server")
	lease := fs.Duration("lease", 30*time.Second, "the servers' Options.Replica.Lease")
	asJSON := fs.Bool("json", false, "write one JSON document")
	strict := fs.Bool("strict", false, "a warning is a failure")
	if err := parse(fs, args); err != nil {
		return err
	}
	p, err := at(env)
	if err != nil {
		return err
	}
	if *lease <= 0 {
		return usage("-lease is %v, it must be above 0", *lease)
	}
	p.Monitors = monitors
	r, err := jetstream.Examine(ctx, p.url, p.Options, jetstream.Checkup{Lease: *lease})
	if err != nil {
		return err
	}
	if *asJSON {
		err = checkup.JSON(stdout, r)
	} else {
		err = r.Text(stdout, func(_ checkup.State, text string) string { return text })
	}
	if err == nil && (r.Failed > 0 || *strict && r.Warned > 0) {
		err = errFound
	}
	return err
}

// keyOf reads EVENTS_KEY, whose value no error shows.
func keyOf(text string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil {
		return nil, usage("EVENTS_KEY is not hexadecimal")
	}
	return key, nil
}
