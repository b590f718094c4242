package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/listen"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/wake"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

const listenHelp = `Subscribe to an event type of any server that speaks the Events extension, and
print what arrives: one line per event on standard output, everything else on
standard error.

Name the server by its URL, or start it with the command after "--". Without EVENT,
listen lists the event types and, on a terminal, asks for one. Ctrl-C ends the run with
exit code 0.

Give arguments of the subscription as --arg KEY=VALUE; values get the types of the
event's inputSchema. Repeat a key to give an array.

--forward posts every event as JSON to a URL, in order, and prints the response
status: use it to develop a receiver on your own machine. With --cursor-file the next
run with the same arguments continues where this one ended.

--exec runs a command for each event, one at a time and without a shell. The command
reads one JSON document on standard input: server, event, count, first, last and
events. MCPE_EVENT, MCPE_SERVER and MCPE_COUNT are in its environment. Exit code 0
settles the event; 65 makes it a dead letter at once. After any other code, such as 75,
or a timeout, the event is tried again; after --exec-tries it becomes a dead letter.
With --cursor-file progress and dead letters survive a restart, and "mcpe-ops
deadletters list FILE" shows them. Separate the words of the command by spaces, or write
["my program", "an argument"]. When listen ends, a running command has 10 seconds to
finish.

--print writes each event as one line of JSON of at most 4 KiB, and nothing else, to
standard output: use it with monitors.

Both --exec and --print join a burst of events about the same thing: they hand it over
when no more have come for --quiet-seconds, at the latest after --max-seconds. The event
type's x-coalesce says which events belong together and sets the times; --key overrides
it. Without either, events are not joined.

--listen receives events by webhook if the server offers it. The server posts them to
--public-url, which must lead to the address listened on. Servers call https only: give
--tls-cert and --tls-key, or put a tunnel or proxy in front. For a server on this
machine --mode webhook is enough: listen receives on loopback, with a certificate that
it makes. The server has to allow that, as with -dev of a server that init wrote or
--dev of serve.`

