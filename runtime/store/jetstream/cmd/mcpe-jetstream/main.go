// Command mcpe-jetstream is for operators of servers that store their events in NATS JetStream:
//
//	mcpe-jetstream prepare  [flags] [URL]   create the streams, so that servers need no right to
//	mcpe-jetstream doctor   [flags] [URL]   check the servers and streams, and report what is wrong
//	mcpe-jetstream new-life [flags] [URL]   begin new epochs, after a restore
//
// URL is a comma-separated list of nats-servers; the default is $NATS_URL. See docs/jetstream.md. The package makes no
// compatibility promise.
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

// Exit codes. They match those of mcpe-gen.
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
  mcpe-jetstream prepare  [flags] -event NAME … [URL]   create the streams, so that servers need no right to
  mcpe-jetstream doctor   [flags] [URL]                 check the servers and streams, and report what is wrong
  mcpe-jetstream new-life [flags] [URL]                 begin new epochs, after a restore

URL is one nats-server, or several separated by commas; default $NATS_URL.
EVENTS_KEY is the store's key (Options.Key), in hexadecimal, if it has one.
"mcpe-jetstream VERB -h" lists a verb's flags.
`

// errUsage indicates an invalid command line. errFound indicates that doctor has found a fault.
var (
	errUsage = errors.New("usage")
	errFound = errors.New("doctor found something")
)

// run executes the command and returns its exit code.
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

// A storeAddress is the URL of a store and the options for opening it.
type storeAddress struct {
	url string
	jetstream.Options
}

// newFlagSet returns a flag set with the flags that all subcommands share. The function parse parses the arguments, and
// returns the address of the selected store. The flag set has already printed an error in the flags.
func newFlagSet(verb, about string, stderr io.Writer) (fs *flag.FlagSet, parse func(args []string, env func(string) string) (storeAddress, error)) {
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
	ca := fs.String("tlsca", "", "`file` with the CA certificates of the servers")
	cert := fs.String("tlscert", "", "`file` with the client's certificate, with -tlskey")
	key := fs.String("tlskey", "", "`file` with the client certificate's key")
	return fs, func(args []string, env func(string) string) (storeAddress, error) {
		err := fs.Parse(args)
		p := storeAddress{url: env("NATS_URL"), Options: o}
		switch {
		case errors.Is(err, flag.ErrHelp):
			return p, err
		case err != nil:
			return p, usage("%v", err)
		}
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
			if p.Key, err = decodeKey(text); err != nil {
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
		return usage("unknown verb %q: use prepare, doctor or new-life", verb)
	}
}

// repeatedFlag is the value of a flag that can be repeated.
type repeatedFlag []string

func (n *repeatedFlag) String() string { return strings.Join(*n, " ") }

func (n *repeatedFlag) Set(s string) error {
	*n = append(*n, s)
	return nil
}

func prepare(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	fs, parse := newFlagSet("prepare", "Create the streams of a store, of the runtime's logs, and of the logs of the named event types, so that servers\nneed no right to create streams. "+
		"Existing streams keep their events but get the given limits. Use the limits of\nthe servers' Retention: otherwise the servers change them, which needs the right to update streams.", stderr)
	var events repeatedFlag
	fs.Var(&events, "event", "`name` of an event type; can be repeated")
	age := fs.Duration("max-age", time.Hour, "the types' Retention.MaxAge, 0 for no limit")
	count := fs.Int("max-count", 10_000, "the types' Retention.MaxCount, 0 for no limit")
	p, err := parse(args, env)
	if err != nil {
		return err
	}
	s, err := jetstream.Open(ctx, p.url, p.Options)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(stdout, "The state of namespace %s is ready, generation %d.\n", p.Namespace, s.Generation())
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
		fmt.Fprintf(stdout, "The log of %s is ready, at position %d.\n", name, head)
	}
	return nil
}

func newLife(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	_, parse := newFlagSet("new-life", "Begin a new generation, and a new epoch of every log. Run it after a restore, while no server runs. Clients and webhook\nsubscriptions get truncated and restart at the oldest event.", stderr)
	p, err := parse(args, env)
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
	fmt.Fprintf(stdout, "Generation %d replaces generation %d. Start the servers.\n", s.Generation(), before)
	return nil
}

func doctor(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	fs, parse := newFlagSet("doctor", "Check the nats-servers and streams of a store, and report what is wrong. Writes nothing. Run it as the servers'\nuser, on one of their machines.\n\n"+
		"Exit codes: 0 if nothing fails, 1 if no server answers, 7 if a check fails or, with -strict, warns.", stderr)
	var monitors repeatedFlag
	fs.Var(&monitors, "monitor", "`URL` of a nats-server's monitoring, such as http://nats-1:8222; repeat it for each server")
	lease := fs.Duration("lease", 30*time.Second, "the servers' replicas.Options.Lease")
	asJSON := fs.Bool("json", false, "write one JSON document")
	strict := fs.Bool("strict", false, "treat warnings as failures")
	p, err := parse(args, env)
	if err != nil {
		return err
	}
	if *lease <= 0 {
		return usage("-lease must be greater than 0, but is %v", *lease)
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

// decodeKey decodes EVENTS_KEY. The error does not contain the value.
func decodeKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil {
		return nil, usage("EVENTS_KEY is not hexadecimal")
	}
	return key, nil
}