func newListen(c *command) *cobra.Command {
	o := listen.Options{}
	var run execFlags
	cmd := &cobra.Command{
		Use:   "listen URL [EVENT] | [EVENT] -- COMMAND...",
		Short: "Print the events of a server as they arrive",
		Long:  listenHelp,
		Example: `  mcpe-gen listen https://mcp.example.com/ --token $TOKEN
  mcpe-gen listen http://127.0.0.1:8080/mcp incident.created --arg severity=P1
  mcpe-gen listen incident.created -- ./server -stdio
  mcpe-gen listen http://127.0.0.1:8080/mcp push --forward http://localhost:3000/hook
  mcpe-gen listen http://127.0.0.1:8080/mcp push --json | jq .data
  mcpe-gen listen https://mcp.example.com/ push --exec './on-push.sh --fast' --cursor-file push.json
  mcpe-gen listen https://mcp.example.com/ push --mode webhook --listen :8443 \
    --public-url https://me.example.net:8443 --tls-cert cert.pem --tls-key key.pem`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := parseArgs(&o, args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			if o.Exec, err = run.command(cmd.Flags().Changed); err != nil {
				return err
			}
			if quiet := cmd.Flags().Changed("quiet-seconds"); quiet && o.Burst.Quiet < 0 {
				return cli.Usagef("--quiet-seconds %d: must not be negative", o.Burst.Quiet)
			} else if !quiet {
				o.Burst.Quiet = -1
			}
			return c.listen(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&o.Args, "arg", nil, "argument of the subscription as `KEY=VALUE`; may be repeated")
	flags.StringVar(&o.Mode, "mode", "auto", "delivery mode: `"+strings.Join(listen.Modes, "|")+"`")
	o.Receiver.AddFlags(cmd)
	peer.TokenFlag(cmd, &o.Target.Token)
	flags.BoolVar(&o.JSON, "json", false, "print one JSON object per line (as --format json does)")
	flags.StringVar(&o.Forward, "forward", "", "post every event to this `URL`")
	flags.StringVar(&run.words, "exec", "", "run this `command` for every event")
	flags.DurationVar(&run.Timeout, "exec-timeout", wake.DefaultTimeout, "end the command after this `time`")
	flags.Lookup("exec-timeout").DefValue = plain.Duration(wake.DefaultTimeout)
	flags.IntVar(&run.PerMinute, "exec-per-minute", 0, "run it at most this `number` of times a minute, evenly spaced (default: no limit)")
	flags.IntVar(&run.Attempts, "exec-tries", wake.DefaultAttempts, "after this `number` of failures an event becomes a dead letter")
	flags.BoolVar(&o.Print, "print", false, "print one short JSON object per line, and nothing else")
	flags.StringArrayVar(&o.Burst.Key, "key", nil, "join events that are equal at this JSON `pointer` into the payload; may be repeated")
	flags.IntVar(&o.Burst.Quiet, "quiet-seconds", 0, "hand a burst over after this `time` without another; 0 joins nothing (default: as the type says)")
	flags.IntVar(&o.Burst.Max, "max-seconds", 0, "hand it over after this `time` at the latest (default: as the type says, or ten times --quiet-seconds)")
	flags.StringVar(&o.CursorFile, "cursor-file", "", "`file` that keeps the position and dead letters between runs")
	flags.IntVarP(&o.Count, "count", "n", 0, "end after this `number` of events (default: never)")
	cli.CompleteWords(cmd, "mode", listen.Modes...)
	_ = cmd.MarkFlagFilename("cursor-file")
	return cmd
}

// execFlags holds the flags for a command that is executed for events.
type execFlags struct {
	wake.Command
	words string
}

// command returns the command of --exec, or nil if it was not given.
func (f *execFlags) command(given func(flag string) bool) (*wake.Command, error) {
	if !given("exec") {
		for _, name := range []string{"exec-timeout", "exec-per-minute", "exec-tries"} {
			if given(name) {
				return nil, cli.Usagef("--%s is for --exec", name)
			}
		}
		return nil, nil
	}
	f.Argv = strings.Fields(f.words)
	if strings.HasPrefix(strings.TrimSpace(f.words), "[") {
		f.Argv = nil
		if err := json.Unmarshal([]byte(f.words), &f.Argv); err != nil {
			return nil, cli.Usagef("--exec %s: must be words, or a JSON array of strings", f.words)
		}
	}
	if f.Timeout <= 0 || f.Attempts <= 0 || given("exec-per-minute") && f.PerMinute <= 0 {
		return nil, cli.Usagef("--exec-timeout, --exec-tries and --exec-per-minute must be more than 0")
	}
	return &f.Command, nil
}

// parseArgs parses the arguments. dash is the number of arguments before "--", or negative if there is no "--".
func parseArgs(o *listen.Options, args []string, dash int) error {
	if dash >= 0 {
		o.Target.Command = args[dash:]
		args = args[:dash]
		if len(o.Target.Command) == 0 {
			return cli.Usagef("no command after --")
		}
	} else if len(args) > 0 {
		o.Target.URL = args[0]
		args = args[1:]
	}
	if len(args) > 1 {
		return cli.Usagef("listen takes one event type, got %q and %q", args[0], args[1])
	}
	if len(args) == 1 {
		if dash >= 0 && peer.IsURL(args[0]) {
			return cli.Usagef("name one server, by URL or by command")
		}
		o.Event = args[0]
	}
	o.Target.Token = peer.TokenFor(o.Target)
	return nil
}

func (c *command) listen(ctx context.Context, o listen.Options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process immediately, in case the server delays the shutdown.
	context.AfterFunc(ctx, stop)
	o.Stdout, o.Stderr, o.Quiet = c.Stdout, c.Stderr, c.Quiet
	o.JSON = o.JSON || c.Format == "json"
	o.Live = cli.IsTerminal(c.Stdout) && cli.IsTerminal(c.Stderr) && os.Getenv("TERM") != "dumb"
	o.Color = c.Colored(c.Stderr) && (cli.IsTerminal(c.Stdout) || c.Color == "always")
	if cli.IsTerminal(os.Stdin) && cli.IsTerminal(c.Stderr) {
		o.Stdin = os.Stdin
	}
	return listen.Run(ctx, o)
}
